//! The forms of dispatch on this machine: a mirror with a write-intent bitmap on drives in memory, written
//! from all cores by each.

use backends::{Cpus, Options, RealCpu, RealDevice, RealMachine, RealPlatform};
use raid::assemble::{AssembleOptions, assemble, make};
use raid::buffer::Buffer;
use raid::device::Durability;
use raid::metadata::create::{NewArray, NewConsistency, NewMember};
use raid::metadata::geometry::{Geometry, Level};
use raid::metadata::{Time, Uuid, Version};
use raid::platform::{Label, Platform};
use raid::tuning::{Affinity, Dispatch, OfflineLists, Tuning};
use raid::units::{CpuId, Sector, Sectors};
use raid::{Array, ResyncOptions};
use std::sync::{Arc, mpsc};

const MEMBER: Sectors = Sectors(8192);
const BLOCK_BYTES: usize = 4096;
const WRITERS_PER_CORE: u64 = 4;
const ROUNDS: u64 = 50;
/// Blocks that a writer has to itself.
const AREA_BLOCKS: u64 = 16;

fn new_array() -> NewArray {
    let member = |index: u8| NewMember {
        name: format!("memory{index}"),
        size: MEMBER,
        uuid: Uuid([index + 1; 16]),
        write_mostly: false,
    };
    NewArray {
        version: Version::V1_2,
        geometry: Geometry::new(Level::Raid1, Sectors(0), 2).expect("fits"),
        name: "dispatch".to_owned(),
        uuid: Uuid([9; 16]),
        created: Time::default(),
        members: vec![Some(member(0)), Some(member(1))],
        spares: Vec::new(),
        component_size: None,
        data_offset: Some(Sector(128)),
        consistency: NewConsistency::Bitmap { chunk_bytes: Some(4096) },
        assume_clean: true,
        bad_block_log: false,
    }
}

async fn open(cpu: &RealCpu, dispatch: Dispatch) -> Arc<Array<RealPlatform>> {
    let device = |index| Arc::new(RealDevice::memory(format!("memory{index}"), MEMBER));
    let devices: Vec<_> = (0..2).map(device).collect();
    make::<RealPlatform>(cpu, &devices, &new_array()).await.expect("made");
    let tuning = Tuning { dispatch, ..Tuning::default() };
    let options = AssembleOptions { writable: true, tuning, ..AssembleOptions::default() };
    let assembled = assemble::<RealPlatform>(cpu, devices, options).await.expect("assembled");
    let array = assembled.array().expect("no reshape").clone();
    array.start_dispatch(cpu).await;
    array
}

/// Writes to its own area and reads it back.
async fn write_area(cpu: &RealCpu, array: &Array<RealPlatform>, writer: u64) {
    for round in 0..ROUNDS {
        let at = Sector((writer * AREA_BLOCKS + round % AREA_BLOCKS) * 8);
        let bytes = vec![(writer * ROUNDS + round) as u8; BLOCK_BYTES];
        let data = Buffer::copy_of(&bytes).into_shared();
        array.write(cpu, at, data, Durability::Cached).await.expect("written");
        let read = array.read(cpu, at, Buffer::zeroed(BLOCK_BYTES)).await;
        assert_eq!(read.result, Ok(()));
        assert!(*read.buffer == *bytes, "writer {writer}, round {round}");
    }
}

fn check(dispatch: Dispatch) {
    let machine = RealMachine::start(Cpus::All, Options { io_uring: false }).expect("it starts");
    let array = machine.block_on(CpuId(0), move |cpu| async move { open(&cpu, dispatch).await });
    let (sender, receiver) = mpsc::channel();
    let cores = u64::from(machine.platform().topology().cpu_count());
    for writer in 0..cores * WRITERS_PER_CORE {
        let (array, sender) = (array.clone(), sender.clone());
        let label = Label::indexed("writer", writer as u32);
        machine.platform().spawn_on(CpuId((writer % cores) as u32), label, move |cpu| async move {
            write_area(&cpu, &array, writer).await;
            sender.send(writer).expect("the test waits");
        });
    }
    drop(sender);
    let ended = receiver.iter().count() as u64;
    assert_eq!(ended, cores * WRITERS_PER_CORE, "{dispatch:?}");
    let counts = machine.block_on(CpuId(0), move |cpu| async move {
        let report = array.check(&cpu, ResyncOptions::default()).await.expect("checked");
        assert_eq!(report.mismatches, Sectors(0), "{dispatch:?}");
        let counts = array.dispatch_counts(&cpu).await.expect("dispatched");
        array.end_dispatch(&cpu).await;
        array.stop(&cpu).await.expect("stopped");
        counts
    });
    assert_eq!(counts.writes, ended * ROUNDS, "{dispatch:?}");
    machine.shutdown();
}

#[test]
fn the_thread_of_an_array_writes_for_all_cores() {
    check(Dispatch::RaidThread(Affinity::Free));
    check(Dispatch::RaidThread(Affinity::Core(CpuId(0))));
}

#[test]
fn workers_write_what_their_cores_gathered() {
    check(Dispatch::PerCpu(OfflineLists::Adopted));
}

#[test]
fn submitters_write_what_is_in_their_plugs() {
    check(Dispatch::Plug);
}
