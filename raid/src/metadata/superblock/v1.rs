//! The bytes of superblock versions 1.0, 1.1 and 1.2: 256 bytes of fields, then a role of 16 bits
//! for each device number.
//!
//! ```text
//!   0 magic            4 major=1        8 features      12 zero
//!  16 array uuid (16)  32 name (32)     64 created u64
//!  72 level i32        76 layout        80 component size u64
//!  88 chunk            92 raid disks    96 bitmap offset i32, or PPL offset i16 and size u16
//! 100 new level       104 reshape position u64         112 delta disks i32
//! 116 new layout      120 new chunk    124 new offset i32
//! 128 data offset u64 136 data size u64                144 super offset u64
//! 152 recovery offset or journal tail u64
//! 160 device number   164 corrected reads              168 device uuid (16)
//! 184 device flags u8 185 bad-block shift u8           186 bad-block size u16
//! 188 bad-block offset i32             192 updated u64 200 events u64
//! 208 resync offset u64                216 checksum    220 max_dev
//! 224 zero (32)       256 roles (2 × max_dev)
//! ```

use super::{
    Details, Features, Location, MAGIC, SUPERBLOCK_BYTES, Superblock, SuperblockError, Version,
};
use crate::metadata::bytes::{ByteOrder, Reader, Writer, word_sum};
use crate::metadata::identity::{Time, Uuid};
use crate::units::{SECTOR_BYTES, Sectors};

/// Where the roles begin.
pub(in crate::metadata) const FIELDS_BYTES: usize = 256;
const CHECKSUM_AT: usize = 216;
/// How many roles the 4 KiB of a superblock hold.
pub const ROLES_MAX: u32 = ((SUPERBLOCK_BYTES - FIELDS_BYTES) / 2) as u32;
/// md refuses data of fewer sectors.
const DATA_SIZE_MIN: u64 = 10;
/// md reads one page of the bad-block log.
const BAD_BLOCK_LOG_SECTORS_MAX: u16 = 8;

/// What only version 1 stores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version1 {
    /// Which fields mean something.
    pub features: Features,
    /// The array's name, zeros behind it.
    pub name: [u8; 32],
    /// The word that places the bitmap or the partial parity log: see
    /// [`Version1::bitmap_offset`] and [`Version1::ppl`].
    pub bitmap_or_ppl: u32,
    /// By how many sectors a reshape moves the data.
    pub new_offset: i32,
    /// Where the data starts, in sectors of the device.
    pub data_offset: u64,
    /// How many sectors of the device may hold data.
    pub data_size: u64,
    /// Up to where this member is rebuilt; on a journal, where its log begins.
    pub recovery_offset: u64,
    /// How many read errors were repaired.
    pub corrected_reads: u32,
    /// The device's own UUID.
    pub device_uuid: Uuid,
    /// [`Version1::WRITE_MOSTLY`], [`Version1::FAIL_FAST`].
    pub device_flags: u8,
    /// The bad-block log counts in blocks of `512 << shift` bytes.
    pub bad_block_shift: u8,
    /// Sectors that the bad-block log may use.
    pub bad_block_log_size: u16,
    /// Where the bad-block log lies, in sectors from the superblock.
    pub bad_block_log_offset: i32,
    /// Up to which sector of the members the redundancy agrees; all ones where it agrees.
    pub resync_offset: u64,
    /// The role of each device number, as numbers: see [`super::Role::from_number`].
    pub roles: Vec<u16>,
}

impl Version1 {
    /// Device flag: reads avoid this member.
    pub const WRITE_MOSTLY: u8 = 1;
    /// Device flag: requests to this member fail rather than retry for long.
    pub const FAIL_FAST: u8 = 2;

    /// Where the bitmap lies, in sectors from the superblock.
    pub fn bitmap_offset(&self) -> i32 {
        self.bitmap_or_ppl.cast_signed()
    }

    /// Where the partial parity log lies, in sectors from the superblock, and its size in sectors.
    pub fn ppl(&self) -> (i16, u16) {
        let [low, high, size @ ..] = self.bitmap_or_ppl.to_le_bytes();
        (i16::from_le_bytes([low, high]), u16::from_le_bytes(size))
    }

    /// The word that places a partial parity log.
    pub fn ppl_word(offset: i16, size: u16) -> u32 {
        u32::from(offset.cast_unsigned()) | u32::from(size) << 16
    }

    /// The sectors that the superblock with its roles fills.
    pub(super) fn length(&self) -> Sectors {
        length(self.roles.len())
    }
}

/// The sectors that a superblock with so many roles fills.
pub(super) fn length(roles: usize) -> Sectors {
    Sectors::from_bytes_rounded_up((FIELDS_BYTES + 2 * roles) as u64)
}

pub(super) fn inspect(
    location: Location,
    bytes: &[u8],
) -> Result<(Superblock, Option<SuperblockError>), SuperblockError> {
    let version = location.version;
    let bytes = &bytes[..bytes.len().min(SUPERBLOCK_BYTES)];
    let cut_short = |needed_bytes| {
        let found_bytes = bytes.len();
        Err(SuperblockError::CutShort { version, found_bytes, needed_bytes })
    };
    if bytes.len() < FIELDS_BYTES {
        return cut_short(FIELDS_BYTES);
    }
    let from = Reader::little(bytes);
    if from.u32(0) != MAGIC {
        return Err(SuperblockError::Magic { version, found: from.u32(0) });
    }
    if from.u32(4) != 1 {
        return Err(SuperblockError::VersionFound { version, major: from.u32(4), minor: 0 });
    }
    if from.u64(144) != location.at.0 {
        return Err(SuperblockError::Elsewhere { version, at: location.at, found: from.u64(144) });
    }
    let max_dev = from.u32(220);
    if max_dev > ROLES_MAX {
        return Err(SuperblockError::MaxDev { found: max_dev, max: ROLES_MAX });
    }
    let end = FIELDS_BYTES + 2 * max_dev as usize;
    if bytes.len() < end {
        return cut_short(end);
    }
    Ok((fields(location, &from, max_dev), fault(version, &bytes[..end])))
}

fn fields(location: Location, from: &Reader<'_>, max_dev: u32) -> Superblock {
    let details = Version1 {
        features: Features(from.u32(8)),
        name: from.array(32),
        bitmap_or_ppl: from.u32(96),
        new_offset: from.i32(124),
        data_offset: from.u64(128),
        data_size: from.u64(136),
        recovery_offset: from.u64(152),
        corrected_reads: from.u32(164),
        device_uuid: Uuid(from.array(168)),
        device_flags: from.array::<1>(184)[0],
        bad_block_shift: from.array::<1>(185)[0],
        bad_block_log_size: from.u16(186),
        bad_block_log_offset: from.i32(188),
        resync_offset: from.u64(208),
        roles: (0..max_dev as usize).map(|of| from.u16(FIELDS_BYTES + 2 * of)).collect(),
    };
    Superblock {
        version: location.version,
        at: location.at,
        array_uuid: Uuid(from.array(16)),
        created: Time::from_word(from.u64(64)),
        updated: Time::from_word(from.u64(192)),
        level: from.i32(72),
        layout: from.u32(76),
        chunk: Sectors(u64::from(from.u32(88))),
        component_size: Sectors(from.u64(80)),
        raid_disks: from.u32(92),
        events: from.u64(200),
        dev_number: from.u32(160),
        reshape_position: from.u64(104),
        delta_disks: from.i32(112),
        new_level: from.i32(100),
        new_layout: from.u32(116),
        new_chunk: Sectors(u64::from(from.u32(120))),
        details: Details::V1(details),
    }
}

/// What is wrong with the bytes, before a field is looked at.
fn fault(version: Version, bytes: &[u8]) -> Option<SuperblockError> {
    let found = Reader::little(bytes).u32(CHECKSUM_AT);
    let expected = checksum(bytes);
    if found != expected {
        return Some(SuperblockError::Checksum { version, found, expected });
    }
    let padding = |field, range: std::ops::Range<usize>| {
        let offset = range.clone().find(|offset| bytes[*offset] != 0)?;
        Some(SuperblockError::Padding { field, offset, found: bytes[offset] })
    };
    padding("pad0", 12..16).or_else(|| padding("pad3", 224..256))
}

/// The sum of the words, the checksum's own one as zero.
fn checksum(bytes: &[u8]) -> u32 {
    let mut bytes = bytes.to_vec();
    bytes[CHECKSUM_AT..CHECKSUM_AT + 4].fill(0);
    word_sum(&bytes, ByteOrder::Little)
}

pub(super) fn check(of: &Superblock, details: &Version1) -> Result<(), SuperblockError> {
    let place = |field, found: i128, reason| Err(SuperblockError::Place { field, found, reason });
    let features = details.features;
    if features.unknown() != 0 {
        let (feature_map, unsupported) = (features.0, features.unknown());
        return Err(SuperblockError::Features { feature_map, unsupported });
    }
    if details.data_size < DATA_SIZE_MIN {
        let reason = "md takes at least 10 sectors of data";
        return place("data size", i128::from(details.data_size), reason);
    }
    if features.intersects(Features::BITMAP)
        && features.intersects(Features::PPL | Features::MULTIPLE_PPLS)
    {
        return Err(SuperblockError::Contradiction { first: "bitmap", second: "ppl" });
    }
    if features.intersects(Features::BAD_BLOCKS) && details.bad_block_log_size != 0 {
        if details.bad_block_log_offset == 0 {
            return place("bad-block offset", 0, "the log would overlap the superblock");
        }
        if details.bad_block_log_size > BAD_BLOCK_LOG_SECTORS_MAX {
            let found = i128::from(details.bad_block_log_size);
            return place("bad-block size", found, "md reads at most 8 sectors");
        }
    }
    let nowhere = "it lies before the start of the device";
    if features.intersects(Features::BITMAP) && of.bitmap_at().is_none() {
        return place("bitmap offset", i128::from(details.bitmap_offset()), nowhere);
    }
    if features.intersects(Features::PPL | Features::MULTIPLE_PPLS) && of.ppl().is_none() {
        return place("PPL offset", i128::from(details.ppl().0), nowhere);
    }
    let keeps_log = details.bad_block_log_size != 0 && details.bad_block_log_offset != 0;
    if keeps_log && of.bad_block_log().is_none() {
        return place("bad-block offset", i128::from(details.bad_block_log_offset), nowhere);
    }
    Ok(())
}

pub(super) fn encode(of: &Superblock, details: &Version1) -> Vec<u8> {
    assert!(details.roles.len() <= ROLES_MAX as usize, "more roles than the format holds");
    let mut to = Writer::little((details.length().0 * SECTOR_BYTES) as usize);
    to.u32(0, MAGIC);
    to.u32(4, 1);
    to.u32(8, details.features.0);
    to.put(16, &of.array_uuid.0);
    to.put(32, &details.name);
    to.u64(64, of.created.to_word());
    to.i32(72, of.level);
    to.u32(76, of.layout);
    to.u64(80, of.component_size.0);
    to.u32(88, chunk_word(of.chunk));
    to.u32(92, of.raid_disks);
    to.u32(96, details.bitmap_or_ppl);
    to.i32(100, of.new_level);
    to.u64(104, of.reshape_position);
    to.i32(112, of.delta_disks);
    to.u32(116, of.new_layout);
    to.u32(120, chunk_word(of.new_chunk));
    to.i32(124, details.new_offset);
    to.u64(128, details.data_offset);
    to.u64(136, details.data_size);
    to.u64(144, of.at.0);
    to.u64(152, details.recovery_offset);
    to.u32(160, of.dev_number);
    to.u32(164, details.corrected_reads);
    to.put(168, &details.device_uuid.0);
    to.put(184, &[details.device_flags, details.bad_block_shift]);
    to.u16(186, details.bad_block_log_size);
    to.i32(188, details.bad_block_log_offset);
    to.u64(192, of.updated.to_word());
    to.u64(200, of.events);
    to.u64(208, details.resync_offset);
    to.u32(220, details.roles.len() as u32);
    for (number, role) in details.roles.iter().enumerate() {
        to.u16(FIELDS_BYTES + 2 * number, *role);
    }
    let sum = word_sum(&to.bytes()[..FIELDS_BYTES + 2 * details.roles.len()], ByteOrder::Little);
    to.u32(CHECKSUM_AT, sum);
    to.finish()
}

fn chunk_word(chunk: Sectors) -> u32 {
    u32::try_from(chunk.0).expect("a chunk fits 32 bits of sectors")
}
