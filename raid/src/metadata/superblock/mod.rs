//! md's superblock: what one member knows of itself and of its array.
//!
//! One value serves all versions. What every version stores is a field of [`Superblock`]; the rest
//! is in [`Details`]. Fields hold what the disk holds, also where the feature map says that it
//! means nothing, so that [`Superblock::encode`] gives the same bytes back; methods say what it
//! means. [`Superblock::decode`] refuses whatever md refuses to start from.
//!
//! | version | lies at | written by |
//! |---|---|---|
//! | 1.2 | sector 8 | mdadm's default |
//! | 1.1 | sector 0 | |
//! | 1.0 | 8 KiB before the end, down to a multiple of 4 KiB | boot disks |
//! | 0.90 | 64 KiB before the end, down to a multiple of 64 KiB | before 2006 |

mod areas;
mod error;
mod facts;
mod features;
mod search;
mod v0;
mod v1;

#[cfg(test)]
mod verdicts;

pub use super::bytes::ByteOrder;
pub use error::{Overlap, SuperblockError};
pub(in crate::metadata) use facts::{BITMAP_ROOM_0_90, IN_SYNC};
pub use facts::{Reshape, Role};
pub use features::Features;
pub(in crate::metadata) use search::RESERVED_0_90;
pub use search::{Location, Search, find, locations};
pub use v0::{DESCRIPTORS_MAX, Descriptor, Version0};
pub(in crate::metadata) use v1::FIELDS_BYTES;
pub use v1::{ROLES_MAX, Version1};

use super::geometry::{Geometry, Level};
use super::identity::{Time, Uuid};
use crate::units::{Sector, Sectors};
use std::fmt;

/// What a reader reads at each of the [`locations`].
pub const SUPERBLOCK_BYTES: usize = 4096;
/// The first word of every version.
pub const MAGIC: u32 = 0xA92B_4EFC;

/// A version of the format, together with the place where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// The old format, at the end.
    V0_90,
    /// Version 1 at the end.
    V1_0,
    /// Version 1 at the start.
    V1_1,
    /// Version 1 at 4 KiB.
    V1_2,
}

impl Version {
    /// All of them, in the order in which a reader tries them.
    pub const ALL: [Self; 4] = [Self::V1_2, Self::V1_1, Self::V1_0, Self::V0_90];
}

/// As mdadm's `--metadata`.
impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::V0_90 => "0.90",
            Self::V1_0 => "1.0",
            Self::V1_1 => "1.1",
            Self::V1_2 => "1.2",
        })
    }
}

impl std::str::FromStr for Version {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "0" | "0.9" | "0.90" => Self::V0_90,
            "1.0" => Self::V1_0,
            "1.1" => Self::V1_1,
            "1" | "1.2" | "default" => Self::V1_2,
            _ => return Err(format!("metadata '{text}' is not known: give 0.90, 1.0, 1.1 or 1.2")),
        })
    }
}

/// The superblock of one member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// The version, and with it the kind of place.
    pub version: Version,
    /// Where it lies on its device.
    pub at: Sector,
    /// The array's UUID.
    pub array_uuid: Uuid,
    /// When the array was made.
    pub created: Time,
    /// When this superblock was written.
    pub updated: Time,
    /// The level's number.
    pub level: i32,
    /// The layout's number.
    pub layout: u32,
    /// The chunk size; zero where the level has none.
    pub chunk: Sectors,
    /// What the array uses of each member; zero on RAID 0 and linear.
    pub component_size: Sectors,
    /// Members that hold data, parity or copies.
    pub raid_disks: u32,
    /// How often the superblocks were written: the highest is the freshest.
    pub events: u64,
    /// This device's number in the table of roles. Not its role.
    pub dev_number: u32,
    /// Where a reshape stands, in sectors of the array. See [`Superblock::reshape`].
    pub reshape_position: u64,
    /// How many members a reshape adds.
    pub delta_disks: i32,
    /// The level that a reshape leads to.
    pub new_level: i32,
    /// The layout that a reshape leads to.
    pub new_layout: u32,
    /// The chunk that a reshape leads to.
    pub new_chunk: Sectors,
    /// What only this version stores.
    pub details: Details,
}

/// What only one format stores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Details {
    /// Version 0.90.
    V0(Box<Version0>),
    /// Versions 1.0 to 1.2.
    V1(Version1),
}

impl Superblock {
    /// Reads a superblock and refuses it where md would.
    ///
    /// # Errors
    /// Any [`SuperblockError`] but `None` and `Ambiguous`.
    pub fn decode(
        location: Location,
        device_size: Sectors,
        bytes: &[u8],
    ) -> Result<Self, SuperblockError> {
        let (superblock, fault) = Self::inspect(location, bytes)?;
        match fault {
            Some(fault) => Err(fault),
            None => superblock.check(device_size).map(|()| superblock),
        }
    }

    /// Reads a superblock for a person to look at: beside it stands what is wrong with its bytes,
    /// if anything is. What its fields say is not checked: see [`Superblock::check`].
    ///
    /// # Errors
    /// If it is no superblock of this version and place at all, or cannot be read to its end.
    pub fn inspect(
        location: Location,
        bytes: &[u8],
    ) -> Result<(Self, Option<SuperblockError>), SuperblockError> {
        match location.version {
            Version::V0_90 => v0::inspect(location, bytes),
            _ => v1::inspect(location, bytes),
        }
    }

    /// Whether its fields make sense on a device of this size, as md has it.
    ///
    /// # Errors
    /// [`SuperblockError::NoUuid`], `Geometry`, `Features`, `Contradiction`, `Place`,
    /// `DataBeyondDevice`, `BeyondDevice` and `Overlap`.
    pub fn check(&self, device_size: Sectors) -> Result<(), SuperblockError> {
        if self.array_uuid.is_zero() {
            return Err(SuperblockError::NoUuid);
        }
        match &self.details {
            Details::V0(details) => v0::check(self, details)?,
            Details::V1(details) => v1::check(self, details)?,
        }
        self.geometry()?;
        let end = self.data_offset().0.checked_add(self.data_size().0);
        if end.is_none_or(|end| end > device_size.0) {
            return Err(SuperblockError::DataBeyondDevice {
                data_offset: self.data_offset(),
                data_size: self.data_size(),
                device_size,
            });
        }
        areas::check(self, device_size)
    }

    /// The geometry that the array has, or had before the reshape under way.
    ///
    /// # Errors
    /// [`SuperblockError::Geometry`].
    pub fn geometry(&self) -> Result<Geometry, SuperblockError> {
        let level = Level::from_numbers(self.level, self.layout, self.states_raid0_layout())?;
        Ok(Geometry::new(level, self.chunk, self.raid_disks)?)
    }

    /// The bytes as they lie on disk from [`Superblock::at`] on, with a fresh checksum: whole
    /// sectors, 4 KiB for version 0.90 and as many as the roles need for version 1. What follows
    /// them on disk belongs to nobody and stays.
    ///
    /// # Panics
    /// If version 1 has more than [`ROLES_MAX`] roles.
    pub fn encode(&self) -> Vec<u8> {
        match &self.details {
            Details::V0(details) => v0::encode(self, details),
            Details::V1(details) => v1::encode(self, details),
        }
    }
}
