//! The trace hash: one number that differs if anything happened at another time or in another order.

/// Folds every event of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TraceHash(u64);

// Odd constants with well-mixed bits: the golden ratio's and one of the SplitMix64 generator's.
const START: u64 = 0x9e37_79b9_7f4a_7c15;
const MULTIPLIER: u64 = 0xbf58_476d_1ce4_e5b9;

impl TraceHash {
    pub(crate) fn new() -> Self {
        Self(START)
    }

    /// Takes an event in.
    #[inline]
    pub(crate) fn fold(&mut self, time_ns: u64, what: u64) {
        let product = u128::from(self.0 ^ time_ns) * u128::from(MULTIPLIER ^ what.rotate_left(32));
        self.0 = (product as u64) ^ ((product >> 64) as u64) ^ time_ns;
    }

    pub(crate) fn value(self) -> u64 {
        self.0
    }
}
