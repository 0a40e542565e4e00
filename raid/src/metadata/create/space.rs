//! How mdadm 4.2 shares out a device between metadata and data.
//!
//! ```text
//! 1.2:  4 KiB free | superblock | bitmap | bad-block log | headroom | data …
//! 1.1:  superblock | bitmap | bad-block log | headroom | data …
//! 1.0:  data … | bitmap | bad-block log | superblock
//! 0.90: data … | superblock, bitmap (64 KiB)
//! ```

use crate::metadata::superblock::{RESERVED_0_90, Version};
use crate::units::{Sector, Sectors};

const MIB: u64 = 2048;
const GIB: u64 = MIB << 10;
/// Room that a reshape may move data into: 128 MiB at most.
const HEADROOM_MAX: u64 = 128 * MIB;
/// The bad-block log.
pub(super) const BAD_BLOCK_LOG: Sectors = Sectors(8);

/// What is kept for a bitmap: 64 KiB on devices beyond 8 GiB, 128 KiB beyond 200 GiB.
pub(super) fn bitmap_room(size: Sectors) -> Sectors {
    Sectors(match size.0 {
        size if size < RESERVED_0_90.0 => 0,
        size if size - RESERVED_0_90.0 >= 200 * GIB => 256,
        _ if size.0 - 8 > 8 * GIB => 128,
        _ => 8,
    })
}

/// Where data starts by default: metadata, room for a bitmap or a log, and headroom of about a
/// thousandth of the device (but not less than two chunks), rounded up to 1 MiB.
pub(super) fn data_offset(
    version: Version,
    device_size: Sectors,
    chunk: Sectors,
    log: Option<Sectors>,
) -> Sector {
    if matches!(version, Version::V0_90 | Version::V1_0) {
        return Sector(0);
    }
    let mut headroom = HEADROOM_MAX;
    while headroom << 10 > device_size.0 && headroom > 2 * chunk.0 {
        headroom /= 2;
    }
    let room = log.unwrap_or_else(|| bitmap_room(device_size));
    Sector((24 + room.0 + headroom).next_multiple_of(MIB))
}

/// How much of a device may hold data, before it is rounded to chunks.
pub(super) fn offered(
    version: Version,
    device_size: Sectors,
    data_offset: Sector,
) -> Option<Sectors> {
    let end = match version {
        Version::V0_90 => version.location(device_size)?.at.0,
        Version::V1_0 => {
            let rounded = device_size.0 / 8 * 8;
            rounded.checked_sub(16 + BAD_BLOCK_LOG.0 + bitmap_room(device_size).0)?
        }
        Version::V1_1 | Version::V1_2 => device_size.0,
    };
    end.checked_sub(data_offset.0).map(Sectors)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(device_gib: u64, chunk_kib: u64, offset_mib: u64) {
        let found =
            data_offset(Version::V1_2, Sectors(device_gib * GIB), Sectors(chunk_kib * 2), None);
        assert_eq!(found, Sector(offset_mib * MIB));
    }

    #[test]
    fn headroom_is_a_thousandth_of_the_device() {
        // The offsets that mdadm is known for: 1 MiB on small mirrors, 2 MiB with chunks of 512 KiB
        // on small devices, 64 MiB around 100 GiB, 129 MiB (264192 sectors) on large ones.
        check(0, 0, 1);
        check(0, 512, 2);
        check(1, 512, 2);
        check(100, 512, 65);
        check(4000, 512, 129);
        check(4000, 0, 129);
    }

    #[test]
    fn a_bitmap_gets_more_room_on_larger_devices() {
        let room = |gib: u64| bitmap_room(Sectors(gib * GIB)).0;
        assert_eq!([room(0), room(1), room(9), room(201)], [0, 8, 128, 256]);
    }
}
