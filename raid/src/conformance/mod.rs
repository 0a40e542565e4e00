//! What every platform and every device must do, as checks that run on it.
//!
//! The contracts stand in the docstrings of [`crate::platform`] and [`crate::device`]; these checks
//! are their tests, generic over the platform, so that the simulated world and the real one pass the
//! very same suite. A check panics where the contract is broken. It relies on no clock and no
//! order, and runs to its end on a machine of any number of cores.

mod cores;
mod devices;
mod locks;

pub use cores::{cores, parkers, words};
pub use devices::device;
pub use locks::{reader_writer, sequence_lock, spin_lock, wait_queue};

use crate::platform::{Cpu, Label, Ordering, Parker, Place, Platform, Word};
use crate::units::CpuId;
use std::future::Future;
use std::sync::Arc;

const LABEL: Label = Label::new("conformance");

/// At most so many cores take part in a check, spread evenly over the machine.
const CORES_MAX: u32 = 8;

/// The cores that take part in a check.
fn participants<P: Platform>(platform: &P) -> impl Iterator<Item = CpuId> {
    let count = platform.topology().cpu_count();
    let used = count.min(CORES_MAX);
    (0..used).map(move |index| CpuId(index * count / used))
}

/// A word on lines of its own.
fn lone_word<P: Platform>(platform: &P, value: u64) -> Arc<P::Word> {
    Arc::new(platform.word(LABEL, Place::Alone, value))
}

/// Runs `tasks_per_core` tasks on each participating core, each with its number, and waits for all.
async fn on_all_cores<P, F>(
    cpu: &P::Cpu,
    tasks_per_core: u32,
    task: impl Fn(P::Cpu, u32) -> F + Clone + Send + 'static,
) where
    P: Platform,
    F: Future<Output = ()> + 'static,
{
    let platform = cpu.platform();
    let cores: Vec<CpuId> = participants(platform).collect();
    let task_count = cores.len() as u32 * tasks_per_core;
    let left = lone_word(platform, u64::from(task_count));
    let all_done = platform.parker(LABEL);
    for (number, core) in (0..task_count).zip(cores.into_iter().cycle()) {
        let (task, left, all_done) = (task.clone(), left.clone(), all_done.clone());
        platform.spawn_on(core, Label::indexed("conformance task", number), move |cpu| {
            let running = task(cpu.clone(), number);
            async move {
                running.await;
                if left.fetch_add(&cpu, u64::MAX, Ordering::AcqRel).await == 1 {
                    all_done.unpark(&cpu).await;
                }
            }
        });
    }
    all_done.park(cpu).await;
    assert_eq!(left.load(cpu, Ordering::Acquire).await, 0, "woken before all tasks were done");
}
