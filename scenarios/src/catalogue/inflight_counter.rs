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
//!
//! In the variants `…-tick` the first request in each tick of the clock reads the number, on its own
//! path, as the block layer did for its statistics. In `…-polled` a reader has a core to itself, if need
//! be the last job's, and asks over and over. How often it gets an answer is `inflight-readers`.

use super::{Kind, RunReport, Scenario, Setup, Size, Variant};
use crate::inflight::{CounterKind, Inflight, TickReader};
use crate::inflight_load::request;
use crate::sweep::Axis;
use raid::platform::{Cpu, Label, Platform, Work};
use raid::units::CpuId;
use rand::Rng;
use sim::machine::Shape;
use sim::{Options, Outcome, SimPlatform, Simulation};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The scenario.
pub struct InflightCounter;

/// The ways to count, and what each is.
pub(super) const KINDS: [(CounterKind, &str); 5] = [
    (CounterKind::Atomic, "one pair of atomic words for the device"),
    (CounterKind::PerCpu, "a pair for each core"),
    (CounterKind::PerNode, "a pair for each NUMA node"),
    (CounterKind::Tags, "nothing is counted: a reader counts the tags that are taken"),
    (CounterKind::None, "nobody counts and nobody can ask"),
];

/// Who asks for the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reader {
    Nobody,
    EachTick,
    Polling,
}

/// A system under test.
#[derive(Clone, Copy, Debug)]
pub(super) struct System {
    pub(super) kind: CounterKind,
    pub(super) reader: Reader,
    /// Whether there are requests, or only the reader.
    pub(super) has_jobs: bool,
}

/// By then every core has joined in.
const WARM_UP_NS: u64 = 200_000;
const MEASURED_NS: u64 = 2_000_000;
const MEASURED_NS_IN_SMALL: u64 = 10_000;
const JOBS_IN_SMALL: u32 = 3;

fn variants() -> impl Iterator<Item = (String, String, System)> {
    let readers = [
        (Reader::Nobody, "", ""),
        (Reader::EachTick, "-tick", "; read once in each tick"),
        (Reader::Polling, "-polled", "; read over and over"),
    ];
    readers.into_iter().flat_map(|(reader, suffix, how)| {
        let is_asked = move |(kind, _): &&(CounterKind, &str)| {
            reader == Reader::Nobody || *kind != CounterKind::None
        };
        KINDS.iter().filter(is_asked).map(move |(kind, about)| {
            let system = System { kind: *kind, reader, has_jobs: true };
            (format!("{}{suffix}", kind.name()), format!("{about}{how}"), system)
        })
    })
}

impl Scenario for InflightCounter {
    fn name(&self) -> &'static str {
        "inflight-counter"
    }

    fn about(&self) -> &'static str {
        "what it costs to count the requests that a block device has under way"
    }

    fn variants(&self) -> Vec<Variant> {
        variants().map(|(name, about, _)| Variant { name, about }).collect()
    }

    fn kind(&self) -> Kind {
        Kind::Measures { quantity: "request rate", unit: "M IOPS" }
    }

    fn machine(&self) -> &'static str {
        "power8-80q"
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
        // Requests in a microsecond are millions in a second.
        report.measured = Some(counts.requests as f64 * 1000.0 / counts.measured_ns as f64);
        report
    }
}

/// A reader has a core of its own.
pub(super) fn fits(shape: &Shape) -> Result<(), String> {
    match shape.cpu_count() {
        1 => Err("2 cores, one of them for the reader".to_owned()),
        _ => Ok(()),
    }
}

/// What happened in the measured time.
pub(super) struct Counts {
    pub(super) requests: u64,
    /// How often a polling reader got the number.
    pub(super) sums: u64,
    pub(super) measured_ns: u64,
}

/// What tasks share.
#[derive(Clone)]
struct Shared {
    device: Arc<Inflight<SimPlatform>>,
    ticks: Option<Arc<TickReader<SimPlatform>>>,
    requests: Arc<AtomicU64>,
    sums: Arc<AtomicU64>,
    measured: std::ops::Range<u64>,
}

/// Runs a system. The report lacks what was measured.
pub(super) fn simulate(system: System, setup: &Setup<'_>) -> (RunReport, Counts) {
    let options = Options { seed: setup.seed, ..Options::default() };
    let mut world = Simulation::new(setup.machine, options);
    let measured = match setup.size {
        Size::Full => WARM_UP_NS..WARM_UP_NS + MEASURED_NS,
        Size::Small => 0..MEASURED_NS_IN_SMALL,
    };
    let shared = start(&world, system, setup, measured.clone());
    let ((contention, outcome), trace) = setup.run(&mut world, |world| {
        world.run_until(measured.start);
        world.reset_contention();
        world.run_until(measured.end);
        (world.contention(), world.run())
    });
    let violation = match outcome {
        Outcome::Done => None,
        Outcome::TimeLimit { .. } => unreachable!("the run has no time limit"),
        Outcome::Deadlock(deadlock) => Some(deadlock.to_string()),
    };
    let mut report = RunReport::of(&world, violation, trace);
    report.contention = contention;
    let counts = Counts {
        requests: shared.requests.load(Ordering::Relaxed),
        sums: shared.sums.load(Ordering::Relaxed),
        measured_ns: measured.end - measured.start,
    };
    (report, counts)
}

fn start(
    world: &Simulation,
    system: System,
    setup: &Setup<'_>,
    measured: std::ops::Range<u64>,
) -> Shared {
    let platform = world.platform();
    let online = setup.machine.shape.cpu_count();
    let cpus = setup.changes.cpus.unwrap_or(online);
    let possible = setup.changes.possible.unwrap_or(online);
    let polls = system.reader == Reader::Polling;
    let working = if polls { cpus.min(online - 1) } else { cpus };
    let jobs = match setup.size {
        Size::Full => working,
        Size::Small => working.min(JOBS_IN_SMALL),
    };
    let device = Arc::new(Inflight::new(&platform, system.kind, possible));
    let ticks = (system.reader == Reader::EachTick).then(|| Arc::new(TickReader::new(&platform)));
    let shared = Shared { device, ticks, requests: Arc::default(), sums: Arc::default(), measured };
    let mut random = world.random(0);
    for job in (0..jobs).take_while(|_| system.has_jobs) {
        let shared = shared.clone();
        let begin_ns = random.next_u64() % (shared.measured.start / 4).max(1);
        platform.spawn_on(CpuId(job), Label::indexed("job", job), async move |cpu| {
            cpu.sleep_ns(begin_ns).await;
            let mut counted = 0;
            while cpu.now_ns() < shared.measured.end {
                request(&cpu, &shared.device, shared.ticks.as_deref()).await;
                counted += u64::from(shared.measured.contains(&cpu.now_ns()));
            }
            shared.requests.fetch_add(counted, Ordering::Relaxed);
        });
    }
    if polls {
        let shared = shared.clone();
        platform.spawn_on(CpuId(jobs), Label::new("reader"), async move |cpu| {
            let mut counted = 0;
            while cpu.now_ns() < shared.measured.end {
                cpu.spend(Work::ApplicationSubmit).await;
                shared.device.sum(&cpu).await;
                counted += u64::from(shared.measured.contains(&cpu.now_ns()));
            }
            tracing::debug!("reader ends");
            shared.sums.store(counted, Ordering::Relaxed);
        });
    }
    shared
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
