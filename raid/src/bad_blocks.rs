//! The sectors of a member that cannot be trusted, because a write there failed: what md keeps in a
//! member's bad-block log.
//!
//! Pure: never says where the log lies on the device, and counts sectors from the start of the
//! member's data.

use crate::request::Extent;
use crate::units::{Sector, Sectors};

/// The longest run that one entry of md's log describes, in sectors.
pub const ENTRY_SECTORS_MAX: u64 = 512;

/// A list of bad sectors with room for so many entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadBlocks {
    /// Ascending, neither overlapping nor touching.
    extents: Vec<Extent>,
    entries_max: usize,
}

impl BadBlocks {
    /// An empty list. md's log has room for 512 entries in a page of 4 KiB.
    pub const fn new(entries_max: usize) -> Self {
        Self { extents: Vec::new(), entries_max }
    }

    /// A list of what a log holds. What there is stays, even if it is more than there is room for.
    pub fn with_extents(entries_max: usize, extents: impl IntoIterator<Item = Extent>) -> Self {
        let mut list = Self::new(entries_max);
        for extent in extents {
            list.extents = merged(&list.extents, extent);
        }
        list
    }

    /// The bad sectors, ascending, neither overlapping nor touching.
    pub fn extents(&self) -> &[Extent] {
        &self.extents
    }

    /// Whether no sector is bad.
    pub fn is_empty(&self) -> bool {
        self.extents.is_empty()
    }

    /// Whether some sector of `extent` is bad.
    pub fn overlaps(&self, extent: Extent) -> bool {
        self.extents.iter().any(|bad| bad.overlaps(extent))
    }

    /// Takes sectors in. False, and nothing changes, if there is no room.
    pub fn record(&mut self, extent: Extent) -> bool {
        self.replace(merged(&self.extents, extent))
    }

    /// Lets sectors out. False, and nothing changes, if there is no room for the pieces that
    /// remain.
    pub fn clear(&mut self, extent: Extent) -> bool {
        let left = self.extents.iter().flat_map(|bad| bad.without(extent)).flatten();
        self.replace(left.collect())
    }

    /// With every run widened to whole blocks.
    pub fn aligned_to(mut self, block: Sectors) -> Self {
        let widened = std::mem::take(&mut self.extents).into_iter().map(|bad| {
            let start = bad.at.0 - bad.at.0 % block.0;
            let end = bad.end().0.next_multiple_of(block.0);
            Extent { at: Sector(start), length: Sectors(end - start) }
        });
        Self::with_extents(self.entries_max, widened)
    }

    fn replace(&mut self, extents: Vec<Extent>) -> bool {
        let fits = entries(&extents) <= self.entries_max.max(entries(&self.extents));
        if fits {
            self.extents = extents;
        }
        fits
    }
}

/// How many entries of a log these runs take.
pub(crate) fn entries(extents: &[Extent]) -> usize {
    extents.iter().map(|bad| bad.length.0.div_ceil(ENTRY_SECTORS_MAX) as usize).sum()
}

/// The list with one more run, joined with those that it touches.
fn merged(extents: &[Extent], extent: Extent) -> Vec<Extent> {
    let touches = |bad: &&Extent| bad.at <= extent.end() && extent.at <= bad.end();
    let (mut start, mut end) = (extent.at, extent.end());
    for bad in extents.iter().filter(touches) {
        (start, end) = (start.min(bad.at), end.max(bad.end()));
    }
    let mut all: Vec<Extent> = extents.iter().filter(|bad| !touches(bad)).copied().collect();
    let place = all.partition_point(|bad| bad.at < start);
    all.insert(place, Extent { at: start, length: end - start });
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn extent(at: u64, length: u64) -> Extent {
        Extent { at: Sector(at), length: Sectors(length) }
    }

    /// Records runs in a list of three entries; then its runs and whether the last one fitted.
    fn check(runs: &[(u64, u64)], expected: &[(u64, u64)], last_fits: bool) {
        let mut list = BadBlocks::new(3);
        let fitted: Vec<bool> =
            runs.iter().map(|(at, length)| list.record(extent(*at, *length))).collect();
        let found: Vec<_> = list.extents().iter().map(|bad| (bad.at.0, bad.length.0)).collect();
        assert_eq!(found, expected);
        assert_eq!(fitted.last(), Some(&last_fits));
    }

    #[test]
    fn runs_that_touch_become_one() {
        check(&[(8, 8), (24, 8), (16, 8)], &[(8, 24)], true);
        check(&[(8, 8), (4, 6)], &[(4, 12)], true);
    }

    #[test]
    fn a_full_list_takes_no_more() {
        check(&[(0, 1), (8, 1), (16, 1), (24, 1)], &[(0, 1), (8, 1), (16, 1)], false);
        check(&[(0, 1), (8, 1), (16, 1), (0, 9)], &[(0, 9), (16, 1)], true);
    }

    #[test]
    fn a_long_run_takes_several_entries() {
        check(&[(0, 1536)], &[(0, 1536)], true);
        check(&[(0, 1537)], &[], false);
    }

    #[test]
    fn a_hole_that_needs_an_entry_too_many_is_not_made() {
        let mut list = BadBlocks::with_extents(1, [extent(0, 24)]);
        assert!(!list.clear(extent(8, 8)));
        assert!(list.clear(extent(0, 8)));
        assert_eq!(list.extents(), [extent(8, 16)]);
    }

    #[test]
    fn runs_are_widened_to_whole_blocks() {
        let list = BadBlocks::with_extents(4, [extent(3, 2), extent(9, 1)]).aligned_to(Sectors(8));
        assert_eq!(list.extents(), [extent(0, 16)]);
    }

    proptest! {
        #[test]
        fn a_list_is_a_set_of_sectors(
            steps in prop::collection::vec((any::<bool>(), 0u64..60, 1u64..20), 0..20)
        ) {
            let mut list = BadBlocks::new(100);
            let mut model = BTreeSet::new();
            for (record, at, length) in steps {
                let fits = if record {
                    model.extend(at..at + length);
                    list.record(extent(at, length))
                } else {
                    model.retain(|sector| !(at..at + length).contains(sector));
                    list.clear(extent(at, length))
                };
                prop_assert!(fits);
                for sector in 0..90 {
                    prop_assert_eq!(list.overlaps(extent(sector, 1)), model.contains(&sector));
                }
                let apart = |pair: &[Extent]| pair[0].end() < pair[1].at;
                prop_assert!(list.extents().windows(2).all(apart));
            }
        }
    }
}
