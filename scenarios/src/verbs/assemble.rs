//! `raidbed assemble`: what an array is and how it is; with `--run-writable` it is put in order.

use super::{Finished, Verdict, finish, permission};
use crate::arrays::detail::{Detail, render};
use crate::arrays::interrupt::Interrupt;
use crate::arrays::opening::{OpenArray, Survey};
use crate::arrays::working::{self, Done};
use crate::cli::AssembleArguments;
use anyhow::Result;
use serde::Serialize;

#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    detail: Detail,
    /// What `--run-writable` did.
    done: Option<Done>,
}

pub(super) fn assemble(arguments: &AssembleArguments, json: bool) -> Result<Finished> {
    let interrupt = Interrupt::watch()?;
    let mut permission = permission(&arguments.members, arguments.run_writable)?;
    permission.take_spares = arguments.run_writable;
    let open = OpenArray::open(&permission)?;
    let capacity = open.assembled.capacity();
    let report = if arguments.run_writable {
        let done = working::work_and_stop(&open, || working::put_in_order(&open, &interrupt))?;
        drop(open);
        // What the members say now.
        let detail = Detail::of(&Survey::of(&permission)?, capacity);
        Report { detail, done: Some(done) }
    } else {
        Report { detail: Detail::of(&open.survey, capacity), done: None }
    };
    finish(json, &report, Verdict::Held, |of| {
        let done = of.done.as_ref().map(Done::in_words).unwrap_or_default();
        render(&of.detail) + &done
    })
}
