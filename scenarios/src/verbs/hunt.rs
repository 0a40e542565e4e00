//! `raidbed hunt`: many seeds on all cores of the host, until a property is violated. What it finds
//! is the smallest failing seed, however many cores there are.

use super::{Finished, Verdict, chosen_variants, finish, open};
use crate::catalogue::{Scenario, Setup};
use crate::cli::HuntArguments;
use crate::report::progress::Progress;
use anyhow::Result;
use rayon::prelude::*;
use serde::Serialize;
use sim::machine::Machine;
use std::panic::{AssertUnwindSafe, catch_unwind};

#[derive(Serialize)]
struct Report {
    scenario: &'static str,
    machine: String,
    first_seed: u64,
    seeds: u64,
    variants: Vec<VariantReport>,
}

#[derive(Serialize)]
struct VariantReport {
    name: String,
    held: bool,
    /// Up to and including the one that failed.
    seeds_tried: u64,
    failure: Option<Failure>,
}

#[derive(Serialize)]
struct Failure {
    seed: u64,
    violation: String,
    replay: String,
}

/// Seeds that each core takes before all look whether one has failed.
const SEEDS_PER_CORE_AND_ROUND: u64 = 64;

pub(super) fn hunt(arguments: &HuntArguments, json: bool) -> Result<Finished> {
    let (scenario, file) = open(&arguments.scenario, &arguments.machine)?;
    let chosen = chosen_variants(scenario, arguments.variant.as_deref())?;
    let machine = file.nominal();
    let machine_name = arguments.machine.machine.as_deref().unwrap_or(scenario.machine());
    let described = scenario.variants();
    let variants = chosen
        .into_iter()
        .map(|variant| {
            let name = described[variant].name.clone();
            let found = first_failure(scenario, variant, &machine, arguments);
            let seeds_tried = match &found {
                Some((seed, _)) => seed - arguments.seed + 1,
                None => arguments.seeds,
            };
            let failure = found.map(|(seed, violation)| Failure {
                seed,
                violation,
                replay: replay_line(scenario.name(), &name, seed, machine_name),
            });
            VariantReport { name, held: failure.is_none(), seeds_tried, failure }
        })
        .collect();
    let report = Report {
        scenario: scenario.name(),
        machine: file.name().to_owned(),
        first_seed: arguments.seed,
        seeds: arguments.seeds,
        variants,
    };
    let held = report.variants.iter().all(|variant| variant.held);
    finish(json, &report, if held { Verdict::Held } else { Verdict::Violated }, render)
}

/// The smallest seed that fails, and why.
fn first_failure(
    scenario: &dyn Scenario,
    variant: usize,
    machine: &Machine,
    arguments: &HuntArguments,
) -> Option<(u64, String)> {
    let end = arguments.seed.saturating_add(arguments.seeds);
    let round = SEEDS_PER_CORE_AND_ROUND * rayon::current_num_threads() as u64;
    let progress = Progress::new("hunting", arguments.seeds);
    let mut start = arguments.seed;
    while start < end {
        let seeds = start..end.min(start.saturating_add(round));
        let tried = seeds.end - seeds.start;
        start = seeds.end;
        let found = seeds.into_par_iter().find_map_first(|seed| {
            let setup = Setup::new(machine, seed);
            violation_of(scenario, variant, &setup).map(|why| (seed, why))
        });
        progress.advance(tried);
        if found.is_some() {
            return found;
        }
    }
    None
}

/// Why the run violates its property, if it does; an assertion that fails in it counts.
fn violation_of(scenario: &dyn Scenario, variant: usize, setup: &Setup<'_>) -> Option<String> {
    // A run shares nothing that another could find half changed.
    match catch_unwind(AssertUnwindSafe(|| scenario.run(variant, setup))) {
        Ok(report) => report.violation,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            Some(format!("an assertion failed: {}", text.unwrap_or("without a message")))
        }
    }
}

/// What to type to see it again.
fn replay_line(scenario: &str, variant: &str, seed: u64, machine: &str) -> String {
    let machine = if machine.contains(char::is_whitespace) {
        format!("'{machine}'")
    } else {
        machine.to_owned()
    };
    format!("raidbed run {scenario} --variant {variant} --seed {seed} --machine {machine}")
}

fn render(report: &Report) -> String {
    let mut text = String::new();
    for variant in &report.variants {
        let name = format!("{} {}", report.scenario, variant.name);
        text += &match &variant.failure {
            None => format!("{name}: held for {} seeds\n", variant.seeds_tried),
            Some(failure) => format!(
                "{name}: violated with seed {}, after {} seeds\n{}\nreplay: {}\n",
                failure.seed,
                variant.seeds_tried,
                failure.violation.trim_end(),
                failure.replay
            ),
        };
    }
    text
}
