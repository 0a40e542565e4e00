//! `raidbed check`: whether the redundancy of an array agrees.

use super::{Finished, Verdict, finish, permission};
use crate::arrays::checking::{self, Findings};
use crate::arrays::interrupt::Interrupt;
use crate::arrays::opening::OpenArray;
use crate::arrays::working;
use crate::cli::CheckArguments;
use anyhow::{Result, ensure};
use serde::Serialize;

#[derive(Serialize)]
struct Report {
    array_uuid: String,
    level: &'static str,
    #[serde(flatten)]
    findings: Findings,
    /// Sectors that a repair wrote to members.
    sectors_written: Option<u64>,
}

pub(super) fn check(arguments: &CheckArguments, json: bool) -> Result<Finished> {
    let interrupt = Interrupt::watch()?;
    let open = OpenArray::open(&permission(&arguments.members, arguments.repair)?)?;
    open.survey.tell_left_out();
    let level = open.survey.assembly.geometry.level;
    ensure!(level.is_redundant(), "{} has no redundancy to check", level.name());
    let (findings, sectors_written) = match arguments.repair {
        false => (checking::check(&open, &interrupt)?, None),
        true => working::work_and_stop(&open, || {
            let findings = checking::check(&open, &interrupt)?;
            let written = working::resync_all(&open, &interrupt)?;
            Ok((findings, Some(written.0)))
        })?,
    };
    let agrees = findings.mismatch_cnt == 0;
    let verdict = if agrees || arguments.repair { Verdict::Held } else { Verdict::Violated };
    let array_uuid = open.survey.assembly.array_uuid.to_string();
    let report = Report { array_uuid, level: level.name(), findings, sectors_written };
    finish(json, &report, verdict, render)
}

fn render(of: &Report) -> String {
    let Findings { sectors, sectors_checked, mismatch_cnt, sectors_unreadable, first } =
        &of.findings;
    let mut text =
        format!("{sectors_checked} of {sectors} sectors checked, mismatch_cnt {mismatch_cnt}\n");
    if sectors_checked < sectors {
        let rest = sectors - sectors_checked;
        text += &format!(
            "{rest} sectors not compared: a member is missing, not yet rebuilt, or without them\n"
        );
    }
    for place in first {
        let (at, length) = (place.at_sector, place.length_sectors);
        text += &format!("violated: redundancy differs in sectors {at}+{length} of the array\n");
    }
    if *sectors_unreadable > 0 {
        text += &format!("{sectors_unreadable} sectors could not be read from some member\n");
    }
    if let Some(written) = of.sectors_written {
        text += &format!("{written} sectors written to make it agree\n");
    }
    text
}
