//! A value behind a spin lock of a kind that is chosen at run time.
//!
//! This file holds what all kinds have in common: the value, interrupts off, statistics. How cores
//! agree on whose turn it is stands in one file for each kind, and those never see the value.

use super::numa_queued::NumaQueued;
use super::queued::Queued;
use super::test_and_set::TestAndSet;
use super::ticket::Ticket;
use crate::platform::{Cpu, Guarded, Label, LockKind, LockProbe, Place, Platform};

/// How cores agree on who has a spin lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpinKind {
    /// One flag; whoever exchanges it first has the lock. No order, no fairness.
    TestAndSet,
    /// Two numbers in one word: the next ticket and the one whose turn it is. First come, first
    /// served; all waiters spin on the lock's line.
    Ticket,
    /// The structure of Linux's qspinlock: first come, first served, and from the third contender
    /// on each waiter spins on a line of its own.
    Queued,
    /// A queue that prefers waiters on the holder's NUMA node, for a bounded number of times (CNA).
    NumaQueued,
}

/// A value that one core at a time may reach; the others spin.
pub struct SpinLock<P: Platform, T: Send + 'static> {
    algorithm: Algorithm<P>,
    probe: P::LockProbe,
    value: P::Guarded<T>,
}

enum Algorithm<P: Platform> {
    TestAndSet(TestAndSet<P>),
    Ticket(Ticket<P>),
    Queued(Queued<P>),
    NumaQueued(NumaQueued<P>),
}

/// An acquired lock.
pub(super) struct Hold {
    /// Whether somebody else had it first.
    pub(super) contended: bool,
    /// What the algorithm wants to know again when it releases the lock.
    pub(super) memo: u64,
}

impl<P: Platform, T: Send + 'static> SpinLock<P, T> {
    /// The room that the lock takes in a region. Lines of waiters are elsewhere.
    pub const BYTES: u32 = 8;

    /// A lock that is free.
    ///
    /// # Panics
    /// If `place` has no room for it.
    pub fn new(platform: &P, label: Label, kind: SpinKind, place: Place<'_, P>, value: T) -> Self {
        let word = platform.word(label, place, 0);
        let algorithm = match kind {
            SpinKind::TestAndSet => Algorithm::TestAndSet(TestAndSet::new(word)),
            SpinKind::Ticket => Algorithm::Ticket(Ticket::new(word)),
            SpinKind::Queued => Algorithm::Queued(Queued::new(platform, word)),
            SpinKind::NumaQueued => Algorithm::NumaQueued(NumaQueued::new(platform, word)),
        };
        let probe = platform.lock_probe(label, LockKind::Spin);
        Self { algorithm, probe, value: platform.guarded(value) }
    }

    /// Runs `section` while no other core is in a section of this lock. Interrupts are off from
    /// before the attempt until after the release.
    ///
    /// `section` may await words and `unpark`, and other spin locks in an order of the caller's,
    /// never I/O, a sleep or this lock.
    pub async fn with<R>(&self, cpu: &P::Cpu, section: impl AsyncFnOnce(&mut T) -> R) -> R {
        cpu.enter_atomic();
        self.probe.acquiring(cpu);
        let hold = self.algorithm.acquire(cpu).await;
        self.probe.acquired(cpu, hold.contended);
        let result = {
            // SAFETY: this core has the lock, and no interrupt takes it away from this task; the
            // access ends with this block, before the release.
            let mut value = unsafe { self.value.access() };
            section(&mut value).await
        };
        self.probe.released(cpu);
        self.algorithm.release(cpu, hold).await;
        cpu.leave_atomic();
        result
    }
}

impl<P: Platform> Algorithm<P> {
    async fn acquire(&self, cpu: &P::Cpu) -> Hold {
        match self {
            Self::TestAndSet(lock) => lock.acquire(cpu).await,
            Self::Ticket(lock) => lock.acquire(cpu).await,
            Self::Queued(lock) => lock.acquire(cpu).await,
            Self::NumaQueued(lock) => lock.acquire(cpu).await,
        }
    }

    async fn release(&self, cpu: &P::Cpu, hold: Hold) {
        match self {
            Self::TestAndSet(lock) => lock.release(cpu).await,
            Self::Ticket(lock) => lock.release(cpu, hold).await,
            Self::Queued(lock) => lock.release(cpu).await,
            Self::NumaQueued(lock) => lock.release(cpu, hold).await,
        }
    }
}
