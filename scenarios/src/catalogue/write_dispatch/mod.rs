//! Who hands writes to the members of a mirror once the write-intent bitmap says that they may go: the
//! thread "MD: improve raid1/10 write performance for fast storage" (Shaohua Li, linux-raid, June 2012).
//!
//! A write to an array with such a bitmap may go out only when its bits are durable on all members. md
//! left both, flushing bits and handing writes over, to the array's one thread. The thread's claims: with
//! flash cards that one thread is the limit; it wanders from core to core, so that writes end on other
//! cores than they were submitted on; lists for each core, emptied by workers of each core, gain 10 to
//! 50 % on raid1 over two cards, "depending on numa binding", and about 95 % on raid10 over four; the
//! more drives, the more; slow storage is not harmed. NeilBrown objected that memory and threads for each
//! core are not cheap on machines with 1,024 cores, and had submitters send off their own writes when
//! they unplug, with the thread as the way out when the scheduler unplugs. Shaohua Li found that "ok",
//! the scheduler's unplugs "very very low", and asked whether the extra bitmap flushes might be an
//! overhead; nobody measured it.
//!
//! Variants: `raid-thread` is md as it was, `per-cpu` the patches, `plug` what md became, `direct` what
//! the first version did and could not be made correct (`write-dispatch-promises` shows it), `own-task`
//! this engine if nothing else is asked for. The names that end in `-one-node` bind the jobs to a node;
//! in those that end in `-fresh-bits` most writes are the first to its chunk of the bitmap, whereas
//! in the others all bits are set by the end of the warm-up, as they are some seconds into any run of
//! random writes.
//!
//! The workload, 4 KiB random writes, is the thread's; jobs and depth it does not tell. No number here is
//! set from its figures.

pub mod promises;
mod rig;

use super::{Kind, Note, RunReport, Scenario, Setup, Size, Variant};
use crate::job;
use crate::placement::{Binding, place_jobs};
use crate::sweep::{Axis, Changes};
use crate::target::Target;
use crate::workload::{Pattern, Schedule, Workload};
use raid::concurrency::dispatch::DispatchCounts;
use raid::platform::{Label, Platform};
use raid::tuning::{Affinity, Dispatch, OfflineLists, Tuning};
use raid::units::{CpuId, NodeId, Sectors};
use rig::{Mirror, Sizes};
use sim::device::Media;
use sim::machine::{DriveModel, Shape};
use sim::{Options, Outcome, Simulation};
use std::sync::{Arc, Mutex};

/// The scenario of RAID 1.
pub struct Raid1WriteDispatch;

/// The scenario of RAID 10.
pub struct Raid10WriteDispatch;

/// Which blocks are written.
const WORKLOAD_SEED: u64 = 2012;
const BLOCK: Sectors = Sectors(8);
/// mdadm's bits stand for 64 MiB then; the jobs write to the first 16 chunks.
const SET_BITS: Bits = Bits {
    sizes: Sizes { component: Sectors(64 << 21), bitmap_chunk_bytes: None },
    written: Sectors(1 << 21),
};
/// 16,384 chunks, several for each write of a run.
const FRESH_BITS: Bits = Bits {
    sizes: Sizes { component: Sectors(1 << 21), bitmap_chunk_bytes: Some(32 << 10) },
    written: Sectors(1 << 21),
};

/// How much of the bitmap a run sets anew.
#[derive(Clone, Copy)]
struct Bits {
    sizes: Sizes,
    written: Sectors,
}

/// How much is run for how long.
#[derive(Clone, Copy)]
struct Dimensions {
    jobs: u32,
    io_depth: u32,
    warm_up_ns: u64,
    measured_ns: u64,
}

/// By Little's law 256 writes under way take 1.7 ms each on two of the slowest cards: by the end of the
/// warm-up the burst with which all start is over.
const FULL: Dimensions =
    Dimensions { jobs: 8, io_depth: 32, warm_up_ns: 3_000_000, measured_ns: 6_000_000 };
const SMALL: Dimensions =
    Dimensions { jobs: 2, io_depth: 2, warm_up_ns: 20_000, measured_ns: 130_000 };
/// On slow drives a run is as long as so many commands of one drive take, after a third of that.
const COMMANDS_MIN: u64 = 600;

/// What one variant chooses.
struct Choice {
    name: &'static str,
    about: &'static str,
    form: Form,
    binding: Binding,
    bits: Bits,
}

/// [`Dispatch`], but for the core that a bound thread is on: the machine's last.
#[derive(Clone, Copy)]
enum Form {
    RaidThread,
    RaidThreadBound,
    PerCpu,
    Plug,
    Direct,
    Own,
}

const RAID_THREAD: Choice = Choice {
    name: "raid-thread",
    about: "one thread of the array flushes bits and hands over; it runs wherever it is woken",
    form: Form::RaidThread,
    binding: Binding::Unbound,
    bits: SET_BITS,
};
const PER_CPU: Choice = Choice {
    name: "per-cpu",
    about: "a list for each core, gathered at each flush and handed over by a worker there",
    form: Form::PerCpu,
    ..RAID_THREAD
};
const PLUG: Choice = Choice {
    name: "plug",
    about: "the submitter flushes bits and hands over what it has gathered",
    form: Form::Plug,
    ..RAID_THREAD
};
const ONE_NODE: Binding = Binding::Node(NodeId(0));

const CHOICES: [Choice; 12] = [
    RAID_THREAD,
    Choice {
        name: "raid-thread-bound",
        about: "as raid-thread, the thread bound to the machine's last core",
        form: Form::RaidThreadBound,
        ..RAID_THREAD
    },
    PER_CPU,
    PLUG,
    Choice {
        name: "direct",
        about: "data does not wait for its bits, which a power cut shows to be wrong",
        form: Form::Direct,
        ..RAID_THREAD
    },
    Choice {
        name: "own-task",
        about: "each write waits for its bits and is handed over by its own task",
        form: Form::Own,
        ..RAID_THREAD
    },
    Choice {
        name: "raid-thread-one-node",
        about: "as raid-thread, the jobs bound to one node",
        binding: ONE_NODE,
        ..RAID_THREAD
    },
    Choice {
        name: "per-cpu-one-node",
        about: "as per-cpu, the jobs bound to one node",
        binding: ONE_NODE,
        ..PER_CPU
    },
    Choice {
        name: "plug-one-node",
        about: "as plug, the jobs bound to one node",
        binding: ONE_NODE,
        ..PLUG
    },
    Choice {
        name: "raid-thread-fresh-bits",
        about: "as raid-thread, most writes need a bit that is not set",
        bits: FRESH_BITS,
        ..RAID_THREAD
    },
    Choice {
        name: "per-cpu-fresh-bits",
        about: "as per-cpu, most writes need a bit that is not set",
        bits: FRESH_BITS,
        ..PER_CPU
    },
    Choice {
        name: "plug-fresh-bits",
        about: "as plug, most writes need a bit that is not set",
        bits: FRESH_BITS,
        ..PLUG
    },
];

/// The tuning of an array whose writes are dispatched like that.
fn tuning(form: Form, shape: &Shape) -> Tuning {
    let dispatch = match form {
        Form::RaidThread => Dispatch::RaidThread(Affinity::Free),
        Form::RaidThreadBound => Dispatch::RaidThread(Affinity::Core(CpuId(shape.cpu_count() - 1))),
        Form::PerCpu => Dispatch::PerCpu(OfflineLists::Adopted),
        Form::Plug => Dispatch::Plug,
        Form::Direct => Dispatch::Direct,
        Form::Own => Dispatch::Own,
    };
    Tuning { dispatch, ..Tuning::default() }
}

impl Scenario for Raid1WriteDispatch {
    fn name(&self) -> &'static str {
        "raid1-write-dispatch"
    }

    fn about(&self) -> &'static str {
        "who hands raid1's writes to its drives once the write-intent bitmap lets them go"
    }

    fn variants(&self) -> Vec<Variant> {
        variants()
    }

    fn kind(&self) -> Kind {
        KIND
    }

    fn machine(&self) -> &'static str {
        MACHINE
    }

    fn axes(&self) -> &'static [Axis] {
        AXES
    }

    fn can_change(&self, changes: &Changes) -> Result<(), String> {
        enough_drives(changes)
    }

    fn fits(&self, _shape: &Shape) -> Result<(), String> {
        Ok(())
    }

    fn run(&self, variant: usize, setup: &Setup<'_>) -> RunReport {
        run(Mirror::Raid1, 2, &CHOICES[variant], setup)
    }
}

impl Scenario for Raid10WriteDispatch {
    fn name(&self) -> &'static str {
        "raid10-write-dispatch"
    }

    fn about(&self) -> &'static str {
        "who hands raid10's writes to its drives once the write-intent bitmap lets them go"
    }

    fn variants(&self) -> Vec<Variant> {
        variants()
    }

    fn kind(&self) -> Kind {
        KIND
    }

    fn machine(&self) -> &'static str {
        MACHINE
    }

    fn axes(&self) -> &'static [Axis] {
        AXES
    }

    fn can_change(&self, changes: &Changes) -> Result<(), String> {
        enough_drives(changes)
    }

    fn fits(&self, _shape: &Shape) -> Result<(), String> {
        Ok(())
    }

    fn run(&self, variant: usize, setup: &Setup<'_>) -> RunReport {
        run(Mirror::Raid10, 4, &CHOICES[variant], setup)
    }
}

const KIND: Kind = Kind::Measures { quantity: "bandwidth", unit: "GiB/s" };
const MACHINE: &str = "sandy-bridge-2s";
const AXES: &[Axis] = &[Axis::Cpus, Axis::Drives, Axis::Nodes];

fn variants() -> Vec<Variant> {
    let variant =
        |choice: &Choice| Variant { name: choice.name.to_owned(), about: choice.about.to_owned() };
    CHOICES.iter().map(variant).collect()
}

fn enough_drives(changes: &Changes) -> Result<(), String> {
    match changes.drives {
        Some(..2) => Err("two drives at least, one for each copy".to_owned()),
        _ => Ok(()),
    }
}

fn run(mirror: Mirror, members: u32, choice: &Choice, setup: &Setup<'_>) -> RunReport {
    let machine = setup.machine;
    let seeded = Options { seed: setup.seed, ..Options::default() };
    let mut world = Simulation::new(machine, seeded);
    let members = setup.changes.drives.unwrap_or(members);
    let sizes = choice.bits.sizes;
    let drives = (0..members)
        .map(|index| {
            let name = format!("flash{index}");
            Arc::new(world.drive(&name, &machine.drive, &Media::zeroed(sizes.drive())))
        })
        .collect();
    let new = rig::new_array(mirror, members, sizes);
    let array = rig::open(&mut world, drives, Some(new), tuning(choice.form, &machine.shape));

    let dimensions = dimensions(setup, &machine.drive);
    let workload = workload(choice.bits.written, dimensions, world.now_ns());
    let Schedule { measure_from_ns, end_ns, .. } = workload.schedule;
    let binding = match (choice.binding, setup.changes.nodes) {
        (Binding::Unbound, Some(nodes)) => Binding::FirstNodes(nodes),
        (binding, _) => binding,
    };
    let cpus = place_jobs(&machine.shape, dimensions.jobs, binding, setup.seed);
    let counted = Arc::new(Mutex::new(None));
    let (platform, into) = (world.platform(), counted.clone());
    let outcome_of_jobs = Arc::new(Mutex::new(None));
    let jobs = outcome_of_jobs.clone();
    platform.clone().spawn_on(CpuId(0), Label::new("owner"), move |cpu| async move {
        array.start_dispatch(&cpu).await;
        let target = Target::Array(array.clone());
        let running = job::start(&platform, &target, workload, &cpus, |_, _| {});
        running.ended(&cpu).await;
        *into.lock().expect("nobody panicked") = array.dispatch_counts(&cpu).await;
        *jobs.lock().expect("nobody panicked") = running.outcome();
        array.end_dispatch(&cpu).await;
    });
    let ((contention, outcome), trace) = setup.run(&mut world, |world| {
        world.run_until(measure_from_ns);
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
    if let Some(done) = outcome_of_jobs.lock().expect("nobody panicked").take() {
        let summary = done.statistics.summary(done.measured_ns);
        report.violation = report.violation.or(done.failures.first().map(ToString::to_string));
        report.measured = Some(summary.bandwidth_gib_per_s);
        report.io = Some(summary);
    }
    if let Some(counts) = *counted.lock().expect("nobody panicked") {
        report.notes = notes(&counts);
    }
    report
}

fn dimensions(setup: &Setup<'_>, drive: &DriveModel) -> Dimensions {
    let mut dimensions = match setup.size {
        Size::Small => return SMALL,
        Size::Full => FULL,
    };
    if let Some(jobs) = setup.changes.cpus {
        // The story's depth; more jobs share the writes that the story has under way.
        dimensions.io_depth = FULL.io_depth.min((FULL.io_depth * FULL.jobs / jobs).max(1));
        dimensions.jobs = jobs;
    }
    let slow_ns = COMMANDS_MIN * (1_000_000_000 / drive.write_iops_max);
    dimensions.measured_ns = dimensions.measured_ns.max(slow_ns);
    dimensions.warm_up_ns = dimensions.warm_up_ns.max(slow_ns / 3);
    dimensions
}

fn workload(extent: Sectors, dimensions: Dimensions, from_ns: u64) -> Workload {
    let Dimensions { jobs, io_depth, warm_up_ns, measured_ns } = dimensions;
    Workload {
        pattern: Pattern::RandomWrite,
        read_percent: 0,
        block: BLOCK,
        io_depth,
        jobs,
        random_seed: WORKLOAD_SEED,
        extent,
        verify: false,
        schedule: Schedule {
            measure_from_ns: from_ns + warm_up_ns,
            end_ns: from_ns + warm_up_ns + measured_ns,
            ios_per_job: None,
        },
    }
}

/// What was counted of the whole run, as shares.
fn notes(counts: &DispatchCounts) -> Vec<Note> {
    let share = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
    let note = |name, value: Option<f64>| Some(Note { name, value: value? });
    let ends_here = counts.writes - counts.ends_elsewhere;
    let lists = (counts.list_bytes > 0).then_some(counts.list_bytes as f64);
    [
        note("bitmap flushes in 1,000 writes", share(counts.bitmap_flushes * 1000, counts.writes)),
        note(
            "share of unplugs from the scheduler",
            share(counts.unplugs_from_scheduler, counts.unplugs),
        ),
        note("share of ends on another core", share(counts.ends_elsewhere, counts.writes)),
        note(
            "ns from an end on another core to the submitter",
            share(counts.ends_elsewhere_ns, counts.ends_elsewhere),
        ),
        note(
            "ns from an end on the own core to the submitter",
            share(counts.ends_here_ns, ends_here),
        ),
        note("ns to walk the lists for a flush", share(counts.walks_ns, counts.walks)),
        note("bytes of lists", lists),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests;
