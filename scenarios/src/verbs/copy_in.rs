//! `raidbed copy-in`: a file or a pipe into an array.

use super::{Finished, Verdict, finish, permission};
use crate::arrays::copying;
use crate::arrays::interrupt::Interrupt;
use crate::arrays::opening::OpenArray;
use crate::arrays::source::Source;
use crate::arrays::working;
use crate::cli::CopyInArguments;
use crate::quantity::ByteCount;
use anyhow::Result;
use serde::Serialize;

#[derive(Serialize)]
struct Report {
    array_uuid: String,
    from: String,
    offset_bytes: u64,
    bytes: u64,
}

pub(super) fn copy_in(arguments: &CopyInArguments, json: bool) -> Result<Finished> {
    let interrupt = Interrupt::watch()?;
    let permission = permission(&arguments.members, true)?;
    let mut source = Source::open(&arguments.from, &permission.members)?;
    let open = OpenArray::open(&permission)?;
    open.survey.tell_left_out();
    open.survey.tell_left_behind();
    copying::check_fits(&open, &source, arguments.offset.0)?;
    let copied = working::work_and_stop(&open, || {
        working::resync_what_may_differ(&open, &interrupt)?;
        copying::copy_in(&open, &mut source, arguments.offset.0, &interrupt)
    })?;
    let report = Report {
        array_uuid: open.survey.assembly.array_uuid.to_string(),
        from: source.name().to_owned(),
        offset_bytes: arguments.offset.0,
        bytes: copied,
    };
    finish(json, &report, Verdict::Held, |of| {
        format!("{} copied from {}\n", ByteCount(of.bytes), of.from)
    })
}
