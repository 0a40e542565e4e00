//! Counts of what happens to each lock, kept so that counting does not slow the lock down.
//!
//! Each core counts on a line of its own with plain loads and stores; the sums are made when
//! somebody asks. A lock's counts outlive it, summed up under its label.

use crate::cpu::RealCpu;
use crate::platform::RealPlatform;
use raid::platform::{Cpu, Label, LockProbe};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How often a lock was taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockCounts {
    /// How often it was acquired.
    pub acquisitions: u64,
    /// How many of these found it taken.
    pub contended: u64,
}

impl std::ops::AddAssign for LockCounts {
    fn add_assign(&mut self, other: Self) {
        self.acquisitions += other.acquisitions;
        self.contended += other.contended;
    }
}

/// What one core counted of one lock. Written by that core alone.
#[derive(Default)]
#[repr(align(128))]
struct CoreCounts {
    acquisitions: AtomicU64,
    contended: AtomicU64,
}

struct Counts {
    label: Label,
    by_core: Box<[CoreCounts]>,
}

impl Counts {
    fn sum(&self) -> LockCounts {
        let mut sum = LockCounts::default();
        for core in &self.by_core {
            sum += LockCounts {
                acquisitions: core.acquisitions.load(Ordering::Relaxed),
                contended: core.contended.load(Ordering::Relaxed),
            };
        }
        sum
    }
}

#[derive(Default)]
struct Entries {
    live: BTreeMap<u64, Arc<Counts>>,
    ended: BTreeMap<Label, LockCounts>,
    next: u64,
}

/// The counts of all locks of a machine.
#[derive(Default)]
pub(crate) struct LockRegistry(Mutex<Entries>);

impl LockRegistry {
    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The counts by label, of the locks that live and of those that no longer do.
    pub(crate) fn counts(&self) -> BTreeMap<Label, LockCounts> {
        let entries = self.entries();
        let mut sums = entries.ended.clone();
        for counts in entries.live.values() {
            *sums.entry(counts.label).or_default() += counts.sum();
        }
        sums
    }

    /// Begins to count for a new lock.
    pub(crate) fn probe(self: &Arc<Self>, label: Label, cpu_count: u32) -> RealLockProbe {
        let by_core = (0..cpu_count).map(|_| CoreCounts::default()).collect();
        let counts = Arc::new(Counts { label, by_core });
        let mut entries = self.entries();
        let key = entries.next;
        entries.next += 1;
        entries.live.insert(key, counts.clone());
        RealLockProbe { counts, key, registry: self.clone() }
    }
}

/// Counts what happens to one lock.
pub struct RealLockProbe {
    counts: Arc<Counts>,
    key: u64,
    registry: Arc<LockRegistry>,
}

/// Adds one without a locked instruction: only the core that calls writes the counter.
#[inline]
fn add_one(counter: &AtomicU64) {
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

impl LockProbe<RealPlatform> for RealLockProbe {
    #[inline]
    fn acquiring(&self, _cpu: &RealCpu) {}

    #[inline]
    fn acquired(&self, cpu: &RealCpu, contended: bool) {
        let core = &self.counts.by_core[cpu.id().0 as usize];
        add_one(&core.acquisitions);
        if contended {
            add_one(&core.contended);
        }
    }

    #[inline]
    fn released(&self, _cpu: &RealCpu) {}
}

impl Drop for RealLockProbe {
    fn drop(&mut self) {
        let mut entries = self.registry.entries();
        entries.live.remove(&self.key);
        *entries.ended.entry(self.counts.label).or_default() += self.counts.sum();
    }
}
