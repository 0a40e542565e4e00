//! RAID 10 with far copies: the array is stored `far_copies` times over, each time shifted along the
//! members, so that no two copies of a chunk meet on one member.
//!
//! ```text
//! 3 members, 2 far copies      the same as offset copies
//! row   m0  m1  m2             row   m0  m1  m2
//!  0    0   1   2               0    0   1   2
//!  1    3   4   5               1    2   0   1
//!  2    2   0   1               2    3   4   5
//!  3    5   3   4               3    5   3   4
//! ```
//!
//! Each time is laid out as the near layout with `near_copies` ([`super::near`]); the next is shifted
//! by `near_copies` members. *Far* puts the times one after the other, so each takes a part of every
//! member; *offset* puts each row's times one below the other. With *far sets* the shift stays within
//! sets of `near_copies × far_copies` members, the last of which takes the members that are left.
//!
//! This is the map of Linux md. There are combinations for which md's map puts two chunks in one
//! place: offset copies where near copies wrap around the members, and far sets whose last is larger
//! while near copies cross into it. [`FarLayout::new`] finds these out and makes no layout of them.

use super::Location;
use crate::units::{MemberIndex, Sector, Sectors};

/// Where the far copies lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FarPlacement {
    /// A section of the member further down.
    Far,
    /// In the rows that follow.
    Offset,
}

/// Copies of a RAID 10, as md's layout number has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raid10Layout {
    /// Copies side by side.
    pub near_copies: u32,
    /// How often that is stored; 1 is the near layout.
    pub far_copies: u32,
    /// Where the far copies lie, if there is more than one.
    pub placement: FarPlacement,
    /// Whether far copies stay within sets of members (bit 18 of md's number).
    pub far_sets: bool,
}

impl Raid10Layout {
    /// Copies side by side: mdadm's `n2` and the like.
    pub const fn near(copies: u32) -> Self {
        Self { near_copies: copies, far_copies: 1, placement: FarPlacement::Far, far_sets: false }
    }

    /// Copies far apart: mdadm's `f2` and the like.
    pub const fn far(copies: u32) -> Self {
        Self { far_copies: copies, ..Self::near(1) }
    }

    /// Copies in the next rows: mdadm's `o2` and the like.
    pub const fn offset(copies: u32) -> Self {
        Self { placement: FarPlacement::Offset, ..Self::far(copies) }
    }

    /// Copies of each chunk.
    pub const fn copies(self) -> u32 {
        self.near_copies.saturating_mul(self.far_copies)
    }
}

/// The far layout of one array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FarLayout {
    copies: Raid10Layout,
    members: u32,
    chunk: Sectors,
    /// Rows of the near layout, each stored `far_copies` times.
    rows: u64,
    /// Chunks of the array.
    chunks: u64,
    /// For each time that the array is stored and each member of the near layout: who has its place.
    moved: Vec<Vec<u32>>,
    /// The inverse: for each time and member, whose place in the near layout it has.
    home: Vec<Vec<u32>>,
}

impl FarLayout {
    /// Chunks of `chunk` sectors on `members` members, each of which offers `member_size`. Array
    /// sizes are those of md. `None` where md's map puts two copies of a chunk on one member, or two
    /// chunks in one place.
    ///
    /// # Panics
    /// If there are no copies or more than members, if `chunk` is zero, or if the array would have
    /// more than 2^64 sectors. [`crate::levels`] refuses such arrays with a message.
    pub fn new(
        members: u32,
        copies: Raid10Layout,
        chunk: Sectors,
        member_size: Sectors,
    ) -> Option<Self> {
        assert!(copies.copies() >= 1, "an array stores each chunk at least once");
        assert!(copies.copies() <= members, "two copies on one member protect from nothing");
        assert!(chunk.0 > 0, "a chunk has sectors");
        let rows = member_size.0 / chunk.0 / u64::from(copies.far_copies);
        let slots = rows.checked_mul(u64::from(members)).expect("slots fit 64 bits");
        let chunks = slots / u64::from(copies.near_copies);
        chunks.checked_mul(chunk.0).expect("sectors fit 64 bits");
        let moved = moves(members, copies);
        let home = moved.iter().map(|moved| inverse(moved)).collect::<Option<_>>()?;
        let layout = Self { copies, members, chunk, rows, chunks, moved, home };
        let wraps = !members.is_multiple_of(copies.near_copies);
        let offset = copies.placement == FarPlacement::Offset && copies.far_copies > 1;
        (!(wraps && offset) && layout.copies_are_apart()).then_some(layout)
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

    /// How many sectors of each member the array uses, chunks that stay empty included.
    pub fn used_of_member(&self) -> Sectors {
        Sectors(self.rows * u64::from(self.copies.far_copies) * self.chunk.0)
    }

    /// Where the copies of a sector lie, on members that all differ: each near copy with its far
    /// ones, as md counts them. The sectors up to the end of the chunk follow on each member.
    ///
    /// # Panics
    /// If the array has no such sector.
    pub fn locations(&self, at: Sector) -> impl Iterator<Item = Location> + '_ {
        assert!(at.0 < self.capacity().0, "sector {at} of an array of {}", self.capacity());
        let (chunk, within) = (at.0 / self.chunk.0, at.0 % self.chunk.0);
        let first_slot = chunk * u64::from(self.copies.near_copies);
        let slots = first_slot..first_slot + u64::from(self.copies.near_copies);
        slots.flat_map(move |slot| {
            let (row, column) = (slot / u64::from(self.members), slot % u64::from(self.members));
            (0..self.copies.far_copies).map(move |time| Location {
                member: MemberIndex(self.moved[time as usize][column as usize]),
                at: Sector(self.member_row(row, time) * self.chunk.0 + within),
            })
        })
    }

    /// Which sector of the array is stored at `location`; `None` where the array stores nothing.
    pub fn array_sector(&self, location: Location) -> Option<Sector> {
        let (member_row, within) = (location.at.0 / self.chunk.0, location.at.0 % self.chunk.0);
        let far_copies = u64::from(self.copies.far_copies);
        if location.member.0 >= self.members || member_row >= self.rows * far_copies {
            return None;
        }
        let (row, time) = match self.copies.placement {
            FarPlacement::Far => (member_row % self.rows, member_row / self.rows),
            FarPlacement::Offset => (member_row / far_copies, member_row % far_copies),
        };
        let column = self.home[time as usize][location.member.0 as usize];
        let slot = row * u64::from(self.members) + u64::from(column);
        let chunk = slot / u64::from(self.copies.near_copies);
        (chunk < self.chunks).then(|| Sector(chunk * self.chunk.0 + within))
    }

    /// The row on a member of a row of the near layout, the `time`th time that it is stored.
    fn member_row(&self, row: u64, time: u32) -> u64 {
        match self.copies.placement {
            FarPlacement::Far => row + u64::from(time) * self.rows,
            FarPlacement::Offset => row * u64::from(self.copies.far_copies) + u64::from(time),
        }
    }

    /// Whether the copies of each chunk lie on members that all differ. Which members those are
    /// repeats after as many chunks as there are members.
    fn copies_are_apart(&self) -> bool {
        let near = u64::from(self.copies.near_copies);
        (0..u64::from(self.members)).all(|chunk| {
            let columns = (chunk * near..(chunk + 1) * near).map(|slot| slot % self.moved_len());
            let mut members: Vec<u32> = columns
                .flat_map(|column| self.moved.iter().map(move |moved| moved[column as usize]))
                .collect();
            members.sort_unstable();
            members.windows(2).all(|pair| pair[0] != pair[1])
        })
    }

    fn moved_len(&self) -> u64 {
        u64::from(self.members)
    }
}

/// For each time that the array is stored and each member, who has the member's place: md's rule.
fn moves(members: u32, copies: Raid10Layout) -> Vec<Vec<u32>> {
    let set = if copies.far_sets { copies.copies() } else { members };
    let last_start = (members / set - 1) * set;
    let last_size = set + members % set;
    let next = |member: u32| {
        let moved = member + copies.near_copies;
        if !members.is_multiple_of(set) && moved > last_start {
            last_start + (moved - last_start) % last_size
        } else {
            member / set * set + moved % set
        }
    };
    let mut time: Vec<u32> = (0..members).collect();
    let mut all = Vec::with_capacity(copies.far_copies as usize);
    for _ in 0..copies.far_copies {
        all.push(time.clone());
        time.iter_mut().for_each(|member| *member = next(*member));
    }
    all
}

/// The inverse of a permutation; `None` if it is none.
fn inverse(moved: &[u32]) -> Option<Vec<u32>> {
    let mut home = vec![u32::MAX; moved.len()];
    for (from, to) in (0..).zip(moved) {
        let place = home.get_mut(*to as usize)?;
        if *place != u32::MAX {
            return None;
        }
        *place = from;
    }
    Some(home)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of the layout: for each row the chunk numbers by member; nothing if there is none.
    fn check(members: u32, copies: Raid10Layout, member_rows: u64, expected: &[&str]) {
        let layout = FarLayout::new(members, copies, Sectors(8), Sectors(member_rows * 8));
        let cell = |layout: &FarLayout, row, member| {
            let location = Location { member: MemberIndex(member), at: Sector(row * 8) };
            let chunk = layout.array_sector(location).map(|sector| sector.0 / 8);
            chunk.map_or("-".to_owned(), |chunk| chunk.to_string())
        };
        let lines = layout.iter().flat_map(|layout| {
            (0..member_rows).map(move |row| {
                let cells: Vec<_> = (0..members).map(|member| cell(layout, row, member)).collect();
                cells.join(" ")
            })
        });
        assert_eq!(lines.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn far_copies_lie_a_section_further_down() {
        check(3, Raid10Layout::far(2), 5, &["0 1 2", "3 4 5", "2 0 1", "5 3 4", "- - -"]);
    }

    #[test]
    fn offset_copies_lie_in_the_next_rows() {
        check(3, Raid10Layout::offset(2), 4, &["0 1 2", "2 0 1", "3 4 5", "5 3 4"]);
        check(3, Raid10Layout::offset(3), 3, &["0 1 2", "2 0 1", "1 2 0"]);
    }

    #[test]
    fn near_copies_wrap_within_each_section() {
        let copies = Raid10Layout { near_copies: 2, ..Raid10Layout::far(2) };
        check(5, copies, 4, &["0 0 1 1 2", "2 3 3 4 4", "1 2 0 0 1", "4 4 2 3 3"]);
    }

    #[test]
    fn far_sets_keep_copies_within_them() {
        let copies = Raid10Layout { far_sets: true, ..Raid10Layout::far(2) };
        check(4, copies, 2, &["0 1 2 3", "1 0 3 2"]);
        // The last set takes the member that is left.
        check(5, copies, 2, &["0 1 2 3 4", "1 0 4 2 3"]);
    }

    #[test]
    fn where_md_puts_two_chunks_in_one_place_there_is_no_layout() {
        let near = |copies| Raid10Layout { near_copies: 2, ..copies };
        check(5, near(Raid10Layout::offset(2)), 4, &[]);
        check(10, Raid10Layout { far_sets: true, ..near(Raid10Layout::far(2)) }, 4, &[]);
    }
}
