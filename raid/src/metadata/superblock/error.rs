//! What can be wrong with a superblock. Each message says which field, what was found there and
//! what would be right.

use super::Version;
use crate::metadata::geometry::GeometryError;
use crate::units::{Sector, Sectors};
use std::ops::Range;

/// Why bytes are no superblock that may be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SuperblockError {
    /// No superblock of any version.
    #[error(
        "no md superblock at any place where one may lie on {device_size} sectors; versions 1.0 and \
         0.90 lie at the end, so a device cut short shows none"
    )]
    None {
        /// The device's size.
        device_size: Sectors,
    },
    /// There is one, but what has to be known beside it cannot be had.
    #[error("its {what} cannot be read, so it is not known which of its sectors hold good data")]
    Beside {
        /// What it is.
        what: &'static str,
    },
    /// Two superblocks of the same age and of different places.
    #[error(
        "superblocks of versions {first} and {second} claim the device, and none is the newer: \
         clear the wrong one"
    )]
    Ambiguous {
        /// One of them.
        first: Version,
        /// The other.
        second: Version,
    },
    /// The bytes end too soon.
    #[error("version {version}: {found_bytes} bytes are not the {needed_bytes} of a superblock")]
    CutShort {
        /// The version looked for.
        version: Version,
        /// How many bytes there are.
        found_bytes: usize,
        /// How many are needed.
        needed_bytes: usize,
    },
    /// Other bytes than a superblock's first.
    #[error("version {version}: magic is {found:#010x}, not {expected:#010x}", expected = super::MAGIC)]
    Magic {
        /// The version looked for.
        version: Version,
        /// The word found.
        found: u32,
    },
    /// A version that is not this one.
    #[error("version {version}: the superblock says major version {major}, minor {minor}")]
    VersionFound {
        /// The version looked for.
        version: Version,
        /// The major version found.
        major: u32,
        /// The minor version found; only 0.90 stores one.
        minor: u32,
    },
    /// The superblock belongs to another place.
    #[error(
        "version {version}: super offset is {found}, but it was found at sector {at}: it belongs to \
         another device or partition, or the device was cut short"
    )]
    Elsewhere {
        /// The version.
        version: Version,
        /// Where it lies.
        at: Sector,
        /// Where it says it lies.
        found: u64,
    },
    /// The sum over the superblock is another one.
    #[error("version {version}: checksum is {found:08x}, but the bytes sum up to {expected:08x}")]
    Checksum {
        /// The version.
        version: Version,
        /// The sum stored.
        found: u32,
        /// The sum of the bytes.
        expected: u32,
    },
    /// Feature bits that are not known.
    #[error(
        "feature map {feature_map:#x} has bits that are not supported: {}", bits(*unsupported)
    )]
    Features {
        /// The whole map.
        feature_map: u32,
        /// Its unknown bits.
        unsupported: u32,
    },
    /// Bytes that have to be zero are not: a newer format may use them.
    #[error("{field} is {found:#x} at byte {offset}, but has to be zero")]
    Padding {
        /// The field's name.
        field: &'static str,
        /// The first byte that is not zero.
        offset: usize,
        /// What it is.
        found: u8,
    },
    /// More roles than the format has room for.
    #[error("max_dev is {found}, but the format holds {max} devices")]
    MaxDev {
        /// The number found.
        found: u32,
        /// The most.
        max: u32,
    },
    /// Level, layout, chunk or number of devices make no array.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// The array has no name to be known by.
    #[error("the array's UUID is zero, which is none")]
    NoUuid,
    /// A size or offset that leads out of the device or into the superblock.
    #[error("{field} is {found}: {reason}")]
    Place {
        /// The field's name.
        field: &'static str,
        /// What was found.
        found: i128,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The data would reach beyond the end of the device.
    #[error(
        "the data is {data_size} sectors at sector {data_offset}, but the device has only \
         {device_size}: it was cut short"
    )]
    DataBeyondDevice {
        /// Where the data starts.
        data_offset: Sector,
        /// How long it is.
        data_size: Sectors,
        /// The device's size.
        device_size: Sectors,
    },
    /// Something else that would reach beyond the end of the device.
    #[error(
        "the {name} is {length} sectors at sector {at}, but the device has only {device_size}: it \
         was cut short"
    )]
    BeyondDevice {
        /// What it is.
        name: &'static str,
        /// Where it starts.
        at: Sector,
        /// How long it is.
        length: Sectors,
        /// The device's size.
        device_size: Sectors,
    },
    /// Two things in one place: writing one would damage the other.
    #[error(transparent)]
    Overlap(Box<Overlap>),
    /// Two features that exclude each other.
    #[error("features {first} and {second} exclude each other")]
    Contradiction {
        /// One of them.
        first: &'static str,
        /// The other.
        second: &'static str,
    },
}

/// Two areas of a device that share sectors.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the {first} in sectors {}..{} of the device and the {second} in {}..{} overlap",
    first_at.start, first_at.end, second_at.start, second_at.end
)]
pub struct Overlap {
    /// What the first holds.
    pub first: &'static str,
    /// Its sectors.
    pub first_at: Range<u64>,
    /// What the second holds.
    pub second: &'static str,
    /// Its sectors; of a bitmap of version 1 the first one.
    pub second_at: Range<u64>,
}

/// The numbers of the bits that are set.
fn bits(map: u32) -> String {
    let set: Vec<_> = (0..32).filter(|bit| map & 1 << bit != 0).collect();
    set.iter().map(|bit| format!("bit {bit}")).collect::<Vec<_>>().join(", ")
}
