//! What a level wants done for one piece of a request. A plan is a value: it is decided purely, can
//! be printed and compared, and is carried out by the array's shell, `execute.rs`.

use crate::layout::Location;
pub use crate::layout::Locations;
use std::fmt;

/// How to read a piece, within which places do not change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadPlan {
    /// One of these places has it; which one is best depends on load.
    OneOf {
        /// Where the piece can be read.
        candidates: Locations,
    },
}

/// How to write a piece, within which places do not change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WritePlan {
    /// All of these places take it, as far as their members live.
    AllOf {
        /// Where the piece has to be written.
        targets: Locations,
    },
}

impl ReadPlan {
    /// What is left of the plan where only the places for which `usable` says yes can be read.
    pub fn only(self, usable: impl Fn(Location) -> bool) -> Self {
        let Self::OneOf { mut candidates } = self;
        candidates.retain(|location| usable(*location));
        Self::OneOf { candidates }
    }
}

impl WritePlan {
    /// What is left of the plan where only the places for which `usable` says yes take writes.
    pub fn only(self, usable: impl Fn(Location) -> bool) -> Self {
        let Self::AllOf { mut targets } = self;
        targets.retain(|location| usable(*location));
        Self::AllOf { targets }
    }
}

/// Such as `read m0@8 or m1@8`: the member and its first sector.
impl fmt::Display for ReadPlan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::OneOf { candidates } = self;
        write_places(formatter, "read", candidates, " or ")
    }
}

/// Such as `write m0@8 and m1@8`: the member and its first sector.
impl fmt::Display for WritePlan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::AllOf { targets } = self;
        write_places(formatter, "write", targets, " and ")
    }
}

fn write_places(
    formatter: &mut fmt::Formatter<'_>,
    verb: &str,
    places: &[Location],
    between: &str,
) -> fmt::Result {
    if places.is_empty() {
        return write!(formatter, "{verb} nothing: no copy is left");
    }
    let places: Vec<String> = places.iter().map(Location::to_string).collect();
    write!(formatter, "{verb} {}", places.join(between))
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
    fn a_plan_reads_as_a_sentence() {
        let at = |member| Location { member: MemberIndex(member), at: Sector(8) };
        let read = ReadPlan::OneOf { candidates: [at(0), at(2)].into_iter().collect() };
        assert_eq!(read.to_string(), "read m0@8 or m2@8");
        assert_eq!(read.only(|_| false).to_string(), "read nothing: no copy is left");
        let write = WritePlan::AllOf { targets: [at(0), at(2)].into_iter().collect() };
        assert_eq!(write.to_string(), "write m0@8 and m2@8");
        let degraded = write.only(|location| location.member.0 != 0);
        assert_eq!(degraded.to_string(), "write m2@8");
    }

    #[test]
    fn no_candidate_no_choice() {
        check(&[], None);
    }
}
