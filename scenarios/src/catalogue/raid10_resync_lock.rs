//! The resync lock of md's raid10, as a mailing-list thread of August 2022 tells it: every request
//! took one spin lock to look at a barrier that is almost always down, and woke a wait queue that
//! almost always is empty. On a machine with four NUMA nodes that cost more than half of the
//! bandwidth; bound to one node it cost nothing. A seqlock and a look before waking cured it.
//!
//! The workload is the thread's: 16 jobs of depth 256, 4 KiB random reads, seed 2022, on raid10 over
//! four NVMe drives. No number here is set from the thread's
//! figures.

use super::{Kind, RunReport, Scenario, Setup, Size, Variant};
use crate::job;
use crate::placement::{Binding, place_jobs};
use crate::sweep::{Axis, Changes};
use crate::target::Target;
use crate::workload::{Pattern, Schedule, Workload};
use raid::concurrency::barrier::ResyncBarrier;
use raid::lock::SpinKind;
use raid::tuning::{Placement, ResyncLock, Tuning, Wake};
use raid::units::{NodeId, Sectors};
use raid::{Array, ArrayOptions, Level};
use sim::machine::Shape;
use sim::{Options, Outcome, SimPlatform, Simulation};
use std::sync::Arc;

/// The scenario.
pub struct Raid10ResyncLock {
    /// A design from outside, as one more variant, the last.
    pub own: Option<OwnBarrier>,
}

/// A barrier of the user's own, in the place of the built-in ones.
pub struct OwnBarrier {
    /// The variant's name.
    pub name: &'static str,
    /// What is different in it.
    pub about: &'static str,
    /// Makes one for each array.
    pub make: fn(&SimPlatform) -> Arc<dyn ResyncBarrier<SimPlatform>>,
}

const MEMBERS: u32 = 4;
/// The thread's `-randseed`. What the run's own seed decides is the placement of the jobs and how
/// long each request takes on its drive.
const WORKLOAD_SEED: u64 = 2022;
/// Not told in the thread; the size of a common drive. No request depends on it.
const DRIVE_BYTES: u64 = 1 << 40;
/// md's default.
const CHUNK_BYTES: u64 = 512 << 10;
/// The thread's, in full. By Little's law 4096 requests under way take 5.4 ms each at 2.9 GiB/s: by
/// the end of the warm-up the burst with which all start is over.
const FULL: Dimensions =
    Dimensions { jobs: 16, io_depth: 256, warm_up_ns: 10_000_000, measured_ns: 12_000_000 };
const SMALL: Dimensions =
    Dimensions { jobs: 4, io_depth: 2, warm_up_ns: 20_000, measured_ns: 180_000 };

/// How much is run for how long.
#[derive(Clone, Copy)]
struct Dimensions {
    jobs: u32,
    io_depth: u32,
    warm_up_ns: u64,
    measured_ns: u64,
}

impl Dimensions {
    /// Other jobs, of the story's depth; more of them share the requests that the story has under
    /// way, or the burst with which all start would outlast the run.
    fn with_jobs(self, jobs: u32) -> Self {
        let io_depth = self.io_depth.min((self.io_depth * self.jobs / jobs).max(1));
        Self { jobs, io_depth, ..self }
    }
}

/// What one variant chooses.
struct Choice {
    name: &'static str,
    about: &'static str,
    resync_lock: ResyncLock,
    wake: Wake,
    placement: Placement,
    spin_kind: SpinKind,
    binding: Binding,
}

/// The driver before the change; the other variants say what differs.
const BEFORE: Choice = Choice {
    name: "before",
    about: "a spin lock, a wake-up on every request",
    resync_lock: ResyncLock::Spin,
    wake: Wake::Always,
    placement: Placement::Together,
    spin_kind: SpinKind::Queued,
    binding: Binding::Unbound,
};

const CHOICES: [Choice; 9] = [
    BEFORE,
    Choice {
        name: "wake-if-waiting",
        about: "a spin lock, a wake-up only if somebody waits",
        wake: Wake::IfWaiting,
        ..BEFORE
    },
    Choice {
        name: "seqlock",
        about: "a seqlock, a wake-up on every request",
        resync_lock: ResyncLock::Seqlock,
        ..BEFORE
    },
    Choice {
        name: "after",
        about: "a seqlock, a wake-up only if somebody waits",
        resync_lock: ResyncLock::Seqlock,
        wake: Wake::IfWaiting,
        ..BEFORE
    },
    Choice {
        name: "before-apart",
        about: "as before, each word on cache lines of its own",
        placement: Placement::Apart,
        ..BEFORE
    },
    Choice {
        name: "after-apart",
        about: "as after, each word on cache lines of its own",
        resync_lock: ResyncLock::Seqlock,
        wake: Wake::IfWaiting,
        placement: Placement::Apart,
        ..BEFORE
    },
    Choice {
        name: "before-numa-queued",
        about: "as before, the spin locks prefer waiters of their own node",
        spin_kind: SpinKind::NumaQueued,
        ..BEFORE
    },
    Choice {
        name: "before-bound",
        about: "as before, the jobs bound to one node",
        binding: Binding::Node(NodeId(0)),
        ..BEFORE
    },
    Choice {
        name: "after-bound",
        about: "as after, the jobs bound to one node",
        resync_lock: ResyncLock::Seqlock,
        wake: Wake::IfWaiting,
        binding: Binding::Node(NodeId(0)),
        ..BEFORE
    },
];

impl Scenario for Raid10ResyncLock {
    fn name(&self) -> &'static str {
        "raid10-resync-lock"
    }

    fn about(&self) -> &'static str {
        "how much of raid10's bandwidth the lock of its resync barrier costs on a NUMA machine"
    }

    fn variants(&self) -> Vec<Variant> {
        let built_in = CHOICES.iter().map(|choice| (choice.name, choice.about));
        let own = self.own.iter().map(|own| (own.name, own.about));
        let variant =
            |(name, about): (&str, &str)| Variant { name: name.into(), about: about.into() };
        built_in.chain(own).map(variant).collect()
    }

    fn kind(&self) -> Kind {
        Kind::Measures { quantity: "bandwidth", unit: "GiB/s" }
    }

    fn axes(&self) -> &'static [Axis] {
        &[Axis::Cpus, Axis::Drives, Axis::Nodes, Axis::Lock]
    }

    fn can_change(&self, changes: &Changes) -> Result<(), String> {
        match changes.drives {
            Some(..2) => Err("two drives at least, one for each copy".to_owned()),
            _ => Ok(()),
        }
    }

    fn fits(&self, _shape: &Shape) -> Result<(), String> {
        Ok(())
    }

    fn run(&self, variant: usize, setup: &Setup<'_>) -> RunReport {
        // Of a barrier from outside, all but the barrier is as before.
        let (choice, own) = match CHOICES.get(variant) {
            Some(choice) => (choice, None),
            None => (&BEFORE, self.own.as_ref()),
        };
        let seeded = Options { seed: setup.seed, ..Options::default() };
        let mut world = Simulation::new(setup.machine, seeded);
        let platform = world.platform();
        let drive_size = Sectors::from_bytes_rounded_down(DRIVE_BYTES);
        let drives = (0..setup.changes.drives.unwrap_or(MEMBERS))
            .map(|index| {
                let name = format!("nvme{index}n1");
                world.drive_without_content(&name, &setup.machine.drive, drive_size)
            })
            .collect();
        let tuning = Tuning {
            resync_lock: choice.resync_lock,
            spin_kind: setup.changes.lock.unwrap_or(choice.spin_kind),
            wake: choice.wake,
            placement: choice.placement,
            ..Tuning::default()
        };
        let level = Level::raid10_near(2);
        let chunk = Sectors::from_bytes_rounded_down(CHUNK_BYTES);
        let options = ArrayOptions { level, chunk, tuning };
        let array = match own {
            None => Array::create(&platform, drives, options),
            Some(own) => {
                let barrier = (own.make)(&platform);
                Array::create_with_barrier(&platform, drives, options, barrier)
            }
        }
        .expect("two drives of 1 TiB and more make a raid10");
        let mut dimensions = match setup.size {
            Size::Full => FULL,
            Size::Small => SMALL,
        };
        if let Some(jobs) = setup.changes.cpus {
            dimensions = dimensions.with_jobs(jobs);
        }
        let workload = workload(array.capacity(), dimensions);
        let Schedule { measure_from_ns, end_ns, .. } = workload.schedule;
        let binding = match (choice.binding, setup.changes.nodes) {
            (Binding::Unbound, Some(nodes)) => Binding::FirstNodes(nodes),
            (binding, _) => binding,
        };
        let cpus = place_jobs(&setup.machine.shape, dimensions.jobs, binding, setup.seed);
        let running = job::start(&platform, &Target::Array(array), workload, &cpus, |_, _| {});
        let ((contention, outcome), trace) = setup.run(&mut world, |world| {
            world.run_until(measure_from_ns);
            world.reset_contention();
            world.run_until(end_ns);
            (world.contention(), world.run())
        });
        let mut report = RunReport::of(&world, violation(&outcome), trace);
        report.contention = contention;
        if let Some(done) = running.outcome() {
            let summary = done.statistics.summary(done.measured_ns);
            report.measured = Some(summary.bandwidth_gib_per_s);
            report.io = Some(summary);
        }
        report
    }
}

fn workload(extent: Sectors, dimensions: Dimensions) -> Workload {
    let Dimensions { jobs, io_depth, warm_up_ns, measured_ns } = dimensions;
    Workload {
        pattern: Pattern::RandomRead,
        read_percent: 100,
        block: Sectors(8),
        io_depth,
        jobs,
        random_seed: WORKLOAD_SEED,
        extent,
        verify: false,
        schedule: Schedule {
            measure_from_ns: warm_up_ns,
            end_ns: warm_up_ns + measured_ns,
            ios_per_job: None,
        },
    }
}

fn violation(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Done => None,
        Outcome::TimeLimit { .. } => unreachable!("the run has no time limit"),
        Outcome::Deadlock(deadlock) => Some(deadlock.to_string()),
    }
}
