//! What arrays with parity do when members fail, one story a test.

use crate::parity_rig::{Geometry, present, raid5, raid6};
use crate::rig::{Rig, read_tags, tagged};
use raid::device::{Durability, IoError};
use raid::units::{MemberIndex, Sector, Sectors};
use raid::{ArrayError, BadBlocks, Level, MemberOptions, ResyncOptions};

/// Fills an array, loses `lost`, writes `write` (first sector, count), and reads all of it.
#[track_caller]
fn check(level: Level, lost: &[usize], write: (u64, u64)) -> Rig {
    let geometry = Geometry::of(level);
    let mut rig = geometry.rig(1);
    let capacity = rig.array.capacity().0;
    let mut tags: Vec<u64> = (1..=capacity).collect();
    rig.write(0, &tags).expect("no fault yet");
    assert_eq!(rig.mismatches(), 0);
    for member in lost {
        rig.drives[*member].state().gone_after = Some(0);
    }
    let new: Vec<u64> = (0..write.1).map(|index| 1 << 32 | index).collect();
    rig.write(write.0, &new).expect("within redundancy");
    tags[write.0 as usize..(write.0 + write.1) as usize].copy_from_slice(&new);
    assert_eq!(rig.read(0, capacity).expect("within redundancy"), tags);
    rig
}

#[test]
fn writes_of_any_size_keep_parity_right() {
    for level in [Level::Raid4, raid5(), raid6()] {
        for (at, length) in [(0, 1), (3, 10), (0, 16), (5, 60), (0, 64), (10, 130), (100, 48)] {
            let mut rig = check(level, &[], (at, length));
            assert_eq!(rig.mismatches(), 0, "{level:?} {at}+{length}");
        }
    }
}

#[test]
fn a_degraded_array_serves_reads_and_writes() {
    for level in [Level::Raid4, raid5(), raid6()] {
        for lost in 0..5 {
            for write in [(3, 2), (0, 16), (20, 40), (0, 64), (7, 130)] {
                check(level, &[lost], write);
            }
        }
    }
}

#[test]
fn raid6_does_without_any_two_members() {
    for first in 0..5 {
        for second in first + 1..5 {
            for write in [(3, 2), (20, 30), (0, 96), (7, 130)] {
                check(raid6(), &[first, second], write);
            }
        }
    }
}

#[test]
fn beyond_redundancy_there_is_an_error_and_nobody_more_fails() {
    let mut rig = check(raid5(), &[0], (0, 64));
    // What the cache holds would still be served.
    rig.mismatches();
    rig.drives[1].state().gone_after = Some(0);
    let error = rig.read(0, 64).expect_err("two members are gone");
    let (at, length) = (Sector(0), Sectors(16));
    let members = vec![MemberIndex(0), MemberIndex(1)];
    assert_eq!(error, ArrayError::BeyondRedundancy { at, length, members });
    assert_eq!(rig.failed(), [0]);
    rig.write(0, &[1]).expect_err("the data has no place");
    assert_eq!(rig.failed(), [0]);
}

#[test]
fn a_lost_sector_is_put_together_and_written_again() {
    for level in [raid5(), raid6()] {
        let mut rig = check(level, &[], (0, 5));
        let capacity = rig.array.capacity().0;
        let before = rig.read(0, capacity);
        let contents = rig.drives[1].state().data.clone();
        rig.drives[1].state().bad_sectors.extend(3..30);
        assert_eq!(rig.read(0, capacity), before);
        rig.run(async |cpu, array| array.resync(&cpu, ResyncOptions::default()).await)
            .expect("within redundancy");
        assert!(rig.drives[1].state().bad_sectors.is_empty());
        assert!(rig.drives[1].state().data == contents);
        assert_eq!(rig.failed(), [0; 0]);
    }
}

#[test]
fn lost_sectors_on_every_member_cost_nothing_if_they_are_in_different_rows() {
    let geometry = Geometry { member_size: 160, chunk: 32, ..Geometry::of(raid5()) };
    let mut rig = geometry.rig(1);
    let tags: Vec<u64> = (1..=rig.array.capacity().0).collect();
    rig.write(0, &tags).expect("no fault yet");
    for (member, drive) in rig.drives.iter().enumerate() {
        drive.state().bad_sectors.extend([member as u64 * 8, 64 + member as u64 * 8]);
    }
    assert_eq!(rig.read(0, tags.len() as u64), Ok(tags));
    assert_eq!(rig.failed(), [0; 0]);
}

#[test]
fn parity_that_could_not_be_read_once_is_not_left_behind() {
    // The read error of parity shows in a partial write, and the sector is good again later.
    for level in [raid5(), raid6()] {
        for bad in 0..5 {
            let mut rig = Geometry::of(level).rig(1);
            rig.write(0, &[5; 64]).expect("no fault yet");
            rig.drives[bad].state().bad_sectors.insert(2);
            rig.write(2, &[6]).expect("within redundancy");
            rig.drives[bad].state().bad_sectors.clear();
            assert_eq!(rig.mismatches(), 0, "member {bad}");
        }
    }
}

#[test]
fn a_write_error_fails_the_member_before_success_is_reported() {
    for seed in 0..100 {
        let mut rig = Geometry::of(raid5()).rig(seed);
        rig.drives[(seed % 5) as usize].state().unwritable.insert(3);
        rig.run(async move |cpu, array| {
            let write = array.write(&cpu, Sector(0), tagged(&[7; 64]), Durability::Cached);
            write.await.expect("one member can be spared");
            let tags = read_tags(&cpu, &array, 0, 64).await;
            assert_eq!(tags, Ok(vec![7; 64]));
        });
        assert_eq!(rig.failed(), [(seed % 5) as usize]);
    }
}

#[test]
fn a_member_with_a_list_of_bad_blocks_loses_sectors_only() {
    let geometry = Geometry::of(raid5());
    let mut rig = geometry.rig(1);
    rig.array = geometry.reopen(&rig, |_, mut device| {
        device.bad_blocks = Some(BadBlocks::new(64));
        present(device)
    });
    rig.write(0, &[1; 64]).expect("no fault yet");
    rig.drives[1].state().unwritable.insert(3);
    rig.write(0, &[2; 64]).expect("the sectors can be spared");
    assert_eq!(rig.failed(), [0; 0]);
    assert_eq!(rig.read(0, 64), Ok(vec![2; 64]));
    let bad = rig.run(async |cpu, array| array.bad_blocks(&cpu, MemberIndex(1)).await);
    assert_eq!(bad.len(), 1);
    rig.drives[1].state().unwritable.clear();
    rig.write(0, &[3; 64]).expect("no fault any more");
    let bad = rig.run(async |cpu, array| array.bad_blocks(&cpu, MemberIndex(1)).await);
    assert_eq!(bad, []);
    assert_eq!(rig.read(0, 64), Ok(vec![3; 64]));
    assert_eq!(rig.mismatches(), 0);
}

#[test]
fn what_a_member_that_cannot_be_spared_did_not_take_is_never_used_to_put_data_together() {
    for seed in 0..200 {
        let geometry = Geometry { members: 4, ..Geometry::of(raid5()) };
        let mut rig = geometry.rig(seed);
        // Stripe 0: data on members 0, 1, 2, parity on 3.
        rig.write(0, &[5; 48]).expect("no fault yet");
        rig.drives[0].state().gone_after = Some(0);
        assert_eq!(rig.read(0, 16), Ok(vec![5; 16]));
        rig.drives[1].state().unwritable.insert(4);
        let error = rig.write(16, &[6; 16]).expect_err("member 1 cannot be spared");
        let (at, length, member) = (Sector(16), Sectors(16), MemberIndex(1));
        let cause = IoError::Media { at: Sector(4) };
        assert_eq!(error, ArrayError::Unwritable { at, length, member, cause });
        assert_eq!(rig.failed(), [0]);
        // The cache still knows everything; nobody else does.
        rig.mismatches();
        rig.read(0, 16).expect_err("member 1 holds old or new data");
        rig.read(16, 16).expect_err("and is not read");
        assert_eq!(rig.read(32, 16), Ok(vec![5; 16]));
        rig.drives[1].state().unwritable.clear();
        rig.write(16, &[7; 16]).expect_err("parity cannot hold what nobody knows");
        rig.write(0, &[7; 32]).expect("all of what is lost is new");
        rig.mismatches();
        assert_eq!(rig.read(0, 48), Ok([vec![7; 32], vec![5; 16]].concat()));
    }
}

#[test]
fn a_read_only_array_repairs_nothing() {
    let geometry = Geometry::of(raid5());
    let mut rig = geometry.rig(1);
    rig.write(0, &[1; 64]).expect("no fault");
    let members = rig.drives.iter().map(|drive| MemberOptions::whole(drive.clone().into()));
    let options = raid::ArrayOptions {
        level: geometry.level,
        chunk: Sectors(geometry.chunk),
        tuning: raid::Tuning::default(),
    };
    let platform = rig.world.platform();
    let array = raid::Array::open_read_only(platform, members.collect(), options);
    rig.array = array.expect("a fit array");
    rig.drives[0].state().bad_sectors.insert(3);
    assert_eq!(rig.read(0, 64), Ok(vec![1; 64]));
    assert_eq!(rig.drives[0].state().bad_sectors.len(), 1);
    assert_eq!(rig.write(0, &[1]), Err(ArrayError::ReadOnly));
}
