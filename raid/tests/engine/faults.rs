//! What the array does when members fail, one story a test.

use crate::rig::{Rig, read_tags, tagged};
use raid::buffer::Buffer;
use raid::device::{Durability, IoError};
use raid::units::{MemberIndex, Sector, Sectors};
use raid::{ArrayError, Tuning};
use std::cell::Cell;
use std::rc::Rc;

fn mirror(seed: u64) -> Rig {
    Rig::new(&[64, 64], 2, Tuning::default(), seed)
}

/// Writes five sectors to a mirror, breaks something, reads: the result and who has failed then.
fn check(
    breaks: impl FnOnce(&Rig),
    expected: Result<(), ArrayError>,
    expected_failed: &[usize],
) -> Rig {
    let mut rig = mirror(1);
    rig.write(6, &[1, 2, 3, 4, 5]).expect("no fault yet");
    breaks(&rig);
    let read = rig.read(6, 5);
    assert_eq!(read, expected.map(|()| vec![1, 2, 3, 4, 5]));
    assert_eq!(rig.failed(), expected_failed);
    rig
}

fn unreadable(at: u64, length: u64, cause: IoError) -> Result<(), ArrayError> {
    Err(ArrayError::Unreadable { at: Sector(at), length: Sectors(length), cause })
}

#[test]
fn without_a_fault_both_copies_hold_the_data() {
    let rig = check(|_| {}, Ok(()), &[]);
    assert!(rig.drives[0].state().data == rig.drives[1].state().data);
}

#[test]
fn a_lost_member_is_failed_and_the_other_copy_read() {
    let mut rig = check(|rig| rig.drives[0].state().gone_after = Some(0), Ok(()), &[0]);
    let reads = rig.drives[0].state().reads;
    assert_eq!(rig.read(6, 5), Ok(vec![1, 2, 3, 4, 5]));
    assert_eq!(rig.drives[0].state().reads, reads, "a failed member is left alone");
    rig.write(6, &[9]).expect("a degraded array takes writes");
    assert_eq!(rig.read(6, 2), Ok(vec![9, 2]));
}

#[test]
fn a_lost_sector_is_read_elsewhere_and_written_again() {
    let rig = check(|rig| rig.drives[0].state().bad_sectors.extend([6, 7]), Ok(()), &[]);
    assert!(rig.drives[0].state().bad_sectors.is_empty());
    assert!(rig.drives[0].state().data == rig.drives[1].state().data);
}

#[test]
fn lost_sectors_in_different_places_of_one_piece_cost_nothing() {
    let mut rig = Rig::new(&[256, 256], 2, Tuning::default(), 1);
    let tags: Vec<u64> = (1..=64).collect();
    rig.write(0, &tags).expect("no fault yet");
    rig.drives[0].state().bad_sectors.extend([3, 33]);
    rig.drives[1].state().bad_sectors.extend([12, 45]);
    assert_eq!(rig.read(0, 64), Ok(tags));
}

#[test]
fn a_repair_does_not_undo_a_write() {
    for seed in 0..300 {
        let mut rig = mirror(seed);
        rig.drives[0].state().bad_sectors.insert(3);
        rig.spawn(1, "writer", async |cpu, array| {
            let write = array.write(&cpu, Sector(2), tagged(&[7, 7]), Durability::Cached);
            write.await.expect("no fault beyond redundancy");
        });
        rig.run(async |cpu, array| read_tags(&cpu, &array, 0, 8).await).expect("a copy is left");
        assert_eq!(rig.failed(), [0; 0]);
        assert!(rig.drives[0].state().data == rig.drives[1].state().data, "seed {seed}");
    }
}

#[test]
fn a_sector_lost_on_every_copy_is_an_error_and_fails_nobody() {
    let breaks = |rig: &Rig| {
        rig.drives[0].state().bad_sectors.insert(7);
        rig.drives[1].state().bad_sectors.insert(7);
    };
    check(breaks, unreadable(6, 2, IoError::Media { at: Sector(7) }), &[]);
}

#[test]
fn a_member_that_takes_no_repair_is_failed() {
    let breaks = |rig: &Rig| {
        rig.drives[0].state().bad_sectors.insert(7);
        rig.drives[0].state().unwritable.insert(7);
    };
    check(breaks, Ok(()), &[0]);
}

#[test]
fn the_last_copy_is_never_failed() {
    let breaks = |rig: &Rig| {
        rig.drives[0].state().gone_after = Some(0);
        rig.drives[1].state().gone_after = Some(0);
    };
    let mut rig = check(breaks, unreadable(6, 2, IoError::Gone), &[0]);
    let cause = IoError::Gone;
    let (at, length, member) = (Sector(8), Sectors(1), MemberIndex(1));
    assert_eq!(rig.write(8, &[9]), Err(ArrayError::Unwritable { at, length, member, cause }));
    assert_eq!(rig.failed(), [0]);
}

#[test]
fn a_write_error_fails_the_member_before_success_is_reported() {
    for seed in 0..200 {
        let mut rig = mirror(seed);
        rig.drives[(seed % 2) as usize].state().unwritable.insert(3);
        let written = Rc::new(Cell::new(false));
        let seen = written.clone();
        rig.spawn(1, "writer", async move |cpu, array| {
            let write = array.write(&cpu, Sector(2), tagged(&[7, 7]), Durability::Cached);
            write.await.expect("one copy is left");
            written.set(true);
        });
        rig.run(async move |cpu, array| {
            loop {
                let complete = seen.get();
                let tags = read_tags(&cpu, &array, 2, 2).await.expect("one copy is left");
                if complete {
                    assert_eq!(tags, [7, 7], "an old copy was read after the write");
                    return;
                }
            }
        });
        assert_eq!(rig.failed(), [(seed % 2) as usize]);
    }
}

#[test]
fn a_copy_that_missed_a_write_but_cannot_be_spared_is_not_read() {
    // Chunks 0, 1, 2 lie on the members 0 and 1, 2 and 0, 1 and 2.
    let mut rig = Rig::new(&[64; 3], 2, Tuning::default(), 1);
    rig.drives[2].state().gone_after = Some(0);
    rig.write(8, &[1]).expect("member 0 has it");
    assert_eq!(rig.failed(), [2]);
    rig.drives[1].state().unwritable.insert(3);
    let cause = IoError::Media { at: Sector(3) };
    let (at, length, member) = (Sector(0), Sectors(8), MemberIndex(1));
    let error = ArrayError::Unwritable { at, length, member, cause };
    assert_eq!(rig.write(0, &[5; 8]), Err(error));
    let first = rig.read(0, 8).expect("both copies can be read");
    for cpu in 0..4 {
        let first = first.clone();
        rig.spawn(cpu, "reader", async move |cpu, array| {
            for _ in 0..20 {
                let tags = read_tags(&cpu, &array, 0, 8).await;
                assert_eq!(tags.as_ref(), Ok(&first), "reads stay with one copy");
            }
        });
    }
    rig.run(async |_, _| {});
}

#[test]
fn flush_reaches_all_live_members_and_fails_who_refuses() {
    let mut rig = Rig::new(&[64; 4], 2, Tuning::default(), 1);
    rig.drives[2].state().gone_after = Some(0);
    rig.run(async |cpu, array| array.flush(&cpu).await).expect("the others flushed");
    assert_eq!(rig.failed(), [2]);
    rig.run(async |cpu, array| array.flush(&cpu).await).expect("the others flushed");
    let flushes: Vec<u64> = rig.drives.iter().map(|drive| drive.state().flushes).collect();
    assert_eq!(flushes, [2, 2, 1, 2]);
    rig.drives[3].state().gone_after = Some(0);
    let error = ArrayError::Unflushed { member: MemberIndex(3), cause: IoError::Gone };
    assert_eq!(rig.run(async |cpu, array| array.flush(&cpu).await), Err(error));
}

#[test]
fn reads_spread_over_the_copies() {
    let mut rig = mirror(3);
    for cpu in 0..4 {
        rig.spawn(cpu, "reader", async |cpu, array| {
            for at in 0..20 {
                read_tags(&cpu, &array, at, 1).await.expect("no fault");
            }
        });
    }
    rig.run(async |_, _| {});
    let reads: Vec<u64> = rig.drives.iter().map(|drive| drive.state().reads).collect();
    assert_eq!(reads[0] + reads[1], 80);
    assert!(reads[1] >= 10, "{reads:?}");
}

#[test]
fn a_request_that_cannot_be_served_touches_nothing_and_gives_the_buffer_back() {
    let mut rig = mirror(1);
    let at = Sector(60);
    let buffer = Buffer::zeroed(8 * 512);
    let done = rig.run(async move |cpu, array| array.read(&cpu, at, buffer).await);
    let (length, capacity) = (Sectors(8), Sectors(64));
    assert_eq!(done.result, Err(ArrayError::OutOfRange { at, length, capacity }));
    assert_eq!(done.buffer.len(), 8 * 512);
    assert_eq!(rig.write(3, &[]), Err(ArrayError::Empty { at: Sector(3) }));
    let drive = rig.drives[0].state();
    assert_eq!(drive.reads + drive.writes, 0);
}
