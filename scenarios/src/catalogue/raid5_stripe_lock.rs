//! The hashed locks of md's raid5, as a series of patches on linux-raid tells of them in April 2022:
//! a bulk write looks its stripe heads up once for each page of 4 KiB, so each head once for each
//! data disk, and once more to join the batch of the head before it; each time it takes one of eight
//! hash locks. One patch keeps a reference to the last head, so that joining its batch needs no look;
//! another turns the loop around, so that all data disks of a head are added at once. On a small
//! virtual machine with five RAM disks that gave 14 % more bandwidth with a fifth of the contentions,
//! on larger systems with NVMe drives 3 to 20 %.
//!
//! A request is one whole stripe, 2 MiB on five drives with md's chunk of 512 KiB; 12 jobs write one
//! after the other, 16 requests under way each; 8192 stripe heads, four threads for each node beside
//! `raid5d`. The thread does not tell these; they are common for such a test. The variants without a
//! suffix run on RAM disks, those with `nvme` on the machine's drives. No number here is set from the
//! thread's figures.

use super::{Gain, Kind, RunReport, Scenario, Setup, Size, Variant};
use crate::placement::{Binding, place_jobs};
use crate::sweep::{Axis, Changes};
use crate::workload::{Access, AccessGenerator, Pattern, Schedule, Workload};
use raid::buffer::{Buffer, SharedBuffer};
use raid::device::Durability;
use raid::levels::Raid5Layout;
use raid::lock::SpinKind;
use raid::platform::{Cpu, Label, Platform, Work};
use raid::tuning::{HeadLookup, StripeLookup, Tuning};
use raid::units::Sectors;
use raid::{Array, ArrayOptions, Level};
use sim::device::SimDevice;
use sim::machine::Shape;
use sim::{Options, Outcome, SimCpu, SimPlatform, Simulation};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

/// The scenario.
pub struct Raid5StripeLock;

const MEMBERS: u32 = 5;
const HEADS: u32 = 8192;
const THREADS_PER_NODE: u32 = 4;
/// md's default.
const CHUNK_BYTES: u64 = 512 << 10;
/// No request depends on it.
const DRIVE_BYTES: u64 = 1 << 36;
const MIB: f64 = (1 << 20) as f64;
const WORKLOAD_SEED: u64 = 2022;

/// By the end of the warm-up all heads have been in use.
const FULL: Dimensions = Dimensions {
    jobs: 12,
    io_depth: 16,
    chunk_bytes: CHUNK_BYTES,
    warm_up_ns: 16_000_000,
    measured_ns: 12_000_000,
};
const SMALL: Dimensions =
    Dimensions { jobs: 2, io_depth: 1, chunk_bytes: 8 << 10, warm_up_ns: 0, measured_ns: 30_000 };

/// How much is run for how long.
#[derive(Clone, Copy)]
struct Dimensions {
    jobs: u32,
    io_depth: u32,
    chunk_bytes: u64,
    warm_up_ns: u64,
    measured_ns: u64,
}

/// What the members are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Members {
    RamDisks,
    Drives,
}

/// What one variant chooses.
struct Choice {
    name: &'static str,
    about: &'static str,
    lookup: HeadLookup,
    members: Members,
}

const CHOICES: [Choice; 6] = [
    Choice {
        name: "per-page",
        about: "RAM disks; each head is looked up for each page and to join its batch",
        lookup: HeadLookup::PerPage,
        members: Members::RamDisks,
    },
    Choice {
        name: "batch-reference",
        about: "RAM disks; a reference to the last head is kept to join its batch",
        lookup: HeadLookup::BatchReference,
        members: Members::RamDisks,
    },
    Choice {
        name: "pivot",
        about: "RAM disks; all pages of a head are added at once",
        lookup: HeadLookup::Pivot,
        members: Members::RamDisks,
    },
    Choice {
        name: "both",
        about: "RAM disks; the last head is kept, all pages of a head are added at once",
        lookup: HeadLookup::Both,
        members: Members::RamDisks,
    },
    Choice {
        name: "nvme-per-page",
        about: "as per-page, on the machine's drives",
        lookup: HeadLookup::PerPage,
        members: Members::Drives,
    },
    Choice {
        name: "nvme-both",
        about: "as both, on the machine's drives",
        lookup: HeadLookup::Both,
        members: Members::Drives,
    },
];

impl Scenario for Raid5StripeLock {
    fn name(&self) -> &'static str {
        "raid5-stripe-lock"
    }

    fn about(&self) -> &'static str {
        "how much bandwidth of bulk writes to raid5 the hashed locks of its stripe heads cost"
    }

    fn variants(&self) -> Vec<Variant> {
        let variant = |choice: &Choice| Variant {
            name: choice.name.to_owned(),
            about: choice.about.to_owned(),
        };
        CHOICES.iter().map(variant).collect()
    }

    fn kind(&self) -> Kind {
        Kind::Measures { quantity: "bandwidth", unit: "GiB/s" }
    }

    fn machine(&self) -> &'static str {
        "vm-small"
    }

    fn gains(&self) -> Vec<Gain> {
        let gain = |about, variant: &str, against: &str| Gain {
            about,
            variant: variant.to_owned(),
            against: against.to_owned(),
        };
        vec![
            gain("the last head kept", "batch-reference", "per-page"),
            gain("all data disks at once", "pivot", "per-page"),
            gain("both patches", "both", "per-page"),
            gain("both patches, the machine's drives", "nvme-both", "nvme-per-page"),
        ]
    }

    fn axes(&self) -> &'static [Axis] {
        &[Axis::Cpus, Axis::Drives, Axis::Lock]
    }

    fn can_change(&self, changes: &Changes) -> Result<(), String> {
        match changes.drives {
            Some(..3) => Err("three drives at least, two for data and one for parity".to_owned()),
            _ => Ok(()),
        }
    }

    fn fits(&self, _shape: &Shape) -> Result<(), String> {
        Ok(())
    }

    fn run(&self, variant: usize, setup: &Setup<'_>) -> RunReport {
        let choice = &CHOICES[variant];
        let seeded = Options { seed: setup.seed, ..Options::default() };
        let mut world = Simulation::new(setup.machine, seeded);
        let platform = world.platform();
        let members = setup.changes.drives.unwrap_or(MEMBERS);
        let drives = (0..members).map(|index| member(&mut world, setup, choice.members, index));
        let drives = drives.collect();
        let dimensions = Dimensions {
            jobs: setup.changes.cpus.unwrap_or(dimensions_of(setup.size).jobs),
            ..dimensions_of(setup.size)
        };
        let chunk = Sectors::from_bytes_rounded_down(dimensions.chunk_bytes);
        let tuning = Tuning {
            spin_kind: setup.changes.lock.unwrap_or(SpinKind::Queued),
            stripe_heads_max: HEADS,
            stripe_lookup: StripeLookup::Heads(choice.lookup),
            stripe_threads_per_node: THREADS_PER_NODE,
            ..Tuning::default()
        };
        let level = Level::Raid5 { layout: Raid5Layout::LeftSymmetric };
        let array = Array::create(&platform, drives, ArrayOptions { level, chunk, tuning })
            .expect("three drives and more make a raid5");
        let stripe = Sectors(chunk.0 * u64::from(members - 1));
        let workload = workload(array.capacity(), stripe, dimensions);
        let written = Arc::new(Mutex::new(Written::default()));
        let shape = &setup.machine.shape;
        let cpus = place_jobs(shape, dimensions.jobs, Binding::Unbound, setup.seed);
        for (index, cpu) in (0..).zip(cpus) {
            let job = Job { array: array.clone(), workload: workload.clone(), index };
            let written = written.clone();
            platform.spawn_on(cpu, Label::indexed("job", index), move |cpu| async move {
                job.start(&cpu, &written);
            });
        }
        drop(array);
        let Schedule { measure_from_ns, end_ns, .. } = workload.schedule;
        let ((contention, outcome), trace) = setup.run(&mut world, |world| {
            world.run_until(measure_from_ns);
            world.reset_contention();
            let outcome = world.run_until(end_ns);
            let contention = world.contention();
            match setup.size {
                // Hundreds of requests are under way, and all has been counted.
                Size::Full => (contention, outcome),
                Size::Small => (contention, world.run()),
            }
        });
        let mut report = RunReport::of(&world, violation(&outcome), trace);
        report.contention = contention;
        let written = written.lock().expect("no job panics while it counts");
        let bytes_per_ns = written.requests_per_ns() * workload.block.bytes() as f64;
        report.counted_mib = Some(bytes_per_ns * dimensions.measured_ns as f64 / MIB);
        report.measured = Some(bytes_per_ns * 1e9 / 1024.0 / MIB);
        report
    }
}

/// The requests that are counted, of all jobs.
#[derive(Default)]
struct Written {
    requests: u64,
    first_ns: u64,
    last_ns: u64,
}

impl Written {
    fn count(&mut self, now_ns: u64) {
        if self.requests == 0 {
            self.first_ns = now_ns;
        }
        self.requests += 1;
        self.last_ns = now_ns;
    }

    /// From the end of the first to that of the last: requests are so large that how many end within
    /// a span of time is too coarse a measure.
    fn requests_per_ns(&self) -> f64 {
        let span_ns = self.last_ns.saturating_sub(self.first_ns).max(1);
        self.requests.saturating_sub(1) as f64 / span_ns as f64
    }
}

/// One job. It is not run to its end, so what it counts leaves its core with each request.
struct Job {
    array: Arc<Array<SimPlatform>>,
    workload: Workload,
    index: u32,
}

impl Job {
    /// Starts its slots. The content of what they write is of no concern.
    fn start(self, cpu: &SimCpu, written: &Arc<Mutex<Written>>) {
        let accesses = AccessGenerator::new(&self.workload, self.index);
        let accesses = Rc::new(RefCell::new(accesses));
        let data = Buffer::zeroed(self.workload.block.bytes() as usize).into_shared();
        let job = Rc::new(self);
        for slot in 0..job.workload.io_depth {
            let (job, accesses) = (job.clone(), accesses.clone());
            let (slot_cpu, data, written) = (cpu.clone(), data.clone(), written.clone());
            cpu.spawn(Label::indexed("slot", slot), async move {
                let Schedule { end_ns, .. } = job.workload.schedule;
                while slot_cpu.now_ns() < end_ns {
                    let access = accesses.borrow_mut().next_access();
                    job.write(&slot_cpu, access, data.clone()).await;
                    if job.workload.schedule.counts(slot_cpu.now_ns()) {
                        let mut written = written.lock().expect("no job panics while it counts");
                        written.count(slot_cpu.now_ns());
                    }
                }
            });
        }
    }

    async fn write(&self, cpu: &SimCpu, access: Access, data: SharedBuffer) {
        cpu.spend(Work::ApplicationSubmit).await;
        let at = self.workload.sector_of(access.block_index);
        let written = self.array.write(cpu, at, data, Durability::Cached).await;
        written.expect("these drives do not fail");
        cpu.yield_now().await;
        cpu.spend(Work::ApplicationReap).await;
    }
}

fn dimensions_of(size: Size) -> Dimensions {
    match size {
        Size::Full => FULL,
        Size::Small => SMALL,
    }
}

fn member(world: &mut Simulation, setup: &Setup<'_>, members: Members, index: u32) -> SimDevice {
    let size = Sectors::from_bytes_rounded_down(DRIVE_BYTES);
    match members {
        Members::RamDisks => world.ram_disk(&format!("ram{index}"), size, None),
        Members::Drives => {
            let name = format!("nvme{index}n1");
            world.drive_without_content(&name, &setup.machine.drive, size)
        }
    }
}

fn workload(extent: Sectors, block: Sectors, dimensions: Dimensions) -> Workload {
    let Dimensions { jobs, io_depth, warm_up_ns, measured_ns, .. } = dimensions;
    Workload {
        pattern: Pattern::Write,
        read_percent: 0,
        block,
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
        Outcome::Done | Outcome::TimeLimit { .. } => None,
        Outcome::Deadlock(deadlock) => Some(deadlock.to_string()),
    }
}
