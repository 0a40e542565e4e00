//! Faults while the metadata is kept: what cannot be written down takes its member out, what fails
//! beside a job is not forgotten, and superblocks that could not be written are refused before.

use crate::bench::{Bench, TestArray, Wish, degraded, tagged, writable};
use raid::assemble::{AssembleOptions, OpenError};
use raid::device::Durability;
use raid::metadata::bad_blocks::BadBlockLog;
use raid::metadata::bitmap::Bitmap;
use raid::metadata::superblock::{Details, Features, Role, Superblock};
use raid::metadata::{Level, Version};
use raid::units::{MemberIndex, SECTOR_BYTES, Sector, Sectors};
use raid::{MemberState, ResyncOptions};

const SMALL_WINDOW: ResyncOptions =
    ResyncOptions { range: None, window: Sectors(16), windows_in_flight: 1 };

pub(crate) fn mirror(bitmap: bool, size: u64) -> Wish {
    Wish { level: Level::Raid1, members: 2, spares: 0, bitmap, version: Version::V1_2, size }
}

pub(crate) fn open(bench: &mut Bench) -> TestArray {
    bench.assemble(writable(), &[]).array().expect("no reshape").clone()
}

pub(crate) fn put(bench: &Bench, drive: usize, at: Sector, bytes: &[u8]) {
    let start = at.byte_offset() as usize;
    let mut state = bench.drives[drive].state();
    state.data[start..start + bytes.len()].copy_from_slice(bytes);
    state.with_volatile_cache();
}

/// Changes the superblock of a drive, and where it points.
pub(crate) fn change(bench: &Bench, drive: usize, change: impl FnOnce(&mut Superblock)) {
    let mut superblock = bench.superblocks()[drive].clone();
    change(&mut superblock);
    put(bench, drive, superblock.at, &superblock.encode());
}

pub(crate) fn bitmap_of(bench: &Bench, drive: usize) -> Bitmap {
    let superblock = &bench.superblocks()[drive];
    let at = superblock.bitmap_at().expect("a bitmap").byte_offset() as usize;
    let image = bench.drives[drive].state().data.clone();
    let size = Sectors(image.len() as u64 / SECTOR_BYTES);
    let room = superblock.bitmap_room(size).expect("room");
    Bitmap::decode(&image[at..], room).expect("sound")
}

#[test]
fn a_member_whose_bad_block_log_is_full_is_taken_out() {
    let mut bench = Bench::make(&mirror(false, 1100), 1);
    // Bad sectors outside of the data take entries too: these take two.
    let superblock = bench.superblocks()[1].clone();
    let (at, length) = superblock.bad_block_log().expect("a log");
    let mut log = BadBlockLog::new(length, 0).expect("a shift of md");
    log.insert(Sector(1 << 20), Sectors(1024)).expect("room");
    put(&bench, 1, at, &log.encode());
    change(&bench, 1, |of| {
        let Details::V1(details) = &mut of.details else { panic!("version 1.2") };
        details.features = details.features.with(Features::BAD_BLOCKS, true);
    });
    let array = open(&mut bench);
    let data_start = superblock.data_offset().0;
    bench.drives[1].state().unwritable.extend((0..511).map(|index| data_start + 2 * index));
    let again = array.clone();
    bench.run(async move |cpu| {
        for index in 0..510 {
            let data = tagged(&[index + 1]);
            again.write(&cpu, Sector(2 * index), data, Durability::Cached).await.expect("noted");
        }
    });
    assert_eq!(bench.superblocks()[0].role_of(1), Role::Active(1), "there was room for 510");
    bench.run(async move |cpu| {
        let data = tagged(&[511]);
        array.write(&cpu, Sector(1020), data, Durability::Cached).await.expect("one copy is left");
    });
    assert_eq!(bench.superblocks()[0].role_of(1), Role::Faulty);
}

/// A mirror that a crash left dirty, with some sectors that neither drive can read. What a resync
/// says of it, and what the superblocks say then.
fn resync_over_unreadable(bitmap: bool) -> (Bench, TestArray) {
    let mut bench = Bench::make(&mirror(bitmap, 192), 2);
    let array = open(&mut bench);
    let tags: Vec<u64> = (1..=192).collect();
    bench
        .run(async move |cpu| array.write(&cpu, Sector(0), tagged(&tags), Durability::Fua).await)
        .expect("no fault");
    let mut bench = Bench::boot(bench.cut(), 3);
    let data_start = bench.superblocks()[0].data_offset().0;
    for drive in &bench.drives {
        drive.state().bad_sectors.extend([data_start + 40, data_start + 41]);
    }
    let array = open(&mut bench);
    let again = array.clone();
    let report = bench.run(async move |cpu| {
        let (mut all, mut calls) = (raid::ResyncReport::default(), 0);
        loop {
            let step = again.resync_some(&cpu, SMALL_WINDOW, Sectors(16)).await;
            let (report, more) = step.expect("no fault of a member");
            all.sectors_checked = all.sectors_checked + report.sectors_checked;
            all.sectors_unreadable = all.sectors_unreadable + report.sectors_unreadable;
            all.sectors_unsettled = all.sectors_unsettled + report.sectors_unsettled;
            calls += 1;
            assert!(calls < 100, "each pass comes to its end");
            if !more {
                break all;
            }
        }
    });
    assert_eq!(report.sectors_unreadable, Sectors(8), "a block: {report:?}");
    assert_eq!(report.sectors_unsettled, Sectors(16), "{report:?}");
    assert_eq!(report.sectors_checked, Sectors(184), "the rest is gone through all the same");
    (bench, array)
}

#[test]
fn a_resync_does_not_call_in_sync_what_it_had_to_leave() {
    let (mut bench, array) = resync_over_unreadable(false);
    let offset = bench.superblocks()[0].resync_offset().expect("not all agrees");
    let again = array.clone();
    bench.run(async move |cpu| again.stop(&cpu).await).expect("no fault");
    let stopped = bench.superblocks()[0].resync_offset().expect("nor when it is stopped");
    assert!(offset.0 <= 40 && (16..=40).contains(&stopped.0), "{offset}, {stopped}");
    // Once the sectors can be read, the next pass does the rest.
    bench.drives.iter().for_each(|drive| drive.state().bad_sectors.clear());
    let again = array.clone();
    let done = bench.run(async move |cpu| again.resync_what_may_differ(&cpu, SMALL_WINDOW).await);
    assert_eq!(done.expect("no fault").sectors_checked.0, 192 - stopped.0);
    bench.run(async move |cpu| array.stop(&cpu).await).expect("no fault");
    assert_eq!(bench.superblocks()[0].resync_offset(), None);
}

#[test]
fn a_bit_stays_where_a_resync_had_to_leave_something() {
    let (mut bench, array) = resync_over_unreadable(true);
    bench.run(async move |cpu| array.stop(&cpu).await).expect("no fault");
    let bitmap = bitmap_of(&bench, 0);
    let dirty: Vec<u64> = (0..bitmap.header.chunks()).filter(|of| bitmap.is_dirty(*of)).collect();
    // Chunks of 8 sectors, gone through two at a time.
    assert_eq!(dirty, [4, 5]);
}

#[test]
fn a_flush_counts_only_when_whom_it_left_out_is_written_down() {
    let mut left_out = 0;
    for seed in 0..200 {
        let mut bench = Bench::make(&mirror(false, 64), seed);
        let array = open(&mut bench);
        bench.drives[1].state().gone_after = Some(2 + seed % 7);
        let (writer, flusher) = (array.clone(), array.clone());
        bench.world.spawn(0, "writer", |cpu| async move {
            for tag in 1..4 {
                let data = tagged(&[tag]);
                writer.write(&cpu, Sector(tag), data, Durability::Cached).await.expect("a copy");
            }
        });
        let drives = bench.drives.clone();
        let told = bench.run(async move |cpu| {
            for _ in 0..8 {
                let before = flusher.member_states(&cpu).await[1];
                flusher.flush(&cpu).await.expect("one copy is left");
                let image = drives[0].state().data.clone();
                let superblock = raid::metadata::superblock::find(&image).expect("one");
                if before == MemberState::Failed {
                    return Some(superblock.role_of(1));
                }
            }
            None
        });
        if let Some(role) = told {
            assert_eq!(role, Role::Faulty, "seed {seed}");
            left_out += 1;
        }
    }
    assert!(left_out > 50, "{left_out} flushes left the member out");
}

/// Opened to be written, these superblocks are refused; to be read they are not.
fn check_not_writable(mut bench: Bench, expected: &str) {
    match bench.try_assemble(degraded(writable()), &[]).map(|_| ()) {
        Err(OpenError::NotWritable { reason }) => assert!(reason.contains(expected), "{reason}"),
        other => panic!("{other:?}"),
    }
    bench.assemble(degraded(AssembleOptions::default()), &[]);
}

#[test]
fn an_event_count_that_cannot_rise_is_never_written() {
    let bench = Bench::make(&mirror(false, 64), 5);
    for drive in 0..2 {
        change(&bench, drive, |of| of.events = u64::MAX);
    }
    check_not_writable(bench, "event count");
    // Nor one that would come to its end soon.
    let bench = Bench::make(&mirror(false, 64), 5);
    for drive in 0..2 {
        change(&bench, drive, |of| of.events = u64::MAX - 1);
    }
    check_not_writable(bench, "event count");
}

#[test]
fn a_device_number_beyond_the_table_of_roles_is_never_written() {
    let bench = Bench::make(&mirror(false, 64), 6);
    // Nobody knows the role of such a number, so it is a spare, and would be counted in.
    change(&bench, 1, |of| of.dev_number = 1920);
    check_not_writable(bench, "number");
}

#[test]
fn two_devices_of_one_number_are_never_written() {
    // A spare that was away while its number was given to a member.
    let mut bench = Bench::make(&Wish { spares: 1, ..mirror(false, 64) }, 8);
    change(&bench, 2, |of| {
        of.dev_number = 1;
        let Details::V1(details) = &mut of.details else { panic!("version 1.2") };
        details.roles[1] = u16::MAX;
    });
    let spares = bench.assemble(AssembleOptions::default(), &[]).assembly().spares.clone();
    assert_eq!(spares, [2]);
    check_not_writable(bench, "one number");
}

#[test]
fn a_spare_that_knew_the_array_smaller_stays_out() {
    let mut bench = Bench::make(&Wish { spares: 1, ..mirror(false, 64) }, 9);
    let array = open(&mut bench);
    for tag in 1..4 {
        let (array, data) = (array.clone(), tagged(&[tag]));
        bench.run(async move |cpu| {
            array.write(&cpu, Sector(0), data, Durability::Cached).await.expect("no fault");
            array.stop(&cpu).await.expect("no fault");
        });
    }
    change(&bench, 2, |of| (of.events, of.component_size) = (1, Sectors(32)));
    let assembled = bench.assemble(writable(), &[]);
    assert_eq!(assembled.assembly().spares, []);
    let array = assembled.array().expect("no reshape").clone();
    bench.run(async move |cpu| {
        array.write(&cpu, Sector(0), tagged(&[4]), Durability::Cached).await.expect("no fault");
    });
    // So that nobody takes what it says for fresh.
    bench.assemble(AssembleOptions::default(), &[]);
}

#[test]
fn bad_sectors_behind_what_the_array_uses_stay_in_the_log() {
    let mut bench = Bench::make(&mirror(false, 64), 10);
    let superblock = bench.superblocks()[1].clone();
    let unused = superblock.data_offset() + Sectors(70);
    assert!(unused < superblock.data_offset() + superblock.data_size());
    let (at, length) = superblock.bad_block_log().expect("a log");
    let mut log = BadBlockLog::new(length, 0).expect("a shift of md");
    log.insert(unused, Sectors(2)).expect("room");
    put(&bench, 1, at, &log.encode());
    change(&bench, 1, |of| {
        let Details::V1(details) = &mut of.details else { panic!("version 1.2") };
        details.features = details.features.with(Features::BAD_BLOCKS, true);
    });
    let array = open(&mut bench);
    let data_start = superblock.data_offset().0;
    bench.drives[1].state().unwritable.insert(data_start + 3);
    bench.run(async move |cpu| {
        array.write(&cpu, Sector(3), tagged(&[1]), Durability::Cached).await.expect("one copy");
    });
    let image = bench.drives[1].state().data.clone();
    let log = BadBlockLog::decode(&image[at.byte_offset() as usize..], length, 0).expect("sound");
    let ranges: Vec<_> = log.ranges().map(|(at, length)| (at.0, length.0)).collect();
    assert_eq!(ranges, [(data_start + 3, 1), (unused.0, 2)]);
}

#[test]
fn a_bitmap_is_read_only_as_far_as_it_goes() {
    let mut bench = Bench::make(&mirror(true, 192), 11);
    for drive in 0..2 {
        let superblock = &bench.superblocks()[drive];
        let at =
            superblock.bitmap_at().expect("a bitmap") + bitmap_of(&bench, drive).header.length();
        bench.drives[drive].state().bad_sectors.insert(at.0);
    }
    bench.assemble(writable(), &[]);
}

#[test]
fn a_bitmap_that_covers_more_than_the_array_is_cut_off() {
    let mut bench = Bench::make(&mirror(true, 192), 12);
    for drive in 0..2 {
        let mut bitmap = bitmap_of(&bench, drive);
        bitmap.header.sync_size = Sectors(1 << 14);
        let mut large = Bitmap::new(bitmap.header, false, Sectors(1)).expect("room");
        large.set(1, true);
        let at = bench.superblocks()[drive].bitmap_at().expect("a bitmap");
        put(&bench, drive, at, &large.encode());
    }
    let array = open(&mut bench);
    bench
        .run(async move |cpu| {
            array.write(&cpu, Sector(180), tagged(&[1, 2]), Durability::Cached).await
        })
        .expect("no fault");
    let bitmap = bitmap_of(&bench, 1);
    assert_eq!(bitmap.header.sync_size, Sectors(192));
    let dirty: Vec<u64> = (0..24).filter(|chunk| bitmap.is_dirty(*chunk)).collect();
    assert_eq!(dirty, [1, 22]);
}

#[test]
fn a_bit_stays_if_a_member_fails_while_its_data_is_flushed() {
    let mut failed = 0;
    for seed in 0..400 {
        let mut bench = Bench::make(&mirror(true, 192), seed);
        let array = open(&mut bench);
        let again = array.clone();
        bench.run(async move |cpu| {
            again.write(&cpu, Sector(0), tagged(&[7]), Durability::Cached).await.expect("no fault");
            again.housekeeping(&cpu).await.expect("no fault");
        });
        bench.drives[1].state().gone_after = Some(1 + seed % 5);
        let (housekeeper, writer) = (array.clone(), array.clone());
        bench.world.spawn(0, "housekeeping", |cpu| async move {
            housekeeper.housekeeping(&cpu).await.expect("one copy is left");
        });
        bench.world.spawn(1, "writer", |cpu| async move {
            let data = tagged(&[8]);
            writer.write(&cpu, Sector(100), data, Durability::Cached).await.expect("a copy");
        });
        bench.world.run();
        let role = bench.superblocks()[0].role_of(1);
        let data_start = bench.superblocks()[1].data_offset().byte_offset() as usize;
        let kept = bench.drives[1].state().durable.as_ref().expect("a cache")[data_start] == 7;
        if role == Role::Faulty && !kept {
            failed += 1;
            assert!(bitmap_of(&bench, 0).is_dirty(0), "seed {seed}: member 1 lacks the chunk");
        }
    }
    assert!(failed > 50, "{failed}");
}

#[test]
fn a_bitmap_that_covers_less_than_the_array_marks_all_of_it() {
    let mut bench = Bench::make(&mirror(true, 192), 7);
    for drive in 0..2 {
        let mut bitmap = bitmap_of(&bench, drive);
        bitmap.header.sync_size = Sectors(96);
        let at = bench.superblocks()[drive].bitmap_at().expect("a bitmap");
        put(&bench, drive, at, &bitmap.encode());
    }
    let array = open(&mut bench);
    let again = array.clone();
    bench
        .run(async move |cpu| {
            again.write(&cpu, Sector(180), tagged(&[1, 2]), Durability::Cached).await
        })
        .expect("beyond what it covered");
    let bitmap = bitmap_of(&bench, 1);
    assert_eq!(bitmap.header.sync_size, Sectors(192));
    assert!((0..24).all(|chunk| bitmap.is_dirty(chunk)), "nobody knows which of them agree");
    let bad = bench.run(async move |cpu| array.bad_blocks(&cpu, MemberIndex(0)).await);
    assert!(bad.is_empty());
}
