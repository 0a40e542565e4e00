//! Lists of bad blocks: a write error costs the sectors and not the member.

use crate::rig::{GUARD_SECTORS, Rig, Setup, options};
use raid::units::{MemberIndex, Sector, Sectors};
use raid::{ArrayError, Level, ResyncOptions};

/// A mirror of two with lists of so many entries, and bad blocks to begin with.
fn mirror(entries: usize, bad: [&[(u64, u64)]; 2], seed: u64) -> Rig {
    let setup =
        |bad: &[(u64, u64)]| Setup { log: Some(entries), bad: bad.to_vec(), ..Setup::healthy(64) };
    Rig::open(&bad.map(setup), options(Level::Raid1, 0), seed)
}

fn unwritable(rig: &Rig, drive: usize, sectors: std::ops::Range<u64>) {
    let on_drive = sectors.start + GUARD_SECTORS..sectors.end + GUARD_SECTORS;
    rig.drives[drive].state().unwritable.extend(on_drive);
}

/// Writes of one tag each, first sector and length; then the bad blocks and who has failed.
fn check(mut rig: Rig, writes: &[(u64, usize)], bad: &[(u64, u64)], failed: &[usize]) -> Rig {
    for (at, length) in writes {
        rig.write(*at, &vec![7; *length]).expect("another copy has it");
        assert_eq!(rig.read(*at, *length as u64), Ok(vec![7; *length]));
    }
    assert_eq!(rig.bad_blocks(0), bad);
    assert_eq!(rig.failed(), failed);
    rig.assert_guards_are_whole();
    rig
}

#[test]
fn a_write_error_costs_the_sectors_and_not_the_member() {
    let rig = mirror(4, [&[], &[]], 1);
    unwritable(&rig, 0, 3..4);
    check(rig, &[(2, 2), (10, 1)], &[(2, 2)], &[]);
}

#[test]
fn a_write_error_with_a_full_list_costs_the_member() {
    let rig = mirror(1, [&[], &[]], 1);
    unwritable(&rig, 0, 3..40);
    check(rig, &[(2, 2), (10, 1)], &[(2, 2)], &[0]);
}

#[test]
fn sectors_that_are_written_again_leave_the_list() {
    check(mirror(4, [&[(2, 4)], &[]], 1), &[(3, 2)], &[(2, 1), (5, 1)], &[]);
    check(mirror(1, [&[(2, 4)], &[]], 1), &[(3, 2)], &[(2, 4)], &[]);
    check(mirror(1, [&[(2, 4)], &[]], 1), &[(0, 64)], &[], &[]);
}

#[test]
fn bad_blocks_in_different_places_of_one_piece_cost_nothing() {
    let mut rig = mirror(9, [&[(0, 3), (9, 1)], &[(3, 6), (40, 24)]], 1);
    assert_eq!(rig.read(0, 64), Ok(vec![0; 64]));
}

#[test]
fn a_sector_that_is_bad_on_every_copy_is_an_error_alone() {
    let mut rig = mirror(9, [&[(8, 2)], &[(9, 2)]], 1);
    let refused = rig.read(0, 64);
    assert!(matches!(refused, Err(ArrayError::Unreadable { .. })), "{refused:?}");
    assert_eq!(rig.read(0, 9), Ok(vec![0; 9]));
    assert_eq!(rig.read(10, 54), Ok(vec![0; 54]));
    rig.write(9, &[5]).expect("both take it");
    assert_eq!(rig.read(9, 1), Ok(vec![5]));
    assert_eq!(rig.failed(), [0; 0]);
}

#[test]
fn a_write_that_no_copy_took_is_not_acknowledged() {
    for seed in 0..100 {
        let mut rig = mirror(4, [&[], &[]], seed);
        unwritable(&rig, 0, 3..4);
        rig.drives[1].state().gone_after = Some(0);
        let refused = rig.write(2, &[7, 7]);
        assert!(matches!(refused, Err(ArrayError::Unwritable { .. })), "{refused:?}");
    }
}

#[test]
fn the_last_copy_of_a_sector_is_not_given_up() {
    let mut rig = mirror(4, [&[(0, 8)], &[]], 1);
    unwritable(&rig, 0, 0..8);
    unwritable(&rig, 1, 3..4);
    let refused = rig.write(3, &[7]);
    let (at, length) = (Sector(3), Sectors(1));
    let expected = matches!(refused, Err(ArrayError::Unwritable { at: found, length: of, member, .. })
        if found == at && of == length && member == MemberIndex(1));
    assert!(expected, "{refused:?}");
    assert_eq!(rig.bad_blocks(1), []);
    assert_eq!(rig.failed(), [0; 0]);
    assert!(rig.read(3, 1).is_ok_and(|tags| tags == [0] || tags == [7]));
}

#[test]
fn a_repair_that_fails_is_noted() {
    let mut rig = mirror(4, [&[], &[]], 1);
    rig.drives[0].state().bad_sectors.insert(3 + GUARD_SECTORS);
    unwritable(&rig, 0, 3..4);
    assert_eq!(rig.read(0, 16), Ok(vec![0; 16]));
    assert_eq!(rig.bad_blocks(0), [(0, 8)]);
    assert_eq!(rig.failed(), [0; 0]);
}

#[test]
fn a_resync_writes_bad_blocks_again() {
    let mut rig = mirror(9, [&[(8, 2)], &[(20, 2)]], 1);
    let report = rig.run(async |cpu, array| array.resync(&cpu, ResyncOptions::default()).await);
    let report = report.expect("no fault");
    assert_eq!((report.sectors_written, report.sectors_unreadable), (Sectors(4), Sectors(0)));
    assert_eq!((rig.bad_blocks(0), rig.bad_blocks(1)), (vec![], vec![]));
    assert_eq!(rig.tags_of_member(0, 64), [0; 64]);
    assert_eq!(rig.tags_of_member(1, 64), [0; 64]);
}
