//! The barrier of the example keeps its contract beside a resync, which its scenario has none of.

#[path = "../examples/my_barrier.rs"]
#[allow(dead_code, reason = "its main is the example's")]
mod my_barrier;

use my_barrier::CountPerCore;
use raid::buffer::Buffer;
use raid::platform::{Label, Platform};
use raid::units::{CpuId, Sector, Sectors};
use raid::{Array, ArrayOptions, Level, ResyncOptions, Tuning};
use sim::machine::MachineFile;
use sim::{Options, Outcome, Simulation};
use std::sync::Arc;

const DRIVES: usize = 4;
const DRIVE_SIZE: Sectors = Sectors(1 << 16);
const CORES: u32 = 8;
const READERS: u32 = 32;
const READS_OF_EACH: u32 = 20;
const BLOCK: Sectors = Sectors(8);

/// Nanoseconds until all reads are done, beside a resync if `resync`.
fn simulate(resync: bool) -> u64 {
    let machine = MachineFile::preset("kunpeng920").expect("a preset").nominal();
    let mut world = Simulation::new(&machine, Options { seed: 2022, ..Options::default() });
    let platform = world.platform();
    let drives = (0..DRIVES)
        .map(|_| world.drive_without_content("drive", &machine.drive, DRIVE_SIZE))
        .collect();
    let (level, chunk) = (Level::raid10_near(2), Sectors(128));
    let options = ArrayOptions { level, chunk, tuning: Tuning::default() };
    let barrier = Arc::new(CountPerCore::new(&platform));
    let array = Array::create_with_barrier(&platform, drives, options, barrier)
        .expect("four like drives make an array");
    for reader in 0..READERS {
        let array = array.clone();
        let label = Label::indexed("reader", reader);
        platform.spawn_on(CpuId(reader % CORES), label, async move |cpu| {
            let mut buffer = Buffer::zeroed(BLOCK.bytes() as usize);
            for read in 0..READS_OF_EACH {
                let block = u64::from(reader * READS_OF_EACH + read);
                let at = Sector(block * BLOCK.0 % array.capacity().0);
                let done = array.read(&cpu, at, buffer).await;
                done.result.expect("the drives are well");
                buffer = done.buffer;
            }
        });
    }
    if resync {
        platform.spawn_on(CpuId(CORES), Label::new("resync"), async move |cpu| {
            let range = Some(Sector(0)..Sector(1 << 13));
            let options = ResyncOptions { range, ..ResyncOptions::default() };
            array.resync(&cpu, options).await.expect("the drives are well");
        });
    }
    assert_eq!(world.run(), Outcome::Done);
    world.now_ns()
}

#[test]
fn it_lets_reads_and_a_resync_through() {
    assert!(simulate(true) >= simulate(false));
}
