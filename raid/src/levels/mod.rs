//! RAID levels: pure planners. Each says whether an array can be made, how large it is, what to do
//! for a piece of a request, and which members it can lose.
//!
//! Never waits, never touches memory that cores share.

mod checks;
mod copies;
pub mod parity;

pub use crate::layout::far::{FarPlacement, Raid10Layout};
pub use crate::layout::striped::Raid0Layout;
pub use checks::{CHUNK_BYTES_MAX, CHUNK_BYTES_MIN};
pub use copies::CopyLevel;
pub use parity::ParityLevel;

pub use crate::layout::parity::{Raid5Layout, Raid6Layout};
use crate::units::Sectors;

/// Which level, and what belongs to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Members one after the other. The chunk is the rounding of each member; zero for none.
    Linear,
    /// Chunks dealt out in turn, each stored once.
    Raid0 {
        /// What happens where members differ in size.
        layout: Raid0Layout,
    },
    /// The same on every member. It has no chunk.
    Raid1,
    /// Mirrored stripes.
    Raid10 {
        /// How many copies of each chunk, and where.
        layout: Raid10Layout,
    },
    /// Stripes whose last member holds parity.
    Raid4,
    /// Stripes with parity in turn on all members.
    Raid5 {
        /// Where parity lies.
        layout: Raid5Layout,
    },
    /// Stripes with two kinds of parity.
    Raid6 {
        /// Where they lie.
        layout: Raid6Layout,
    },
}

impl Level {
    /// RAID 10 with copies side by side.
    pub const fn raid10_near(copies: u32) -> Self {
        Self::Raid10 { layout: Raid10Layout::near(copies) }
    }

    /// The level in the field's words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::Raid0 { .. } => "RAID 0",
            Self::Raid1 => "RAID 1",
            Self::Raid10 { .. } => "RAID 10",
            Self::Raid4 => "RAID 4",
            Self::Raid5 { .. } => "RAID 5",
            Self::Raid6 { .. } => "RAID 6",
        }
    }

    /// The fewest members that md makes this level of.
    pub const fn members_min(self) -> u32 {
        match self {
            Self::Linear | Self::Raid0 { .. } | Self::Raid1 => 1,
            Self::Raid10 { .. } | Self::Raid4 | Self::Raid5 { .. } => 2,
            Self::Raid6 { .. } => 4,
        }
    }
}

/// What a level needs to know of a member's device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceFacts {
    /// What people call it.
    pub name: String,
    /// How much of it the array may use.
    pub size: Sectors,
    /// Its logical block.
    pub logical_block_bytes: u32,
}
