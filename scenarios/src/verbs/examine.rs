//! `raidbed examine`: what the md metadata on each file says.

use super::{Finished, Verdict, finish};
use crate::arrays::examine::{Examination, render};
use crate::arrays::member_file::{MemberFile, refuse_twice};
use crate::cli::ExamineArguments;
use anyhow::{Result, bail};

pub(super) fn examine(arguments: &ExamineArguments, json: bool) -> Result<Finished> {
    refuse_twice(&arguments.files)?;
    let examinations: Vec<Examination> = arguments
        .files
        .iter()
        .map(|path| match MemberFile::open(path).and_then(|file| Examination::of(&file)) {
            Ok(examination) => examination,
            // The others are looked at all the same.
            Err(error) => Examination::unreadable(path, &error),
        })
        .collect();
    if !examinations.iter().any(Examination::has_metadata) {
        let line = |of: &Examination| format!("{}: {}", of.file, of.problems.join("; "));
        let lines: Vec<String> = examinations.iter().map(line).collect();
        bail!("{}", lines.join("; "));
    }
    let verdict = match examinations.iter().all(|of| of.problems.is_empty()) {
        true => Verdict::Held,
        false => Verdict::Violated,
    };
    let text = |of: &Vec<Examination>| of.iter().map(render).collect::<Vec<_>>().join("\n");
    finish(json, &examinations, verdict, text)
}
