//! `raidbed examine`: what the md metadata on each file says.

use super::{Finished, Verdict, finish};
use crate::arrays::examine::{Examination, render};
use crate::arrays::member_file::MemberFile;
use crate::cli::ExamineArguments;
use anyhow::{Result, bail};

pub(super) fn examine(arguments: &ExamineArguments, json: bool) -> Result<Finished> {
    let files = MemberFile::open_all(&arguments.files)?;
    let examinations: Vec<Examination> =
        files.iter().map(Examination::of).collect::<Result<_, _>>()?;
    if !examinations.iter().any(Examination::has_metadata) {
        let line = |of: &Examination| format!("{}: {}", of.file, of.problems.join("; "));
        let lines: Vec<String> = examinations.iter().map(line).collect();
        bail!("{}", lines.join("; "));
    }
    let text = |of: &Vec<Examination>| of.iter().map(render).collect::<Vec<_>>().join("\n");
    finish(json, &examinations, Verdict::Held, text)
}
