//! The one thread of an array, and the list of writes that it empties.
//!
//! # State
//!
//! | word     | the thread                                                                  |
//! |----------|-----------------------------------------------------------------------------|
//! | 0        | sleeps                                                                      |
//! | CALLED   | has been woken and has not begun                                            |
//! | RUNS     | works, or looks whether it was called meanwhile                             |
//! | both     | works, and was called meanwhile: it will look again                         |
//!
//! Whoever takes the word from 0 to CALLED wakes the thread; nobody else needs to. The thread clears
//! CALLED before it looks at any list, and goes to sleep only by a compare-exchange from RUNS to 0. So
//! a write that was put on a list before the call is either seen by the look that follows, or makes the
//! compare-exchange fail.
//!
//! A thread that is bound to no core has a seat on each: the tasks of the engine stay where they were
//! started, so the thread goes on in the one that sits where the scheduler would let it run.

use super::{QueuedWrite, SECTION_INSTRUCTIONS};
use crate::lock::{SpinKind, SpinLock};
use crate::platform::{Cpu, Label, Ordering, Parker, Place, Platform, Word, Work};
use crate::tuning::Affinity;
use crate::units::CpuId;

const CALLED: u64 = 1;
const RUNS: u64 = 2;

/// The thread.
pub(crate) struct RaidThread<P: Platform> {
    affinity: Affinity,
    state: P::Word,
    /// The core that it ran on last. Only who woke it, and it itself, look at it.
    last: P::Word,
    /// By core: where it sleeps if it runs there next.
    pub(super) seats: Vec<P::Parker>,
}

impl<P: Platform> RaidThread<P> {
    pub(super) fn new(platform: &P, affinity: Affinity) -> Self {
        let name = "raid_thread";
        let region = platform.region(Label::new(name), 0, 16);
        let word = |offset_bytes| {
            platform.word(Label::new(name), Place::Within { region: &region, offset_bytes }, 0)
        };
        let cpus = platform.topology().cpu_count();
        let seat = |cpu| platform.parker(Label::indexed(name, cpu));
        Self { affinity, state: word(0), last: word(8), seats: (0..cpus).map(seat).collect() }
    }

    /// Sees to it that the thread looks at the lists after this.
    pub(crate) async fn wake(&self, cpu: &P::Cpu) {
        if self.state.fetch_or(cpu, CALLED, Ordering::AcqRel).await != 0 {
            return;
        }
        let core = match self.affinity {
            Affinity::Core(core) => core,
            Affinity::Free => {
                let last = CpuId(self.last.load(cpu, Ordering::Relaxed).await as u32);
                let core = cpu.platform().core_for_wakeup(cpu.id(), last);
                self.last.store(cpu, u64::from(core.0), Ordering::Relaxed).await;
                core
            }
        };
        self.seats[core.0 as usize].unpark(cpu).await;
    }

    /// Sleeps until the thread is to run on this core.
    pub(crate) async fn sleep(&self, cpu: &P::Cpu) {
        self.seats[cpu.id().0 as usize].park(cpu).await;
    }

    /// Works until nobody has called any more.
    pub(crate) async fn run(&self, cpu: &P::Cpu, mut look: impl AsyncFnMut()) {
        loop {
            self.state.swap(cpu, RUNS, Ordering::AcqRel).await;
            look().await;
            if self.state.compare_exchange(cpu, RUNS, 0, Ordering::AcqRel).await.is_ok() {
                return;
            }
        }
    }
}

/// Writes that wait for the thread.
pub(crate) struct PendingList<P: Platform> {
    writes: SpinLock<P, Vec<QueuedWrite<P>>>,
}

impl<P: Platform> PendingList<P> {
    pub(super) fn new(platform: &P, kind: SpinKind) -> Self {
        let label = Label::new("pending_writes");
        Self { writes: SpinLock::new(platform, label, kind, Place::Alone, Vec::new()) }
    }

    /// Adds writes.
    pub(crate) async fn put(&self, cpu: &P::Cpu, writes: impl IntoIterator<Item = QueuedWrite<P>>) {
        let put = async |list: &mut Vec<QueuedWrite<P>>| {
            cpu.spend(Work::Instructions(SECTION_INSTRUCTIONS)).await;
            list.extend(writes);
        };
        self.writes.with(cpu, put).await;
    }

    /// Takes all.
    pub(crate) async fn take(&self, cpu: &P::Cpu) -> Vec<QueuedWrite<P>> {
        let take = async |list: &mut Vec<QueuedWrite<P>>| {
            cpu.spend(Work::Instructions(SECTION_INSTRUCTIONS)).await;
            std::mem::take(list)
        };
        self.writes.with(cpu, take).await
    }
}
