//! The event queue: an exact total order on (time, tie-break, action).
//!
//! A calendar of buckets 64 ns wide holds the near future, a heap the rest. Only the bucket at hand
//! is sorted. Costs are a few nanoseconds an event, whether ten or ten thousand wait.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What happens at an event. The index says to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Kind {
    /// A task's step is over: the core has done its work, or the line has arrived.
    Step,
    /// The line at the head of a core's store buffer has arrived.
    StoreArrived,
    /// A line is free for the next request.
    LineFree,
    /// A core has switched to the task that it picked.
    Switched,
    /// A core has handled a completion interrupt.
    InterruptHandled,
    /// A timer is due.
    Timer,
    /// A drive has finished a request.
    DriveDone,
}

const KINDS: [Kind; 7] = [
    Kind::Step,
    Kind::StoreArrived,
    Kind::LineFree,
    Kind::Switched,
    Kind::InterruptHandled,
    Kind::Timer,
    Kind::DriveDone,
];

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) time_ns: u64,
    pub(crate) tie: u32,
    pub(crate) kind: Kind,
    /// The task, core, line, timer or request; below 2^28.
    pub(crate) index: u32,
}

const INDEX_BITS: u32 = 28;

impl Event {
    fn pack(self) -> u128 {
        debug_assert!(self.index < 1 << INDEX_BITS);
        (u128::from(self.time_ns) << 64)
            | (u128::from(self.tie) << 32)
            | (u128::from(self.kind as u8) << INDEX_BITS)
            | u128::from(self.index)
    }

    fn unpack(key: u128) -> Self {
        let action = key as u32;
        Self {
            time_ns: (key >> 64) as u64,
            tie: (key >> 32) as u32,
            kind: KINDS[(action >> INDEX_BITS) as usize],
            index: action & ((1 << INDEX_BITS) - 1),
        }
    }
}

const BUCKET_SHIFT: u32 = 6; // 64 ns a bucket
const BUCKET_COUNT: u64 = 1024;
const BITMAP_WORDS: usize = (BUCKET_COUNT / 64) as usize;

fn bucket_of(key: u128) -> u64 {
    (key >> (64 + BUCKET_SHIFT)) as u64
}

/// All events to come.
pub(crate) struct EventQueue {
    /// The bucket at hand and everything earlier, latest first.
    current: Vec<u128>,
    current_bucket: u64,
    /// The buckets after it, each unsorted, at their number modulo the count.
    buckets: Vec<Vec<u128>>,
    occupied: [u64; BITMAP_WORDS],
    /// What lies beyond the calendar.
    far: BinaryHeap<Reverse<u128>>,
}

impl EventQueue {
    pub(crate) fn new() -> Self {
        Self {
            current: Vec::new(),
            current_bucket: 0,
            buckets: (0..BUCKET_COUNT).map(|_| Vec::new()).collect(),
            occupied: [0; BITMAP_WORDS],
            far: BinaryHeap::new(),
        }
    }

    pub(crate) fn push(&mut self, event: Event) {
        let key = event.pack();
        let bucket = bucket_of(key);
        if bucket <= self.current_bucket {
            // Most are for soon: their places are near the end.
            let later = self.current.iter().rposition(|other| *other > key);
            self.current.insert(later.map_or(0, |place| place + 1), key);
        } else if bucket - self.current_bucket < BUCKET_COUNT {
            let slot = (bucket % BUCKET_COUNT) as usize;
            self.occupied[slot / 64] |= 1 << (slot % 64);
            self.buckets[slot].push(key);
        } else {
            self.far.push(Reverse(key));
        }
    }

    /// Takes the earliest event if it is not later than `until_ns`; else tells its time, if any.
    pub(crate) fn pop_until(&mut self, until_ns: u64) -> Result<Event, Option<u64>> {
        if self.current.is_empty() && !self.advance() {
            return Err(None);
        }
        let key = *self.current.last().expect("advance found an event");
        let event = Event::unpack(key);
        if event.time_ns > until_ns {
            return Err(Some(event.time_ns));
        }
        self.current.pop();
        Ok(event)
    }

    /// Turns to the next bucket that has events; false if there is none.
    fn advance(&mut self) -> bool {
        let near = self.next_occupied();
        let far = self.far.peek().map(|Reverse(key)| bucket_of(*key));
        let Some(next) = near.into_iter().chain(far).min() else { return false };
        self.current_bucket = next;
        if near == Some(next) {
            let slot = (next % BUCKET_COUNT) as usize;
            std::mem::swap(&mut self.current, &mut self.buckets[slot]);
            self.occupied[slot / 64] &= !(1 << (slot % 64));
        }
        while let Some(Reverse(key)) = self.far.peek() {
            if bucket_of(*key) > next {
                break;
            }
            self.current.push(*key);
            self.far.pop();
        }
        self.current.sort_unstable_by(|one, other| other.cmp(one));
        true
    }

    /// The first occupied bucket after the current one, by its absolute number.
    fn next_occupied(&self) -> Option<u64> {
        let start = ((self.current_bucket + 1) % BUCKET_COUNT) as usize;
        // The word that `start` falls into is looked at twice: its upper part first, its lower last.
        for step in 0..=BITMAP_WORDS {
            let word = (start / 64 + step) % BITMAP_WORDS;
            let below_start = (1u64 << (start % 64)) - 1;
            let mask = match step {
                0 => !below_start,
                BITMAP_WORDS => below_start,
                _ => u64::MAX,
            };
            let bits = self.occupied[word] & mask;
            if bits != 0 {
                let slot = word as u64 * 64 + u64::from(bits.trailing_zeros());
                let ahead = (slot + BUCKET_COUNT - start as u64) % BUCKET_COUNT;
                return Some(self.current_bucket + 1 + ahead);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn event(time_ns: u64, tie: u32, index: u32) -> Event {
        Event { time_ns, tie, kind: Kind::Timer, index }
    }

    proptest! {
        /// Whatever goes in, at whatever times, comes out in the total order.
        #[test]
        fn events_leave_in_order(
            steps in prop::collection::vec((0u64..200_000, 0u32..4, 0u32..9, prop::bool::ANY), 1..300)
        ) {
            let mut queue = EventQueue::new();
            let mut reference = std::collections::BTreeSet::new();
            let mut now = 0;
            for (delay, tie, index, pop) in steps {
                let pushed = event(now + delay, tie, index);
                if reference.insert(pushed.pack()) {
                    queue.push(pushed);
                }
                if pop {
                    let expected = reference.pop_first().map(Event::unpack);
                    let popped = queue.pop_until(u64::MAX).ok();
                    prop_assert_eq!(popped, expected);
                    now = popped.map_or(now, |event| event.time_ns);
                }
            }
            while let Some(key) = reference.pop_first() {
                prop_assert_eq!(queue.pop_until(u64::MAX), Ok(Event::unpack(key)));
            }
            prop_assert_eq!(queue.pop_until(u64::MAX), Err(None));
        }
    }

    #[test]
    fn a_later_event_stays_and_tells_its_time() {
        let mut queue = EventQueue::new();
        queue.push(event(100, 0, 1));
        assert_eq!(queue.pop_until(99), Err(Some(100)));
        assert_eq!(queue.pop_until(100), Ok(event(100, 0, 1)));
    }
}
