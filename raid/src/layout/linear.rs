//! Linear: the members one after the other, each sector once.
//!
//! ```text
//! member     m0         m1     m2
//! array      0 ‥ 4      5 6    7 ‥ 9
//! ```
//!
//! With a rounding, each member counts in whole multiples of it; what is left over stays unused, as
//! in md.

use super::Location;
use crate::units::{MemberIndex, Sector, Sectors};

/// The layout of one linear array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinearLayout {
    /// For each member, the array's sector after its last.
    ends: Vec<Sector>,
}

impl LinearLayout {
    /// Members of `sizes`, in this order; `rounding` of zero uses them whole.
    ///
    /// # Panics
    /// If there is no member, if a member has nothing to offer, or if the array would have more
    /// than 2^64 sectors. [`crate::levels`] refuses such arrays with a message.
    pub fn new(sizes: &[Sectors], rounding: Sectors) -> Self {
        assert!(!sizes.is_empty(), "an array has members");
        let mut end = Sector(0);
        let mut ends = Vec::with_capacity(sizes.len());
        for size in sizes {
            let used = if rounding.0 == 0 { size.0 } else { size.0 - size.0 % rounding.0 };
            assert!(used > 0, "a member offers something");
            end = Sector(end.0.checked_add(used).expect("sectors fit 64 bits"));
            ends.push(end);
        }
        Self { ends }
    }

    /// How many members there are.
    pub fn members(&self) -> u32 {
        self.ends.len() as u32
    }

    /// How many sectors the array has.
    pub fn capacity(&self) -> Sectors {
        Sectors(self.ends.last().expect("an array has members").0)
    }

    /// How many sectors of a member the array uses.
    pub fn used_of_member(&self, member: MemberIndex) -> Sectors {
        self.ends[member.0 as usize] - self.start_of(member)
    }

    /// Where a sector lies.
    ///
    /// # Panics
    /// If the array has no such sector.
    pub fn location(&self, at: Sector) -> Location {
        let member = self.member_of(at);
        Location { member, at: Sector(0) + (at - self.start_of(member)) }
    }

    /// The array's sector after the last on the member that holds `at`.
    ///
    /// # Panics
    /// If the array has no such sector.
    pub fn run_end(&self, at: Sector) -> Sector {
        self.ends[self.member_of(at).0 as usize]
    }

    /// Which sector of the array is stored at `location`; `None` where the array stores nothing.
    pub fn array_sector(&self, location: Location) -> Option<Sector> {
        let known = (location.member.0 as usize) < self.ends.len();
        let inside = known && location.at.0 < self.used_of_member(location.member).0;
        inside.then(|| Sector(self.start_of(location.member).0 + location.at.0))
    }

    fn member_of(&self, at: Sector) -> MemberIndex {
        assert!(at.0 < self.capacity().0, "sector {at} of an array of {}", self.capacity());
        MemberIndex(self.ends.partition_point(|end| *end <= at) as u32)
    }

    fn start_of(&self, member: MemberIndex) -> Sector {
        match member.0 {
            0 => Sector(0),
            after => self.ends[after as usize - 1],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What each member contributes, and where the array's sectors lie, as member and sector.
    fn check(sizes: &[u64], rounding: u64, used: &[u64], places: &[(u64, u32, u64)]) {
        let sizes: Vec<Sectors> = sizes.iter().copied().map(Sectors).collect();
        let layout = LinearLayout::new(&sizes, Sectors(rounding));
        let each = (0..layout.members()).map(|member| layout.used_of_member(MemberIndex(member)).0);
        assert_eq!(each.collect::<Vec<_>>(), used);
        for (array, member, at) in places {
            let location = Location { member: MemberIndex(*member), at: Sector(*at) };
            assert_eq!(layout.location(Sector(*array)), location);
            assert_eq!(layout.array_sector(location), Some(Sector(*array)));
        }
    }

    #[test]
    fn members_follow_one_another() {
        check(&[5, 2, 3], 0, &[5, 2, 3], &[(0, 0, 0), (4, 0, 4), (5, 1, 0), (7, 2, 0), (9, 2, 2)]);
    }

    #[test]
    fn what_fills_no_rounding_is_left_out() {
        check(&[17, 8, 31], 8, &[16, 8, 24], &[(15, 0, 15), (16, 1, 0), (24, 2, 0), (47, 2, 23)]);
    }

    #[test]
    fn a_rounding_may_be_any_number() {
        check(&[17, 9], 3, &[15, 9], &[(15, 1, 0)]);
    }
}
