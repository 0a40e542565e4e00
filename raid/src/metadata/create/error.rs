//! Why no array can be made of these devices with these wishes.

use crate::metadata::bitmap::BitmapError;
use crate::metadata::geometry::GeometryError;
use crate::metadata::superblock::Version;
use crate::units::{Sector, Sectors};

/// Why an array's metadata cannot be made. Nothing was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NewArrayError {
    /// Level, layout, chunk or number of devices.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// Another number of members than the geometry's.
    #[error("{given} members are given for an array of {raid_disks}: name 'missing' ones too")]
    Members {
        /// How many are given, missing ones too.
        given: usize,
        /// How many the array has.
        raid_disks: u32,
    },
    /// Nobody is there.
    #[error("all members are missing")]
    AllMissing,
    /// The format has no room for so many.
    #[error("{devices} devices are more than metadata {version} holds: {devices_max}")]
    TooManyDevices {
        /// Members and spares.
        devices: u32,
        /// The version.
        version: Version,
        /// The most.
        devices_max: u32,
    },
    /// A spare where nothing can be rebuilt.
    #[error("{level} has no redundancy: it takes no spare, and no member may be missing")]
    NoRedundancy {
        /// The level's name.
        level: &'static str,
    },
    /// The name does not fit.
    #[error("the name '{name}' has {bytes} bytes, and 32 is the most")]
    Name {
        /// The name.
        name: String,
        /// Its length.
        bytes: usize,
    },
    /// A device leaves no room for data.
    #[error(
        "{device} is too small: {size} sectors, of which metadata takes {reserved}, leave no chunk"
    )]
    DeviceTooSmall {
        /// The device.
        device: String,
        /// Its size.
        size: Sectors,
        /// What the metadata takes.
        reserved: Sectors,
    },
    /// More of each member is wanted than there is.
    #[error("{wanted} sectors of each member are wanted, but {device} offers only {offered}")]
    SizeTooLarge {
        /// What is wanted.
        wanted: Sectors,
        /// The smallest device.
        device: String,
        /// What it offers.
        offered: Sectors,
    },
    /// A place for data that leaves no room for metadata, or none at all.
    #[error("data cannot start at sector {data_offset}: {reason}")]
    DataOffset {
        /// The place.
        data_offset: Sector,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A wish that the level or the version cannot grant.
    #[error("{wish} needs {needs}")]
    Wish {
        /// What was wished for.
        wish: &'static str,
        /// What it needs.
        needs: &'static str,
    },
    /// The bitmap.
    #[error(transparent)]
    Bitmap(#[from] BitmapError),
}
