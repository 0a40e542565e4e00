//! `raidbed copy-out`: an array's content to a file or a pipe, every member read-only.

use super::{Finished, Verdict, finish, permission};
use crate::arrays::copying::{self, Unreadable};
use crate::arrays::detail::LeftOutDetail;
use crate::arrays::interrupt::Interrupt;
use crate::arrays::opening::OpenArray;
use crate::arrays::target_file::{TargetFile, Wish};
use crate::cli::CopyOutArguments;
use crate::quantity::ByteCount;
use anyhow::{Result, ensure};
use serde::Serialize;
use std::ops::Range;
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
    concessions: Vec<String>,
    /// What the array could not give: the target has zeros there.
    skipped: Vec<Skipped>,
}

/// Bytes of the array.
#[derive(Serialize)]
struct Skipped {
    at_byte: u64,
    length_bytes: u64,
}

impl Skipped {
    fn of(range: &Range<u64>) -> Self {
        Self { at_byte: range.start, length_bytes: range.end - range.start }
    }
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
    let unreadable = match arguments.skip_unreadable {
        true => Unreadable::Skipped,
        false => Unreadable::Refused,
    };
    let range = offset..offset + length;
    let skipped = copying::copy_out(&open, range, unreadable, target, &interrupt)?;
    for range in &skipped {
        let (start, length) = (range.start, range.end - range.start);
        eprintln!(
            "raidbed: skipped {length} bytes from byte {start} on: the array cannot give them"
        );
    }
    let verdict = if skipped.is_empty() { Verdict::Held } else { Verdict::Violated };
    let report = Report {
        array_uuid: open.survey.assembly.array_uuid.to_string(),
        to: arguments.to.display().to_string(),
        offset_bytes: offset,
        bytes: length,
        left_out: LeftOutDetail::all(&open.survey),
        concessions: open.survey.concessions(),
        skipped: skipped.iter().map(Skipped::of).collect(),
    };
    if arguments.to == Path::new("-") {
        // Standard output is the array's content and nothing else.
        return Ok(Finished { output: String::new(), verdict });
    }
    finish(json, &report, verdict, |of| {
        let skipped: u64 = of.skipped.iter().map(|range| range.length_bytes).sum();
        let note = match skipped {
            0 => String::new(),
            bytes => format!(", {bytes} bytes of them zeros for what the array cannot give"),
        };
        format!("{} copied to {}{note}\n", ByteCount(of.bytes), of.to)
    })
}
