//! Resyncs of an array whose metadata is kept: what fails beside one, what it cannot make agree, and
//! who may run one.

use crate::bench::{Bench, TestArray, Wish, read_all, tagged};
use crate::faults::{bitmap_of, mirror, open};
use crate::power_cuts::agrees_where_nothing_is_marked;
use raid::buffer::Buffer;
use raid::device::Durability;
use raid::metadata::geometry::{Raid5Layout, Raid6Layout, Raid10Layout};
use raid::metadata::superblock::find;
use raid::metadata::{Level, Version};
use raid::units::{Sector, Sectors};
use raid::{ArrayError, ResyncOptions, ResyncReport};
use std::cell::RefCell;
use std::rc::Rc;

const WINDOW: ResyncOptions =
    ResyncOptions { range: None, window: Sectors(16), windows_in_flight: 1 };

/// An array that lost its power after `tags` were written to its first sectors.
fn cut_off(wish: &Wish, at: u64, tags: u64, seed: u64) -> Bench {
    let mut bench = Bench::make(wish, seed);
    let array = open(&mut bench);
    let data = tagged(&(1..=tags).collect::<Vec<_>>());
    bench
        .run(async move |cpu| array.write(&cpu, Sector(at), data, Durability::Fua).await)
        .expect("no fault");
    Bench::boot(bench.cut(), seed)
}

fn resync(bench: &mut Bench, array: &TestArray) -> Result<ResyncReport, ArrayError> {
    let array = array.clone();
    bench.run(async move |cpu| array.resync_what_may_differ(&cpu, WINDOW).await)
}

fn stop(bench: &mut Bench, array: &TestArray) {
    let array = array.clone();
    bench.run(async move |cpu| array.stop(&cpu).await).expect("no fault");
}

fn marked(bench: &Bench, drive: usize) -> Vec<u64> {
    let bitmap = bitmap_of(bench, drive);
    (0..bitmap.header.chunks()).filter(|of| bitmap.is_dirty(*of)).collect()
}

/// Runs a resync and, once `begun` says so, a write of one sector at `at` that no drive takes.
fn fail_a_write_during_a_resync(
    bench: &mut Bench,
    array: &TestArray,
    at: u64,
    mut begun: impl FnMut(&Bench) -> bool,
) {
    let results = Rc::new(RefCell::new((None, None)));
    let (resyncer, into) = (array.clone(), results.clone());
    bench.world.spawn(0, "resync", |cpu| async move {
        let done = resyncer.resync_what_may_differ(&cpu, WINDOW).await;
        into.borrow_mut().0 = Some(done);
    });
    while !begun(bench) {
        assert!(bench.world.run_for(1).is_none(), "the resync is not over yet");
    }
    let data_start = bench.superblocks()[0].data_offset().0;
    for drive in &bench.drives {
        drive.state().unwritable.insert(data_start + at);
    }
    let (writer, into) = (array.clone(), results.clone());
    bench.world.spawn(1, "writer", |cpu| async move {
        let done = writer.write(&cpu, Sector(at), tagged(&[99]), Durability::Cached).await;
        into.borrow_mut().1 = Some(done);
    });
    bench.world.run();
    for drive in &bench.drives {
        drive.state().unwritable.clear();
    }
    let (resynced, written) = results.take();
    resynced.expect("it ended").expect("no fault of a member");
    let failed = written.expect("it ended");
    assert!(matches!(failed, Err(ArrayError::Unwritable { .. })), "{failed:?}");
}

#[test]
fn a_write_that_fails_during_a_resync_keeps_its_bit() {
    for seed in 0..60 {
        // One chunk of the bitmap, so one part of the resync.
        let mut bench = cut_off(&mirror(true, 192), 32, 8, seed);
        let array = open(&mut bench);
        let before = bench.drives[0].state().reads;
        fail_a_write_during_a_resync(&mut bench, &array, 33, |bench| {
            bench.drives[0].state().reads > before
        });
        stop(&mut bench, &array);
        assert_eq!((marked(&bench, 0), marked(&bench, 1)), (vec![4], vec![4]), "seed {seed}");
        assert!(bench.superblocks()[0].resync_offset().is_some());
        resync(&mut bench, &array).expect("no fault");
        stop(&mut bench, &array);
        assert_eq!((marked(&bench, 0), marked(&bench, 1)), (vec![], vec![]), "seed {seed}");
        assert_eq!(bench.superblocks()[0].resync_offset(), None);
    }
}

/// Reads on the second drive while many tasks read a sector of a mirror at once.
fn reads_of_the_second(bench: &mut Bench, array: &TestArray, at: u64) -> u64 {
    let before = bench.drives[1].state().reads;
    for cpu in [0, 1, 2, 3, 0, 1, 2, 3] {
        let array = array.clone();
        bench.world.spawn(cpu, "reader", |cpu| async move {
            array.read(&cpu, Sector(at), Buffer::zeroed(512)).await.result.expect("readable");
        });
    }
    bench.world.run();
    bench.drives[1].state().reads - before
}

#[test]
fn a_write_that_fails_behind_a_resync_begins_it_anew() {
    for seed in 0..20 {
        let mut bench = cut_off(&mirror(false, 192), 0, 192, seed);
        let array = open(&mut bench);
        fail_a_write_during_a_resync(&mut bench, &array, 0, |bench| {
            let offset = bench.superblocks()[0].resync_offset();
            offset.is_some_and(|at| at.0 >= 64)
        });
        // Whose copy a reader gets must not depend on who is busy until they agree.
        assert_eq!(reads_of_the_second(&mut bench, &array, 100), 0, "seed {seed}");
        stop(&mut bench, &array);
        assert_eq!(bench.superblocks()[0].resync_offset(), Some(Sector(0)), "seed {seed}");
        let report = resync(&mut bench, &array).expect("no fault");
        assert_eq!(report.sectors_checked, Sectors(192), "seed {seed}");
        assert!(reads_of_the_second(&mut bench, &array, 100) > 0, "seed {seed}");
        stop(&mut bench, &array);
        assert_eq!(bench.superblocks()[0].resync_offset(), None);
    }
}

#[test]
fn what_lies_below_a_checkpoint_agrees() {
    let mut in_the_middle = 0;
    for seed in 0..160 {
        let (level, members) = [
            (Level::Raid1, 2),
            (Level::Raid10(Raid10Layout::near(2)), 4),
            (Level::Raid5(Raid5Layout::LeftSymmetric), 3),
            (Level::Raid6(Raid6Layout::Rotating(Raid5Layout::LeftSymmetric)), 4),
        ][seed as usize % 4];
        let version = Version::ALL[seed as usize / 4 % 4];
        let wish = Wish { level, members, spares: 0, bitmap: false, version, size: 192 };
        // Torn everywhere: the power goes while all of it is written.
        let mut bench = cut_off(&wish, 0, 192, seed);
        let array = open(&mut bench);
        bench.world.spawn(0, "writer", |cpu| async move {
            let data = tagged(&vec![500; array.capacity().0 as usize]);
            array.write(&cpu, Sector(0), data, Durability::Cached).await.expect("no fault");
        });
        let steps = bench.world.draw(1000);
        bench.world.run_for(steps);
        let mut bench = Bench::boot(bench.cut(), seed);
        let array = open(&mut bench);
        bench.world.spawn(0, "resync", |cpu| async move {
            array.resync_what_may_differ(&cpu, WINDOW).await.expect("no fault");
        });
        let steps = bench.world.draw(3000);
        bench.world.run_for(steps);
        let images = bench.cut();
        let offset = find(&images[0]).expect("a superblock").resync_offset();
        in_the_middle += u64::from(offset.is_some_and(|at| at.0 > 0));
        agrees_where_nothing_is_marked(&images, seed);
    }
    assert!(in_the_middle > 40, "{in_the_middle} cuts came between checkpoints");
}

/// A RAID 5 that a crash left dirty, of which a resync finds a row beyond redundancy, that can be
/// read again later.
fn parity_beyond_redundancy(bitmap: bool) {
    let level = Level::Raid5(Raid5Layout::LeftSymmetric);
    let version = Version::V1_2;
    let wish = Wish { level, members: 3, spares: 0, bitmap, version, size: 192 };
    let mut bench = cut_off(&wish, 0, 384, 2);
    let data_start = bench.superblocks()[0].data_offset().0;
    for drive in &bench.drives[..2] {
        drive.state().bad_sectors.insert(data_start + 40);
    }
    let array = open(&mut bench);
    let report = resync(&mut bench, &array).expect("no fault of a member");
    assert_eq!((report.sectors_unreadable, report.sectors_unsettled), (Sectors(16), Sectors(16)));
    stop(&mut bench, &array);
    let offset = bench.superblocks()[0].resync_offset().expect("not all agrees");
    match bitmap {
        true => assert!(marked(&bench, 0).contains(&5) && marked(&bench, 0).len() < 4),
        false => assert!((16..=40).contains(&offset.0), "{offset}"),
    }
    bench.drives.iter().for_each(|drive| drive.state().bad_sectors.clear());
    let report = resync(&mut bench, &array).expect("no fault");
    assert_eq!(report.sectors_unsettled, Sectors(0));
    stop(&mut bench, &array);
    assert_eq!(bench.superblocks()[0].resync_offset(), None);
    let tags = bench.run(async move |cpu| read_all(&cpu, &array).await).expect("readable");
    assert_eq!(tags, (1..=384).collect::<Vec<_>>());
}

#[test]
fn parity_that_a_resync_could_not_compare_stays_in_doubt() {
    parity_beyond_redundancy(false);
    parity_beyond_redundancy(true);
}

#[test]
fn parity_that_nobody_relies_on_is_not_called_in_sync() {
    // Degraded, and without room for bad blocks: what a member does not take can only be in doubt.
    let wish = Wish {
        level: Level::Raid5(Raid5Layout::LeftSymmetric),
        members: 3,
        spares: 0,
        bitmap: false,
        version: Version::V0_90,
        size: 192,
    };
    let mut bench = Bench::make(&wish, 3);
    let array = open(&mut bench);
    // A whole stripe: its second chunk is gone, and its parity, on the last member, not taken.
    bench.drives[1].state().gone_after = Some(1);
    bench.drives[2].state().unwritable.insert(0);
    let again = array.clone();
    let data = tagged(&(1..=16).collect::<Vec<_>>());
    let written =
        bench.run(async move |cpu| again.write(&cpu, Sector(0), data, Durability::Cached).await);
    assert!(matches!(written, Err(ArrayError::Unwritable { .. })), "{written:?}");
    bench.drives[2].state().unwritable.clear();
    let report = resync(&mut bench, &array).expect("no fault of a member");
    assert!(report.sectors_unsettled.0 > 0, "{report:?}");
    stop(&mut bench, &array);
    assert!(bench.superblocks()[0].resync_offset().is_some());
}

#[test]
fn nobody_else_drives_a_resync_meanwhile() {
    let mut refused = 0;
    for seed in 0..100 {
        let mut bench = cut_off(&mirror(false, 192), 0, 192, seed);
        let array = open(&mut bench);
        let first_runs = Rc::new(RefCell::new(false));
        let (again, runs) = (array.clone(), first_runs.clone());
        bench.world.spawn(0, "first", |cpu| async move {
            runs.replace(true);
            let done = again.resync_what_may_differ(&cpu, WINDOW).await;
            done.expect("whoever came first goes on");
            runs.replace(false);
        });
        let steps = bench.world.draw(1500);
        bench.world.run_for(steps);
        let (begun, again) = (*first_runs.borrow(), array.clone());
        let (second, goes_on) = bench.run(async move |cpu| {
            let done = again.resync_what_may_differ(&cpu, WINDOW).await;
            (done, *first_runs.borrow())
        });
        if begun && goes_on {
            assert_eq!(second, Err(ArrayError::ResyncRunning), "seed {seed}");
            refused += 1;
        }
        assert_eq!(resync(&mut bench, &array).map(drop), Ok(()), "the next one may");
    }
    assert!(refused > 20, "{refused} came meanwhile");
}

#[test]
fn what_a_resync_did_not_come_to_is_done_by_the_next() {
    let mut refused = 0;
    for seed in 0..20 {
        let mut bench = cut_off(&mirror(true, 192), 32, 8, seed);
        let array = open(&mut bench);
        let again = array.clone();
        bench.world.spawn(0, "check", |cpu| async move {
            // Refused in its turn if it comes second.
            let _ = again.check(&cpu, WINDOW).await;
        });
        let steps = bench.world.draw(300);
        bench.world.run_for(steps);
        if resync(&mut bench, &array).is_ok() {
            continue;
        }
        refused += 1;
        let report = resync(&mut bench, &array).expect("the check is over");
        assert_eq!(report.sectors_checked, Sectors(8), "seed {seed}");
        stop(&mut bench, &array);
        assert_eq!(marked(&bench, 0), [], "seed {seed}");
    }
    assert!(refused > 3, "{refused} met the check");
}
