//! Writes that somebody else hands to the members: each form of dispatch keeps what the others keep, with
//! a resync, housekeeping and failing drives beside it.

use crate::bench::{Bench, TestArray, Wish, degraded, read_all, tagged, writable};
use crate::support::Outcome;
use raid::assemble::AssembleOptions;
use raid::concurrency::dispatch::DispatchCounts;
use raid::device::Durability;
use raid::metadata::geometry::Raid10Layout;
use raid::metadata::{Level, Version};
use raid::platform::Cpu;
use raid::tuning::{Affinity, Dispatch, OfflineLists, Tuning};
use raid::units::{CpuId, Sector, Sectors};
use raid::{ArrayError, ResyncOptions};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

const FORMS: [Dispatch; 5] = [
    Dispatch::RaidThread(Affinity::Free),
    Dispatch::RaidThread(Affinity::Core(CpuId(2))),
    Dispatch::PerCpu(OfflineLists::Adopted),
    Dispatch::Plug,
    Dispatch::Direct,
];
const WRITERS: u64 = 6;
const ROUNDS: u64 = 5;
/// Each of a few sectors, so that some writes have several pieces and bits.
const LENGTH: u64 = 11;
const WINDOW: ResyncOptions =
    ResyncOptions { range: None, window: Sectors(16), windows_in_flight: 1 };

fn wish(level: Level, members: u32) -> Wish {
    Wish { level, members, spares: 0, bitmap: true, version: Version::V1_2, size: 256 }
}

fn open(bench: &mut Bench, dispatch: Dispatch) -> TestArray {
    let tuning = Tuning { dispatch, ..Tuning::default() };
    let options = degraded(AssembleOptions { tuning, ..writable() });
    bench.assemble(options, &[]).array().expect("no reshape").clone()
}

/// What the writers of one run share.
#[derive(Clone)]
struct Run {
    array: TestArray,
    left: Rc<Cell<u64>>,
    results: Rc<RefCell<Vec<Result<(), ArrayError>>>>,
}

impl Run {
    /// Starts the services and writers on all cores, of which the last to end ends the services.
    fn start(bench: &mut Bench, array: &TestArray) -> Self {
        let (starting, serves) = (array.clone(), Rc::new(Cell::new(false)));
        let begun = serves.clone();
        bench.world.spawn(0, "start", |cpu| async move {
            starting.start_dispatch(&cpu).await;
            begun.set(true);
        });
        let (left, results) = (Rc::new(Cell::new(WRITERS)), Rc::default());
        let run = Self { array: array.clone(), left, results };
        for writer in 0..WRITERS {
            let (run, serves) = (run.clone(), serves.clone());
            bench.world.spawn((writer % 3) as u32, "writer", |cpu| async move {
                while !serves.get() {
                    cpu.yield_now().await;
                }
                for round in 1..=ROUNDS {
                    let at = Sector(writer * 32 + round);
                    let data = tagged(&[writer << 8 | round; LENGTH as usize]);
                    let result = run.array.write(&cpu, at, data, Durability::Cached).await;
                    run.results.borrow_mut().push(result);
                }
                run.left.set(run.left.get() - 1);
                if run.left.get() == 0 {
                    run.array.end_dispatch(&cpu).await;
                }
            });
        }
        run
    }
}

/// Runs writers beside a resync and housekeeping, and compares what the array then holds.
fn check(dispatch: Dispatch, level: Level, members: u32, seed: u64) -> DispatchCounts {
    let mut bench = Bench::make(&wish(level, members), seed);
    let array = open(&mut bench, dispatch);
    let run = Run::start(&mut bench, &array);
    let (resyncing, keeping) = (array.clone(), array.clone());
    bench.world.spawn(3, "resync", |cpu| async move {
        resyncing.resync(&cpu, WINDOW).await.expect("no fault");
    });
    bench.world.spawn(3, "housekeeping", |cpu| async move {
        keeping.housekeeping(&cpu).await.expect("no fault");
    });
    assert_eq!(bench.world.run(), Outcome::Done, "{dispatch:?}, seed {seed}");
    assert!(run.results.borrow().iter().all(Result::is_ok), "{dispatch:?}, seed {seed}");
    let (tags, mismatches, counts) = bench.run(async move |cpu| {
        let tags = read_all(&cpu, &array).await.expect("readable");
        let report = array.check(&cpu, WINDOW).await.expect("all of it");
        (tags, report.mismatches, array.dispatch_counts(&cpu).await.expect("dispatched"))
    });
    assert_eq!(mismatches, Sectors(0), "{dispatch:?}, seed {seed}");
    for writer in 0..WRITERS {
        for offset in 0..32 {
            let round = if offset < LENGTH + ROUNDS { offset.min(ROUNDS) } else { 0 };
            let expected = if round == 0 { 0 } else { writer << 8 | round };
            let found = tags[(writer * 32 + offset) as usize];
            assert_eq!(found, expected, "{dispatch:?}, seed {seed}, {writer}+{offset}");
        }
    }
    assert_eq!(counts.writes, WRITERS * ROUNDS, "{dispatch:?}");
    counts
}

#[test]
fn every_form_writes_what_was_asked_for_beside_a_resync() {
    for dispatch in FORMS {
        for seed in 0..12 {
            check(dispatch, Level::Raid1, 2, seed);
            check(dispatch, Level::Raid10(Raid10Layout::near(2)), 3, seed);
        }
    }
}

#[test]
fn a_submitter_that_has_to_sleep_leaves_its_plug_to_the_thread() {
    let (mut from_scheduler, mut unplugs, mut elsewhere) = (0, 0, 0);
    for seed in 0..40 {
        let counts = check(Dispatch::Plug, Level::Raid1, 2, seed);
        from_scheduler += counts.unplugs_from_scheduler;
        unplugs += counts.unplugs;
        elsewhere += counts.ends_elsewhere;
    }
    assert!(from_scheduler > 0 && elsewhere > 0, "{from_scheduler} of {unplugs}, {elsewhere}");
    assert!(from_scheduler < unplugs / 2, "{from_scheduler} of {unplugs}");
}

#[test]
fn the_bits_of_writes_that_gather_are_flushed_together() {
    let counts = check(Dispatch::RaidThread(Affinity::Core(CpuId(2))), Level::Raid1, 2, 1);
    assert!(counts.bitmap_flushes > 0, "bits were set");
    assert!(counts.bitmap_flushes < counts.writes, "{counts:?}");
}

#[test]
fn without_services_a_write_hands_itself_over() {
    let mut bench = Bench::make(&wish(Level::Raid1, 2), 3);
    let array = open(&mut bench, Dispatch::Plug);
    let written = bench.run(async move |cpu| {
        array.write(&cpu, Sector(5), tagged(&[7]), Durability::Cached).await?;
        Ok::<_, ArrayError>((read_all(&cpu, &array).await?[5], array.dispatch_counts(&cpu).await))
    });
    let (tag, counts) = written.expect("no fault");
    assert_eq!((tag, counts.expect("dispatched").writes), (7, 0));
}

#[test]
fn a_drive_that_goes_costs_no_write_and_two_that_go_hang_none() {
    for dispatch in FORMS {
        for seed in 0..12 {
            for gone in [&[1][..], &[0, 1]] {
                let mut bench = Bench::make(&wish(Level::Raid1, 2), seed);
                let array = open(&mut bench, dispatch);
                for member in gone {
                    bench.drives[*member].state().gone_after = Some(3 + seed);
                }
                let run = Run::start(&mut bench, &array);
                let outcome = bench.world.run();
                let what = format!("{dispatch:?}, seed {seed}, {gone:?} gone");
                assert_eq!(outcome, Outcome::Done, "{what}");
                let results = run.results.borrow();
                assert_eq!(results.len() as u64, WRITERS * ROUNDS, "{what}");
                let failed = results.iter().filter(|result| result.is_err()).count();
                assert_eq!(failed > 0, gone.len() == 2, "{what}: {failed} failed");
            }
        }
    }
}

/// Core 2 goes offline while its writers have writes on the way, and comes back or does not.
fn goes_offline(lists: OfflineLists, comes_back: bool, seed: u64) -> Outcome {
    let mut bench = Bench::make(&wish(Level::Raid1, 2), seed);
    let array = open(&mut bench, Dispatch::PerCpu(lists));
    Run::start(&mut bench, &array);
    bench.world.spawn(3, "hotplug", |cpu| async move {
        array.core_goes_offline(&cpu, CpuId(2)).await;
        if comes_back {
            array.core_comes_online(&cpu, CpuId(2)).await;
        }
    });
    bench.world.run()
}

#[test]
fn writes_of_a_core_that_went_offline_end() {
    for seed in 0..40 {
        for comes_back in [false, true] {
            let outcome = goes_offline(OfflineLists::Adopted, comes_back, seed);
            assert_eq!(outcome, Outcome::Done, "seed {seed}, back: {comes_back}");
        }
        let outcome = goes_offline(OfflineLists::Forgotten, true, seed);
        assert_eq!(outcome, Outcome::Done, "seed {seed}: it is looked at again");
    }
}

#[test]
fn writes_of_a_core_that_is_forgotten_hang() {
    let Outcome::Deadlock(tasks) = goes_offline(OfflineLists::Forgotten, false, 0) else {
        panic!("its writes ended");
    };
    let waits = |task: &String| task.contains("the end of a write");
    assert!(tasks.iter().any(waits), "{tasks:?}");
}
