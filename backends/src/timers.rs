//! Who wants to be woken when. Single-threaded; knows no clock.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::task::Waker;

struct Timer {
    deadline_ns: u64,
    sequence: u64,
    waker: Waker,
}

impl Timer {
    fn key(&self) -> (u64, u64) {
        (self.deadline_ns, self.sequence)
    }
}

impl PartialEq for Timer {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Timer {}

impl PartialOrd for Timer {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timer {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

#[derive(Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<Timer>>,
    sequence: u64,
}

impl Timers {
    pub(crate) fn add(&mut self, deadline_ns: u64, waker: Waker) {
        self.heap.push(Reverse(Timer { deadline_ns, sequence: self.sequence, waker }));
        self.sequence += 1;
    }

    /// The earliest deadline.
    pub(crate) fn next_deadline_ns(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse(timer)| timer.deadline_ns)
    }

    /// Takes out one timer that is due at `now_ns`, in the order of deadlines.
    pub(crate) fn take_due(&mut self, now_ns: u64) -> Option<Waker> {
        if self.next_deadline_ns()? > now_ns {
            return None;
        }
        self.heap.pop().map(|Reverse(timer)| timer.waker)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(deadlines: &[u64], now_ns: u64, due: usize, next: Option<u64>) {
        let mut timers = Timers::default();
        for deadline_ns in deadlines {
            timers.add(*deadline_ns, Waker::noop().clone());
        }
        assert_eq!(std::iter::from_fn(|| timers.take_due(now_ns)).count(), due);
        assert_eq!(timers.next_deadline_ns(), next);
    }

    #[test]
    fn timers_fall_due_in_order() {
        check(&[], 10, 0, None);
        check(&[30, 10, 20], 5, 0, Some(10));
        check(&[30, 10, 20], 20, 2, Some(30));
        check(&[30, 10, 10], 30, 3, None);
    }
}
