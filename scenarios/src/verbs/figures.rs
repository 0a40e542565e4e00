//! `raidbed compare --all`: every figure that the threads published, beside what is simulated.

use super::sampling::{Batch, Sampling};
use super::{Finished, Verdict, finish};
use crate::catalogue;
use crate::figures::{Figure, THREAD_FIGURES};
use crate::quantity::count;
use crate::report::outcomes::{self, Outcome};
use crate::sweep::Changes;
use anyhow::Result;
use serde::Serialize;
use sim::machine::MachineFile;

#[derive(Serialize)]
struct Report {
    seed: u64,
    samples: u32,
    figures: Vec<Outcome>,
    events_per_second: f64,
}

/// The figures of one scenario on one machine.
struct Group {
    scenario: &'static dyn catalogue::Scenario,
    file: MachineFile,
    figures: Vec<&'static Figure>,
}

pub(super) fn compare_all(sampling: Sampling, json: bool) -> Result<Finished> {
    let groups = groups()?;
    let batches: Vec<Batch<'_>> = groups.iter().map(Group::batch).collect::<Result<_>>()?;
    let sampled = sampling.run(&batches, "sampling");
    let figures = groups
        .iter()
        .zip(&sampled.batches)
        .flat_map(|(group, runs)| {
            let outcome = |figure: &&Figure| Outcome::of(figure, group.scenario, runs);
            group.figures.iter().filter_map(outcome).collect::<Vec<_>>()
        })
        .collect();
    let Sampling { samples, seed } = sampling;
    let events_per_second = sampled.events_per_second;
    let report = Report { seed, samples, figures, events_per_second };
    finish(json, &report, Verdict::Held, render)
}

fn groups() -> Result<Vec<Group>> {
    let mut groups: Vec<Group> = Vec::new();
    for figure in &*THREAD_FIGURES {
        let is_of = |group: &&mut Group| {
            group.scenario.name() == figure.scenario && group.file.name() == figure.machine
        };
        match groups.iter_mut().find(is_of) {
            Some(group) => group.figures.push(figure),
            None => groups.push(Group {
                scenario: catalogue::find(&figure.scenario)?,
                file: MachineFile::open(&figure.machine)?,
                figures: vec![figure],
            }),
        }
    }
    Ok(groups)
}

impl Group {
    /// The variants that the figures are about, each once.
    fn batch(&self) -> Result<Batch<'_>> {
        let mut variants = self
            .figures
            .iter()
            .flat_map(|figure| figure.measure.variants())
            .map(|name| catalogue::find_variant(self.scenario, name))
            .collect::<Result<Vec<usize>>>()?;
        variants.sort_unstable();
        variants.dedup();
        let Self { scenario, file, .. } = self;
        Ok(Batch { scenario: *scenario, file, variants, changes: Changes::default() })
    }
}

fn render(report: &Report) -> String {
    let Report { seed, samples, figures, events_per_second } = report;
    let met = figures.iter().filter(|figure| figure.met).count();
    let title = format!("Published and simulated, {samples} samples of each, seed {seed}");
    let table = outcomes::render(figures);
    let rate = count(*events_per_second);
    format!(
        "{title}\n\n{table}\n{met} of {} met; docs/COSTS.md says what the model lacks for the \
         others\n{rate} events a second and core\n",
        figures.len()
    )
}
