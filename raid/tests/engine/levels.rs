//! What is peculiar to a level or to how an array was opened.

use crate::rig::{GUARD_SECTORS, Health, Rig, Setup, TestArray, options, read_tags};
use crate::support::World;
use raid::device::Device;
use raid::levels::{Level, Raid0Layout};
use raid::units::{Sector, Sectors};
use raid::{
    Array, ArrayError, CheckReport, CreateError, MemberDevice, MemberOptions, ResyncOptions,
};
use std::sync::Arc;

const RAID0: Level = Level::Raid0 { layout: Raid0Layout::Alternate };

fn healthy(sizes: &[u64]) -> Vec<Setup> {
    sizes.iter().copied().map(Setup::healthy).collect()
}

/// A level of single copies: an error of member 1 reaches the caller, and nobody fails.
fn check_single_copies(level: Level, chunk: u64, on_member_1: u64) {
    let mut rig = Rig::open(&healthy(&[64, 40, 64]), options(level, chunk), 1);
    let tags: Vec<u64> = (1..=rig.array.capacity().0).collect();
    rig.write(0, &tags).expect("no fault yet");
    assert_eq!(rig.read(0, tags.len() as u64), Ok(tags));
    rig.drives[1].state().bad_sectors.extend(0..GUARD_SECTORS + 40);
    let refused = rig.read(on_member_1, 1);
    assert!(matches!(refused, Err(ArrayError::Unreadable { .. })), "{refused:?}");
    rig.drives[1].state().gone_after = Some(0);
    let refused = rig.read(on_member_1, 1);
    assert!(matches!(refused, Err(ArrayError::Unreadable { .. })), "{refused:?}");
    let refused = rig.write(on_member_1, &[9]);
    assert!(matches!(refused, Err(ArrayError::Unwritable { .. })), "{refused:?}");
    assert_eq!(rig.failed(), [0; 0]);
    assert_eq!(rig.read(0, 1), Ok(vec![1]));
    rig.assert_guards_are_whole();
}

#[test]
fn what_is_stored_once_fails_no_member() {
    check_single_copies(RAID0, 8, 8);
    check_single_copies(RAID0, 9, 9);
    check_single_copies(Level::Linear, 0, 64);
    check_single_copies(Level::Linear, 16, 64);
}

#[test]
fn a_write_mostly_member_is_read_when_nothing_else_can_be() {
    let mut setups = healthy(&[64, 64, 64]);
    setups[0].write_mostly = true;
    let mut rig = Rig::open(&setups, options(Level::Raid1, 0), 3);
    rig.write(0, &[4; 64]).expect("no fault");
    for cpu in 0..4 {
        rig.spawn(cpu, "reader", async |cpu, array| {
            for at in 0..20 {
                assert_eq!(read_tags(&cpu, &array, at, 1).await, Ok(vec![4]));
            }
        });
    }
    rig.run(async |_, _| {});
    assert_eq!(rig.drives[0].state().reads, 0);
    assert!(rig.drives[2].state().reads > 0);
    for drive in [1, 2] {
        rig.drives[drive].state().gone_after = Some(0);
    }
    assert_eq!(rig.read(0, 64), Ok(vec![4; 64]));
    assert_eq!(rig.failed(), [1, 2]);
}

/// Why an array of such members cannot be opened.
fn check_refused(level: Level, healths: &[Health], expected: &str) {
    let setup = |health: &Health| Setup { health: health.clone(), ..Setup::healthy(64) };
    let setups: Vec<Setup> = healths.iter().map(setup).collect();
    let error = Rig::try_open(&setups, options(level, 8), 1).err().expect("refused");
    assert_eq!(error.to_string(), expected);
}

#[test]
fn an_array_without_all_data_is_not_opened() {
    use Health::{InSync, Missing, Recovering};
    let near = Level::raid10_near(2);
    check_refused(
        near,
        &[Missing, Recovering(64), InSync, InSync],
        "RAID 10 cannot do without members 0, 1, which are missing or not yet filled in",
    );
    check_refused(
        Level::Raid1,
        &[Recovering(9)],
        "RAID 1 cannot do without member 0, which is missing or not yet filled in",
    );
    check_refused(RAID0, &[InSync, Missing], "RAID 0 cannot do without member 1, which is missing");
}

#[test]
fn data_lies_within_the_device() {
    let world = World::new(1, 0);
    let device = Arc::new(world.drive("disk0", 64));
    let mut whole = MemberDevice::whole(device.clone());
    whole.data_start = Sector(1);
    let member = MemberOptions { device: Some(whole), replacement: None };
    let error = Array::open(world.platform(), vec![member], options(Level::Raid1, 0)).err();
    let expected = CreateError::DataOutOfPlace {
        device: device.name().to_owned(),
        data_start: Sector(1),
        data_length: Sectors(64),
        device_size: Sectors(64),
        block_bytes: 512,
    };
    assert_eq!(error, Some(expected));
}

#[test]
fn an_array_that_is_open_read_only_is_never_written() {
    let mut rig = Rig::open(&healthy(&[64, 64]), options(Level::Raid1, 0), 1);
    let members = rig.drives.iter().map(|drive| MemberOptions::whole(Arc::new(drive.clone())));
    let platform = rig.world.platform();
    let array = Array::open_read_only(platform, members.collect(), options(Level::Raid1, 0));
    let array: TestArray = array.expect("a fit array");
    rig.array = array;
    rig.drives[0].state().bad_sectors.insert(20);
    assert_eq!(rig.write(20, &[1]), Err(ArrayError::ReadOnly));
    assert_eq!(rig.read(16, 8), Ok(vec![0; 8]));
    let resync = rig.run(async |cpu, array| array.resync(&cpu, ResyncOptions::default()).await);
    assert_eq!(resync, Err(ArrayError::ReadOnly));
    let check = rig.run(async |cpu, array| array.check(&cpu, ResyncOptions::default()).await);
    assert_eq!(check.expect("no other job").sectors_unreadable, Sectors(8));
    assert!(rig.drives.iter().all(|drive| drive.state().writes == 0));
    assert!(rig.drives[0].state().bad_sectors.contains(&20));
}

#[test]
fn a_check_counts_what_differs_and_writes_nothing() {
    for level in [Level::Raid1, Level::raid10_near(2)] {
        let mut rig = Rig::open(&healthy(&[64, 64]), options(level, 8), 1);
        rig.write(0, &[3; 64]).expect("no fault");
        let writes = rig.drives[1].state().writes;
        let sector = (GUARD_SECTORS as usize + 9) * 512;
        rig.drives[1].state().data[sector..sector + 700].fill(0xee);
        let options = ResyncOptions { window: Sectors(12), ..ResyncOptions::default() };
        let report = rig.run(async move |cpu, array| array.check(&cpu, options).await);
        let expected = CheckReport {
            sectors_checked: Sectors(64),
            mismatches: Sectors(2),
            sectors_unreadable: Sectors(0),
        };
        assert_eq!(report, Ok(expected));
        assert_eq!(rig.drives[1].state().writes, writes);
    }
}
