//! What is on the devices when.

use crate::bench::{Bench, TestArray, Wish, degraded, read_all, tagged, writable};
use raid::assemble::AssembleOptions;
use raid::device::Durability;
use raid::metadata::geometry::Raid5Layout;
use raid::metadata::superblock::{Features, Role, Superblock};
use raid::metadata::{Level, Version};
use raid::units::{MemberIndex, Sector, Sectors};
use raid::{MemberState, RecoverOptions, ResyncOptions};

fn mirror() -> Wish {
    Wish {
        level: Level::Raid1,
        members: 2,
        spares: 0,
        bitmap: true,
        version: Version::V1_2,
        size: 192,
    }
}

fn write(bench: &mut Bench, array: &TestArray, at: u64, tags: &[u64]) {
    let (array, data) = (array.clone(), tagged(tags));
    bench
        .run(async move |cpu| array.write(&cpu, Sector(at), data, Durability::Cached).await)
        .expect("redundant");
}

fn open(bench: &mut Bench) -> TestArray {
    bench.assemble(writable(), &[]).array().expect("no reshape").clone()
}

/// Events, and whether the superblock says that the array is clean.
fn said(of: &Superblock) -> (u64, bool) {
    (of.events, of.resync_offset().is_none())
}

#[test]
fn an_array_is_active_from_its_first_write_until_it_is_stopped() {
    let mut bench = Bench::make(&mirror(), 1);
    let array = open(&mut bench);
    assert_eq!(said(&bench.superblocks()[0]), (1, true), "nothing is written before");
    write(&mut bench, &array, 3, &[7]);
    for superblock in bench.superblocks() {
        assert_eq!(said(&superblock), (2, false));
    }
    write(&mut bench, &array, 4, &[8]);
    assert_eq!(said(&bench.superblocks()[1]), (2, false), "once is enough");
    bench.run(async move |cpu| array.stop(&cpu).await).expect("no fault");
    for superblock in bench.superblocks() {
        assert_eq!(said(&superblock), (3, true));
        assert!(superblock.updated.seconds >= 1_800_000_000);
    }
}

#[test]
fn an_idle_array_becomes_clean_at_the_second_housekeeping() {
    let mut bench = Bench::make(&mirror(), 2);
    let array = open(&mut bench);
    write(&mut bench, &array, 3, &[7]);
    let mut clean = Vec::new();
    for _ in 0..2 {
        let array = array.clone();
        bench.run(async move |cpu| array.housekeeping(&cpu).await).expect("no fault");
        clean.push(said(&bench.superblocks()[0]).1);
    }
    assert_eq!(clean, [false, true]);
    write(&mut bench, &array, 3, &[8]);
    assert!(!said(&bench.superblocks()[0]).1, "and active again");
}

#[test]
fn a_member_that_fails_is_disowned_before_the_write_is_acknowledged() {
    let mut bench = Bench::make(&mirror(), 3);
    let array = open(&mut bench);
    write(&mut bench, &array, 0, &[1]);
    bench.drives[1].state().gone_after = Some(1);
    write(&mut bench, &array, 0, &[2]);
    let superblocks = bench.superblocks();
    assert_eq!(superblocks[0].role_of(1), Role::Faulty);
    assert!(superblocks[0].events > superblocks[1].events);
    // The power goes at once: the failed one does not come back.
    let mut bench = Bench::boot(bench.cut(), 4);
    let assembled = bench.assemble(degraded(writable()), &[]);
    assert_eq!(assembled.assembly().left_out.len(), 1);
    let array = assembled.array().expect("no reshape").clone();
    let states = bench.run(async move |cpu| array.member_states(&cpu).await);
    assert_eq!(states, [MemberState::InSync, MemberState::Missing]);
}

#[test]
fn a_member_that_does_not_take_its_bits_is_disowned_too() {
    let mut bench = Bench::make(&mirror(), 13);
    let array = open(&mut bench);
    write(&mut bench, &array, 0, &[1]);
    bench.drives[1].state().gone_after = Some(1);
    write(&mut bench, &array, 100, &[2]);
    let superblock = &bench.superblocks()[0];
    assert_eq!(superblock.role_of(1), Role::Faulty);
    let at = superblock.bitmap_at().expect("a bitmap").byte_offset() as usize;
    let bits = bench.drives[0].state().data[at + 256..at + 258].to_vec();
    assert_eq!(bits, [1, 0x10], "chunks 0 and 12");
}

#[test]
fn bad_sectors_are_in_the_log_before_the_write_is_acknowledged() {
    let mut bench = Bench::make(&mirror(), 5);
    let array = open(&mut bench);
    let data_start = bench.superblocks()[1].data_offset().0;
    bench.drives[1].state().unwritable.insert(data_start + 9);
    write(&mut bench, &array, 8, &[1, 2, 3]);
    assert!(bench.superblocks()[1].has(Features::BAD_BLOCKS));
    assert!(!bench.superblocks()[0].has(Features::BAD_BLOCKS));
    let mut bench = Bench::boot(bench.cut(), 6);
    let assembled = bench.assemble(writable(), &[]);
    let array = assembled.array().expect("no reshape").clone();
    let bad = bench.run(async move |cpu| array.bad_blocks(&cpu, MemberIndex(1)).await);
    assert_eq!(bad.len(), 1);
    assert_eq!((bad[0].at, bad[0].length), (Sector(8), Sectors(3)));
}

#[test]
fn a_spare_is_filled_step_by_step_and_takes_the_role() {
    let wish = Wish {
        level: Level::Raid5(Raid5Layout::LeftSymmetric),
        members: 3,
        spares: 1,
        bitmap: false,
        version: Version::V1_2,
        size: 512,
    };
    let mut bench = Bench::make(&wish, 7);
    let array = open(&mut bench);
    write(&mut bench, &array, 0, &(1..100).collect::<Vec<u64>>());
    bench.run(async move |cpu| array.stop(&cpu).await).expect("no fault");

    // Without member 1: the spare steps in, and the power goes in the middle.
    let options = degraded(AssembleOptions { take_spares: true, ..writable() });
    let assembled = bench.assemble(options, &[1]);
    let array = assembled.array().expect("no reshape").clone();
    let half = RecoverOptions { window: Sectors(16), until: Some(Sector(256)) };
    bench.run(async move |cpu| array.rebuild(&cpu, half).await).expect("redundant");
    let spare = &bench.superblocks()[3];
    assert_eq!((spare.role(), spare.recovery_offset()), (Role::Active(1), Some(Sector(256))));

    let mut bench = Bench::boot(bench.cut(), 8);
    let assembled = bench.assemble(degraded(writable()), &[1]);
    let array = assembled.array().expect("no reshape").clone();
    let again = array.clone();
    let rest = RecoverOptions { window: Sectors(16), until: None };
    let report = bench.run(async move |cpu| array.rebuild(&cpu, rest).await).expect("redundant");
    assert_eq!((report.sectors_written, report.recovered), (Sectors(256), vec![MemberIndex(1)]));
    assert_eq!(bench.superblocks()[3].recovery_offset(), None);
    let tags = bench.run(async move |cpu| read_all(&cpu, &again).await).expect("readable");
    assert_eq!(tags[..99], (1..100).collect::<Vec<u64>>());
    // And the one that was away is no longer of the array.
    let assembled = bench.assemble(AssembleOptions::default(), &[]);
    assert_eq!(assembled.assembly().left_out.len(), 1);
}

#[test]
fn bits_stay_while_a_member_is_missing() {
    let mut bench = Bench::make(&mirror(), 9);
    let assembled = bench.assemble(degraded(writable()), &[1]);
    let array = assembled.array().expect("no reshape").clone();
    write(&mut bench, &array, 8, &[1]);
    bench.run(async move |cpu| array.stop(&cpu).await).expect("no fault");
    let image = bench.drives[0].state().data.clone();
    let superblock = &bench.superblocks()[0];
    let at = superblock.bitmap_at().expect("a bitmap").byte_offset() as usize;
    assert_eq!(image[at + 256], 0b10, "the second chunk of 4 KiB");
    let cleared = u64::from_le_bytes(image[at + 32..at + 40].try_into().expect("8 bytes"));
    assert!(cleared <= 1, "what was cleared is as old as the missing member");
}

#[test]
fn a_resync_goes_on_where_it_stopped() {
    let wish = Wish { bitmap: false, size: 512, ..mirror() };
    let mut bench = Bench::make(&wish, 10);
    let array = open(&mut bench);
    write(&mut bench, &array, 0, &[1]);
    let mut bench = Bench::boot(bench.cut(), 11);
    let array = open(&mut bench);
    let window = ResyncOptions { window: Sectors(16), ..ResyncOptions::default() };
    bench.world.spawn(0, "resync", |cpu| async move {
        array.resync_what_may_differ(&cpu, window).await.expect("no fault");
    });
    // Until some checkpoint is on both members.
    let offset = loop {
        assert!(bench.world.run_for(100).is_none(), "the resync is not over yet");
        let found = bench.superblocks();
        let offsets = found.iter().map(|of| of.resync_offset().map_or(u64::MAX, |at| at.0));
        let lowest = offsets.min().expect("two members");
        if lowest > 100 && lowest < 400 {
            break lowest;
        }
    };
    let mut bench = Bench::boot(bench.cut(), 12);
    let assembled = bench.assemble(writable(), &[]);
    let from = assembled.assembly().resync_offset.expect("not done");
    assert!(from.0 >= offset);
    let array = assembled.array().expect("no reshape").clone();
    let window = ResyncOptions { window: Sectors(16), ..ResyncOptions::default() };
    let report = bench.run(async move |cpu| array.resync_what_may_differ(&cpu, window).await);
    assert_eq!(report.expect("no fault").sectors_checked, Sectors(512 - from.0));
    assert_eq!(bench.superblocks()[0].resync_offset(), None);
}
