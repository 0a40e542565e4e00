//! `raidbed copy-out`: an array's content to a file or a pipe, every member read-only.

use super::{Finished, Verdict, finish, permission};
use crate::arrays::copying;
use crate::arrays::detail::{LeftOutDetail, concessions};
use crate::arrays::interrupt::Interrupt;
use crate::arrays::opening::OpenArray;
use crate::arrays::target_file::{TargetFile, Wish};
use crate::cli::CopyOutArguments;
use crate::quantity::ByteCount;
use anyhow::{Result, ensure};
use serde::Serialize;
use std::path::Path;

#[derive(Serialize)]
struct Report {
    array_uuid: String,
    to: String,
    offset_bytes: u64,
    bytes: u64,
    /// Devices that were not used, and why.
    left_out: Vec<LeftOutDetail>,
    /// What was given up by `--force`.
    concessions: Vec<&'static str>,
}

pub(super) fn copy_out(arguments: &CopyOutArguments, json: bool) -> Result<Finished> {
    let interrupt = Interrupt::watch()?;
    let permission = permission(&arguments.members, false)?;
    let open = OpenArray::open(&permission)?;
    open.survey.tell_left_out();
    let capacity = open.assembled.capacity().bytes();
    let offset = arguments.offset.0;
    ensure!(offset <= capacity, "--offset of {offset} bytes lies beyond the array's {capacity}");
    let rest = capacity - offset;
    let length = arguments.length.map_or(rest, |of| of.0);
    ensure!(
        length <= rest,
        "{length} bytes from byte {offset} on are more than the array's {capacity}"
    );
    let wish = Wish {
        path: &arguments.to,
        overwrite: arguments.overwrite,
        length_bytes: length,
        members: &permission.members,
    };
    let target = TargetFile::open(&wish)?;
    copying::copy_out(&open, offset..offset + length, target, &interrupt)?;
    let report = Report {
        array_uuid: open.survey.assembly.array_uuid.to_string(),
        to: arguments.to.display().to_string(),
        offset_bytes: offset,
        bytes: length,
        left_out: LeftOutDetail::all(&open.survey),
        concessions: concessions(&open.survey),
    };
    if arguments.to == Path::new("-") {
        // Standard output is the array's content and nothing else.
        return Ok(Finished { output: String::new(), verdict: Verdict::Held });
    }
    finish(json, &report, Verdict::Held, |of| {
        format!("{} copied to {}\n", ByteCount(of.bytes), of.to)
    })
}
