//! The bytes of superblock version 0.90: 1024 words of 32 bits in the byte order of the machine
//! that wrote them.
//!
//! ```text
//! word  0 magic  1 major=0  2 minor=90 (91 in a reshape)  3 patch  4 words in use  5 uuid 0
//!       6 created  7 level  8 size in KiB  9 disks in all  10 raid disks  11 preferred minor
//!      12 not persistent  13..16 uuid 1 to 3
//!      32 updated  33 state  34 active  35 working  36 failed  37 spare  38 checksum
//!      39 events, 64 bits  41 events of the checkpoint, 64 bits  43 resync checkpoint
//!      44 reshape position, 64 bits  46 new level  47 delta disks  48 new layout  49 new chunk
//!      64 layout  65 chunk in bytes  66 root device  67 root block
//!     128 descriptors, 27 of 32 words  992 this device's descriptor
//! ```
//!
//! Words that are not named are reserved; md writes zeros there and so does this module.

use super::facts::Role;
use super::{Details, Location, MAGIC, SUPERBLOCK_BYTES, Superblock, SuperblockError};
use crate::metadata::bytes::{ByteOrder, Reader, Writer, word_sum};
use crate::metadata::identity::{Time, Uuid};
use crate::units::{SECTOR_BYTES, Sectors};

const CHECKSUM_AT: usize = 38 * 4;
const DESCRIPTORS_AT: usize = 128 * 4;
const DESCRIPTOR_BYTES: usize = 32 * 4;
const THIS_DISK_AT: usize = 992 * 4;
/// How many devices the format holds.
pub const DESCRIPTORS_MAX: u32 = 27;

/// What version 0.90 stores of one device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Descriptor {
    /// The device's number in this table.
    pub number: u32,
    /// The major number that the device had.
    pub major: u32,
    /// The minor number that the device had.
    pub minor: u32,
    /// The slot that it fills.
    pub raid_disk: u32,
    /// State bits.
    pub state: u32,
}

impl Descriptor {
    /// State bit: thrown out.
    pub const FAULTY: u32 = 1;
    /// State bit: fills a slot.
    pub const ACTIVE: u32 = 1 << 1;
    /// State bit: its content is whole.
    pub const SYNC: u32 = 1 << 2;
    /// State bit: no longer there.
    pub const REMOVED: u32 = 1 << 3;
    /// State bit: reads avoid it.
    pub const WRITE_MOSTLY: u32 = 1 << 9;

    /// Whether reads avoid it.
    pub fn is_write_mostly(&self) -> bool {
        self.state & Self::WRITE_MOSTLY != 0
    }

    /// Whether it fills a slot in a reshape, but is not whole.
    pub(super) fn is_active_unsynced(&self) -> bool {
        self.state & (Self::FAULTY | Self::ACTIVE | Self::SYNC) == Self::ACTIVE
    }

    pub(super) fn role(&self) -> Role {
        if self.state & (Self::FAULTY | Self::REMOVED) != 0 {
            Role::Faulty
        } else if self.state & (Self::ACTIVE | Self::SYNC) != 0 {
            Role::Active(self.raid_disk)
        } else {
            Role::Spare
        }
    }
}

/// What only version 0.90 stores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version0 {
    /// The byte order of the machine that wrote it.
    pub byte_order: ByteOrder,
    /// 90, or 91 in a reshape.
    pub minor_version: u32,
    /// The patch version; zero.
    pub patch_version: u32,
    /// How many words are in use; zero.
    pub valid_words: u32,
    /// Devices in all, spares too.
    pub disks_total: u32,
    /// The number of the md device.
    pub preferred_minor: u32,
    /// Whether the superblock is not to be kept.
    pub not_persistent: u32,
    /// State bits: see [`Version0::CLEAN`] and [`Version0::BITMAP`].
    pub state: u32,
    /// How many devices fill a slot.
    pub disks_active: u32,
    /// How many devices work.
    pub disks_working: u32,
    /// How many devices failed.
    pub disks_failed: u32,
    /// How many devices are spare.
    pub disks_spare: u32,
    /// The event count at which the checkpoint was taken.
    pub checkpoint_events: u64,
    /// Up to which sector of the members the redundancy agreed then.
    pub recovery_checkpoint: u32,
    /// The root device.
    pub root_device: u32,
    /// The root block.
    pub root_block: u32,
    /// What is known of all devices.
    pub disks: [Descriptor; DESCRIPTORS_MAX as usize],
    /// What is known of this one.
    pub this_disk: Descriptor,
}

impl Version0 {
    /// State bit: the redundancy agrees everywhere.
    pub const CLEAN: u32 = 1;
    /// State bit: a bitmap lies behind the superblock.
    pub const BITMAP: u32 = 1 << 8;
    /// The minor version that says that a reshape is under way.
    pub const MINOR_RESHAPE: u32 = 91;

    pub(super) fn is_clean(&self) -> bool {
        self.state & Self::CLEAN != 0
    }

    pub(super) fn has_bitmap(&self) -> bool {
        self.state & Self::BITMAP != 0
    }

    pub(super) fn is_reshaping(&self) -> bool {
        self.minor_version >= Self::MINOR_RESHAPE
    }
}

/// Reads words.
struct Words<'bytes>(Reader<'bytes>);

impl Words<'_> {
    fn at(&self, word: usize) -> u32 {
        self.0.u32(word * 4)
    }

    fn wide(&self, word: usize) -> u64 {
        self.0.u64(word * 4)
    }

    fn descriptor(&self, offset: usize) -> Descriptor {
        let at = |word: usize| self.0.u32(offset + word * 4);
        Descriptor { number: at(0), major: at(1), minor: at(2), raid_disk: at(3), state: at(4) }
    }
}

pub(super) fn inspect(
    location: Location,
    bytes: &[u8],
) -> Result<(Superblock, Option<SuperblockError>), SuperblockError> {
    let version = location.version;
    if bytes.len() < SUPERBLOCK_BYTES {
        let (found_bytes, needed_bytes) = (bytes.len(), SUPERBLOCK_BYTES);
        return Err(SuperblockError::CutShort { version, found_bytes, needed_bytes });
    }
    let bytes = &bytes[..SUPERBLOCK_BYTES];
    let order = match Reader::little(bytes).u32(0) {
        MAGIC => ByteOrder::Little,
        found if found.swap_bytes() == MAGIC => ByteOrder::Big,
        found => return Err(SuperblockError::Magic { version, found }),
    };
    let words = Words(Reader::new(bytes, order));
    let (major, minor) = (words.at(1), words.at(2));
    if major != 0 || !(90..=97).contains(&minor) {
        return Err(SuperblockError::VersionFound { version, major, minor });
    }
    let mut fault = None;
    let (found, expected) = (words.at(38), checksum(bytes, order));
    if found != expected {
        fault = Some(SuperblockError::Checksum { version, found, expected });
    }
    for (field, word) in [("chunk", 65), ("new chunk", 49)] {
        if !u64::from(words.at(word)).is_multiple_of(SECTOR_BYTES) {
            let (found, reason) = (i128::from(words.at(word)), "it is no whole number of sectors");
            fault = fault.or(Some(SuperblockError::Place { field, found, reason }));
        }
    }
    Ok((fields(location, order, &words), fault))
}

fn fields(location: Location, byte_order: ByteOrder, words: &Words<'_>) -> Superblock {
    let mut uuid = [0; 16];
    for (group, word) in uuid.chunks_exact_mut(4).zip([5, 13, 14, 15]) {
        group.copy_from_slice(&words.at(word).to_be_bytes());
    }
    let this_disk = words.descriptor(THIS_DISK_AT);
    let details = Version0 {
        byte_order,
        minor_version: words.at(2),
        patch_version: words.at(3),
        valid_words: words.at(4),
        disks_total: words.at(9),
        preferred_minor: words.at(11),
        not_persistent: words.at(12),
        state: words.at(33),
        disks_active: words.at(34),
        disks_working: words.at(35),
        disks_failed: words.at(36),
        disks_spare: words.at(37),
        checkpoint_events: words.wide(41),
        recovery_checkpoint: words.at(43),
        root_device: words.at(66),
        root_block: words.at(67),
        disks: std::array::from_fn(|of| words.descriptor(DESCRIPTORS_AT + of * DESCRIPTOR_BYTES)),
        this_disk,
    };
    let time = |word| Time { seconds: u64::from(words.at(word)), microseconds: 0 };
    let chunk = |word| Sectors::from_bytes_rounded_down(u64::from(words.at(word)));
    Superblock {
        version: location.version,
        at: location.at,
        array_uuid: Uuid(uuid),
        created: time(6),
        updated: time(32),
        level: words.at(7).cast_signed(),
        layout: words.at(64),
        chunk: chunk(65),
        component_size: Sectors(u64::from(words.at(8)) * 2),
        raid_disks: words.at(10),
        events: words.wide(39),
        dev_number: this_disk.number,
        reshape_position: words.wide(44),
        delta_disks: words.at(47).cast_signed(),
        new_level: words.at(46).cast_signed(),
        new_layout: words.at(48),
        new_chunk: chunk(49),
        details: Details::V0(Box::new(details)),
    }
}

fn checksum(bytes: &[u8], order: ByteOrder) -> u32 {
    let mut bytes = bytes.to_vec();
    bytes[CHECKSUM_AT..CHECKSUM_AT + 4].fill(0);
    word_sum(&bytes, order)
}

pub(super) fn check(of: &Superblock, _: &Version0) -> Result<(), SuperblockError> {
    if of.raid_disks > DESCRIPTORS_MAX {
        return Err(SuperblockError::MaxDev { found: of.raid_disks, max: DESCRIPTORS_MAX });
    }
    if of.level >= 1 && of.component_size.0 > of.at.0 {
        let (found, reason) =
            (i128::from(of.component_size.0), "the superblock lies before its end");
        return Err(SuperblockError::Place { field: "size", found, reason });
    }
    Ok(())
}

pub(super) fn encode(of: &Superblock, details: &Version0) -> Vec<u8> {
    let mut to = Writer::new(SUPERBLOCK_BYTES, details.byte_order);
    let narrow = |value: u64| u32::try_from(value).expect("version 0.90 holds 32 bits of it");
    // The time of day ends in 2106 here.
    let seconds = |time: Time| narrow(time.seconds.min(u64::from(u32::MAX)));
    let words = [
        (0, MAGIC),
        (2, details.minor_version),
        (3, details.patch_version),
        (4, details.valid_words),
        (6, seconds(of.created)),
        (7, of.level.cast_unsigned()),
        (8, narrow(of.component_size.0 / 2)),
        (9, details.disks_total),
        (10, of.raid_disks),
        (11, details.preferred_minor),
        (12, details.not_persistent),
        (32, seconds(of.updated)),
        (33, details.state),
        (34, details.disks_active),
        (35, details.disks_working),
        (36, details.disks_failed),
        (37, details.disks_spare),
        (43, details.recovery_checkpoint),
        (46, of.new_level.cast_unsigned()),
        (47, of.delta_disks.cast_unsigned()),
        (48, of.new_layout),
        (49, narrow(of.new_chunk.bytes())),
        (64, of.layout),
        (65, narrow(of.chunk.bytes())),
        (66, details.root_device),
        (67, details.root_block),
    ];
    for (word, value) in words {
        to.u32(word * 4, value);
    }
    for (group, word) in of.array_uuid.0.chunks_exact(4).zip([5, 13, 14, 15]) {
        to.u32(word * 4, u32::from_be_bytes(group.try_into().expect("a group of four bytes")));
    }
    for (word, value) in
        [(39, of.events), (41, details.checkpoint_events), (44, of.reshape_position)]
    {
        to.u64(word * 4, value);
    }
    for (index, disk) in details.disks.iter().enumerate() {
        put_descriptor(&mut to, DESCRIPTORS_AT + index * DESCRIPTOR_BYTES, disk);
    }
    put_descriptor(&mut to, THIS_DISK_AT, &details.this_disk);
    let sum = word_sum(to.bytes(), details.byte_order);
    to.u32(CHECKSUM_AT, sum);
    to.finish()
}

fn put_descriptor(to: &mut Writer, offset: usize, of: &Descriptor) {
    for (word, value) in [of.number, of.major, of.minor, of.raid_disk, of.state].iter().enumerate()
    {
        to.u32(offset + word * 4, *value);
    }
}
