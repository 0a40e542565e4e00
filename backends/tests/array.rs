//! The whole engine on this machine: a RAID 10 of real files, and a RAID 5 with stripe heads in
//! memory, used from all cores while they resync.

use backends::{Cpus, Options, RealCpu, RealDevice, RealMachine, RealPlatform};
use raid::buffer::Buffer;
use raid::device::Durability;
use raid::levels::Raid5Layout;
use raid::platform::{Cpu, Platform};
use raid::tuning::{HeadLookup, StripeLookup};
use raid::units::{CpuId, Sector, Sectors};
use raid::{Array, ArrayOptions, Level, ResyncOptions, Tuning};
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};

const BLOCK_BYTES: usize = 4096;
const MEMBERS: usize = 4;
const MEMBER: Sectors = Sectors(4096);
/// What one writer has to itself: not a multiple of the chunk, so that writers meet in chunks.
const AREA_BLOCKS: u64 = 75;
const WRITERS_PER_CORE: u64 = 4;
const ROUNDS: u32 = 60;

/// Numbers that differ from writer to writer, and are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// Writes and reads random places of its own area and compares with what it remembers. At the end
/// what the area holds.
async fn use_area(cpu: &RealCpu, array: &Array<RealPlatform>, writer: u64) -> Vec<u8> {
    let first = Sector(writer * AREA_BLOCKS * 8);
    let mut numbers = Numbers(writer + 1);
    let mut remembered = vec![0; AREA_BLOCKS as usize * BLOCK_BYTES];
    for round in 0..ROUNDS {
        let block = numbers.below(AREA_BLOCKS);
        let blocks = 1 + numbers.below(AREA_BLOCKS - block);
        let at = first + Sectors(block * 8);
        let place = block as usize * BLOCK_BYTES..(block + blocks) as usize * BLOCK_BYTES;
        let fill = numbers.below(255) as u8 + 1;
        let durability = if round % 8 == 0 { Durability::Fua } else { Durability::Cached };
        remembered[place.clone()].fill(fill);
        let data = Buffer::copy_of(&remembered[place]).into_shared();
        array.write(cpu, at, data, durability).await.expect("written");
        let read = array.read(cpu, first, Buffer::zeroed(remembered.len())).await;
        assert_eq!(read.result, Ok(()));
        assert!(*read.buffer == *remembered, "writer {writer}, round {round}");
    }
    array.flush(cpu).await.expect("flushed");
    remembered
}

/// Runs all writers and a resync that goes round until they are done. What the array then holds.
fn use_array(machine: &RealMachine, array: &Arc<Array<RealPlatform>>) -> Vec<u8> {
    let (sender, receiver) = mpsc::channel();
    let cores = u64::from(machine.platform().topology().cpu_count());
    for writer in 0..cores * WRITERS_PER_CORE {
        let (array, sender) = (array.clone(), sender.clone());
        let label = raid::platform::Label::indexed("writer", writer as u32);
        machine.platform().spawn_on(CpuId((writer % cores) as u32), label, move |cpu| async move {
            let area = use_area(&cpu, &array, writer).await;
            sender.send((writer, area)).expect("the test waits");
        });
    }
    drop(sender);
    let mut areas = Vec::new();
    while (areas.len() as u64) < cores * WRITERS_PER_CORE {
        let array = array.clone();
        machine.block_on(CpuId(0), move |cpu| async move {
            let report = array.resync(&cpu, ResyncOptions::default()).await.expect("resynced");
            assert_eq!(report.sectors_checked, array.capacity());
            assert_eq!(report.sectors_written, Sectors(0), "copies differed");
        });
        areas.extend(receiver.try_iter());
    }
    areas.sort();
    areas.into_iter().flat_map(|(_, area)| area).collect()
}

fn check(io_uring: bool) {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let paths: Vec<PathBuf> =
        (0..MEMBERS).map(|member| directory.path().join(format!("member-{member}"))).collect();
    let devices = paths.iter().map(|path| RealDevice::create_file(path, MEMBER));
    let devices = devices.collect::<Result<Vec<_>, _>>().expect("created");
    let machine = RealMachine::start(Cpus::All, Options { io_uring }).expect("a machine starts");
    let options = ArrayOptions {
        level: Level::raid10_near(2),
        chunk: Sectors(128),
        tuning: Tuning::default(),
    };
    let array = Array::create(&machine.platform(), devices, options).expect("an array");
    let expected = use_array(&machine, &array);

    // The second copy loses its end behind our back: reads find it elsewhere, and put it back.
    let cut = fs::OpenOptions::new().write(true).open(&paths[1]).expect("a member");
    cut.set_len(BLOCK_BYTES as u64).expect("cut");
    let length_bytes = expected.len();
    let found = machine.block_on(CpuId(0), move |cpu: RealCpu| async move {
        let mut found = Vec::new();
        for block in 0..length_bytes / BLOCK_BYTES {
            let at = Sector(block as u64 * 8);
            let read = array.read(&cpu, at, Buffer::zeroed(BLOCK_BYTES)).await;
            assert_eq!(read.result, Ok(()));
            found.extend_from_slice(&read.buffer);
        }
        let report = array.resync(&cpu, ResyncOptions::default()).await.expect("resynced");
        assert_eq!(report.sectors_unreadable, Sectors(0));
        assert_eq!(cpu.id(), CpuId(0));
        found
    });
    assert!(found == expected, "a cut member changed what the array holds");
    machine.shutdown();
    let members = paths.iter().map(|path| fs::read(path).expect("read")).collect::<Vec<_>>();
    assert!(members[0] == members[1] && members[2] == members[3], "copies differ");
}

/// Its writers meet at stripe heads; the resync beside them finds parity right at all times.
#[test]
fn stripe_heads_looked_up_in_any_way_hold_what_was_written() {
    for lookup in [HeadLookup::PerPage, HeadLookup::Both] {
        let devices = (0..MEMBERS).map(|_| RealDevice::memory("member", MEMBER)).collect();
        let machine = RealMachine::start(Cpus::All, Options { io_uring: false }).expect("starts");
        let tuning = Tuning {
            stripe_lookup: StripeLookup::Heads(lookup),
            stripe_threads_per_node: 2,
            // Fewer than the writers ask for, so that they wait for each other.
            stripe_heads_max: 128,
            ..Tuning::default()
        };
        let level = Level::Raid5 { layout: Raid5Layout::LeftSymmetric };
        let options = ArrayOptions { level, chunk: Sectors(64), tuning };
        let array = Array::create(&machine.platform(), devices, options).expect("an array");
        let expected = use_array(&machine, &array);
        let length_bytes = expected.len();
        let found = machine.block_on(CpuId(0), move |cpu: RealCpu| async move {
            let read = array.read(&cpu, Sector(0), Buffer::zeroed(length_bytes)).await;
            assert_eq!(read.result, Ok(()));
            let report = array.check(&cpu, ResyncOptions::default()).await.expect("checked");
            assert_eq!(report.mismatches, Sectors(0));
            read.buffer.to_vec()
        });
        assert!(found == expected, "{lookup:?}: not what was written");
        machine.shutdown();
    }
}

#[test]
fn an_array_of_files_over_io_uring_holds_what_was_written() {
    check(true);
}

#[test]
fn an_array_of_files_without_io_uring_holds_what_was_written() {
    check(false);
}
