//! Where superblocks lie, and which one counts when more than one is found. Never reads: the caller
//! fetches the bytes of each place and offers them.

use super::{SUPERBLOCK_BYTES, Superblock, SuperblockError, Version};
use crate::units::{Sector, Sectors};

/// A place where a superblock of one version may lie. It has [`SUPERBLOCK_BYTES`] there, all of
/// them on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// Which version lies there.
    pub version: Version,
    /// Its first sector.
    pub at: Sector,
}

/// Below this md puts no superblock on a device.
const DEVICE_SIZE_MIN: Sectors = Sectors(24);
/// Version 0.90 keeps this much free at the end, and starts at a multiple of it.
pub(in crate::metadata) const RESERVED_0_90: Sectors = Sectors(128);

impl Version {
    /// Where a superblock of this version lies on a device, if the device is large enough.
    pub fn location(self, device_size: Sectors) -> Option<Location> {
        if device_size < DEVICE_SIZE_MIN {
            return None;
        }
        let at = match self {
            Self::V1_2 => 8,
            Self::V1_1 => 0,
            Self::V1_0 => (device_size.0 - 16) & !7,
            Self::V0_90 => (device_size.0 / RESERVED_0_90.0).checked_sub(1)? * RESERVED_0_90.0,
        };
        Some(Location { version: self, at: Sector(at) })
    }
}

/// Every place where a superblock may lie on a device of this size: each of [`SUPERBLOCK_BYTES`].
pub fn locations(device_size: Sectors) -> impl Iterator<Item = Location> {
    Version::ALL.into_iter().filter_map(move |version| version.location(device_size))
}

/// Looks for the superblock of one device.
///
/// ```
/// use raid::metadata::superblock::{Search, SUPERBLOCK_BYTES, locations};
/// use raid::units::Sectors;
///
/// let image = vec![0u8; 1 << 20];
/// let size = Sectors::from_bytes_rounded_down(image.len() as u64);
/// let mut search = Search::new(size);
/// for place in locations(size) {
///     let first = place.at.byte_offset() as usize;
///     search.offer(place, &image[first..first + SUPERBLOCK_BYTES]);
/// }
/// assert!(search.finish().is_err(), "a blank image holds none");
/// ```
pub struct Search {
    device_size: Sectors,
    best: Option<Superblock>,
    /// Another superblock, made at the same time as the best one.
    rival: Option<Version>,
    /// The first place that held one that may not be used.
    damaged: Option<SuperblockError>,
}

impl Search {
    /// A search on a device of this size.
    pub fn new(device_size: Sectors) -> Self {
        Self { device_size, best: None, rival: None, damaged: None }
    }

    /// Takes the bytes that were read at one of the [`locations`].
    pub fn offer(&mut self, location: Location, bytes: &[u8]) {
        match Superblock::decode(location, self.device_size, bytes) {
            Ok(found) => match &self.best {
                Some(best) if best.created == found.created => self.rival = Some(found.version),
                Some(best) if best.created > found.created => {}
                _ => (self.best, self.rival) = (Some(found), None),
            },
            // Not a superblock of this version, so not one that is damaged either.
            Err(
                SuperblockError::Magic { .. }
                | SuperblockError::VersionFound { .. }
                | SuperblockError::Elsewhere { .. },
            ) => {}
            Err(error) => drop(self.damaged.get_or_insert(error)),
        }
    }

    /// The superblock of the device. Of several the one whose array was made last counts, as
    /// mdadm has it. A damaged one counts unless there is another.
    ///
    /// # Errors
    /// [`SuperblockError::None`], [`SuperblockError::Ambiguous`], or what is wrong with the one
    /// that there is.
    pub fn finish(self) -> Result<Superblock, SuperblockError> {
        match (self.best, self.rival, self.damaged) {
            (Some(best), Some(second), _) => {
                Err(SuperblockError::Ambiguous { first: best.version, second })
            }
            (Some(best), None, _) => Ok(best),
            (None, _, Some(error)) => Err(error),
            (None, _, None) => Err(SuperblockError::None { device_size: self.device_size }),
        }
    }
}

/// The superblock of a whole image in memory.
///
/// # Errors
/// As [`Search::finish`].
pub fn find(image: &[u8]) -> Result<Superblock, SuperblockError> {
    let device_size = Sectors::from_bytes_rounded_down(image.len() as u64);
    let mut search = Search::new(device_size);
    for location in locations(device_size) {
        let first = location.at.byte_offset() as usize;
        search.offer(location, &image[first..first + SUPERBLOCK_BYTES]);
    }
    search.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(size: u64, expected: &[(Version, u64)]) {
        let found: Vec<_> = locations(Sectors(size)).map(|of| (of.version, of.at.0)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn superblocks_lie_where_md_puts_them() {
        use Version::{V0_90, V1_0, V1_1, V1_2};
        check(16384, &[(V1_2, 8), (V1_1, 0), (V1_0, 16368), (V0_90, 16256)]);
        check(16400, &[(V1_2, 8), (V1_1, 0), (V1_0, 16384), (V0_90, 16256)]);
        check(100, &[(V1_2, 8), (V1_1, 0), (V1_0, 80)]);
        check(23, &[]);
    }

    #[test]
    fn every_place_has_room_for_a_superblock() {
        for size in 0..600 {
            for of in locations(Sectors(size)) {
                assert!(
                    of.at.byte_offset() + SUPERBLOCK_BYTES as u64 <= size * 512,
                    "{size} {of:?}"
                );
            }
        }
    }
}
