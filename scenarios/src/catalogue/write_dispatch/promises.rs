//! What each form of dispatch must keep, whoever hands the writes over.
//!
//! - The power fails under writes: the copies may differ only where a bit of the write-intent bitmap says
//!   so, or nobody would ever make them agree. `direct` breaks that: a write reaches one drive, and not
//!   yet the other and not yet the bitmap. This is why it was dropped.
//! - A core goes offline with writes on its list: all of them end. `per-cpu-loses-offline` breaks that,
//!   as an early version of the patches did: nobody looks at that core's list any more.

use super::rig::{self, Mirror, Sizes};
use crate::catalogue::{Kind, RunReport, Scenario, Setup, Variant};
use raid::Array;
use raid::buffer::Buffer;
use raid::device::Durability;
use raid::metadata::bitmap::Bitmap;
use raid::metadata::superblock::find;
use raid::platform::{Cpu, Label, Platform};
use raid::tuning::{Affinity, Dispatch, OfflineLists, Tuning};
use raid::units::{CpuId, Sector, Sectors};
use rand::{Rng, RngExt};
use rand_chacha::ChaCha8Rng;
use sim::device::Media;
use sim::machine::Shape;
use sim::{Options, Outcome, Perturbation, SimCpu, SimPlatform, Simulation};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// The scenario.
pub struct WriteDispatchPromises;

const MEMBERS: u32 = 2;
const SIZES: Sizes = Sizes { component: Sectors(2048), bitmap_chunk_bytes: Some(2048) };
const BLOCK: Sectors = Sectors(8);
/// Cores that write, and writes that each has under way.
const WRITERS: u32 = 3;
const DEPTH: u32 = 3;
const WRITES_OF_EACH: u32 = 6;
/// The longest pause of a writer between two writes.
const PAUSE_NS_MAX: u64 = 20_000;
/// When the power fails, or a core goes offline.
const FAULT_NS: std::ops::Range<u64> = 5_000..150_000;
/// Now and then a core is held up, as by an interrupt.
const HOLD_UPS: Perturbation = Perturbation::Delays { steps_of_1000: 20, delay_ns_max: 10_000 };
/// A sound run takes less than a hundredth of this.
const TIME_LIMIT_NS: u64 = 1_000_000_000;

/// What happens to the machine.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    PowerCut,
    /// Of the core of one of the writers.
    Offline,
}

const CASES: [(&str, &str, Dispatch, Fault); 6] = [
    (
        "raid-thread",
        "one thread hands over; the power fails",
        Dispatch::RaidThread(Affinity::Free),
        Fault::PowerCut,
    ),
    (
        "per-cpu",
        "lists for each core; the power fails",
        Dispatch::PerCpu(OfflineLists::Adopted),
        Fault::PowerCut,
    ),
    ("plug", "submitters hand over at unplug; the power fails", Dispatch::Plug, Fault::PowerCut),
    (
        "direct",
        "data does not wait for its bits; the power fails",
        Dispatch::Direct,
        Fault::PowerCut,
    ),
    (
        "per-cpu-offline",
        "lists for each core, of which one goes offline",
        Dispatch::PerCpu(OfflineLists::Adopted),
        Fault::Offline,
    ),
    (
        "per-cpu-loses-offline",
        "as per-cpu-offline, but only lists of cores that are online are looked at",
        Dispatch::PerCpu(OfflineLists::Forgotten),
        Fault::Offline,
    ),
];

impl Scenario for WriteDispatchPromises {
    fn name(&self) -> &'static str {
        "write-dispatch-promises"
    }

    fn about(&self) -> &'static str {
        "no form of dispatch lets copies differ without a bit that says so, or loses a write"
    }

    fn variants(&self) -> Vec<Variant> {
        let variant = |(name, about, ..): &(&str, &str, Dispatch, Fault)| Variant {
            name: (*name).to_owned(),
            about: (*about).to_owned(),
        };
        CASES.iter().map(variant).collect()
    }

    fn kind(&self) -> Kind {
        Kind::Property { statement: "copies agree where no bit is set, and every write ends" }
    }

    fn machine(&self) -> &'static str {
        super::MACHINE
    }

    fn fits(&self, shape: &Shape) -> Result<(), String> {
        match shape.cpu_count() > WRITERS {
            true => Ok(()),
            false => Err(format!("{} cores", WRITERS + 1)),
        }
    }

    fn run(&self, variant: usize, setup: &Setup<'_>) -> RunReport {
        let (_, _, dispatch, fault) = CASES[variant];
        let options = Options { seed: setup.seed, perturbation: HOLD_UPS, ..Options::default() };
        let mut world = Simulation::new(setup.machine, options);
        let media: Vec<Media> = (0..MEMBERS).map(|_| Media::zeroed(SIZES.drive())).collect();
        let drives = (0..).zip(&media).map(|(index, media)| {
            Arc::new(world.drive(&format!("drive{index}"), &setup.machine.drive, media))
        });
        let drives = drives.collect();
        let new = rig::new_array(Mirror::Raid1, MEMBERS, SIZES);
        let tuning = Tuning { dispatch, ..Tuning::default() };
        let array = rig::open(&mut world, drives, Some(new), tuning);
        let fault_ns = world.now_ns() + world.random(WRITERS).random_range(FAULT_NS);
        let goes_offline_ns = (fault == Fault::Offline).then_some(fault_ns);
        start(&world, array, goes_offline_ns);
        let until_ns = match fault {
            Fault::PowerCut => fault_ns,
            Fault::Offline => TIME_LIMIT_NS,
        };
        let (outcome, trace) = setup.run(&mut world, |world| world.run_until(until_ns));
        let hangs = match (outcome, fault) {
            (Outcome::Deadlock(deadlock), _) => Some(deadlock.to_string()),
            (Outcome::TimeLimit { .. }, Fault::Offline) => {
                Some(format!("still running after {TIME_LIMIT_NS} ns"))
            }
            (Outcome::Done | Outcome::TimeLimit { .. }, _) => None,
        };
        let report = RunReport::of(&world, None, trace);
        if fault == Fault::PowerCut {
            world.cut_power();
        }
        let violation = hangs.or_else(|| unmarked_difference(&media));
        RunReport { violation, ..report }
    }
}

/// What the tasks of one run share.
#[derive(Clone)]
struct Run {
    array: Arc<Array<SimPlatform>>,
    /// Writers that have not ended.
    left: Arc<AtomicU32>,
    /// The last writer's core is about to go offline: its writers begin nothing more.
    goes_offline: Arc<AtomicBool>,
}

fn start(world: &Simulation, array: Arc<Array<SimPlatform>>, goes_offline_ns: Option<u64>) {
    let run = Run {
        array,
        left: Arc::new(AtomicU32::new(WRITERS * DEPTH)),
        goes_offline: Arc::new(AtomicBool::new(false)),
    };
    let mut random = world.random(0);
    let mut writers = Vec::new();
    for writer in 0..WRITERS * DEPTH {
        writers.push((CpuId(1 + writer % WRITERS), next_stream(&mut random), run.clone()));
    }
    let platform = world.platform();
    platform.clone().spawn_on(CpuId(0), Label::new("owner"), move |cpu| async move {
        run.array.start_dispatch(&cpu).await;
        for (index, (core, random, run)) in (0..).zip(writers) {
            let label = Label::indexed("writer", index);
            platform.spawn_on(core, label, move |cpu| run.write(cpu, core, random));
        }
        if let Some(at_ns) = goes_offline_ns {
            cpu.sleep_ns(at_ns.saturating_sub(cpu.now_ns())).await;
            run.goes_offline.store(true, Ordering::Relaxed);
            run.array.core_goes_offline(&cpu, CpuId(WRITERS)).await;
        }
    });
}

fn next_stream(random: &mut ChaCha8Rng) -> ChaCha8Rng {
    use rand_chacha::rand_core::SeedableRng;
    ChaCha8Rng::seed_from_u64(random.next_u64())
}

impl Run {
    async fn write(self, cpu: SimCpu, core: CpuId, mut random: ChaCha8Rng) {
        let blocks = self.array.capacity().0 / BLOCK.0;
        for _ in 0..WRITES_OF_EACH {
            cpu.sleep_ns(random.random_range(0..PAUSE_NS_MAX)).await;
            if core == CpuId(WRITERS) && self.goes_offline.load(Ordering::Relaxed) {
                break;
            }
            let at = Sector(random.random_range(0..blocks) * BLOCK.0);
            let mut data = Buffer::zeroed(BLOCK.bytes() as usize);
            random.fill_bytes(&mut data);
            let written = self.array.write(&cpu, at, data.into_shared(), Durability::Cached).await;
            written.expect("the drives do not fail");
        }
        if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.array.end_dispatch(&cpu).await;
        }
    }
}

/// Where the copies differ and the bitmap does not say so, if anywhere.
fn unmarked_difference(media: &[Media]) -> Option<String> {
    let images: Vec<Vec<u8>> = media.iter().map(|of| of.peek(Sector(0), of.size())).collect();
    let superblocks: Vec<_> =
        images.iter().map(|image| find(image).expect("the array was made")).collect();
    let bitmaps: Vec<Bitmap> = images
        .iter()
        .zip(&superblocks)
        .map(|(image, superblock)| {
            let at = superblock.bitmap_at().expect("it has a bitmap").byte_offset() as usize;
            let size = Sectors::from_bytes_rounded_down(image.len() as u64);
            let room = superblock.bitmap_room(size).expect("it has room");
            Bitmap::decode(&image[at..], room).expect("a sound bitmap")
        })
        .collect();
    let data = |image: usize, at: u64| {
        let start = (superblocks[image].data_offset() + Sectors(at)).byte_offset() as usize;
        &images[image][start..start + BLOCK.bytes() as usize]
    };
    (0..SIZES.component.0).step_by(BLOCK.0 as usize).find_map(|at| {
        let differs = (1..images.len()).any(|other| data(0, at) != data(other, at));
        let chunks = bitmaps[0].chunks_of(Sector(at), BLOCK);
        let marked = chunks.clone().all(|chunk| bitmaps.iter().any(|of| of.is_dirty(chunk)));
        (differs && !marked).then(|| {
            format!(
                "the copies of sectors {at} to {} differ, and no copy of the bitmap has their bit: \
                 no resync will look there",
                at + BLOCK.0 - 1
            )
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::machine::MachineFile;

    fn violation(variant: &str, seed: u64) -> Option<String> {
        let machine = MachineFile::preset(super::super::MACHINE).expect("a preset").nominal();
        let index = CASES.iter().position(|(name, ..)| *name == variant).expect("a variant");
        WriteDispatchPromises.run(index, &Setup::new(&machine, seed)).violation
    }

    #[test]
    fn every_sound_form_keeps_its_promises() {
        for variant in ["raid-thread", "per-cpu", "plug", "per-cpu-offline"] {
            for seed in 0..60 {
                assert_eq!(violation(variant, seed), None, "{variant}, seed {seed}");
            }
        }
    }

    #[test]
    fn data_that_does_not_wait_for_its_bit_is_caught() {
        let why = violation("direct", 2).expect("a difference that no bit tells of");
        assert!(why.contains("no copy of the bitmap has their bit"), "{why}");
    }

    #[test]
    fn a_list_that_nobody_looks_at_any_more_is_caught() {
        let why = violation("per-cpu-loses-offline", 0).expect("a write that never ends");
        assert!(why.contains("for the end of a write"), "{why}");
    }
}
