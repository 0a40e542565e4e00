//! The facts that an examination tells, as they stand in its JSON. Units are in the names.

use super::{BadBlockFacts, BitmapFacts, JournalFacts, PplFacts};
use serde::Serialize;

/// What was found on one file.
#[derive(Debug, Serialize)]
pub struct Examination {
    /// The file.
    pub file: String,
    /// Its whole sectors.
    pub device_size_sectors: u64,
    /// The superblock that counts, or the first damaged one.
    pub superblock: Option<SuperblockFacts>,
    /// Other superblocks on it: version, and whether it is older or damaged.
    pub others: Vec<OtherSuperblock>,
    /// The write-intent bitmap.
    pub bitmap: Option<BitmapFacts>,
    /// The bad-block log.
    pub bad_blocks: Option<BadBlockFacts>,
    /// The partial parity log.
    pub ppl: Option<PplFacts>,
    /// The write journal, on the device that holds it.
    pub journal: Option<JournalFacts>,
    /// What is wrong, in one line each.
    pub problems: Vec<String>,
}

/// A superblock that does not count.
#[derive(Debug, Serialize)]
pub struct OtherSuperblock {
    /// Its version.
    pub version: String,
    /// Its first sector.
    pub at_sector: u64,
    /// The array that it speaks of.
    pub array_uuid: String,
    /// What is wrong with it, if anything is.
    pub problem: Option<String>,
}

/// Every field of a superblock.
#[derive(Debug, Serialize)]
pub struct SuperblockFacts {
    /// Version, as mdadm's `--metadata`.
    pub version: String,
    /// Its first sector on the device.
    pub super_offset_sectors: u64,
    /// Version 0.90: the byte order of the machine that wrote it.
    pub byte_order: Option<&'static str>,
    /// The feature map.
    pub feature_map: u32,
    /// The names of its bits.
    pub features: Vec<&'static str>,
    /// The array's UUID.
    pub array_uuid: String,
    /// The array's name.
    pub name: Option<String>,
    /// When the array was made, in seconds since 1970.
    pub created_seconds: u64,
    /// When this superblock was written, in seconds since 1970.
    pub updated_seconds: u64,
    /// mdadm's name of the level.
    pub level: String,
    /// Its number.
    pub level_number: i32,
    /// mdadm's name of the layout, where the level has one.
    pub layout: Option<String>,
    /// Its number.
    pub layout_number: u32,
    /// The chunk size; zero where the level has none.
    pub chunk_bytes: u64,
    /// Members that hold data, parity or copies.
    pub raid_devices: u32,
    /// What the array uses of each member.
    pub component_size_sectors: u64,
    /// What the array holds, where one superblock alone tells it.
    pub array_size_sectors: Option<u64>,
    /// Where the data starts.
    pub data_offset_sectors: u64,
    /// How much of the device may hold data.
    pub data_size_sectors: u64,
    /// Where the data starts after the reshape under way.
    pub new_offset_sectors: Option<u64>,
    /// Unused room before and behind the data.
    pub unused: Option<Unused>,
    /// `clean` or `active`.
    pub state: &'static str,
    /// Up to which sector of the members the redundancy agrees, where it does not everywhere.
    pub resync_offset_sectors: Option<u64>,
    /// Up to which sector of its data this member is rebuilt, where it is not whole.
    pub recovery_offset_sectors: Option<u64>,
    /// The device's own UUID.
    pub device_uuid: Option<String>,
    /// `write-mostly`, `failfast`.
    pub device_flags: Vec<&'static str>,
    /// How many read errors were repaired.
    pub corrected_reads: Option<u32>,
    /// How often the superblocks were written.
    pub events: u64,
    /// The checksum that is stored.
    pub checksum: u32,
    /// The checksum that the bytes give, where it is another one.
    pub checksum_expected: Option<u32>,
    /// The device's number in the table of roles.
    pub device_number: u32,
    /// What this device does: `active 0`, `replacement 1`, `spare`, `journal` or `faulty`.
    pub role: String,
    /// The role of each device number.
    pub roles: Vec<String>,
    /// A letter for each slot: `A` active, `.` missing, `R` replacing.
    pub array_state: String,
    /// The reshape under way.
    pub reshape: Option<ReshapeFacts>,
    /// Version 0.90: counts and the table of devices.
    pub devices: Option<DeviceTable>,
}

/// Room that nobody uses.
#[derive(Debug, Serialize)]
pub struct Unused {
    /// Sectors before the data.
    pub before_sectors: u64,
    /// Sectors behind it.
    pub after_sectors: u64,
}

/// A reshape under way.
#[derive(Debug, Serialize)]
pub struct ReshapeFacts {
    /// Where it stands, in sectors of the array.
    pub position_sectors: u64,
    /// It goes from the end to the start.
    pub backwards: bool,
    /// How many members it adds.
    pub delta_devices: i32,
    /// The level that it leads to, if another one.
    pub new_level: Option<String>,
    /// The layout that it leads to, if another one.
    pub new_layout: Option<String>,
    /// The chunk that it leads to, if another one.
    pub new_chunk_bytes: Option<u64>,
}

/// What version 0.90 stores of all devices.
#[derive(Debug, Serialize)]
pub struct DeviceTable {
    /// Devices in all.
    pub total: u32,
    /// Devices that fill a slot.
    pub active: u32,
    /// Devices that work.
    pub working: u32,
    /// Devices that failed.
    pub failed: u32,
    /// Devices that stand by.
    pub spare: u32,
    /// The number of the md device.
    pub preferred_minor: u32,
    /// This device's own row.
    pub this: DeviceRow,
    /// The rows in use.
    pub rows: Vec<DeviceRow>,
}

/// A row of the table.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct DeviceRow {
    /// Its place in the table.
    pub number: u32,
    /// The major number that the device had.
    pub major: u32,
    /// The minor number that the device had.
    pub minor: u32,
    /// The slot that it fills.
    pub raid_device: u32,
    /// State bits.
    pub state: u32,
}
