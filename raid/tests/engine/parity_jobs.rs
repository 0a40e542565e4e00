//! Resync, check and recovery of arrays with parity.

use crate::parity_rig::{Geometry, levels, present, raid5, raid6};
use crate::rig::{Rig, read_tags, tagged};
use raid::device::Durability;
use raid::request::Extent;
use raid::units::{MemberIndex, Sector, Sectors};
use raid::{
    ArrayError, BadBlocks, Level, MemberOptions, MemberState, RecoverOptions, RecoverReport,
    ResyncOptions,
};

fn small_windows() -> ResyncOptions {
    ResyncOptions { window: Sectors(8), ..ResyncOptions::default() }
}

fn filled(level: Level) -> (Rig, Vec<u64>) {
    let mut rig = Geometry::of(level).rig(3);
    let tags: Vec<u64> = (1..=rig.array.capacity().0).collect();
    rig.write(0, &tags).expect("no fault");
    (rig, tags)
}

#[test]
fn a_check_counts_rows_whose_parity_does_not_fit_and_a_resync_mends_them() {
    for level in levels() {
        let (mut rig, tags) = filled(level);
        // One head of the first stripe, two of the third; on whatever block is there.
        for at in [3usize, 4, 33, 41] {
            rig.drives[2].state().data[at * 512] ^= 0x40;
        }
        let report = rig.run(async |cpu, array| array.check(&cpu, small_windows()).await);
        let report = report.expect("a check runs");
        assert_eq!((report.mismatches.0, report.sectors_unreadable.0), (24, 0), "{level:?}");
        assert_eq!(report.sectors_checked, rig.array.capacity());
        rig.run(async |cpu, array| array.resync(&cpu, small_windows()).await).expect("it runs");
        assert_eq!(rig.mismatches(), 0);
        let capacity = tags.len() as u64;
        let read = rig.read_bytes(0, capacity);
        rig.drives[4].state().gone_after = Some(0);
        assert!(rig.read_bytes(0, capacity) == read, "{level:?}");
    }
}

impl Rig {
    /// Sectors that a test has torn cannot be read as tags.
    fn read_bytes(&mut self, at: u64, sectors: u64) -> Vec<u8> {
        let into = raid::buffer::Buffer::zeroed((sectors * 512) as usize);
        let done = self.run(async move |cpu, array| array.read(&cpu, Sector(at), into).await);
        done.result.expect("within redundancy");
        done.buffer.to_vec()
    }
}

#[test]
fn a_resync_of_a_range_looks_at_its_stripes_only() {
    let (mut rig, _) = filled(raid5());
    let options =
        ResyncOptions { range: Some(Sector(70)..Sector(130)), ..ResyncOptions::default() };
    let report = rig.run(async move |cpu, array| array.check(&cpu, options).await);
    assert_eq!(report.expect("it runs").sectors_checked, Sectors(128));
}

#[test]
fn a_degraded_raid6_still_has_parity_to_check() {
    let (mut rig, _) = filled(raid6());
    rig.drives[0].state().gone_after = Some(0);
    let report = rig.run(async |cpu, array| array.check(&cpu, small_windows()).await);
    let report = report.expect("it runs");
    assert_eq!((report.mismatches.0, report.sectors_checked), (0, rig.array.capacity()));
    rig.drives[1].state().gone_after = Some(0);
    let report = rig.run(async |cpu, array| array.check(&cpu, small_windows()).await);
    assert_eq!(report.expect("it runs").mismatches.0, 0);
    let report = rig.run(async |cpu, array| array.check(&cpu, small_windows()).await);
    assert_eq!(report.expect("it runs").sectors_checked, Sectors(0), "nothing to compare with");
}

#[test]
fn a_check_writes_nothing_and_counts_what_nobody_has() {
    let (mut rig, _) = filled(raid5());
    rig.drives[0].state().bad_sectors.insert(3);
    rig.drives[1].state().bad_sectors.insert(4);
    rig.drives[2].state().bad_sectors.insert(20);
    let report = rig.run(async |cpu, array| array.check(&cpu, small_windows()).await);
    assert_eq!(report.expect("it runs").sectors_unreadable, Sectors(32));
    let writes: u64 = rig.drives.iter().map(|drive| drive.state().bad_sectors.len() as u64).sum();
    assert_eq!(writes, 3);
    let report = rig.run(async |cpu, array| array.resync(&cpu, small_windows()).await);
    assert_eq!(report.expect("it runs").sectors_unreadable, Sectors(32));
    assert!(rig.drives[2].state().bad_sectors.is_empty(), "the one that could be mended was");
}

#[test]
fn jobs_run_one_at_a_time() {
    let refused = std::rc::Rc::new(std::cell::Cell::new(0));
    for seed in 0..20 {
        let mut rig = Geometry::of(raid5()).rig(seed);
        for cpu in 0..2 {
            let refused = refused.clone();
            rig.spawn(cpu, "resync", async move |cpu, array| {
                let result = array.resync(&cpu, small_windows()).await;
                refused.set(refused.get() + u32::from(result == Err(ArrayError::ResyncRunning)));
            });
        }
        rig.run(async |_, _| {});
    }
    assert!((1..=20).contains(&refused.get()), "{refused:?} of 40 refused");
}

/// Writes to an array with a fresh drive in the place of `target`, recovers it beside more writes,
/// and reads with another member gone.
fn recover(level: Level, target: usize, point: u64, seed: u64) -> RecoverReport {
    let geometry = Geometry::of(level);
    let mut rig = geometry.rig(seed);
    let capacity = rig.array.capacity().0;
    let tags: Vec<u64> = (1..=capacity).collect();
    rig.write(0, &tags).expect("no fault");
    rig.drives[target].state().data[(point * 512) as usize..].fill(0xff);
    rig.array = geometry.reopen(&rig, |index, mut device| {
        device.recovery_point = (index == target).then_some(Sector(point));
        present(device)
    });
    for writer in 0..3 {
        rig.spawn(writer, "writer", async move |cpu, array| {
            for step in 0..6 {
                let at = (u64::from(writer) * 6 + step) * 11;
                let data = tagged(&(at..at + 11).map(|at| at + 1).collect::<Vec<_>>());
                let write = array.write(&cpu, Sector(at), data, Durability::Cached);
                write.await.expect("no fault");
                let read = read_tags(&cpu, &array, at, 11).await.expect("no fault");
                assert_eq!(read, (at + 1..at + 12).collect::<Vec<_>>());
            }
        });
    }
    let options = RecoverOptions { window: Sectors(8), ..RecoverOptions::default() };
    let report = rig.run(async move |cpu, array| array.recover(&cpu, options).await);
    let report = report.expect("a recovery runs");
    assert_eq!(rig.mismatches(), 0);
    let states = rig.run(async |cpu, array| array.member_states(&cpu).await);
    assert!(states.iter().all(|state| *state == MemberState::InSync));
    rig.drives[(target + 1) % 5].state().gone_after = Some(0);
    assert_eq!(rig.read(0, capacity), Ok(tags));
    report
}

#[test]
fn a_recovery_fills_a_member_while_requests_run() {
    for level in levels() {
        let report = recover(level, 2, 0, 5);
        assert_eq!(report.recovered, [MemberIndex(2)], "{level:?}");
        assert_eq!(report.sectors_written, Sectors(80));
    }
}

#[test]
fn a_recovery_goes_on_from_its_point() {
    for seed in 0..20 {
        let report = recover(raid5(), (seed % 5) as usize, 32, seed);
        assert_eq!(report.sectors_written, Sectors(48));
    }
}

#[test]
fn a_replacement_takes_the_place_of_its_member() {
    let geometry = Geometry::of(raid6());
    let mut rig = geometry.rig(9);
    let tags: Vec<u64> = (1..=rig.array.capacity().0).collect();
    rig.write(0, &tags).expect("no fault");
    let spare = rig.world.drive("spare", geometry.member_size);
    rig.array = geometry.reopen(&rig, |index, device| MemberOptions {
        replacement: (index == 1).then(|| {
            let mut spare = raid::MemberDevice::whole(spare.clone().into());
            spare.recovery_point = Some(Sector(0));
            spare
        }),
        device: Some(device),
    });
    rig.drives[1].state().bad_sectors.insert(5);
    let report = rig
        .run(async |cpu, array| array.recover(&cpu, RecoverOptions::default()).await)
        .expect("a recovery runs");
    assert_eq!(report.recovered, [MemberIndex(5)]);
    assert_eq!(rig.failed(), [1], "its member has gone");
    assert!(spare.state().data == rig.drives[1].state().data);
    rig.write(0, &tags).expect("no fault");
    rig.drives[2].state().gone_after = Some(0);
    rig.drives[3].state().gone_after = Some(0);
    let capacity = tags.len() as u64;
    assert_eq!(rig.read(0, capacity), Ok(tags), "the replacement serves");
}

#[test]
fn what_cannot_be_put_together_is_noted_as_bad_and_left_out() {
    let geometry = Geometry::of(raid5());
    let (mut rig, _) = filled(raid5());
    rig.array = geometry.reopen(&rig, |index, mut device| {
        device.recovery_point = (index == 2).then_some(Sector(0));
        device.bad_blocks = Some(BadBlocks::new(8));
        present(device)
    });
    rig.drives[0].state().bad_sectors.insert(20);
    let report = rig
        .run(async |cpu, array| array.recover(&cpu, RecoverOptions::default()).await)
        .expect("a recovery runs");
    assert_eq!((report.sectors_written, report.sectors_unreadable), (Sectors(72), Sectors(8)));
    let bad = rig.run(async |cpu, array| array.bad_blocks(&cpu, MemberIndex(2)).await);
    assert_eq!((bad.len(), bad[0].at, bad[0].length), (1, Sector(16), Sectors(8)));
}

/// Recovers member 4, which refuses a write to rows that member 0 lacks, while member 1 goes.
fn recover_beyond_redundancy(has_log: bool, seed: u64) -> bool {
    let geometry = Geometry::of(raid6());
    let (before, tags) = filled(raid6());
    let mut rig = geometry.rig(seed);
    for (drive, filled) in rig.drives.iter().zip(&before.drives) {
        drive.state().data.clone_from(&filled.state().data);
    }
    rig.drives[4].state().data.fill(0xff);
    let bad = Extent { at: Sector(0), length: Sectors(8) };
    rig.array = geometry.reopen(&rig, |index, mut device| {
        device.recovery_point = (index == 4).then_some(Sector(0));
        match index {
            0 => device.bad_blocks = Some(BadBlocks::with_extents(8, [bad])),
            4 if has_log => device.bad_blocks = Some(BadBlocks::new(8)),
            _ => {}
        }
        present(device)
    });
    rig.drives[4].state().unwritable.insert(3);
    rig.spawn(1, "fault", async |cpu, array| {
        // Finds that member 1 is gone while the recovery does something else.
        for at in (32..array.capacity().0).step_by(16) {
            read_tags(&cpu, &array, at, 1).await.expect("within redundancy");
        }
    });
    rig.drives[1].state().gone_after = Some(1 + seed % 12);
    let options = RecoverOptions { window: Sectors(8), ..RecoverOptions::default() };
    let report = rig.run(async move |cpu, array| array.recover(&cpu, options).await);
    let failed = rig.failed().contains(&4);
    if has_log && let Ok(report) = &report {
        assert!(!failed, "seed {seed}");
        assert_eq!(report.recovered, [MemberIndex(4)]);
        let bad = rig.bad_blocks(4);
        assert!(bad.first().is_some_and(|(at, length)| *at <= 3 && 3 < at + length), "{bad:?}");
    } else {
        assert!(failed || report.is_err(), "seed {seed}: {report:?}");
    }
    // What member 4 says that it holds fits the rest, also for whoever knows only its log.
    if !failed && report.is_ok() {
        let logs: Vec<_> = (0..5).map(|member| rig.bad_blocks(member)).collect();
        rig.array = geometry.reopen(&rig, |index, mut device| {
            let extent =
                |(at, length): &(u64, u64)| Extent { at: Sector(*at), length: Sectors(*length) };
            device.bad_blocks = Some(BadBlocks::with_extents(8, logs[index].iter().map(extent)));
            present(device)
        });
        for sector in 0..tags.len() as u64 {
            if let Ok(read) = rig.read(sector, 1) {
                assert_eq!(read, [tags[sector as usize]], "seed {seed}");
            }
        }
    }
    report.is_ok_and(|report| report.sectors_unreadable.0 > 0)
}

#[test]
fn the_point_does_not_move_past_rows_that_were_neither_written_nor_noted() {
    let beyond = (0..300).filter(|seed| recover_beyond_redundancy(true, *seed)).count();
    assert!(beyond > 0, "no run lost redundancy at the right moment");
    for seed in 0..300 {
        recover_beyond_redundancy(false, seed);
    }
}
