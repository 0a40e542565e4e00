//! The engine's quantities, each a type of its own: an index, a count and a size never mix.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// Bytes in a sector, the unit of every address here as in Linux md.
pub const SECTOR_BYTES: u64 = 512;

/// An address: the number of a sector on a device or on an array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sector(pub u64);

/// A length in sectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sectors(pub u64);

/// A member's place in an array, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberIndex(pub u32);

/// A core's number, from 0, dense over the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CpuId(pub u32);

/// A NUMA node's number, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

impl Sectors {
    /// The sectors that hold `bytes`, rounded up.
    pub const fn from_bytes_rounded_up(bytes: u64) -> Self {
        Self(bytes.div_ceil(SECTOR_BYTES))
    }

    /// The sectors that lie wholly within `bytes`.
    pub const fn from_bytes_rounded_down(bytes: u64) -> Self {
        Self(bytes / SECTOR_BYTES)
    }

    /// This length in bytes.
    pub const fn bytes(self) -> u64 {
        self.0 * SECTOR_BYTES
    }
}

impl Sector {
    /// The byte at which this sector starts.
    pub const fn byte_offset(self) -> u64 {
        self.0 * SECTOR_BYTES
    }
}

impl Add<Sectors> for Sector {
    type Output = Sector;
    fn add(self, length: Sectors) -> Sector {
        Sector(self.0 + length.0)
    }
}

impl AddAssign<Sectors> for Sector {
    fn add_assign(&mut self, length: Sectors) {
        self.0 += length.0;
    }
}

/// The distance from an earlier sector to a later one.
impl Sub for Sector {
    type Output = Sectors;
    fn sub(self, earlier: Sector) -> Sectors {
        Sectors(self.0 - earlier.0)
    }
}

impl Add for Sectors {
    type Output = Sectors;
    fn add(self, other: Sectors) -> Sectors {
        Sectors(self.0 + other.0)
    }
}

impl Sub for Sectors {
    type Output = Sectors;
    fn sub(self, other: Sectors) -> Sectors {
        Sectors(self.0 - other.0)
    }
}

impl fmt::Display for Sector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.0)
    }
}

impl fmt::Display for Sectors {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.0)
    }
}

impl fmt::Display for MemberIndex {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.0)
    }
}
