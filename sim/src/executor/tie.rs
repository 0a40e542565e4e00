//! Who goes first when two things happen at the same nanosecond, and what disturbs a schedule.

use rand::Rng;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

/// How a run's schedule is disturbed, by its seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Perturbation {
    /// Not at all: ties go in the order of arrival.
    #[default]
    None,
    /// Ties go at random.
    RandomTies,
    /// Ties go at random, and now and then a core is held up in the middle of its work, as by a
    /// system management interrupt, a hypervisor or a preemption.
    Delays {
        /// How many steps of a thousand are held up.
        steps_of_1000: u32,
        /// For how long at most.
        delay_ns_max: u64,
    },
}

/// Orders what happens at one nanosecond, and draws delays.
pub(crate) struct TieBreaker {
    perturbation: Perturbation,
    arrivals: u32,
    random: ChaCha8Rng,
}

/// The random stream that belongs to the scheduler; streams of cores, drives and links differ.
const SCHEDULE_STREAM: u64 = 1;

impl TieBreaker {
    pub(crate) fn new(perturbation: Perturbation, seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(SCHEDULE_STREAM);
        Self { perturbation, arrivals: 0, random }
    }

    /// The next event's place among those of its nanosecond.
    #[inline]
    pub(crate) fn next(&mut self) -> u32 {
        if self.perturbation == Perturbation::None {
            self.arrivals = self.arrivals.wrapping_add(1);
            return self.arrivals;
        }
        self.random.next_u32()
    }

    /// How long the step that begins now is held up.
    #[inline]
    pub(crate) fn delay_ns(&mut self) -> u64 {
        let Perturbation::Delays { steps_of_1000, delay_ns_max } = self.perturbation else {
            return 0;
        };
        let draw = self.random.next_u32();
        if draw % 1000 >= steps_of_1000 {
            return 0;
        }
        self.random.next_u64() % (delay_ns_max + 1)
    }
}
