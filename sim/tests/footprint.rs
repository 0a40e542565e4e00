//! A machine that runs longer needs no more memory.

use raid::device::{Device, Io};
use raid::lock::{SpinKind, SpinLock};
use raid::platform::{Cpu, Label, Place, Platform};
use raid::units::{CpuId, Sector, Sectors};
use sim::machine::MachineFile;
use sim::{Options, Outcome, Simulation};
use std::sync::Arc;

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

const MILLISECOND_NS: u64 = 1_000_000;
/// Requests under way on each core.
const DEPTH: u32 = 8;

/// Bytes on the heap.
fn in_use() -> usize {
    dhat::HeapStats::get().curr_bytes
}

#[test]
fn memory_does_not_grow_with_simulated_time() {
    let _profiler = dhat::Profiler::builder().testing().build();
    let machine = MachineFile::preset("desktop-4c").expect("a preset").nominal();
    let mut simulation = Simulation::new(&machine, Options::default());
    let platform = simulation.platform();
    let size = Sectors(1 << 20);
    let drive = Arc::new(simulation.drive_without_content("drive", &machine.drive, size));
    let lock = SpinLock::new(&platform, Label::new("lock"), SpinKind::Queued, Place::Alone, 0_u64);
    let lock = Arc::new(lock);
    for cpu in 0..machine.shape.cpu_count() {
        for slot in 0..DEPTH {
            let (drive, lock) = (drive.clone(), lock.clone());
            let label = Label::indexed("slot", slot);
            platform.spawn_on(CpuId(cpu), label, move |cpu| async move {
                let mut buffer = raid::buffer::Buffer::zeroed(4096);
                loop {
                    let io = Io::Read { at: Sector(0), into: buffer };
                    let done = drive.submit(&cpu, io).await.await;
                    buffer = done.buffer.expect("a read gives its buffer back");
                    lock.with(&cpu, async |count| *count += 1).await;
                    cpu.sleep_ns(1_000).await;
                }
            });
        }
    }
    let mut run_until_ms = |time_ms: u64| {
        let outcome = simulation.run_until(time_ms * MILLISECOND_NS);
        assert!(matches!(outcome, Outcome::TimeLimit { .. }), "{outcome:?}");
        in_use()
    };
    let (early, late) = (run_until_ms(20), run_until_ms(400));
    // The event queue's buckets grow to the most events that fell into one.
    assert!(late <= early + early / 10, "{early} bytes after 20 ms, {late} after 400 ms");
}
