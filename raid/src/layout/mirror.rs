//! RAID 1: every member holds every sector, at the same place.
//!
//! Never rounds a member's size itself.

use super::Location;
use crate::units::{MemberIndex, Sector, Sectors};

/// Where pieces of a request end at the latest, in sectors: 1 MiB, so that a long read spreads over
/// the members and a damaged piece is soon looked through.
pub const MIRROR_PIECE: Sectors = Sectors((1 << 20) / crate::units::SECTOR_BYTES);

/// The layout of one mirror.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MirrorLayout {
    members: u32,
    size: Sectors,
}

impl MirrorLayout {
    /// A mirror of `members` members, each of which offers `size`.
    ///
    /// # Panics
    /// If there is no member.
    pub fn new(members: u32, size: Sectors) -> Self {
        assert!(members >= 1, "a mirror has members");
        Self { members, size }
    }

    /// How many members there are.
    pub fn members(&self) -> u32 {
        self.members
    }

    /// How many sectors the array has, and uses of each member.
    pub fn capacity(&self) -> Sectors {
        self.size
    }

    /// Where the copies of a sector lie: on each member, in their order.
    ///
    /// # Panics
    /// If the array has no such sector.
    pub fn locations(&self, at: Sector) -> impl ExactSizeIterator<Item = Location> + use<> {
        assert!(at.0 < self.size.0, "sector {at} of an array of {}", self.size);
        (0..self.members).map(move |member| Location { member: MemberIndex(member), at })
    }

    /// Which sector of the array is stored at `location`; `None` where the array stores nothing.
    pub fn array_sector(&self, location: Location) -> Option<Sector> {
        let inside = location.member.0 < self.members && location.at.0 < self.size.0;
        inside.then_some(location.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The members that hold a sector, all at the sector's own number.
    fn check(layout: MirrorLayout, at: u64, expected: &[u32]) {
        let locations: Vec<_> = layout.locations(Sector(at)).collect();
        assert!(locations.iter().all(|location| location.at == Sector(at)));
        let members: Vec<u32> = locations.iter().map(|location| location.member.0).collect();
        assert_eq!(members, expected);
    }

    #[test]
    fn each_member_holds_each_sector() {
        check(MirrorLayout::new(3, Sectors(9)), 8, &[0, 1, 2]);
        check(MirrorLayout::new(1, Sectors(9)), 0, &[0]);
    }

    #[test]
    #[should_panic(expected = "sector 9 of an array of 9")]
    fn the_sector_behind_the_last_lies_nowhere() {
        check(MirrorLayout::new(3, Sectors(9)), 9, &[]);
    }
}
