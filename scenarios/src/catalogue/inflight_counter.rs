//! The block layer's count of requests under way, as a thread on dm-devel of June 2017 tells it:
//! every request adds to and takes from one pair of atomic words. On a POWER machine with 80 queues
//! of a null device, per-CPU counters took it from 1.5 to 11.4 M requests a second. The maintainer
//! objected that whoever reads the number must then walk every CPU; another recalled a tenth of the
//! rate left on a dual-socket 64-bit ARM, which a counter for each NUMA node gave back, and asked
//! whether the busy tags would not do.
//!
//! One job on each core hands requests of 4 KiB to a device that completes them at once, on the same
//! core (null_blk's irq mode 0). Each takes a tag of its core's queue, counts itself, and takes both
//! back. The cost of the rest of its path is an input of the machine file.

use super::{Kind, RunReport, Scenario, Setup, Size, Variant};
use crate::inflight::{CounterKind, Inflight};
use crate::sweep::Axis;
use raid::platform::{Cpu, Label, Platform, Work};
use raid::units::CpuId;
use sim::machine::Shape;
use sim::{Options, Outcome, Simulation};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The scenario.
pub struct InflightCounter;

const KINDS: [(&str, &str, CounterKind); 5] = [
    ("atomic", "one pair of atomic words for the device", CounterKind::Atomic),
    ("per-cpu", "a pair for each core", CounterKind::PerCpu),
    ("per-node", "a pair for each NUMA node", CounterKind::PerNode),
    ("tags", "nothing is counted: a reader counts the tags that are taken", CounterKind::Tags),
    ("none", "nobody counts and nobody can ask", CounterKind::None),
];

/// By then every core has joined in.
const WARM_UP_NS: u64 = 200_000;
const MEASURED_NS: u64 = 2_000_000;
const MEASURED_NS_IN_SMALL: u64 = 10_000;
const JOBS_IN_SMALL: u32 = 3;

impl Scenario for InflightCounter {
    fn name(&self) -> &'static str {
        "inflight-counter"
    }

    fn about(&self) -> &'static str {
        "what it costs to count the requests that a block device has under way"
    }

    fn variants(&self) -> Vec<Variant> {
        let variant = |(name, about, _): &(&str, &str, CounterKind)| Variant {
            name: (*name).to_owned(),
            about: (*about).to_owned(),
        };
        KINDS.iter().map(variant).collect()
    }

    fn kind(&self) -> Kind {
        Kind::Measures { quantity: "request rate", unit: "M IOPS" }
    }

    fn machine(&self) -> &'static str {
        "power8-80q"
    }

    fn axes(&self) -> &'static [Axis] {
        &[Axis::Cpus]
    }

    fn fits(&self, _shape: &Shape) -> Result<(), String> {
        Ok(())
    }

    fn run(&self, variant: usize, setup: &Setup<'_>) -> RunReport {
        let (_, _, kind) = KINDS[variant];
        let options = Options { seed: setup.seed, ..Options::default() };
        let mut world = Simulation::new(setup.machine, options);
        let platform = world.platform();
        let cpus = setup.changes.cpus.unwrap_or(setup.machine.shape.cpu_count());
        let (jobs, warm_up_ns, measured_ns) = match setup.size {
            Size::Full => (cpus, WARM_UP_NS, MEASURED_NS),
            Size::Small => (cpus.min(JOBS_IN_SMALL), 0, MEASURED_NS_IN_SMALL),
        };
        let end_ns = warm_up_ns + measured_ns;
        let device = Arc::new(Inflight::new(&platform, kind));
        let completed = Arc::new(AtomicU64::new(0));
        let mut random = world.random(0);
        for job in 0..jobs {
            let (device, completed) = (device.clone(), completed.clone());
            let begin_ns = rand::Rng::next_u64(&mut random) % (warm_up_ns / 4).max(1);
            platform.spawn_on(CpuId(job), Label::indexed("job", job), async move |cpu| {
                cpu.sleep_ns(begin_ns).await;
                let mut counted = 0;
                while cpu.now_ns() < end_ns {
                    request(&cpu, &device).await;
                    counted += u64::from((warm_up_ns..end_ns).contains(&cpu.now_ns()));
                }
                completed.fetch_add(counted, Ordering::Relaxed);
            });
        }
        let ((contention, outcome), trace) = setup.run(&mut world, |world| {
            world.run_until(warm_up_ns);
            world.reset_contention();
            world.run_until(end_ns);
            (world.contention(), world.run())
        });
        let violation = match outcome {
            Outcome::Done => None,
            Outcome::TimeLimit { .. } => unreachable!("the run has no time limit"),
            Outcome::Deadlock(deadlock) => Some(deadlock.to_string()),
        };
        let mut report = RunReport::of(&world, violation, trace);
        report.contention = contention;
        // Requests in a microsecond are millions in a second.
        let requests = completed.load(Ordering::Relaxed) as f64;
        report.measured = Some(requests * 1000.0 / measured_ns as f64);
        report
    }
}

/// One request, from the application's decision until it has taken note of the end.
async fn request<P: Platform>(cpu: &P::Cpu, device: &Inflight<P>) {
    cpu.spend(Work::ApplicationSubmit).await;
    let started = device.start(cpu, false).await.expect("a job has one request under way");
    cpu.spend(Work::DriverSubmit).await;
    cpu.spend(Work::DriverCompletion).await;
    device.end(cpu, started).await;
    tracing::debug!("request completed");
    cpu.spend(Work::ApplicationReap).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::machine::MachineFile;

    /// Millions of requests a second in each variant.
    fn rates(machine: &str) -> [f64; 5] {
        let machine = MachineFile::preset(machine).expect("a preset").nominal();
        let setup = Setup::new(&machine, 2022);
        [0, 1, 2, 3, 4]
            .map(|variant| InflightCounter.run(variant, &setup).measured.expect("a rate"))
    }

    /// What the thread says of both machines; the numbers are held against in `compare --all`.
    #[test]
    fn one_pair_of_words_collapses_where_words_apart_cost_next_to_nothing() {
        for machine in ["power8-80q", "arm64-2x96"] {
            let [atomic, per_cpu, per_node, tags, none] = rates(machine);
            assert!(atomic < none / 3.0, "{machine}: {atomic} of {none}");
            assert!(per_cpu > none * 0.95, "{machine}: {per_cpu} of {none}");
            assert!(tags > none * 0.99, "{machine}: {tags} of {none}");
            assert!(per_node > atomic, "{machine}: {per_node} and {atomic}");
        }
    }
}
