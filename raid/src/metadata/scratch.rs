//! A hand-written pair of superblocks of a RAID 1, for tests to bend: the same values that Linux
//! 6.1 and mdadm 4.2 were asked to judge.

use super::identity::{Time, Uuid};
use super::superblock::{Details, Features, Location, Superblock, Version, Version1};
use crate::units::{Sector, Sectors};

/// The size of the devices: 8 MiB.
pub(crate) const DEVICE_SIZE: Sectors = Sectors(16384);
pub(crate) const LOCATION: Location = Location { version: Version::V1_2, at: Sector(8) };

/// Member 0 or 1 of the pair.
pub(crate) fn member(index: u32) -> Superblock {
    let mut name = [0; 32];
    name[..10].copy_from_slice(b"scratch:r1");
    let mut roles = vec![0xFFFF; 128];
    (roles[0], roles[1]) = (0, 1);
    Superblock {
        version: Version::V1_2,
        at: LOCATION.at,
        array_uuid: Uuid(std::array::from_fn(|byte| 0x10 + byte as u8)),
        created: Time { seconds: 1_767_225_600, microseconds: 0 },
        updated: Time { seconds: 1_767_225_600, microseconds: 0 },
        level: 1,
        layout: 0,
        chunk: Sectors(0),
        component_size: Sectors(DEVICE_SIZE.0 - 2048),
        raid_disks: 2,
        events: 10,
        dev_number: index,
        reshape_position: 0,
        delta_disks: 0,
        new_level: 0,
        new_layout: 0,
        new_chunk: Sectors(0),
        details: Details::V1(Version1 {
            features: Features::default(),
            name,
            bitmap_or_ppl: 0,
            new_offset: 0,
            data_offset: 2048,
            data_size: DEVICE_SIZE.0 - 2048,
            recovery_offset: 0,
            corrected_reads: 0,
            device_uuid: Uuid([0xD0 + index as u8; 16]),
            device_flags: 0,
            bad_block_shift: 0,
            bad_block_log_size: 0,
            bad_block_log_offset: 0,
            resync_offset: u64::MAX,
            roles,
        }),
    }
}

/// Bends what only version 1 stores.
pub(crate) fn v1(of: &mut Superblock) -> &mut Version1 {
    match &mut of.details {
        Details::V1(details) => details,
        Details::V0(_) => panic!("the pair is of version 1.2"),
    }
}

/// The sum that the tests put over bytes which they bent, written out a second time: 64 bits of
/// little-endian words, folded once.
pub(crate) fn seal(bytes: &mut [u8]) {
    bytes[216..220].fill(0);
    let max_dev = u32::from_le_bytes(bytes[220..224].try_into().expect("four bytes"));
    let end = (256 + 2 * max_dev as usize).min(bytes.len());
    let mut sum = 0u64;
    for word in bytes[..end].chunks(4) {
        let mut whole = [0; 4];
        whole[..word.len()].copy_from_slice(word);
        sum += u64::from(u32::from_le_bytes(whole));
    }
    let folded = (sum as u32).wrapping_add((sum >> 32) as u32);
    bytes[216..220].copy_from_slice(&folded.to_le_bytes());
}
