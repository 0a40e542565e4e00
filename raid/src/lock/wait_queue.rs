//! A wait queue: tasks sleep until a condition of the caller's holds; whoever changes the condition
//! wakes them.
//!
//! Why no wake-up is lost: a waiter puts itself on the list before it looks at the condition. The
//! waker changes the condition first and looks at the list second. So either the waiter sees the
//! change, or the waker sees the waiter. For [`WaitQueue::wake_all`] and [`WaitQueue::wake_one`] the
//! queue's lock orders the two; for [`WaitQueue::has_waiters`], which does not take it, the full
//! fences do that both sides pass in between.

use super::side_by_side;
use super::spin::{SpinKind, SpinLock};
use crate::platform::{Cpu, Label, Ordering, Parker, Place, Platform, Word, Work};
use std::collections::VecDeque;

/// Instructions of a wake-up between lock and unlock, on an empty list, counted from the shape of
/// Linux's: a call with its saved registers (16), the list's ends and the count (10), the interrupt
/// flag (4).
const SECTION_INSTRUCTIONS: u32 = 30;

/// A spin lock and, next to it, a count of waiters; the list of waiters is elsewhere.
pub struct WaitQueue<P: Platform> {
    label: Label,
    list: SpinLock<P, List<P>>,
    /// How long the list is. Written under the lock, read without.
    waiters: P::Word,
}

struct List<P: Platform> {
    entries: VecDeque<Entry<P>>,
    next_ticket: u64,
}

struct Entry<P: Platform> {
    ticket: u64,
    parker: P::Parker,
}

impl<P: Platform> WaitQueue<P> {
    /// The room that the queue takes in a region: the spin lock, then the count.
    pub const BYTES: u32 = SpinLock::<P, List<P>>::BYTES + 8;

    /// A queue in which nobody waits.
    ///
    /// # Panics
    /// If `place` has no room for it.
    pub fn new(platform: &P, label: Label, kind: SpinKind, place: Place<'_, P>) -> Self {
        let (region, start_bytes) = side_by_side(platform, label, place, Self::BYTES);
        let within = |offset_bytes| Place::Within { region: &region, offset_bytes };
        let list = List { entries: VecDeque::new(), next_ticket: 0 };
        Self {
            label,
            list: SpinLock::new(platform, label, kind, within(start_bytes), list),
            waiters: platform.word(label, within(start_bytes + 8), 0),
        }
    }

    /// Sleeps until `ready` says yes. It is asked at least once, each time after this task has been
    /// put on the list, outside the queue's lock; it may take other locks and wake others.
    pub async fn wait_until(&self, cpu: &P::Cpu, mut ready: impl AsyncFnMut() -> bool) {
        let parker = cpu.platform().parker(self.label);
        loop {
            let ticket = self.register(cpu, &parker).await;
            cpu.fence(Ordering::SeqCst).await;
            if ready().await {
                if !self.unregister(cpu, ticket).await {
                    // A wake-up came for a task that did not need it; another one may.
                    self.wake_one(cpu).await;
                }
                return;
            }
            // Whoever wakes this task takes it off the list.
            parker.park(cpu).await;
        }
    }

    /// Wakes everybody who waits. Takes the queue's lock even if nobody does.
    pub async fn wake_all(&self, cpu: &P::Cpu) {
        self.wake(cpu, usize::MAX).await;
    }

    /// Wakes whoever has waited longest. Takes the queue's lock even if nobody waits. A wake-up that
    /// reaches a task just as it stops waiting by itself is passed on.
    pub async fn wake_one(&self, cpu: &P::Cpu) {
        self.wake(cpu, 1).await;
    }

    /// Whether anybody waits, without the lock: a full fence and a look at the count. If not,
    /// whoever begins to wait sees what the caller wrote before.
    pub async fn has_waiters(&self, cpu: &P::Cpu) -> bool {
        cpu.fence(Ordering::SeqCst).await;
        self.waiters.load(cpu, Ordering::Relaxed).await != 0
    }

    async fn register(&self, cpu: &P::Cpu, parker: &P::Parker) -> u64 {
        let register = async |list: &mut List<P>| {
            let ticket = list.next_ticket;
            list.next_ticket += 1;
            list.entries.push_back(Entry { ticket, parker: parker.clone() });
            self.count(cpu, list).await;
            ticket
        };
        self.list.with(cpu, register).await
    }

    /// Whether the task was still on the list.
    async fn unregister(&self, cpu: &P::Cpu, ticket: u64) -> bool {
        let unregister = async |list: &mut List<P>| {
            let place = list.entries.iter().position(|entry| entry.ticket == ticket);
            if let Some(place) = place {
                list.entries.remove(place);
                self.count(cpu, list).await;
            }
            place.is_some()
        };
        self.list.with(cpu, unregister).await
    }

    async fn wake(&self, cpu: &P::Cpu, count_max: usize) {
        let wake = async |list: &mut List<P>| {
            cpu.spend(Work::Instructions(SECTION_INSTRUCTIONS)).await;
            let count = list.entries.len().min(count_max);
            for entry in list.entries.drain(..count) {
                entry.parker.unpark(cpu).await;
            }
            if count != 0 {
                self.count(cpu, list).await;
            }
        };
        self.list.with(cpu, wake).await;
    }

    async fn count(&self, cpu: &P::Cpu, list: &List<P>) {
        self.waiters.store(cpu, list.entries.len() as u64, Ordering::Relaxed).await;
    }
}
