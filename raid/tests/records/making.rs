//! An array is made over an old one, and the power is cut at any moment of it.

use crate::bench::{Bench, NOW, Wish, degraded, read_all, tagged, writable};
use crate::support::TestPlatform;
use raid::assemble::{AssembleOptions, MakeError, assemble, make};
use raid::device::Durability;
use raid::metadata::create::{NewArray, NewConsistency};
use raid::metadata::geometry::Raid5Layout;
use raid::metadata::superblock::{SUPERBLOCK_BYTES, find, locations};
use raid::metadata::{Level, Time, Uuid, Version};
use raid::units::{Sector, Sectors};
use std::collections::BTreeSet;

const LAYOUT: Raid5Layout = Raid5Layout::LeftSymmetric;
const STALE: Uuid = Uuid([7; 16]);
const OLD: Uuid = Uuid([9; 16]);
const FRESH: Uuid = Uuid([8; 16]);
/// More steps than making an array takes.
const STEPS_MAX: u64 = 2000;

fn wish(version: Version, level: Level, members: u32) -> Wish {
    Wish { level, members, spares: 1, bitmap: true, version, size: 128 }
}

fn later(seconds: u64) -> Time {
    Time { seconds: NOW.seconds + seconds, ..NOW }
}

/// Superblocks of an array that is long gone, as they lie on each drive.
fn stale_superblocks(wish: &Wish) -> Vec<(usize, Vec<u8>)> {
    let made = wish.array(STALE, Time { seconds: 1_000_000_000, ..NOW }).make().expect("it fits");
    let write = |of: raid::metadata::create::Made| {
        (of.superblock.at.byte_offset() as usize, of.superblock.encode())
    };
    made.into_iter().map(write).collect()
}

/// Drives of an old array that is full of data, with the superblocks of one before it beside.
fn old_drives(old: &Wish, stale: Option<&Wish>) -> (Vec<Vec<u8>>, Vec<u64>) {
    let mut bench = Bench::make(old, 1);
    let array = bench.assemble(writable(), &[]).array().expect("no reshape").clone();
    let tags: Vec<u64> = (1..=array.capacity().0).collect();
    let data = tagged(&tags);
    bench.run(async move |cpu| {
        array.write(&cpu, Sector(0), data, Durability::Cached).await.expect("no fault");
        array.stop(&cpu).await.expect("no fault");
    });
    for (index, (start, bytes)) in stale.map(stale_superblocks).into_iter().flatten().enumerate() {
        bench.drives[index].state().data[start..start + bytes.len()].copy_from_slice(&bytes);
    }
    (bench.drives.iter().map(|drive| drive.state().data.clone()).collect(), tags)
}

/// What is opened after the cut: whose array, and how many members are missing.
fn opened(images: &[Vec<u8>], options: AssembleOptions, tags: &[u64]) -> Option<(Uuid, usize)> {
    let mut bench = Bench::boot(images.to_vec(), 3);
    let devices = bench.devices();
    let assembled =
        bench.run(async move |cpu| assemble::<TestPlatform>(&cpu, devices, options).await).ok()?;
    let uuid = assembled.assembly().array_uuid;
    let missing = assembled.assembly().slots.iter().filter(|slot| slot.is_empty()).count();
    let array = assembled.array().expect("no reshape").clone();
    if uuid == OLD {
        let found = bench.run(async move |cpu| read_all(&cpu, &array).await).expect("redundant");
        assert_eq!(found, tags, "an old array that is opened has all that it had");
    }
    if uuid == FRESH && missing == 0 {
        assert_eq!(assembled.assembly().spares.len(), 1, "all of it is there");
    }
    Some((uuid, missing))
}

/// An image without its superblocks.
fn beside_superblocks(image: &[u8]) -> Vec<u8> {
    let mut image = image.to_vec();
    for place in locations(Sectors::from_bytes_rounded_down(image.len() as u64)) {
        let start = place.at.byte_offset() as usize;
        image[start..start + SUPERBLOCK_BYTES].fill(0);
    }
    image
}

/// What the cut left is opened, as far as it can be. Whether anything is, and whether it is the
/// fresh array.
fn check_cut(cut: &[Vec<u8>], before: &[Vec<u8>], tags: &[u64], context: &str) -> (bool, bool) {
    let whole = opened(cut, AssembleOptions::default(), tags);
    let allowed = [None, Some((OLD, 0)), Some((FRESH, 0))];
    assert!(allowed.contains(&whole), "{context}: {whole:?}");
    let lacking = opened(cut, degraded(AssembleOptions::default()), tags);
    assert!(lacking.is_none_or(|(uuid, _)| uuid != STALE), "{context}: {lacking:?}");
    if [whole, lacking].into_iter().flatten().any(|(uuid, _)| uuid == OLD) {
        for (now, before) in cut.iter().zip(before) {
            let same = beside_superblocks(now) == beside_superblocks(before);
            assert!(same, "{context}: the old array is opened, but was written over");
        }
    }
    (lacking.is_some(), whole == Some((FRESH, 0)))
}

/// Makes an array over another one and cuts the power after each write, in several ways.
fn check(old: &Wish, stale: Option<&Wish>, fresh: &Wish) {
    let (images, tags) = old_drives(old, stale);
    let (mut writes_before, mut stages) = (None, BTreeSet::new());
    for steps in 0..STEPS_MAX {
        let mut bench = Bench::boot(images.clone(), 5);
        let (array, devices) = (fresh.array(FRESH, later(60)), bench.devices());
        bench.world.spawn(0, "make", |cpu| async move {
            make::<TestPlatform>(&cpu, &devices, &array).await.expect("made");
        });
        let done = bench.world.run_for(steps).is_some();
        let writes: u64 = bench.drives.iter().map(|drive| drive.state().writes).sum();
        if writes_before.replace(writes) == Some(writes) && !done {
            continue;
        }
        for _ in 0..4 {
            let context = format!("{:?} over {:?}, write {writes}", fresh.version, old.version);
            let stage = check_cut(&bench.cut(), &images, &tags, &context);
            assert!(!done || stage == (true, true), "{context}: made");
            stages.insert(stage);
        }
        if done {
            let cut = bench.cut();
            let found = cut.iter().map(|image| find(image).expect("one superblock").array_uuid);
            assert!(found.eq(std::iter::repeat_n(FRESH, cut.len())));
            break;
        }
    }
    assert_eq!(stages.len(), 3, "the old array or a part of the fresh one, none, the fresh one");
}

#[test]
fn a_power_cut_leaves_the_old_array_or_none_or_the_fresh_one() {
    for old in Version::ALL {
        for fresh in Version::ALL {
            let of = |version| wish(version, Level::Raid1, 2);
            check(&of(old), None, &of(fresh));
        }
        let raid5 = |version| wish(version, Level::Raid5(LAYOUT), 3);
        check(&raid5(old), None, &raid5(Version::V1_2));
    }
}

#[test]
fn an_array_that_was_hidden_behind_another_does_not_appear_again() {
    for (old, stale) in [
        (Version::V1_2, Version::V0_90),
        (Version::V1_2, Version::V1_1),
        (Version::V1_1, Version::V1_0),
        (Version::V1_0, Version::V0_90),
        (Version::V0_90, Version::V1_0),
    ] {
        let of = |version| wish(version, Level::Raid1, 2);
        check(&of(old), Some(&of(stale)), &of(Version::V1_2));
    }
}

#[test]
fn an_array_whose_first_resync_could_not_be_done_is_not_made() {
    const BYTES: usize = 4 << 20;
    let mut array = wish(Version::V1_2, Level::Raid5(LAYOUT), 3).array(FRESH, NOW);
    array.consistency = NewConsistency::PartialParityLog;
    (array.data_offset, array.component_size) = (Some(Sector(24 + 2048)), None);
    for member in array.members.iter_mut().flatten().chain(&mut array.spares) {
        member.size = Sectors::from_bytes_rounded_down(BYTES as u64);
    }
    let mut bench = Bench::boot(vec![vec![0; BYTES]; 4], 1);
    let mut made = |assume_clean| {
        let (array, devices) = (NewArray { assume_clean, ..array.clone() }, bench.devices());
        let made = bench.run(async move |cpu| make::<TestPlatform>(&cpu, &devices, &array).await);
        (made, bench.drives.iter().map(|drive| drive.state().writes).sum::<u64>())
    };
    let (refused, writes) = made(false);
    assert!(matches!(refused, Err(MakeError::Unsyncable(_))), "{refused:?}");
    assert_eq!(writes, 0);
    let (made, _) = made(true);
    assert_eq!(made, Ok(()), "there is nothing to resync");
}
