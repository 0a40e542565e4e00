//! What lies where on a member, as its superblock says: the areas are within the device, and no two
//! of them share a sector, so that writing one never damages another.
//!
//! Room that is kept for a bad-block log counts also while the log is empty and its feature bit is
//! off: the next bad block is written there.

use super::error::Overlap;
use super::{Details, Features, SUPERBLOCK_BYTES, Superblock, SuperblockError};
use crate::request::Extent;
use crate::units::{Sector, Sectors};

const DATA: &str = "data";
const DATA_MOVED: &str = "data that a reshape moves";

type Area = (&'static str, Extent);

pub(super) fn check(of: &Superblock, device_size: Sectors) -> Result<(), SuperblockError> {
    let areas = areas(of);
    for (name, Extent { at, length }) in &areas {
        let end = at.0.checked_add(length.0);
        if end.is_none_or(|end| end > device_size.0) {
            let (name, at, length) = (*name, *at, *length);
            return Err(SuperblockError::BeyondDevice { name, at, length, device_size });
        }
    }
    for (index, (first, at)) in areas.iter().enumerate() {
        for (second, other) in &areas[index + 1..] {
            // A reshape moves data within what it fills already.
            let moved = (*first, *second) == (DATA, DATA_MOVED);
            if at.overlaps(*other) && !moved {
                let (first, second) = (*first, *second);
                let (first_at, second_at) = (sectors(*at), sectors(*other));
                let overlap = Overlap { first, first_at, second, second_at };
                return Err(SuperblockError::Overlap(Box::new(overlap)));
            }
        }
    }
    Ok(())
}

fn sectors(extent: Extent) -> std::ops::Range<u64> {
    extent.at.0..extent.end().0
}

fn areas(of: &Superblock) -> Vec<Area> {
    let area = |name, (at, length): (Sector, Sectors)| (name, Extent { at, length });
    let (superblock, bitmap) = match &of.details {
        Details::V0(_) => {
            let superblock = Sectors::from_bytes_rounded_up(SUPERBLOCK_BYTES as u64);
            (superblock, of.bitmap_room(Sectors(u64::MAX)))
        }
        // How long the bitmap is only its own header says; it ends before whatever comes next.
        Details::V1(details) => (details.length(), Some(Sectors(1))),
    };
    let mut areas = vec![
        area("superblock", (of.at, superblock)),
        area(DATA, (of.data_offset(), of.data_size())),
    ];
    if of.has(Features::NEW_OFFSET) {
        // What the array does not use of a member stays where it is.
        let used = Sectors(of.component_size.0.max(1));
        areas.push(area(DATA_MOVED, (of.new_data_offset(), used)));
    }
    areas.extend(of.bitmap_at().zip(bitmap).map(|of| area("write-intent bitmap", of)));
    areas.extend(of.ppl().map(|of| area("partial parity log", of)));
    areas.extend(of.bad_block_log().map(|of| area("bad-block log", of)));
    areas
}
