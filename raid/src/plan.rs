//! What a level wants done for one piece of a request. A plan is a value: it is decided purely, can
//! be printed and compared, and is carried out by the array's shell, `execute.rs`.

use crate::layout::Location;
use smallvec::SmallVec;

/// Places on the members that hold the same sectors, in the order of preference. Up to four of
/// them need no allocation.
pub type Locations = SmallVec<[Location; 4]>;

/// How to read a piece, which lies within one chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadPlan {
    /// One of these places has it; which one is best depends on load.
    OneOf {
        /// Where the piece can be read.
        candidates: Locations,
    },
}

/// How to write a piece, which lies within one chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WritePlan {
    /// All of these places take it, as far as their members live.
    AllOf {
        /// Where the piece has to be written.
        targets: Locations,
    },
}

/// A place that could be read, with what is known of its member's load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The place.
    pub location: Location,
    /// Requests that its member has under way.
    pub in_flight: u64,
}

/// The candidate whose member has the fewest requests under way, the first of them on a tie. This
/// is md's rule for members that do not rotate, for which the distance from the last access means
/// nothing.
pub fn least_loaded(candidates: impl IntoIterator<Item = Candidate>) -> Option<Location> {
    // `min_by_key` returns the first of several equal elements.
    let best = candidates.into_iter().min_by_key(|candidate| candidate.in_flight);
    best.map(|candidate| candidate.location)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{MemberIndex, Sector};

    fn check(in_flight: &[u64], expected: Option<u32>) {
        let candidates = in_flight.iter().zip(0..).map(|(in_flight, member)| Candidate {
            location: Location { member: MemberIndex(member), at: Sector(0) },
            in_flight: *in_flight,
        });
        assert_eq!(least_loaded(candidates).map(|of| of.member.0), expected);
    }

    #[test]
    fn the_least_loaded_member_is_read() {
        check(&[3, 1, 2], Some(1));
    }

    #[test]
    fn the_first_is_read_on_a_tie() {
        check(&[2, 1, 1], Some(1));
        check(&[0, 0], Some(0));
    }

    #[test]
    fn no_candidate_no_choice() {
        check(&[], None);
    }
}
