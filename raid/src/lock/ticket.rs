//! The ticket lock: draw a number, wait until it is called.
//!
//! Both numbers lie in one word: the next ticket in the upper half, the ticket whose turn it is in
//! the lower half. One line carries everything, and every hand-over invalidates it in all waiters.

use super::spin::Hold;
use crate::platform::{Ordering, Platform, Word};

/// One more in the upper half. A carry out of it falls off the word's end.
const NEXT_TICKET: u64 = 1 << 32;

pub(super) struct Ticket<P: Platform> {
    tickets: P::Word,
}

impl<P: Platform> Ticket<P> {
    /// `tickets` is zero.
    pub(super) fn new(tickets: P::Word) -> Self {
        Self { tickets }
    }

    pub(super) async fn acquire(&self, cpu: &P::Cpu) -> Hold {
        let drawn = self.tickets.fetch_add(cpu, NEXT_TICKET, Ordering::Acquire).await;
        let ticket = (drawn >> 32) as u32;
        let contended = drawn as u32 != ticket;
        if contended {
            let my_turn = |tickets: u64| tickets as u32 == ticket;
            self.tickets.spin_until(cpu, Ordering::Acquire, my_turn).await;
        }
        Hold { contended, memo: u64::from(ticket) }
    }

    pub(super) async fn release(&self, cpu: &P::Cpu, hold: Hold) {
        self.tickets.add(cpu, release_delta(hold.memo as u32), Ordering::Release).await;
    }
}

/// What calls the ticket after `ticket` when added to the word: one more in the lower half. When
/// that half wraps, the carry into the upper half is taken back.
fn release_delta(ticket: u32) -> u64 {
    if ticket == u32::MAX { 1u64.wrapping_sub(NEXT_TICKET) } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Releases the lock that `ticket` holds while `next` is the next ticket to draw.
    #[track_caller]
    fn check(next: u32, ticket: u32, next_and_turn_after: (u32, u32)) {
        let tickets = (u64::from(next) << 32) | u64::from(ticket);
        let after = tickets.wrapping_add(release_delta(ticket));
        assert_eq!(((after >> 32) as u32, after as u32), next_and_turn_after);
    }

    #[test]
    fn release_calls_the_following_ticket() {
        check(9, 7, (9, 8));
    }

    #[test]
    fn numbers_wrap_without_touching_each_other() {
        check(0, u32::MAX, (0, 0));
        check(5, u32::MAX, (5, 0));
        check(u32::MAX, u32::MAX - 1, (u32::MAX, u32::MAX));
    }
}
