//! RAID 0: chunks dealt out over the members in turn, each sector once.
//!
//! Where members differ in size, the array has *zones*. In the first all members take part, up to
//! the end of the smallest; in the next those that have more, up to the end of the smallest of them;
//! and so on. Two layouts differ in which member of a later zone is the first:
//!
//! ```text
//! sizes 2, 1 and 2 chunks      original         alternate
//! row                          m0  m1  m2       m0  m1  m2
//!  0   zone of three           0   1   2        0   1   2
//!  1   zone of two             4       3        3       4
//! ```
//!
//! *Original* (Linux before 3.14) goes on counting chunks from the start of the array, *alternate*
//! (since) counts from the start of the zone. With one zone they are the same.
//!
//! Chunks may have any length, as in md.

use super::Location;
use crate::units::{MemberIndex, Sector, Sectors};

/// How chunks are dealt out in the zones after the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Raid0Layout {
    /// By the chunk's number in the array. md's layout 1.
    Original,
    /// By the chunk's number in the zone. md's layout 2.
    Alternate,
}

/// Rows of chunks over the same members.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Zone {
    /// The chunk of the array at which it starts.
    first_chunk: u64,
    /// The row on the members at which it starts.
    first_row: u64,
    /// The row after its last.
    end_row: u64,
    /// Who takes part, ascending.
    members: Vec<u32>,
}

/// The layout of one RAID 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StripedLayout {
    layout: Raid0Layout,
    chunk: Sectors,
    /// Ascending, without gaps, at least one.
    zones: Vec<Zone>,
    /// Rows of each member.
    rows: Vec<u64>,
}

impl StripedLayout {
    /// Chunks of `chunk` sectors over members of `sizes`; what fills no chunk is left over.
    ///
    /// # Panics
    /// If there is no member, if one holds no chunk, or if the array would have more than 2^64
    /// sectors. [`crate::levels`] refuses such arrays with a message.
    pub fn new(sizes: &[Sectors], chunk: Sectors, layout: Raid0Layout) -> Self {
        assert!(!sizes.is_empty(), "an array has members");
        assert!(chunk.0 > 0, "a chunk has sectors");
        let rows: Vec<u64> = sizes.iter().map(|size| size.0 / chunk.0).collect();
        assert!(rows.iter().all(|rows| *rows > 0), "a member holds a chunk");
        let mut ends = rows.clone();
        ends.sort_unstable();
        ends.dedup();
        let (mut first_chunk, mut first_row) = (0u64, 0);
        let mut zones = Vec::with_capacity(ends.len());
        for end_row in ends {
            let has_more = |index: &u32| rows[*index as usize] >= end_row;
            let members: Vec<u32> = (0..rows.len() as u32).filter(has_more).collect();
            let chunks = (end_row - first_row).checked_mul(members.len() as u64);
            let next = chunks.and_then(|chunks| first_chunk.checked_add(chunks));
            zones.push(Zone { first_chunk, first_row, end_row, members });
            (first_chunk, first_row) = (next.expect("chunks fit 64 bits"), end_row);
        }
        first_chunk.checked_mul(chunk.0).expect("sectors fit 64 bits");
        Self { layout, chunk, zones, rows }
    }

    /// How many members there are.
    pub fn members(&self) -> u32 {
        self.rows.len() as u32
    }

    /// How many sectors the array has.
    pub fn capacity(&self) -> Sectors {
        let last = self.zones.last().expect("an array has a zone");
        let chunks = last.first_chunk + (last.end_row - last.first_row) * last.members.len() as u64;
        Sectors(chunks * self.chunk.0)
    }

    /// The chunk size.
    pub fn chunk(&self) -> Sectors {
        self.chunk
    }

    /// How many zones there are. With more than one, original and alternate layout differ.
    pub fn zones(&self) -> usize {
        self.zones.len()
    }

    /// How many sectors of a member the array uses.
    pub fn used_of_member(&self, member: MemberIndex) -> Sectors {
        Sectors(self.rows[member.0 as usize] * self.chunk.0)
    }

    /// Where a sector lies. The sectors up to the end of the chunk follow.
    ///
    /// # Panics
    /// If the array has no such sector.
    pub fn location(&self, at: Sector) -> Location {
        assert!(at.0 < self.capacity().0, "sector {at} of an array of {}", self.capacity());
        let (chunk, within) = (at.0 / self.chunk.0, at.0 % self.chunk.0);
        let zone = self.zones.iter().rev().find(|zone| zone.first_chunk <= chunk);
        let zone = zone.expect("the first zone starts at the first chunk");
        let (width, in_zone) = (zone.members.len() as u64, chunk - zone.first_chunk);
        let turn = (self.offset_in(zone) + in_zone) % width;
        let row = zone.first_row + in_zone / width;
        Location {
            member: MemberIndex(zone.members[turn as usize]),
            at: Sector(row * self.chunk.0 + within),
        }
    }

    /// Which sector of the array is stored at `location`; `None` where the array stores nothing.
    pub fn array_sector(&self, location: Location) -> Option<Sector> {
        let (row, within) = (location.at.0 / self.chunk.0, location.at.0 % self.chunk.0);
        if row >= *self.rows.get(location.member.0 as usize)? {
            return None;
        }
        let zone = self.zones.iter().find(|zone| row < zone.end_row)?;
        let width = zone.members.len() as u64;
        let turn = zone.members.binary_search(&location.member.0).ok()? as u64;
        let turn = (turn + width - self.offset_in(zone)) % width;
        let chunk = zone.first_chunk + (row - zone.first_row) * width + turn;
        Some(Sector(chunk * self.chunk.0 + within))
    }

    /// Who of a zone's members holds its first chunk.
    fn offset_in(&self, zone: &Zone) -> u64 {
        match self.layout {
            Raid0Layout::Original => zone.first_chunk % zone.members.len() as u64,
            Raid0Layout::Alternate => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of the layout: for each row the chunk numbers by member, `-` where there is none.
    fn check(rows: &[u64], layout: Raid0Layout, expected: &[&str]) {
        // An odd chunk, and something left over.
        let sizes: Vec<Sectors> = rows.iter().map(|rows| Sectors(rows * 9 + 4)).collect();
        let striped = StripedLayout::new(&sizes, Sectors(9), layout);
        let cell = |row, member| {
            let location = Location { member: MemberIndex(member), at: Sector(row * 9) };
            let chunk = striped.array_sector(location).map(|sector| sector.0 / 9);
            chunk.map_or("-".to_owned(), |chunk| chunk.to_string())
        };
        let rows_max = rows.iter().copied().max().unwrap_or(0);
        let line = |row| {
            let cells: Vec<_> = (0..rows.len() as u32).map(|member| cell(row, member)).collect();
            cells.join(" ")
        };
        assert_eq!((0..rows_max).map(line).collect::<Vec<_>>(), expected);
        assert_eq!(striped.capacity().0, rows.iter().sum::<u64>() * 9);
    }

    #[test]
    fn equal_members_take_turns() {
        for layout in [Raid0Layout::Original, Raid0Layout::Alternate] {
            check(&[2, 2, 2], layout, &["0 1 2", "3 4 5"]);
            check(&[2], layout, &["0", "1"]);
        }
    }

    #[test]
    fn the_original_layout_counts_over_the_array() {
        check(&[2, 1, 2], Raid0Layout::Original, &["0 1 2", "4 - 3"]);
        check(&[1, 4, 2], Raid0Layout::Original, &["0 1 2", "- 4 3", "- 5 -", "- 6 -"]);
    }

    #[test]
    fn the_alternate_layout_counts_in_the_zone() {
        check(&[2, 1, 2], Raid0Layout::Alternate, &["0 1 2", "3 - 4"]);
        check(&[1, 4, 2], Raid0Layout::Alternate, &["0 1 2", "- 3 4", "- 5 -", "- 6 -"]);
    }
}
