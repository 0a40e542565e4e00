//! The address map of any array of copies: one of the layouts, and what they have in common: how a
//! request is cut where the places change, where a member's sectors belong, and which members may be
//! lost.

use super::far::FarLayout;
use super::linear::LinearLayout;
use super::mirror::{MIRROR_PIECE, MirrorLayout};
use super::near::NearLayout;
use super::striped::StripedLayout;
use super::{Location, Locations};
use crate::request::Extent;
use crate::units::{MemberIndex, Sector, Sectors};
use smallvec::smallvec;

/// Where each sector of an array lies, once or several times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyLayout {
    /// Members one after the other.
    Linear(LinearLayout),
    /// RAID 0.
    Striped(StripedLayout),
    /// RAID 1.
    Mirror(MirrorLayout),
    /// RAID 10 with near copies only.
    Near(NearLayout),
    /// RAID 10 with far or offset copies.
    Far(FarLayout),
}

/// Sectors of a member that follow one another in the array too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberRun {
    /// On the member.
    pub on_member: Extent,
    /// The array's sector that the first one holds; `None` where the array stores nothing.
    pub array: Option<Sector>,
}

impl MemberRun {
    /// The sectors of the array that it holds.
    pub fn on_array(self) -> Option<Extent> {
        self.array.map(|at| Extent { at, length: self.on_member.length })
    }
}

impl CopyLayout {
    /// How many members there are.
    pub fn members(&self) -> u32 {
        match self {
            Self::Linear(layout) => layout.members(),
            Self::Striped(layout) => layout.members(),
            Self::Mirror(layout) => layout.members(),
            Self::Near(layout) => layout.members(),
            Self::Far(layout) => layout.members(),
        }
    }

    /// How many sectors the array has.
    pub fn capacity(&self) -> Sectors {
        match self {
            Self::Linear(layout) => layout.capacity(),
            Self::Striped(layout) => layout.capacity(),
            Self::Mirror(layout) => layout.capacity(),
            Self::Near(layout) => layout.capacity(),
            Self::Far(layout) => layout.capacity(),
        }
    }

    /// How many sectors of a member the array uses, those that stay empty at the end included.
    pub fn used_of_member(&self, member: MemberIndex) -> Sectors {
        match self {
            Self::Linear(layout) => layout.used_of_member(member),
            Self::Striped(layout) => layout.used_of_member(member),
            Self::Mirror(layout) => layout.capacity(),
            Self::Near(layout) => layout.used_of_member(),
            Self::Far(layout) => layout.used_of_member(),
        }
    }

    /// Where the copies of a sector of the array lie, on members that all differ. The sectors up to
    /// [`piece_end`](Self::piece_end) follow on each.
    ///
    /// # Panics
    /// If the array has no such sector.
    pub fn locations(&self, at: Sector) -> Locations {
        match self {
            Self::Linear(layout) => smallvec![layout.location(at)],
            Self::Striped(layout) => smallvec![layout.location(at)],
            Self::Mirror(layout) => layout.locations(at).collect(),
            Self::Near(layout) => layout.locations(at).collect(),
            Self::Far(layout) => layout.locations(at).collect(),
        }
    }

    /// Which sector of the array is stored at `location`; `None` where the array stores nothing.
    pub fn array_sector(&self, location: Location) -> Option<Sector> {
        match self {
            Self::Linear(layout) => layout.array_sector(location),
            Self::Striped(layout) => layout.array_sector(location),
            Self::Mirror(layout) => layout.array_sector(location),
            Self::Near(layout) => layout.array_sector(location),
            Self::Far(layout) => layout.array_sector(location),
        }
    }

    /// Where a piece that holds `at` ends at the latest: at the end of the chunk, of the member
    /// (linear), or at the next multiple of [`MIRROR_PIECE`] (RAID 1).
    pub fn piece_end(&self, at: Sector) -> Sector {
        match self {
            Self::Linear(layout) => layout.run_end(at),
            Self::Striped(layout) => next_multiple(at, layout.chunk()),
            Self::Mirror(_) => next_multiple(at, MIRROR_PIECE),
            Self::Near(layout) => next_multiple(at, layout.chunk()),
            Self::Far(layout) => next_multiple(at, layout.chunk()),
        }
    }

    /// The pieces of a request, in ascending order: within each the places do not change.
    pub fn split(&self, extent: Extent) -> impl Iterator<Item = Extent> + '_ {
        let (mut at, end) = (extent.at, extent.end());
        std::iter::from_fn(move || {
            if at == end {
                return None;
            }
            let piece = Extent { at, length: self.piece_end(at).min(end) - at };
            at = piece.end();
            Some(piece)
        })
    }

    /// What some sectors of a member hold, run by run, in ascending order.
    pub fn runs_of_member(
        &self,
        member: MemberIndex,
        extent: Extent,
    ) -> impl Iterator<Item = MemberRun> + '_ {
        let (mut at, end) = (extent.at, extent.end());
        std::iter::from_fn(move || {
            if at == end {
                return None;
            }
            let run_end = match self {
                Self::Linear(_) | Self::Mirror(_) => {
                    let used_end = Sector(self.used_of_member(member).0);
                    if at < used_end { used_end } else { end }
                }
                Self::Striped(layout) => next_multiple(at, layout.chunk()),
                Self::Near(layout) => next_multiple(at, layout.chunk()),
                Self::Far(layout) => next_multiple(at, layout.chunk()),
            };
            let on_member = Extent { at, length: run_end.min(end) - at };
            let array = self.array_sector(Location { member, at });
            at = on_member.end();
            Some(MemberRun { on_member, array })
        })
    }

    /// Whether every sector has a copy on some member for which `live` says yes.
    ///
    /// Which members share a chunk depends only on the member of its first copy, and those repeat
    /// after as many chunks as there are members, so it is enough to look at that many.
    pub fn covers(&self, live: impl Fn(MemberIndex) -> bool) -> bool {
        let chunk = match self {
            Self::Linear(_) | Self::Striped(_) => {
                return (0..self.members()).map(MemberIndex).all(live);
            }
            Self::Mirror(_) => return (0..self.members()).map(MemberIndex).any(live),
            Self::Near(layout) => layout.chunk(),
            Self::Far(layout) => layout.chunk(),
        };
        let chunks_until_repeat = u64::from(self.members()).min(self.capacity().0 / chunk.0);
        (0..chunks_until_repeat).all(|index| {
            let copies = self.locations(Sector(index * chunk.0));
            copies.iter().any(|location| live(location.member))
        })
    }
}

/// The first multiple of `unit` after `at`.
fn next_multiple(at: Sector, unit: Sectors) -> Sector {
    Sector(at.0 - at.0 % unit.0 + unit.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::far::{FarPlacement, Raid10Layout};
    use crate::layout::striped::Raid0Layout;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// Whether the array survives on each set of members, given as digits.
    fn check_covers(layout: CopyLayout, survives: &[&str], lost: &[&str]) {
        for (sets, expected) in [(survives, true), (lost, false)] {
            for set in sets {
                let live = |member: MemberIndex| set.contains(&member.0.to_string());
                assert_eq!(layout.covers(live), expected, "on {set}");
            }
        }
    }

    fn near(members: u32, copies: u32) -> CopyLayout {
        CopyLayout::Near(NearLayout::new(members, copies, Sectors(8), Sectors(80)))
    }

    fn far(members: u32, copies: Raid10Layout) -> CopyLayout {
        let layout = FarLayout::new(members, copies, Sectors(8), Sectors(80));
        CopyLayout::Far(layout.expect("a map without collisions"))
    }

    #[test]
    fn a_pair_of_mirrors_must_not_be_lost_whole() {
        check_covers(near(4, 2), &["02", "13", "012"], &["01", "23", "2", ""]);
        check_covers(near(3, 2), &["02", "01", "12"], &["0", "1", "2"]);
        check_covers(far(4, Raid10Layout::far(2)), &["02", "13"], &["01", "03", "12"]);
        check_covers(far(3, Raid10Layout::offset(3)), &["0", "1", "2"], &[""]);
    }

    #[test]
    fn a_mirror_needs_one_member_and_what_has_one_copy_needs_all() {
        check_covers(CopyLayout::Mirror(MirrorLayout::new(3, Sectors(9))), &["0", "2"], &[""]);
        let linear = LinearLayout::new(&[Sectors(3); 3], Sectors(0));
        check_covers(CopyLayout::Linear(linear), &["012"], &["01", "12"]);
        let striped = StripedLayout::new(&[Sectors(8); 3], Sectors(8), Raid0Layout::Original);
        check_covers(CopyLayout::Striped(striped), &["012"], &["01", "12"]);
    }

    /// Layouts of every kind, with what each member offers.
    fn layouts() -> impl Strategy<Value = (CopyLayout, Vec<Sectors>)> {
        prop_oneof![linear(), striped(), mirrors(), nears(), fars()]
    }

    fn sizes() -> impl Strategy<Value = Vec<Sectors>> {
        prop::collection::vec((20u64..120).prop_map(Sectors), 1..6)
    }

    fn linear() -> impl Strategy<Value = (CopyLayout, Vec<Sectors>)> {
        (sizes(), 0u64..20).prop_map(|(sizes, rounding)| {
            (CopyLayout::Linear(LinearLayout::new(&sizes, Sectors(rounding))), sizes)
        })
    }

    fn striped() -> impl Strategy<Value = (CopyLayout, Vec<Sectors>)> {
        (sizes(), 1u64..20, any::<bool>()).prop_map(|(sizes, chunk, original)| {
            let layout = if original { Raid0Layout::Original } else { Raid0Layout::Alternate };
            (CopyLayout::Striped(StripedLayout::new(&sizes, Sectors(chunk), layout)), sizes)
        })
    }

    fn mirrors() -> impl Strategy<Value = (CopyLayout, Vec<Sectors>)> {
        (1u32..5, 1u64..100).prop_map(|(members, size)| {
            let layout = MirrorLayout::new(members, Sectors(size));
            (CopyLayout::Mirror(layout), vec![Sectors(size); members as usize])
        })
    }

    fn nears() -> impl Strategy<Value = (CopyLayout, Vec<Sectors>)> {
        (2u32..9, any::<u32>(), 0u32..4, 8u64..200).prop_map(|(members, copies, log2, size)| {
            let (copies, chunk) = (1 + copies % members, Sectors(1 << log2));
            let layout = NearLayout::new(members, copies, chunk, Sectors(size));
            (CopyLayout::Near(layout), vec![Sectors(size); members as usize])
        })
    }

    /// All that md's map is sound for.
    fn fars() -> impl Strategy<Value = (CopyLayout, Vec<Sectors>)> {
        let copies = (1u32..4, 1u32..5, any::<bool>(), any::<bool>());
        let rest = (2u32..12, 0u32..3, 20u64..200);
        (copies, rest).prop_filter_map("md's map collides", |(copies, (members, log2, size))| {
            let (near_copies, far_copies, offset, far_sets) = copies;
            let placement = if offset { FarPlacement::Offset } else { FarPlacement::Far };
            let copies = Raid10Layout { near_copies, far_copies, placement, far_sets };
            if copies.copies() > members {
                return None;
            }
            let layout = FarLayout::new(members, copies, Sectors(1 << log2), Sectors(size))?;
            Some((CopyLayout::Far(layout), vec![Sectors(size); members as usize]))
        })
    }

    proptest! {
        #[test]
        fn the_map_is_a_bijection_within_the_members((layout, sizes) in layouts()) {
            let mut taken = BTreeSet::new();
            for sector in (0..layout.capacity().0).map(Sector) {
                let locations = layout.locations(sector);
                let members: BTreeSet<_> = locations.iter().map(|of| of.member).collect();
                prop_assert_eq!(members.len(), locations.len(), "copies on distinct members");
                for location in locations {
                    prop_assert!(location.at.0 < layout.used_of_member(location.member).0);
                    prop_assert!(taken.insert(location), "each place is used once");
                    prop_assert_eq!(layout.array_sector(location), Some(sector));
                }
            }
            for (member, size) in (0..).map(MemberIndex).zip(&sizes) {
                prop_assert!(layout.used_of_member(member).0 <= size.0);
                for at in (0..size.0 + 9).map(Sector) {
                    let location = Location { member, at };
                    let stored = layout.array_sector(location).is_some();
                    prop_assert_eq!(stored, taken.contains(&location));
                }
            }
        }

        #[test]
        fn within_a_piece_the_places_follow_one_another((layout, _) in layouts()) {
            let whole = Extent { at: Sector(0), length: layout.capacity() };
            prop_assume!(whole.length.0 > 0);
            let mut next = whole.at;
            for piece in layout.split(whole) {
                prop_assert_eq!(piece.at, next);
                next = piece.end();
                let first = layout.locations(piece.at);
                for ahead in 0..piece.length.0 {
                    let mut moved = first.clone();
                    moved.iter_mut().for_each(|location| location.at.0 += ahead);
                    prop_assert_eq!(layout.locations(piece.at + Sectors(ahead)), moved);
                }
            }
            prop_assert_eq!(next, whole.end());
        }

        #[test]
        fn runs_of_a_member_say_what_it_holds((layout, sizes) in layouts()) {
            for (member, size) in (0..).map(MemberIndex).zip(&sizes) {
                let mut next = Sector(0);
                let whole = Extent { at: Sector(0), length: *size };
                for run in layout.runs_of_member(member, whole) {
                    prop_assert_eq!(run.on_member.at, next);
                    next = run.on_member.end();
                    for ahead in (0..run.on_member.length.0).map(Sectors) {
                        let location = Location { member, at: run.on_member.at + ahead };
                        let expected = run.array.map(|array| array + ahead);
                        prop_assert_eq!(layout.array_sector(location), expected);
                    }
                }
                prop_assert_eq!(next, whole.end());
            }
        }
    }
}
