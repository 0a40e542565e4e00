//! The near layout of RAID 10: the copies of a chunk lie side by side.
//!
//! ```text
//! 3 members, 2 copies          4 members, 2 copies
//! row   m0  m1  m2             row   m0  m1  m2  m3
//!  0    0   0   1               0    0   0   1   1
//!  1    1   2   2               1    2   2   3   3
//!  2    3   3   4               2    4   4   5   5
//! ```
//!
//! The cells of that table, read line by line, are the *slots* of the array: copy `i` of chunk `c`
//! lies in slot `c × copies + i`, and slot `s` is row `s / members` of member `s % members`. It is
//! the map that Linux md uses, so an array made by the one is readable by the other.
//!
//! Never knows which members work, and never rounds a member's size itself: rows come from
//! [`NearLayout::new`].

use super::Location;
use crate::units::{MemberIndex, Sector, Sectors};

/// The near layout of one array. The members' usable size is part of it, so that it can say where
/// the array ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NearLayout {
    members: u32,
    copies: u32,
    chunk: Sectors,
    /// Whole chunks that each member offers.
    rows: u64,
    /// Chunks of the array, each stored `copies` times.
    chunks: u64,
}

impl NearLayout {
    /// `copies` copies of chunks of `chunk` sectors on `members` members, each of which offers
    /// `member_size`; what does not fill a chunk is left over. Array sizes are those of md: all
    /// slots divided by the number of copies, rounded down.
    ///
    /// # Panics
    /// If `copies` is not in `1..=members`, if `chunk` is zero, or if the array would have more
    /// than 2^64 sectors. [`crate::levels`] refuses such arrays with a message.
    pub fn new(members: u32, copies: u32, chunk: Sectors, member_size: Sectors) -> Self {
        assert!(copies >= 1, "an array stores each chunk at least once");
        assert!(copies <= members, "two copies on one member protect from nothing");
        assert!(chunk.0 > 0, "a chunk has sectors");
        let rows = member_size.0 / chunk.0;
        let slots = u128::from(rows) * u128::from(members);
        let chunks = u64::try_from(slots / u128::from(copies)).expect("chunks fit 64 bits");
        chunks.checked_mul(chunk.0).expect("sectors fit 64 bits");
        Self { members, copies, chunk, rows, chunks }
    }

    /// How many members there are.
    pub fn members(&self) -> u32 {
        self.members
    }

    /// How many sectors the array has.
    pub fn capacity(&self) -> Sectors {
        Sectors(self.chunks * self.chunk.0)
    }

    /// The chunk size.
    pub fn chunk(&self) -> Sectors {
        self.chunk
    }

    /// How many copies of each chunk there are.
    pub fn copies(&self) -> u32 {
        self.copies
    }

    /// How many sectors of each member the array uses, chunks that stay empty in the last row
    /// included.
    pub fn used_of_member(&self) -> Sectors {
        let slots = u128::from(self.chunks) * u128::from(self.copies);
        let rows = slots.div_ceil(u128::from(self.members)) as u64;
        assert!(rows <= self.rows, "the array is no larger than its members");
        Sectors(rows * self.chunk.0)
    }

    /// Where the copies of a sector of the array lie, in the order of their slots. They are on
    /// members that all differ. The sectors up to the end of the chunk follow on each member.
    ///
    /// # Panics
    /// If the array has no such sector.
    pub fn locations(&self, at: Sector) -> impl ExactSizeIterator<Item = Location> + use<> {
        assert!(at.0 < self.capacity().0, "sector {at} of an array of {}", self.capacity());
        let (chunk, within) = (at.0 / self.chunk.0, at.0 % self.chunk.0);
        let first_slot = u128::from(chunk) * u128::from(self.copies);
        let members = u128::from(self.members);
        let (mut row, mut member) = ((first_slot / members) as u64, (first_slot % members) as u32);
        let layout = *self;
        (0..self.copies).map(move |_| {
            let location =
                Location { member: MemberIndex(member), at: Sector(row * layout.chunk.0 + within) };
            member += 1;
            if member == layout.members {
                (member, row) = (0, row + 1);
            }
            location
        })
    }

    /// Which sector of the array is stored at `location`; `None` where the array stores nothing.
    pub fn array_sector(&self, location: Location) -> Option<Sector> {
        let (row, within) = (location.at.0 / self.chunk.0, location.at.0 % self.chunk.0);
        if location.member.0 >= self.members || row >= self.rows {
            return None;
        }
        let slot = u128::from(row) * u128::from(self.members) + u128::from(location.member.0);
        let chunk = (slot / u128::from(self.copies)) as u64;
        (chunk < self.chunks).then(|| Sector(chunk * self.chunk.0 + within))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// The table of the layout: chunk numbers by row and member, `None` where nothing is stored.
    fn check(members: u32, copies: u32, rows: u64, expected: &[&[Option<u64>]]) {
        let layout = NearLayout::new(members, copies, Sectors(8), Sectors(rows * 8));
        let chunk_at = |row, member| {
            let location = Location { member: MemberIndex(member), at: Sector(row * 8) };
            layout.array_sector(location).map(|sector| sector.0 / 8)
        };
        let table: Vec<Vec<_>> = (0..rows)
            .map(|row| (0..members).map(|member| chunk_at(row, member)).collect())
            .collect();
        assert_eq!(table, expected);
    }

    #[test]
    fn copies_wrap_around_an_odd_number_of_members() {
        check(3, 2, 2, &[&[Some(0), Some(0), Some(1)], &[Some(1), Some(2), Some(2)]]);
    }

    #[test]
    fn a_slot_too_few_for_all_copies_stays_empty() {
        check(3, 2, 1, &[&[Some(0), Some(0), None]]);
    }

    #[test]
    fn as_many_copies_as_members_mirror_them() {
        check(2, 2, 2, &[&[Some(0), Some(0)], &[Some(1), Some(1)]]);
    }

    #[test]
    fn one_copy_stripes() {
        check(2, 1, 2, &[&[Some(0), Some(1)], &[Some(2), Some(3)]]);
    }

    fn layouts() -> impl Strategy<Value = (NearLayout, Sectors)> {
        (2u32..9)
            .prop_flat_map(|members| (Just(members), 1..=members, 0u32..4, 1u64..300))
            .prop_map(|(members, copies, chunk_log2, member_size)| {
                let chunk = Sectors(1 << chunk_log2);
                let member_size = Sectors(member_size + chunk.0);
                (NearLayout::new(members, copies, chunk, member_size), member_size)
            })
    }

    proptest! {
        #[test]
        fn the_map_is_a_bijection_within_the_members((layout, member_size) in layouts()) {
            let mut taken = BTreeSet::new();
            for sector in 0..layout.capacity().0 {
                let locations: Vec<_> = layout.locations(Sector(sector)).collect();
                prop_assert_eq!(locations.len() as u32, layout.copies());
                let members: BTreeSet<_> = locations.iter().map(|of| of.member).collect();
                prop_assert_eq!(members.len(), locations.len(), "copies on distinct members");
                for location in locations {
                    prop_assert!(location.at.0 < layout.used_of_member().0);
                    prop_assert!(layout.used_of_member().0 <= member_size.0);
                    prop_assert!(taken.insert(location), "each place is used once");
                    prop_assert_eq!(layout.array_sector(location), Some(Sector(sector)));
                }
            }
            for member in (0..layout.members).map(MemberIndex) {
                for at in (0..member_size.0 + 9).map(Sector) {
                    let location = Location { member, at };
                    prop_assert_eq!(
                        layout.array_sector(location).is_some(), taken.contains(&location)
                    );
                }
            }
        }

        #[test]
        fn the_last_sectors_of_huge_arrays_map_back(
            members in 2u32..1000, copies_share in 0u32..1000, sector_share in any::<u64>()
        ) {
            let copies = 1 + copies_share % members;
            let layout = NearLayout::new(members, copies, Sectors(1 << 15), Sectors(1 << 53));
            let sector = Sector(layout.capacity().0 - 1 - sector_share % (1 << 20));
            for location in layout.locations(sector) {
                prop_assert!(location.at.0 < 1 << 53);
                prop_assert_eq!(layout.array_sector(location), Some(sector));
            }
        }
    }
}
