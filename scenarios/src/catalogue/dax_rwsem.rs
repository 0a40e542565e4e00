//! Readers and writers of one file on an NVDIMM, as a thread on linux-kernel of June 2016 tells it
//! ("[RFC PATCH-tip 6/6] xfs: Enable reader optimistic spinning for DAX inodes", Waiman Long): with
//! readers that spin before they sleep, random reads and writes of one file on a four-socket Haswell
//! went from 1352 to 2164 MB/s, random writes from 1710 to 2550. Dave Chinner asked how much of that
//! comes from the `iolock` and how much from the `ilock` nested in it, and noted that the `mmaplock`
//! takes no part. Long answered that reader spinning would be enabled everywhere and disabled
//! dynamically, by past history. The question stayed open; here it is answered by a run for each lock.
//!
//! At that time a DAX write took the `iolock` shared, as direct I/O does: what is exclusive is the
//! `ilock`, for the time stamps that each write logs (`dax_file.rs`). The variants `exclusive-…` have
//! the locking of September 2016, where a write has the `iolock` alone.
//!
//! The thread does not tell how many threads ran, nor the size of a request; one thread on each core
//! and 4 KiB, fio's default, are assumed, and half of the requests of `randrw` read, as fio has it.

use super::{Gain, Kind, RunReport, Scenario, Setup, Size, Variant};
use crate::dax_file::{BLOCK_BYTES, DaxFile, Log, Spinning, WriteLocking};
use crate::placement::{Binding, place_jobs};
use crate::sweep::Axis;
use raid::lock::{ReaderSpin, SpinKind};
use raid::platform::{Cpu, Label, Platform, Work};
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use sim::machine::Shape;
use sim::{Options, Outcome, SimCpu, SimPlatform, Simulation};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The scenario.
pub struct DaxRwSem;

/// Who does what to which file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Story {
    /// One thread on each core reads and writes the file at random.
    RandRw(WriteLocking),
    /// One thread on each core writes the file at random.
    RandWrite,
    /// Two threads on each core: one reads a file of its own, the other the shared file, with system
    /// calls or through a mapping. One zeroes ranges of that file, each for longer than anybody
    /// spins.
    LongWriters,
    /// Two threads on each core: one reads a file of its own, the other reads and writes the shared
    /// file at random.
    Crowded,
}

/// Which readers spin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    All(ReaderSpin),
    Iolock,
    Ilock,
    Mmaplock,
}

use ReaderSpin::{Adaptive, Off, On};

/// The ways of waiting, in the order in which each story has as many of them as it says.
const WHO: [(&str, &str, Who); 6] = [
    ("off", "readers sleep at once", Who::All(Off)),
    ("on", "readers of all three semaphores spin first", Who::All(On)),
    ("adaptive", "readers spin where that has paid so far", Who::All(Adaptive)),
    ("iolock-only", "readers of the iolock alone spin", Who::Iolock),
    ("ilock-only", "readers of the ilock alone spin", Who::Ilock),
    ("mmaplock-only", "readers of the mmaplock alone spin", Who::Mmaplock),
];

const STORIES: [(&str, &str, Story, usize); 5] = [
    ("randrw", "random reads and writes", Story::RandRw(WriteLocking::Shared), 6),
    ("randwrite", "random writes", Story::RandWrite, 6),
    (
        "exclusive-randrw",
        "random reads and writes, and a write has the iolock alone",
        Story::RandRw(WriteLocking::Exclusive),
        5,
    ),
    (
        "long-writers",
        "two threads a core, the file is read, and 2 MiB of it zeroed at a time",
        Story::LongWriters,
        3,
    ),
    ("crowded", "two threads a core, one of them does random reads and writes", Story::Crowded, 3),
];

/// Each variant: a story, and who spins in it.
fn variants()
-> impl Iterator<Item = (&'static str, &'static str, Story, &'static (&'static str, &'static str, Who))>
{
    STORIES.iter().flat_map(|(name, about, story, ways)| {
        WHO.iter().take(*ways).map(move |who| (*name, *about, *story, who))
    })
}

/// By then every thread has begun.
const WARM_UP_NS: u64 = 500_000;
const MEASURED_NS: u64 = 4_000_000;
const MEASURED_NS_IN_SMALL: u64 = 12_000;
const PLACES_IN_SMALL: u32 = 3;
/// A huge page. At 7000 bytes a microsecond that takes 300 µs; a spinner gives up after 33.
const ZEROED_BYTES: u64 = 2 << 20;
/// Between two ranges that are zeroed: as long as one takes, so that the file is free for half of the
/// time.
const PAUSE_NS: u64 = 300_000;

/// What a thread does over and over.
#[derive(Clone, Copy)]
enum Role {
    Read,
    ReadAndWrite,
    Write,
    ReadMapped,
    Zero,
    ReadOwnFile,
}

impl Scenario for DaxRwSem {
    fn name(&self) -> &'static str {
        "dax-rwsem"
    }

    fn about(&self) -> &'static str {
        "what readers of a file's semaphores gain by spinning before they sleep"
    }

    fn variants(&self) -> Vec<Variant> {
        let variant = |(story, about, _, who): (&str, &str, _, &(&str, &str, _))| Variant {
            name: format!("{story}-{}", who.0),
            about: format!("{about}; {}", who.1),
        };
        variants().map(variant).collect()
    }

    fn kind(&self) -> Kind {
        Kind::Measures { quantity: "bandwidth", unit: "MB/s" }
    }

    fn machine(&self) -> &'static str {
        "haswell-ex-4s"
    }

    fn axes(&self) -> &'static [Axis] {
        &[Axis::Cpus, Axis::Nodes, Axis::Lock]
    }

    fn gains(&self) -> Vec<Gain> {
        variants()
            .filter(|(_, _, _, who)| who.2 != Who::All(Off))
            .map(|(story, _, _, who)| Gain {
                about: who.1,
                variant: format!("{story}-{}", who.0),
                against: format!("{story}-off"),
            })
            .collect()
    }

    fn fits(&self, _shape: &Shape) -> Result<(), String> {
        Ok(())
    }

    fn run(&self, variant: usize, setup: &Setup<'_>) -> RunReport {
        let (_, _, story, (_, _, who)) = variants().nth(variant).expect("a variant");
        let options = Options { seed: setup.seed, ..Options::default() };
        let mut world = Simulation::new(setup.machine, options);
        let (warm_up_ns, measured_ns) = match setup.size {
            Size::Full => (WARM_UP_NS, MEASURED_NS),
            Size::Small => (0, MEASURED_NS_IN_SMALL),
        };
        let measured = warm_up_ns..warm_up_ns + measured_ns;
        let bytes = start(&world, story, *who, setup, &measured);
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
        // Bytes in a microsecond are megabytes in a second.
        report.measured = Some(bytes.load(Ordering::Relaxed) as f64 * 1000.0 / measured_ns as f64);
        report
    }
}

fn spinning(who: Who) -> Spinning {
    let none = Spinning { iolock: Off, ilock: Off, mmaplock: Off, log: Off };
    match who {
        // The patch of the thread enables it in the three of the inode; its successor everywhere.
        Who::All(On) => Spinning { iolock: On, ilock: On, mmaplock: On, ..none },
        Who::All(all) => Spinning { iolock: all, ilock: all, mmaplock: all, log: all },
        Who::Iolock => Spinning { iolock: On, ..none },
        Who::Ilock => Spinning { ilock: On, ..none },
        Who::Mmaplock => Spinning { mmaplock: On, ..none },
    }
}

/// Starts the threads of a story. The bytes that they will have moved in the measured time.
fn start(
    world: &Simulation,
    story: Story,
    who: Who,
    setup: &Setup<'_>,
    measured: &std::ops::Range<u64>,
) -> Arc<AtomicU64> {
    let platform = world.platform();
    let shape = &setup.machine.shape;
    let kind = setup.changes.lock.unwrap_or(SpinKind::Queued);
    let write_locking = match story {
        Story::RandRw(write_locking) => write_locking,
        _ => WriteLocking::Shared,
    };
    let log = Arc::new(Log::new(&platform, kind, spinning(who)));
    let file =
        || Arc::new(DaxFile::new(&platform, log.clone(), kind, spinning(who), write_locking));
    let nodes = setup.changes.nodes.unwrap_or(shape.socket_of_node.len() as u32);
    let on_nodes = |node: &&raid::units::NodeId| node.0 < nodes;
    let all = shape.node_of_cpu.iter().filter(on_nodes).count() as u32;
    let places = match setup.size {
        Size::Full => setup.changes.cpus.unwrap_or(all),
        Size::Small => PLACES_IN_SMALL.min(all),
    };
    let cpus = place_jobs(shape, places, Binding::FirstNodes(nodes), setup.seed);
    let shared = file();
    let bytes = Arc::new(AtomicU64::new(0));
    let mut threads = 0;
    for (place, cpu) in cpus.into_iter().enumerate() {
        for role in roles(story, place) {
            let file = if matches!(role, Role::ReadOwnFile) { file() } else { shared.clone() };
            let mut random = world.random(threads);
            let begin_ns = random.next_u64() % (measured.start / 4).max(1);
            let thread = Thread { role, file, random, bytes: bytes.clone() };
            let measured = measured.clone();
            platform.spawn_on(cpu, Label::indexed("thread", threads), async move |cpu| {
                cpu.sleep_ns(begin_ns).await;
                thread.run(&cpu, measured).await;
            });
            threads += 1;
        }
    }
    bytes
}

fn roles(story: Story, place: usize) -> Vec<Role> {
    match story {
        Story::RandRw(_) => vec![Role::ReadAndWrite],
        Story::RandWrite => vec![Role::Write],
        Story::LongWriters => {
            let on_shared_file = match place {
                0 => Role::Zero,
                place if place % 2 == 0 => Role::Read,
                _ => Role::ReadMapped,
            };
            vec![on_shared_file, Role::ReadOwnFile]
        }
        Story::Crowded => vec![Role::ReadAndWrite, Role::ReadOwnFile],
    }
}

struct Thread {
    role: Role,
    file: Arc<DaxFile<SimPlatform>>,
    random: ChaCha8Rng,
    bytes: Arc<AtomicU64>,
}

impl Thread {
    /// No core is taken away from a thread here. In place of time slices, each gives its core up
    /// after a request, once it has had it for as long as it had waited for it.
    async fn run(mut self, cpu: &SimCpu, measured: std::ops::Range<u64>) {
        let mut may_run_until_ns = 0;
        while cpu.now_ns() < measured.end {
            let moved = self.request(cpu).await;
            let now_ns = cpu.now_ns();
            if measured.contains(&now_ns) {
                self.bytes.fetch_add(moved, Ordering::Relaxed);
            }
            if now_ns >= may_run_until_ns {
                cpu.yield_now().await;
                let waited_ns = cpu.now_ns() - now_ns;
                may_run_until_ns = cpu.now_ns() + waited_ns;
            }
        }
    }

    /// The bytes that it moved.
    async fn request(&mut self, cpu: &SimCpu) -> u64 {
        let file = &self.file;
        cpu.spend(Work::ApplicationSubmit).await;
        let writes = match self.role {
            Role::Zero => {
                file.zero_range(cpu, ZEROED_BYTES).await;
                tracing::debug!("range zeroed");
                cpu.sleep_ns(PAUSE_NS).await;
                return 0;
            }
            Role::ReadMapped => {
                file.read_mapped(cpu).await;
                tracing::debug!("mapped block read");
                return BLOCK_BYTES;
            }
            Role::Read | Role::ReadOwnFile => false,
            Role::Write => true,
            Role::ReadAndWrite => self.random.next_u64() >> 63 == 1,
        };
        if writes {
            file.write(cpu).await;
            tracing::debug!("block written");
        } else {
            file.read(cpu).await;
            tracing::debug!("block read");
        }
        cpu.spend(Work::ApplicationReap).await;
        BLOCK_BYTES
    }
}
