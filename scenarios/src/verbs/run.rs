//! `raidbed run`: a scenario once, in one variant or in each, on the machine's nominal values.

use super::{Finished, Verdict, chosen_variants, finish, open};
use crate::catalogue::{Kind, RunReport, Scenario, Setup};
use crate::cli::RunArguments;
use crate::report::comparison::{Comparison, VariantRuns};
use crate::report::progress::Progress;
use crate::report::table::Table;
use anyhow::Result;
use rayon::prelude::*;
use serde::Serialize;
use std::time::Instant;

/// A run of a scenario that checks a property.
#[derive(Serialize)]
struct PropertyReport {
    scenario: &'static str,
    machine: String,
    seed: u64,
    statement: &'static str,
    variants: Vec<PropertyVariant>,
}

#[derive(Serialize)]
struct PropertyVariant {
    name: String,
    held: bool,
    violation: Option<String>,
    virtual_ns: u64,
    events: u64,
    trace_hash: String,
}

pub(super) fn run(arguments: &RunArguments, json: bool) -> Result<Finished> {
    let (scenario, file) = open(&arguments.scenario, &arguments.machine)?;
    let chosen = chosen_variants(scenario, arguments.variant.as_deref())?;
    let machine = file.nominal();
    let setup = Setup::new(&machine, arguments.seed);
    let progress = Progress::new("running", chosen.len() as u64);
    let runs: Vec<(RunReport, f64)> = chosen
        .par_iter()
        .map(|variant| {
            let begun = Instant::now();
            let report = scenario.run(*variant, &setup);
            progress.advance(1);
            (report, begun.elapsed().as_secs_f64())
        })
        .collect();
    drop(progress);
    match scenario.kind() {
        Kind::Measures { .. } => {
            let events: u64 = runs.iter().map(|(report, _)| report.events).sum();
            let seconds: f64 = runs.iter().map(|(_, seconds)| seconds).sum();
            let runs: Vec<VariantRuns> = chosen
                .into_iter()
                .zip(runs)
                .map(|(variant, (report, _))| VariantRuns { variant, runs: vec![report] })
                .collect();
            let mut report = Comparison::of(scenario, file.name(), arguments.seed, &runs);
            report.events_per_second = events as f64 / seconds;
            let held = report.violations.is_empty();
            finish(json, &report, verdict(held), Comparison::render)
        }
        Kind::Property { statement } => {
            let reports = chosen.into_iter().zip(runs.into_iter().map(|(report, _)| report));
            let report = PropertyReport {
                scenario: scenario.name(),
                machine: file.name().to_owned(),
                seed: arguments.seed,
                statement,
                variants: property_variants(scenario, reports),
            };
            let held = report.variants.iter().all(|variant| variant.held);
            finish(json, &report, verdict(held), render)
        }
    }
}

fn verdict(held: bool) -> Verdict {
    if held { Verdict::Held } else { Verdict::Violated }
}

fn property_variants(
    scenario: &dyn Scenario,
    reports: impl Iterator<Item = (usize, RunReport)>,
) -> Vec<PropertyVariant> {
    let described = scenario.variants();
    reports
        .map(|(variant, report)| PropertyVariant {
            name: described[variant].name.clone(),
            held: report.violation.is_none(),
            violation: report.violation,
            virtual_ns: report.virtual_ns,
            events: report.events,
            trace_hash: format!("{:016x}", report.trace_hash),
        })
        .collect()
}

fn render(report: &PropertyReport) -> String {
    let mut table = Table::new(["variant", "", "virtual ns", "events", "trace hash"]);
    for variant in &report.variants {
        table.row([
            variant.name.clone(),
            if variant.held { "held" } else { "violated" }.to_owned(),
            variant.virtual_ns.to_string(),
            variant.events.to_string(),
            variant.trace_hash.clone(),
        ]);
    }
    let PropertyReport { scenario, machine, seed, statement, .. } = report;
    let mut text =
        format!("{scenario} on {machine}, seed {seed}: {statement}\n\n{}", table.render());
    for variant in &report.variants {
        if let Some(why) = &variant.violation {
            text += &format!("\n{}: {}\n", variant.name, why.trim_end());
        }
    }
    text
}
