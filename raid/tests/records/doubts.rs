//! Two faults in the same rows of a parity array, and then a restart: what nobody knows for certain
//! is an error, never wrong data.

use crate::bench::{Bench, TestArray, Wish, degraded, tagged, writable};
use crate::support::TestPlatform;
use raid::assemble::{AssembleOptions, assemble};
use raid::buffer::Buffer;
use raid::device::Durability;
use raid::metadata::assembly::Options as Rules;
use raid::metadata::geometry::Raid5Layout;
use raid::metadata::superblock::{Details, find};
use raid::metadata::{Level, Version};
use raid::units::{MemberIndex, Sector};
use raid::{ArrayError, ResyncOptions};
use std::sync::Arc;

/// Stripe 0 has its data on members 0 and 1, 8 sectors each, and its parity on member 2.
fn parity_array(seed: u64) -> Bench {
    let wish = Wish {
        level: Level::Raid5(Raid5Layout::LeftSymmetric),
        members: 3,
        spares: 0,
        bitmap: false,
        version: Version::V1_2,
        size: 192,
    };
    Bench::make(&wish, seed)
}

/// Takes the room for bad blocks away from a member.
fn without_log(bench: &Bench, member: usize) {
    let mut state = bench.drives[member].state();
    let mut superblock = find(&state.data).expect("a superblock");
    let Details::V1(details) = &mut superblock.details else { panic!("version 1.2") };
    details.bad_block_log_size = 0;
    let (start, bytes) = (superblock.at.byte_offset() as usize, superblock.encode());
    state.data[start..start + bytes.len()].copy_from_slice(&bytes);
    state.with_volatile_cache();
}

fn open(bench: &mut Bench) -> TestArray {
    bench.assemble(degraded(writable()), &[]).array().expect("no reshape").clone()
}

fn write(bench: &mut Bench, array: &TestArray, at: u64, tag: u64) -> Result<(), ArrayError> {
    let (array, data) = (array.clone(), tagged(&[tag; 8]));
    bench.run(async move |cpu| array.write(&cpu, Sector(at), data, Durability::Fua).await)
}

/// The third sector of the data of a member of stripe 0 does not take writes any more.
fn refuse(bench: &Bench, member: usize) {
    let at = find(&bench.drives[member].state().data).expect("a superblock").data_offset();
    bench.drives[member].state().unwritable.insert(at.0 + 3);
}

/// Each sector alone: what it holds, or that it is lost.
fn tags(bench: &mut Bench, array: &TestArray, at: u64) -> Vec<Option<u64>> {
    let mut found = Vec::new();
    for sector in at..at + 8 {
        let array = array.clone();
        let done =
            bench.run(async move |cpu| array.read(&cpu, Sector(sector), Buffer::zeroed(512)).await);
        let tag = u64::from_le_bytes(done.buffer[..8].try_into().expect("8 bytes"));
        found.push(match done.result {
            Ok(()) => Some(tag),
            Err(ArrayError::BeyondRedundancy { .. }) => None,
            Err(error) => panic!("sector {sector}: {error}"),
        });
    }
    found
}

/// Cuts the power and opens the array again; then what its first stripe holds.
fn after_restart(bench: &Bench, seed: u64, options: AssembleOptions) -> [Vec<Option<u64>>; 2] {
    let mut bench = Bench::boot(bench.cut(), seed);
    let array = bench.assemble(options, &[]).array().expect("no reshape").clone();
    [0, 8].map(|at| tags(&mut bench, &array, at))
}

/// Cuts the power; then why the array is not opened again.
fn refused(bench: &Bench, seed: u64) -> String {
    let mut bench = Bench::boot(bench.cut(), seed);
    let devices = bench.drives.iter().cloned().map(Arc::new).collect();
    let options = degraded(writable());
    let opened = bench.run(async move |cpu| assemble::<TestPlatform>(&cpu, devices, options).await);
    opened.err().expect("dirty and degraded").to_string()
}

/// Member 0 has bad sectors, and then member 1 refuses a write to the same rows.
fn two_faults(bench: &mut Bench) -> TestArray {
    let array = open(bench);
    write(bench, &array, 0, 1).expect("no fault");
    write(bench, &array, 8, 1).expect("no fault");
    refuse(bench, 0);
    write(bench, &array, 0, 2).expect("the sectors can be spared");
    refuse(bench, 1);
    let error = write(bench, &array, 8, 3).expect_err("nothing is left to put them together from");
    let named = matches!(error, ArrayError::Unwritable { member: MemberIndex(1), .. });
    assert!(named, "{error}");
    array
}

/// Member 0 holds what was acknowledged, as far as anybody knows; the other old or new data.
fn assert_never_wrong([first, second]: [Vec<Option<u64>>; 2], seed: u64) {
    assert!(first.iter().all(|tag| tag.is_none_or(|tag| tag == 2)), "seed {seed}: {first:?}");
    let old_or_new = second.iter().all(|tag| tag.is_none_or(|tag| tag == 1 || tag == 3));
    assert!(old_or_new, "seed {seed}: {second:?}");
}

#[test]
fn what_a_second_member_did_not_take_is_in_its_log_before_the_error_is_told() {
    for seed in 0..20 {
        let mut bench = parity_array(seed);
        let array = two_faults(&mut bench);
        assert_never_wrong(after_restart(&bench, seed, writable()), seed);
        let bad = bench.run(async move |cpu| array.bad_blocks(&cpu, MemberIndex(1)).await);
        assert_eq!((bad.len(), bad[0].at, bad[0].length.0), (1, Sector(0), 8));
    }
}

#[test]
fn a_second_member_that_has_no_log_is_failed() {
    for seed in 0..20 {
        let mut bench = parity_array(seed);
        without_log(&bench, 1);
        let array = two_faults(&mut bench);
        let error = refused(&bench, seed);
        assert!(error.contains("not shut down cleanly and lacks role 1"), "{error}");
        // The rows of both faults are lost even to whoever gives the guarantee up.
        let rules = Rules { degraded: true, force: true, ..Rules::default() };
        let forced = AssembleOptions { rules, ..AssembleOptions::default() };
        assert_never_wrong(after_restart(&bench, seed, forced), seed);
        let again = array.clone();
        let states = bench.run(async move |cpu| array.member_states(&cpu).await);
        assert_eq!(states[1], raid::MemberState::Failed);
        // What the array still has redundancy for goes on.
        write(&mut bench, &again, 32, 4).expect("one member can be spared");
    }
}

#[test]
fn without_a_log_and_without_a_member_to_spare_the_array_does_not_start_again() {
    for seed in 0..20 {
        let mut bench = parity_array(seed);
        without_log(&bench, 1);
        let array = open(&mut bench);
        write(&mut bench, &array, 8, 1).expect("no fault");
        bench.drives[0].state().gone_after = Some(1);
        write(&mut bench, &array, 0, 2).expect("one member can be spared");
        refuse(&bench, 1);
        write(&mut bench, &array, 8, 3).expect_err("a second one cannot");
        // Neither a resync nor an idle spell nor being stopped in order makes parity trusted again.
        let resyncing = array.clone();
        bench
            .run(async move |cpu| {
                resyncing.resync_what_may_differ(&cpu, ResyncOptions::default()).await
            })
            .expect("what is lost is counted");
        for _ in 0..2 {
            let array = array.clone();
            bench.run(async move |cpu| array.housekeeping(&cpu).await).expect("no fault");
        }
        bench.run(async move |cpu| array.stop(&cpu).await).expect("no fault");
        let error = refused(&bench, seed);
        assert!(error.contains("not shut down cleanly and lacks role 0"), "{error}");
    }
}

#[test]
fn parity_that_was_left_behind_is_in_the_log_before_the_data_goes_out() {
    for seed in 0..20 {
        let mut bench = parity_array(seed);
        let array = open(&mut bench);
        write(&mut bench, &array, 8, 1).expect("no fault");
        refuse(&bench, 0);
        write(&mut bench, &array, 0, 2).expect("the sectors can be spared");
        // Parity cannot be read this once, and the cache does not have it.
        let mut bench = Bench::boot(bench.cut(), seed);
        let array = open(&mut bench);
        let at = find(&bench.drives[2].state().data).expect("a superblock").data_offset();
        bench.drives[2].state().bad_sectors.insert(at.0 + 3);
        write(&mut bench, &array, 8, 3).expect("the data has its place");
        bench.drives[2].state().bad_sectors.clear();
        let [first, second] = after_restart(&bench, seed, writable());
        assert!(first.iter().all(|tag| tag.is_none_or(|tag| tag == 2)), "seed {seed}: {first:?}");
        assert_eq!(second, [Some(3); 8]);
    }
}
