//! A caller's request: is it one that the array can serve, and which pieces does it fall into.
//!
//! Pure: never knows members, copies or memory.

use crate::error::ArrayError;
use crate::units::{SECTOR_BYTES, Sector, Sectors};

/// A run of sectors: never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The first sector.
    pub at: Sector,
    /// How many; not zero.
    pub length: Sectors,
}

impl Extent {
    /// The sector after the last.
    pub fn end(self) -> Sector {
        self.at + self.length
    }

    /// Whether some sector is in both.
    pub fn overlaps(self, other: Extent) -> bool {
        self.at < other.end() && other.at < self.end()
    }

    /// What lies before `other` and what lies behind it.
    pub fn without(self, other: Extent) -> [Option<Extent>; 2] {
        let between = |start: Sector, end: Sector| {
            (start < end).then(|| Extent { at: start, length: end - start })
        };
        let (before, after) = (self.end().min(other.at), self.at.max(other.end()));
        [between(self.at, before), between(after, self.end())]
    }

    /// The request for `length_bytes` bytes at `at`, if an array of `capacity` can serve it.
    ///
    /// # Errors
    /// [`ArrayError::Empty`], [`ArrayError::Misaligned`] to the logical block,
    /// [`ArrayError::OutOfRange`].
    pub fn checked(
        at: Sector,
        length_bytes: u64,
        logical_block_bytes: u32,
        capacity: Sectors,
    ) -> Result<Extent, ArrayError> {
        if length_bytes == 0 {
            return Err(ArrayError::Empty { at });
        }
        let block_bytes = u64::from(logical_block_bytes);
        let block = Sectors(block_bytes / SECTOR_BYTES);
        if !length_bytes.is_multiple_of(block_bytes) || !at.0.is_multiple_of(block.0) {
            return Err(ArrayError::Misaligned { at, length_bytes, logical_block_bytes });
        }
        let length = Sectors(length_bytes / SECTOR_BYTES);
        match at.0.checked_add(length.0) {
            Some(end) if end <= capacity.0 => Ok(Extent { at, length }),
            _ => Err(ArrayError::OutOfRange { at, length, capacity }),
        }
    }

    /// The pieces that lie between multiples of `unit`, in ascending order.
    pub fn split(self, unit: Sectors) -> impl Iterator<Item = Extent> + use<> {
        assert!(unit.0 > 0, "cannot cut into nothing");
        let mut at = self.at;
        let end = self.end();
        std::iter::from_fn(move || {
            let left = (end - at).0;
            let until_boundary = unit.0 - at.0 % unit.0;
            let piece = Extent { at, length: Sectors(left.min(until_boundary)) };
            at = piece.end();
            (left > 0).then_some(piece)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BLOCK_BYTES: u32 = 4096;
    const CAPACITY: Sectors = Sectors(800);

    fn check(at: u64, length_bytes: u64, expected: Result<u64, ArrayError>) {
        let extent = Extent::checked(Sector(at), length_bytes, BLOCK_BYTES, CAPACITY);
        assert_eq!(extent.map(|extent| extent.length.0), expected);
    }

    #[test]
    fn a_request_for_nothing_is_refused() {
        check(8, 0, Err(ArrayError::Empty { at: Sector(8) }));
    }

    #[test]
    fn the_last_block_is_in_and_the_next_is_out() {
        let out = |at, length| ArrayError::OutOfRange {
            at: Sector(at),
            length: Sectors(length),
            capacity: CAPACITY,
        };
        check(792, 4096, Ok(8));
        check(792, 8192, Err(out(792, 16)));
        check(800, 4096, Err(out(800, 8)));
        check(u64::MAX - 7, 8192, Err(out(u64::MAX - 7, 16)));
    }

    #[test]
    fn part_of_a_block_is_refused() {
        let misaligned = |at, length_bytes| ArrayError::Misaligned {
            at: Sector(at),
            length_bytes,
            logical_block_bytes: BLOCK_BYTES,
        };
        check(4, 4096, Err(misaligned(4, 4096)));
        check(8, 512, Err(misaligned(8, 512)));
        check(8, 4097, Err(misaligned(8, 4097)));
    }

    proptest! {
        #[test]
        fn pieces_cover_the_request_and_cross_no_boundary(
            at in 0u64..1000, length in 1u64..1000, unit in 1u64..100
        ) {
            let whole = Extent { at: Sector(at), length: Sectors(length) };
            let mut next = whole.at;
            for piece in whole.split(Sectors(unit)) {
                prop_assert_eq!(piece.at, next);
                prop_assert!(piece.length.0 > 0);
                prop_assert_eq!(piece.at.0 / unit, (piece.end().0 - 1) / unit);
                next = piece.end();
            }
            prop_assert_eq!(next, whole.end());
        }
    }
}
