//! Keeps the contention table and who holds what.

use super::{SimCpu, SimPlatform};
use raid::platform::{Label, LockProbe};

/// The statistics of one lock of a simulated machine.
pub struct SimLockProbe {
    platform: SimPlatform,
    label: Label,
    /// Where the counts of all locks of this name are.
    counts: usize,
}

impl SimLockProbe {
    pub(super) fn new(platform: SimPlatform, label: Label) -> Self {
        let counts = platform.world().state.borrow_mut().lock_counts.place_of(label.name());
        Self { platform, label, counts }
    }
}

impl LockProbe<SimPlatform> for SimLockProbe {
    fn acquiring(&self, _: &SimCpu) {
        let state = &mut *self.platform.world().state.borrow_mut();
        let current = state.current.expect("only a running task takes a lock");
        let now_ns = state.now_ns;
        state.tasks[current].locks.push(HeldLock {
            label: self.label,
            since_ns: now_ns,
            held: false,
        });
    }

    fn acquired(&self, _: &SimCpu, contended: bool) {
        let state = &mut *self.platform.world().state.borrow_mut();
        let current = state.current.expect("only a running task takes a lock");
        let now_ns = state.now_ns;
        let lock = state.tasks[current].locks.last_mut().expect("a lock is asked for first");
        debug_assert_eq!(lock.label, self.label);
        let wait_ns = now_ns - lock.since_ns;
        (lock.held, lock.since_ns) = (true, now_ns);
        let counts = &mut state.lock_counts.counts[self.counts];
        counts.acquisitions += 1;
        counts.contended += u64::from(contended);
        counts.wait_ns += wait_ns;
    }

    fn released(&self, _: &SimCpu) {
        let state = &mut *self.platform.world().state.borrow_mut();
        let current = state.current.expect("only a running task holds a lock");
        let lock = state.tasks[current].locks.pop().expect("a lock is held");
        assert_eq!(lock.label, self.label, "locks are released in the reverse order");
        let hold_ns = state.now_ns - lock.since_ns;
        state.lock_counts.counts[self.counts].hold_ns += hold_ns;
    }
}

/// A lock that a task holds or waits for. Each of several readers of a semaphore has its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldLock {
    pub(crate) label: Label,
    /// When the task had it or, if it waits, asked for it.
    pub(crate) since_ns: u64,
    pub(crate) held: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::MachineFile;
    use crate::{Options, Simulation};
    use raid::platform::{Cpu, LockKind, Platform};
    use raid::units::CpuId;
    use std::sync::Arc;

    #[test]
    fn each_of_several_readers_holds_for_its_own_time() {
        let machine = MachineFile::preset("desktop-4c").expect("a preset").nominal();
        let mut simulation = Simulation::new(&machine, Options::default());
        let platform = simulation.platform();
        let label = Label::new("semaphore");
        let probe = Arc::new(platform.lock_probe(label, LockKind::Semaphore));
        for reader in 0..2 {
            let probe = probe.clone();
            platform.spawn_on(CpuId(reader), Label::new("reader"), async move |cpu| {
                cpu.sleep_ns(700 * u64::from(reader)).await;
                probe.acquiring(&cpu);
                cpu.work(100).await;
                probe.acquired(&cpu, reader == 1);
                cpu.work(1000).await;
                probe.released(&cpu);
            });
        }
        simulation.run();
        let counts = &simulation.contention().locks["semaphore"];
        assert_eq!((counts.acquisitions, counts.contended), (2, 1));
        assert_eq!((counts.wait_ns, counts.hold_ns), (200, 2000));
    }
}
