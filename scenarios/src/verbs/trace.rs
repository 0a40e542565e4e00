//! `raidbed trace`: the text trace of one run in small, the same for ever for the same seed.

use super::{Finished, Verdict, finish, open};
use crate::catalogue::{self, Setup, Size};
use crate::cli::TraceArguments;
use anyhow::Result;
use serde::Serialize;

#[derive(Serialize)]
struct Report {
    scenario: &'static str,
    variant: String,
    machine: String,
    seed: u64,
    lines: Vec<String>,
    events: u64,
    trace_hash: String,
    violation: Option<String>,
}

pub(super) fn trace(arguments: &TraceArguments, json: bool) -> Result<Finished> {
    let (scenario, file) = open(&arguments.scenario, &arguments.machine)?;
    let variant = match &arguments.variant {
        Some(name) => catalogue::find_variant(scenario, name)?,
        None => 0,
    };
    let machine = file.nominal();
    let setup = Setup { size: Size::Small, trace: true, ..Setup::new(&machine, arguments.seed) };
    let run = scenario.run(variant, &setup);
    let text = run.trace.unwrap_or_default();
    let report = Report {
        scenario: scenario.name(),
        variant: scenario.variants()[variant].name.clone(),
        machine: file.name().to_owned(),
        seed: arguments.seed,
        lines: text.lines().map(str::to_owned).collect(),
        events: run.events,
        trace_hash: format!("{:016x}", run.trace_hash),
        violation: run.violation,
    };
    let verdict = if report.violation.is_some() { Verdict::Violated } else { Verdict::Held };
    finish(json, &report, verdict, |report| {
        let violation =
            report.violation.as_ref().map(|why| format!("violated: {}\n", why.trim_end()));
        format!(
            "{text}{}{} events, trace hash {}\n",
            violation.unwrap_or_default(),
            report.events,
            report.trace_hash
        )
    })
}
