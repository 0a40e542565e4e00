//! What spinning for one semaphore has brought so far, and whether it is worth while to go on.
//!
//! A history is a credit. A spin that ended with the semaphore taken earns 1; one that was given up,
//! so that the task had to sleep all the same, costs [`VAIN_COST`]. While there is credit, tasks
//! spin. With none left they sleep at once; every [`SLEEPS_PER_TRIAL`]-th of them leaves a credit of
//! 1, for the next spin to try again.
//!
//! States: *spinning* (credit above 0) and *sleeping* (credit 0). Spinning to sleeping: spins in vain
//! use the credit up, from its most after [`CREDIT_MAX`] / [`VAIN_COST`] of them in a row. Sleeping
//! to spinning: a trial; one spin in vain ends it, and each spin that succeeds prolongs it. A spin
//! that may end the spinning has nobody spin beside it.
//!
//! It decides nothing that correctness depends on, so updates of two cores at once may lose one.

use crate::platform::{Label, Ordering, Place, Platform, Word};

/// What a spin in vain costs, in spins that succeed: 4096 looks of some 8 ns each are given up after
/// 33 µs, and a spin that succeeds saves a sleep and a wake-up, of 2 to 3 µs.
const VAIN_COST: u64 = 10;
/// What four spins in vain in a row use up, however well it went before: 130 µs, so that one long
/// writer is enough to end the spinning of those that wait for it.
const CREDIT_MAX: u64 = 4 * VAIN_COST;
/// A trial in vain then adds less than 1 µs to each of those that sleep.
const SLEEPS_PER_TRIAL: u32 = 64;

/// The history of one semaphore.
pub(super) struct SpinHistory<P: Platform> {
    credit: P::Word,
}

/// What a spin may lose.
pub(super) struct Stake {
    credit: u64,
    withheld: bool,
}

impl<P: Platform> SpinHistory<P> {
    /// One that begins with half of the credit there can be.
    pub(super) fn new(platform: &P, label: Label, place: Place<'_, P>) -> Self {
        Self { credit: platform.word(label, place, CREDIT_MAX / 2) }
    }

    /// Whether to spin.
    pub(super) async fn recommends_spinning(&self, cpu: &P::Cpu) -> bool {
        self.credit.load(cpu, Ordering::Relaxed).await > 0
    }

    /// Begins a spin, if there is credit. What there was comes back, for [`end_spin`](Self::end_spin);
    /// while the spin may use it up there is none for others.
    pub(super) async fn begin_spin(&self, cpu: &P::Cpu) -> Option<Stake> {
        let credit = self.credit.load(cpu, Ordering::Relaxed).await;
        if credit == 0 {
            return None;
        }
        let withheld = credit <= VAIN_COST;
        if withheld {
            self.credit.store(cpu, 0, Ordering::Relaxed).await;
        }
        Some(Stake { credit, withheld })
    }

    /// Ends a spin that had the semaphore or was in vain, or one that tells nothing. A credit that
    /// stays as it was is not written, so that its line stays shared.
    pub(super) async fn end_spin(&self, cpu: &P::Cpu, stake: Stake, succeeded: Option<bool>) {
        let Stake { credit, withheld } = stake;
        let left = succeeded.map_or(credit, |succeeded| after_spin(credit, succeeded));
        let shown = if withheld { 0 } else { credit };
        if left != shown {
            self.credit.store(cpu, left, Ordering::Relaxed).await;
        }
    }

    /// Takes note of a task that goes to sleep; `sleeps` counts them since the last trial, and the
    /// caller guards it.
    pub(super) async fn note_sleep(&self, cpu: &P::Cpu, sleeps: &mut u32) {
        *sleeps += 1;
        if *sleeps < SLEEPS_PER_TRIAL {
            return;
        }
        *sleeps = 0;
        if !self.recommends_spinning(cpu).await {
            self.credit.store(cpu, 1, Ordering::Relaxed).await;
        }
    }
}

fn after_spin(credit: u64, succeeded: bool) -> u64 {
    match succeeded {
        true => CREDIT_MAX.min(credit + 1),
        false => credit.saturating_sub(VAIN_COST),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The credit after spins in this order.
    fn check(credit: u64, spins: &[(u32, bool)], expected: u64) {
        let after = spins
            .iter()
            .flat_map(|(count, succeeded)| (0..*count).map(|_| *succeeded))
            .fold(credit, after_spin);
        assert_eq!(after, expected, "{credit}, then {spins:?}");
    }

    #[test]
    fn four_spins_in_vain_end_the_best_history() {
        check(CREDIT_MAX / 2, &[(1000, true), (3, false)], VAIN_COST);
        check(CREDIT_MAX / 2, &[(1000, true), (4, false)], 0);
    }

    #[test]
    fn spinning_goes_on_while_ten_of_eleven_succeed() {
        check(20, &[(10, true), (1, false), (10, true), (1, false)], 20);
        check(20, &[(9, true), (1, false), (9, true), (1, false)], 18);
    }

    #[test]
    fn one_spin_in_vain_ends_a_trial() {
        check(1, &[(1, false)], 0);
    }
}
