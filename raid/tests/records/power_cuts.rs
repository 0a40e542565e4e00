//! Random writes, the power cut at a random moment, the array assembled again, resynced and read:
//! what was promised is there, redundancy agrees, and before the resync it did not disagree anywhere
//! but where the metadata said so.

use crate::bench::{Bench, TestArray, Wish, degraded, read_all, tagged, writable};
use crate::support::TestCpu;
use proptest::prelude::*;
use raid::ResyncOptions;
use raid::assemble::AssembleOptions;
use raid::device::Durability;
use raid::metadata::assembly::sync_space;
use raid::metadata::bitmap::Bitmap;
use raid::metadata::geometry::{Raid5Layout, Raid6Layout, Raid10Layout};
use raid::metadata::superblock::find;
use raid::metadata::{Level, Version};
use raid::units::{Sector, Sectors};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

const WORKERS: u64 = 3;
/// Small, so that the cut comes between the steps of a resync, too.
const WINDOW: ResyncOptions =
    ResyncOptions { range: None, window: Sectors(8), windows_in_flight: 1 };

#[derive(Clone, Debug)]
enum Step {
    Write { at: u64, length: u64, fua: bool },
    Flush,
}

#[derive(Clone, Debug)]
struct Case {
    wish: Wish,
    steps: Vec<Vec<Step>>,
    /// After how many steps of the world the power is cut, once for each boot.
    cuts: Vec<u64>,
    housekeepings: u32,
    /// A member that is gone after so many requests, in the first boot only. It is back, with what
    /// it had, in the next.
    fault: Option<(usize, u64)>,
    seed: u64,
}

/// What each sector may hold after a power cut.
struct Model {
    may_hold: Vec<BTreeSet<u64>>,
    /// Acknowledged and not yet flushed.
    acknowledged: Vec<Option<u64>>,
}

type Shared = Rc<RefCell<Model>>;

async fn work(
    cpu: TestCpu,
    array: TestArray,
    worker: u64,
    boot: u64,
    steps: Vec<Step>,
    model: Shared,
) {
    let share = array.capacity().0 / WORKERS;
    for (number, step) in (1u64..).zip(steps) {
        let tag = boot << 40 | worker << 32 | number;
        match step {
            Step::Write { at, length, fua } => {
                let at = at % share;
                let length = length.min(share - at);
                let start = worker * share + at;
                let sectors = start as usize..(start + length) as usize;
                for sector in sectors.clone() {
                    model.borrow_mut().may_hold[sector].insert(tag);
                }
                let durability = if fua { Durability::Fua } else { Durability::Cached };
                let data = tagged(&vec![tag; length as usize]);
                array.write(&cpu, Sector(start), data, durability).await.expect("no fault");
                let model = &mut *model.borrow_mut();
                for sector in sectors {
                    model.acknowledged[sector] = Some(tag);
                    if fua {
                        model.may_hold[sector] = BTreeSet::from([tag]);
                    }
                }
            }
            Step::Flush => {
                let own = worker * share..(worker + 1) * share;
                let before: Vec<(usize, Option<u64>)> = own
                    .map(|sector| (sector as usize, model.borrow().acknowledged[sector as usize]))
                    .collect();
                array.flush(&cpu).await.expect("no fault");
                for (sector, tag) in before {
                    let Some(tag) = tag else { continue };
                    model.borrow_mut().may_hold[sector] = BTreeSet::from([tag]);
                }
            }
        }
    }
}

/// Boots, resyncs while it writes, and has the power cut.
fn run_until_cut(
    images: Option<Vec<Vec<u8>>>,
    case: &Case,
    boot: usize,
    model: &Shared,
) -> Vec<Vec<u8>> {
    let seed = case.seed.wrapping_add(boot as u64);
    let mut bench = match images {
        None => Bench::make(&case.wish, seed),
        Some(images) => Bench::boot(images, seed),
    };
    let assembled = bench.assemble(degraded(writable()), &[]);
    let array = assembled.array().expect("no reshape").clone();
    if let (0, Some((member, after))) = (boot, case.fault) {
        let drives = bench.drives.len();
        bench.drives[member % drives].state().gone_after = Some(after);
    }
    for (worker, steps) in (0..).zip(case.steps.clone()) {
        let (array, model) = (array.clone(), model.clone());
        bench.world.spawn(worker as u32, "worker", |cpu| {
            work(cpu, array, worker, boot as u64 + 1, steps, model)
        });
    }
    let (again, housekeepings) = (array.clone(), case.housekeepings);
    bench.world.spawn(3, "resync", |cpu| async move {
        array.resync_what_may_differ(&cpu, WINDOW).await.expect("no fault");
    });
    bench.world.spawn(3, "housekeeping", |cpu| async move {
        for _ in 0..housekeepings {
            again.housekeeping(&cpu).await.expect("no fault");
        }
    });
    if bench.world.run_for(case.cuts[boot]).is_some() {
        // Everything ended before the cut: a good moment to be stopped, now and then.
        if bench.world.draw(2) == 0 {
            bench.run(async move |cpu| {
                assembled.array().expect("no reshape").stop(&cpu).await.expect("no fault");
            });
        }
    }
    bench.cut()
}

/// Redundancy agrees wherever the metadata does not say that it may not.
pub(crate) fn agrees_where_nothing_is_marked(images: &[Vec<u8>], seed: u64) {
    let mut bench = Bench::boot(images.to_vec(), seed);
    let assembled = bench.assemble(degraded(AssembleOptions::default()), &[]);
    let array = assembled.array().expect("no reshape").clone();
    let capacity = array.capacity().0;
    let unmarked: Vec<(u64, u64)> = match assembled.assembly().resync_offset {
        None => vec![(0, capacity)],
        Some(offset) => match bitmap_of(images) {
            None => {
                let assembly = assembled.assembly();
                let space = sync_space(assembly.geometry, assembly.component_size).0;
                // Whole chunks of the members.
                let agrees = offset.0.min(space) / 8 * 8;
                vec![(0, agrees * capacity / space)]
            }
            Some(bitmap) => {
                let chunk = bitmap.header.chunk().0;
                let per_sector = capacity / bitmap.header.sync_size.0;
                (0..bitmap.header.chunks())
                    .filter(|number| !bitmap.is_dirty(*number))
                    .map(|number| (number * chunk * per_sector, (number + 1) * chunk * per_sector))
                    .map(|(start, end)| (start, end.min(capacity)))
                    .collect()
            }
        },
    };
    bench.run(async move |cpu| {
        for (start, end) in unmarked.into_iter().filter(|(start, end)| start < end) {
            let options = ResyncOptions { range: Some(Sector(start)..Sector(end)), ..WINDOW };
            let report = array.check(&cpu, options).await.expect("a range");
            assert_eq!(report.mismatches, Sectors(0), "sectors {start} to {end} are not marked");
        }
    });
}

/// What any copy marks.
fn bitmap_of(images: &[Vec<u8>]) -> Option<Bitmap> {
    let mut merged: Option<Bitmap> = None;
    let superblock_of = |image: &Vec<u8>| find(image).expect("a superblock");
    let events = images.iter().map(|image| superblock_of(image).events).max().expect("images");
    for image in images {
        let superblock = superblock_of(image);
        if superblock.events < events {
            continue;
        }
        let at = superblock.bitmap_at()?;
        let room = superblock.bitmap_room(Sectors(image.len() as u64 / 512)).expect("room");
        let bitmap = Bitmap::decode(&image[at.byte_offset() as usize..], room).expect("sound");
        assert!(bitmap.header.is_current(superblock.events), "older than its superblock");
        match &mut merged {
            None => merged = Some(bitmap),
            Some(merged) => {
                for chunk in (0..bitmap.header.chunks()).filter(|chunk| bitmap.is_dirty(*chunk)) {
                    merged.set(chunk, true);
                }
            }
        }
    }
    merged
}

fn check(case: Case) {
    let sectors = case.wish.size * u64::from(case.wish.members);
    let model = Rc::new(RefCell::new(Model {
        may_hold: vec![BTreeSet::from([0]); sectors as usize],
        acknowledged: vec![None; sectors as usize],
    }));
    let mut images = None;
    for boot in 0..case.cuts.len() {
        let cut = run_until_cut(images.take(), &case, boot, &model);
        agrees_where_nothing_is_marked(&cut, case.seed);
        // What a sector holds now it holds for good.
        let mut bench = Bench::boot(cut.clone(), case.seed);
        let assembled = bench.assemble(degraded(writable()), &[]);
        let array = assembled.array().expect("no reshape").clone();
        let (tags, again) = bench.run(async move |cpu| {
            array.resync_what_may_differ(&cpu, WINDOW).await.expect("no fault");
            let report = array.check(&cpu, WINDOW).await.expect("all of it");
            assert_eq!(report.mismatches, Sectors(0), "after a resync redundancy agrees");
            let tags = read_all(&cpu, &array).await.expect("readable");
            array.stop(&cpu).await.expect("no fault");
            (tags, array)
        });
        for (sector, tag) in tags.iter().enumerate() {
            let model = &model.borrow().may_hold[sector];
            assert!(model.contains(tag), "sector {sector}: {tag:#x}, not one of {model:x?}");
        }
        let superblocks = bench.superblocks();
        let events = superblocks.iter().map(|of| of.events).max().expect("drives");
        for superblock in superblocks.iter().filter(|of| of.events == events) {
            assert_eq!(superblock.resync_offset(), None, "stopped in order");
        }
        drop(again);
        let left = bench.cut();
        if bench.world.draw(2) == 0 {
            // Go on from the resynced array.
            let model = &mut *model.borrow_mut();
            for (sector, tag) in tags.iter().enumerate() {
                model.may_hold[sector] = BTreeSet::from([*tag]);
            }
            images = Some(left);
        } else {
            images = Some(cut);
        }
        model.borrow_mut().acknowledged.fill(None);
    }
}

fn steps() -> impl Strategy<Value = Vec<Vec<Step>>> {
    let write = (0u64..1000, 1u64..20, any::<bool>()).prop_map(|(at, length, fua)| Step::Write {
        at,
        length,
        fua,
    });
    let step = prop_oneof![4 => write, 1 => Just(Step::Flush)];
    prop::collection::vec(prop::collection::vec(step, 0..8), WORKERS as usize)
}

fn levels() -> impl Strategy<Value = (Level, u32)> {
    prop_oneof![
        (2u32..4).prop_map(|members| (Level::Raid1, members)),
        (2u32..5).prop_map(|members| (Level::Raid10(Raid10Layout::near(2)), members)),
        (3u32..5).prop_map(|members| (Level::Raid5(Raid5Layout::LeftSymmetric), members)),
        Just((Level::Raid6(Raid6Layout::Rotating(Raid5Layout::LeftSymmetric)), 4)),
    ]
}

fn versions() -> impl Strategy<Value = Version> {
    prop::sample::select(Version::ALL.to_vec())
}

fn cases() -> impl Strategy<Value = Case> {
    let wish = (levels(), any::<bool>(), versions(), 3u64..8);
    let fault = prop::option::weighted(0.3, (0usize..8, 1u64..60));
    let cuts = prop::collection::vec(0u64..6000, 1..3);
    let rest = (steps(), cuts, (0u32..4, fault), any::<u64>());
    (wish, rest).prop_map(|((level, bitmap, version, chunks), rest)| {
        let ((level, members), (steps, cuts, (housekeepings, fault), seed)) = (level, rest);
        // Parity that is dirty and lacks a member is refused.
        let fault = fault.filter(|_| !level.has_parity());
        let wish = Wish { level, members, spares: 0, bitmap, version, size: (16 + chunks) * 8 };
        Case { wish, steps, cuts, housekeepings, fault, seed }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_power_cut_takes_nothing_that_was_promised(case in cases()) {
        check(case);
    }
}
