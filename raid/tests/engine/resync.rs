//! Resync: what it compares, what it writes, and what it leaves to others.

use crate::rig::{Rig, read_tags};
use raid::units::{Sector, Sectors};
use raid::{ArrayError, ResyncOptions, ResyncReport, Tuning};
use std::cell::Cell;
use std::rc::Rc;

const SMALL_WINDOWS: ResyncOptions =
    ResyncOptions { range: None, window: Sectors(12), windows_in_flight: 2 };

/// A mirror whose second copy differs in some sectors, or is damaged, resynced.
fn check(options: ResyncOptions, damages: impl FnOnce(&Rig), expected: [u64; 3]) -> Rig {
    let mut rig = Rig::new(&[64, 64], 2, Tuning::default(), 5);
    rig.write(0, &(100..164).collect::<Vec<u64>>()).expect("no fault yet");
    damages(&rig);
    let of = options.clone();
    let report = rig.run(async move |cpu, array| array.resync(&cpu, of).await);
    let [checked, written, unreadable] = expected.map(Sectors);
    let expected = ResyncReport {
        sectors_checked: checked,
        sectors_written: written,
        sectors_unreadable: unreadable,
        sectors_unsettled: if unreadable.0 > 0 {
            options.window.min(Sectors(64))
        } else {
            Sectors(0)
        },
    };
    assert_eq!(report, Ok(expected));
    rig
}

fn overwrite(rig: &Rig, drive: usize, sector: usize) {
    rig.drives[drive].state().data[sector * 512..(sector + 1) * 512].fill(0xff);
}

fn mirrors_agree(rig: &Rig) -> bool {
    rig.drives[0].state().data == rig.drives[1].state().data
}

#[test]
fn equal_copies_are_left_alone() {
    let rig = check(SMALL_WINDOWS, |_| {}, [64, 0, 0]);
    assert_eq!(rig.drives[1].state().writes, 8, "one for each chunk of the first write");
}

#[test]
fn the_first_copy_is_written_over_those_that_differ() {
    let mut rig = check(SMALL_WINDOWS, |rig| overwrite(rig, 1, 20), [64, 8, 0]);
    assert!(mirrors_agree(&rig));
    assert_eq!(rig.read(20, 1), Ok(vec![120]));
}

#[test]
fn the_other_copy_serves_where_the_first_cannot_be_read() {
    let damages = |rig: &Rig| {
        rig.drives[0].state().bad_sectors.insert(20);
    };
    let rig = check(SMALL_WINDOWS, damages, [64, 8, 0]);
    assert!(mirrors_agree(&rig));
    assert!(rig.drives[0].state().bad_sectors.is_empty());
}

#[test]
fn sectors_lost_on_both_are_counted_and_the_rest_goes_on() {
    let damages = |rig: &Rig| {
        rig.drives[0].state().bad_sectors.insert(20);
        rig.drives[1].state().bad_sectors.insert(20);
        overwrite(rig, 1, 40);
    };
    let mut rig = check(ResyncOptions::default(), damages, [56, 8, 8]);
    assert_eq!(rig.read(40, 1), Ok(vec![140]));
    assert_eq!(rig.failed(), [0; 0]);
}

#[test]
fn a_range_is_all_that_is_touched() {
    let options = ResyncOptions { range: Some(Sector(8)..Sector(19)), ..SMALL_WINDOWS };
    let damages = |rig: &Rig| {
        overwrite(rig, 1, 18);
        overwrite(rig, 1, 19);
    };
    let rig = check(options, damages, [11, 3, 0]);
    assert!(!mirrors_agree(&rig));
}

#[test]
fn a_degraded_mirror_has_nothing_to_compare() {
    let damages = |rig: &Rig| rig.drives[0].state().gone_after = Some(0);
    let mut rig = check(SMALL_WINDOWS, damages, [0, 0, 0]);
    assert_eq!(rig.failed(), [0]);
}

#[test]
fn until_a_resync_has_passed_reads_stay_with_the_first_copy() {
    let mut rig = Rig::new(&[64, 64], 2, Tuning::default(), 5);
    overwrite(&rig, 1, 20);
    for cpu in 0..4 {
        rig.spawn(cpu, "reader", async |cpu, array| {
            array.distrust_copies(&cpu).await;
            for _ in 0..20 {
                assert_eq!(read_tags(&cpu, &array, 20, 1).await, Ok(vec![0]));
            }
        });
    }
    rig.run(async |cpu, array| array.resync(&cpu, SMALL_WINDOWS).await).expect("no fault");
    assert!(mirrors_agree(&rig));
}

/// Several cores read one sector over and over, and all see the same.
fn readers_agree(rig: &mut Rig, sector: u64) {
    let first = rig.read(sector, 1).expect("a copy can be read");
    for cpu in 0..4 {
        let first = first.clone();
        rig.spawn(cpu, "reader", async move |cpu, array| {
            for _ in 0..20 {
                let tags = read_tags(&cpu, &array, sector, 1).await;
                assert_eq!(tags.as_ref(), Ok(&first), "reads stay with one copy");
            }
        });
    }
    rig.run(async |_, _| {});
}

#[test]
fn a_copy_that_did_not_take_the_truth_and_cannot_be_spared_is_not_read() {
    for distrusted in [true, false] {
        // Chunks 0, 1, 2 lie on the members 0 and 1, 2 and 0, 1 and 2.
        let mut rig = Rig::new(&[64; 3], 2, Tuning::default(), 1);
        rig.drives[2].state().gone_after = Some(0);
        rig.write(8, &[1]).expect("member 0 has it");
        assert_eq!(rig.failed(), [2]);
        overwrite(&rig, 1, 3);
        rig.drives[1].state().unwritable.extend(0..8);
        rig.run(async move |cpu, array| {
            if distrusted {
                array.distrust_copies(&cpu).await;
            }
            array.resync(&cpu, SMALL_WINDOWS).await.expect("no flush fails");
        });
        assert_eq!(rig.failed(), [2]);
        // The drive takes some sectors of a write that fails: the wrong one must not be among them.
        overwrite(&rig, 1, 3);
        readers_agree(&mut rig, 3);
    }
}

#[test]
fn where_no_copy_could_be_read_reads_stay_with_one_copy() {
    let mut rig = Rig::new(&[64, 64], 2, Tuning::default(), 5);
    overwrite(&rig, 1, 3);
    // Of the page of sector 3 neither copy can be read as a whole.
    rig.drives[0].state().bad_sectors.insert(1);
    rig.drives[1].state().bad_sectors.insert(5);
    rig.run(async |cpu, array| {
        array.distrust_copies(&cpu).await;
        array.resync(&cpu, SMALL_WINDOWS).await.expect("no flush fails");
    });
    readers_agree(&mut rig, 3);
}

#[test]
fn one_resync_runs_at_a_time() {
    let mut refused = 0;
    for seed in 0..50 {
        let mut rig = Rig::new(&[64, 64], 2, Tuning::default(), seed);
        let running = Rc::new(Cell::new(0));
        let refusals = Rc::new(Cell::new(0));
        for cpu in [0, 1] {
            let (running, refusals) = (running.clone(), refusals.clone());
            rig.spawn(cpu, "resync", async move |cpu, array| {
                running.set(running.get() + 1);
                let report = array.resync(&cpu, SMALL_WINDOWS).await;
                if report == Err(ArrayError::ResyncRunning) {
                    assert_eq!(running.get(), 2, "refused though no other runs");
                    refusals.set(refusals.get() + 1);
                } else {
                    report.expect("no fault");
                }
                running.set(running.get() - 1);
            });
        }
        rig.run(async |_, _| {});
        refused += refusals.get();
        let again = rig.run(async |cpu, array| array.resync(&cpu, SMALL_WINDOWS).await);
        assert!(again.is_ok(), "{again:?}");
    }
    assert!(refused > 0);
}

#[test]
fn options_without_progress_are_refused() {
    let mut rig = Rig::new(&[64, 64], 2, Tuning::default(), 5);
    for (window, windows_in_flight) in [(0, 1), (8, 0), (8, 33)] {
        let options = ResyncOptions { range: None, window: Sectors(window), windows_in_flight };
        let refused = rig.run(async move |cpu, array| array.resync(&cpu, options).await);
        assert!(matches!(refused, Err(ArrayError::ResyncWindows { .. })), "{refused:?}");
    }
    let options = ResyncOptions { range: Some(Sector(60)..Sector(65)), ..SMALL_WINDOWS };
    let refused = rig.run(async move |cpu, array| array.resync(&cpu, options).await);
    assert!(matches!(refused, Err(ArrayError::OutOfRange { .. })), "{refused:?}");
}
