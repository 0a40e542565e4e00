//! The other side of the count of requests under way: how often somebody who asks for the number gets
//! it. Jens Axboe's objection to per-CPU counters (dm-devel, June 2017, see `inflight_counter.rs`)
//! was that a reader has to walk every core that is possible, be it there or not.
//!
//! One reader asks over and over, with a system call each time, on a core of its own; in the variants
//! `…-busy` a job on each other core has requests under way, in `…-idle` nobody has.

use super::inflight_counter::{KINDS, Reader, System, fits, simulate};
use super::{Kind, RunReport, Scenario, Setup, Variant};
use crate::inflight::CounterKind;
use crate::sweep::Axis;
use sim::machine::Shape;

/// The scenario.
pub struct InflightReaders;

fn variants() -> impl Iterator<Item = (String, String, System)> {
    let loads = [("busy", "requests on every other core", true), ("idle", "no requests", false)];
    let can_ask = |(kind, _): &&(CounterKind, &str)| *kind != CounterKind::None;
    loads.into_iter().flat_map(move |(load, how, has_jobs)| {
        KINDS.iter().filter(can_ask).map(move |(kind, about)| {
            let system = System { kind: *kind, reader: Reader::Polling, has_jobs };
            (format!("{}-{load}", kind.name()), format!("{about}; {how}"), system)
        })
    })
}

impl Scenario for InflightReaders {
    fn name(&self) -> &'static str {
        "inflight-readers"
    }

    fn about(&self) -> &'static str {
        "how often a reader learns how many requests a block device has under way"
    }

    fn variants(&self) -> Vec<Variant> {
        variants().map(|(name, about, _)| Variant { name, about }).collect()
    }

    fn kind(&self) -> Kind {
        Kind::Measures { quantity: "sums", unit: "k sums/s" }
    }

    fn machine(&self) -> &'static str {
        "nehalem-4"
    }

    fn axes(&self) -> &'static [Axis] {
        &[Axis::Cpus, Axis::Possible]
    }

    fn fits(&self, shape: &Shape) -> Result<(), String> {
        fits(shape)
    }

    fn run(&self, variant: usize, setup: &Setup<'_>) -> RunReport {
        let (_, _, system) = variants().nth(variant).expect("a variant");
        let (mut report, counts) = simulate(system, setup);
        // Sums in a microsecond are thousands of thousands in a second.
        report.measured = Some(counts.sums as f64 * 1e6 / counts.measured_ns as f64);
        report
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::find_variant;
    use crate::sweep::Changes;
    use sim::machine::MachineFile;

    /// Thousands of sums a second on the quad core, of so many possible cores.
    fn rate(variant: &str, possible: u32) -> f64 {
        let machine = MachineFile::preset("nehalem-4").expect("a preset").nominal();
        let changes = Changes { possible: Some(possible), ..Changes::default() };
        let setup = Setup { changes, ..Setup::new(&machine, 2022) };
        let variant = find_variant(&InflightReaders, variant).expect("a variant");
        InflightReaders.run(variant, &setup).measured.expect("a rate")
    }

    #[test]
    fn only_a_pair_for_each_core_pays_for_cores_that_are_merely_possible() {
        for load in ["busy", "idle"] {
            let per_cpu = format!("per-cpu-{load}");
            assert!(rate(&per_cpu, 4096) < rate(&per_cpu, 4) / 5.0, "{load}");
            for other in ["atomic", "per-node", "tags"] {
                let other = format!("{other}-{load}");
                assert_eq!(rate(&other, 4096), rate(&other, 4), "{other}");
            }
        }
    }
}
