//! Runs variants over seeds and over samples of a machine file's ranges, on all cores of the host.
//! The results do not depend on how many there are.

use crate::catalogue::{RunReport, Scenario, Setup};
use crate::report::comparison::VariantRuns;
use crate::report::progress::Progress;
use crate::sweep::Changes;
use rayon::prelude::*;
use sim::machine::{Machine, MachineFile};
use std::time::Instant;

/// Which variants of a scenario to run, on what, how.
pub(super) struct Batch<'a> {
    pub(super) scenario: &'a dyn Scenario,
    pub(super) file: &'a MachineFile,
    pub(super) variants: Vec<usize>,
    pub(super) changes: Changes,
}

/// How often, and what every random choice follows from.
#[derive(Clone, Copy)]
pub(super) struct Sampling {
    pub(super) samples: u32,
    pub(super) seed: u64,
}

/// What came of it.
pub(super) struct Sampled {
    /// For each batch the runs of its variants, in their order.
    pub(super) batches: Vec<Vec<VariantRuns>>,
    /// Simulated events a second and core, on the clock of the host.
    pub(super) events_per_second: f64,
}

/// One run of all that are to be done.
struct Job<'a> {
    batch: &'a Batch<'a>,
    machine: Machine,
    variant: usize,
    seed: u64,
}

impl Sampling {
    /// The machine of sample `index`: the first is the nominal one.
    fn machine(self, file: &MachineFile, index: u32) -> Machine {
        match index {
            0 => file.nominal(),
            index => file.sample(self.seed_of(index)),
        }
    }

    fn seed_of(self, index: u32) -> u64 {
        self.seed.wrapping_add(u64::from(index))
    }

    /// Runs each variant of each batch so often.
    pub(super) fn run(self, batches: &[Batch<'_>], what: &'static str) -> Sampled {
        let jobs: Vec<Job<'_>> = batches
            .iter()
            .flat_map(|batch| batch.variants.iter().map(move |variant| (batch, *variant)))
            .flat_map(|(batch, variant)| {
                (0..self.samples).map(move |index| Job {
                    batch,
                    machine: self.machine(batch.file, index),
                    variant,
                    seed: self.seed_of(index),
                })
            })
            .collect();
        let progress = Progress::new(what, jobs.len() as u64);
        let timed: Vec<(RunReport, f64)> = jobs
            .par_iter()
            .map(|job| {
                let begun = Instant::now();
                let changes = job.batch.changes;
                let setup = Setup { changes, ..Setup::new(&job.machine, job.seed) };
                let report = job.batch.scenario.run(job.variant, &setup);
                progress.advance(1);
                (report, begun.elapsed().as_secs_f64())
            })
            .collect();
        drop(progress);
        let events: u64 = timed.iter().map(|(report, _)| report.events).sum();
        let seconds: f64 = timed.iter().map(|(_, seconds)| seconds).sum();
        let mut reports = timed.into_iter().map(|(report, _)| report);
        let samples = self.samples as usize;
        let mut runs_of = |batch: &Batch<'_>| -> Vec<VariantRuns> {
            let runs = |variant: &usize| VariantRuns {
                variant: *variant,
                runs: reports.by_ref().take(samples).collect(),
            };
            batch.variants.iter().map(runs).collect()
        };
        Sampled {
            batches: batches.iter().map(&mut runs_of).collect(),
            events_per_second: events as f64 / seconds,
        }
    }
}
