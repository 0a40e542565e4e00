//! Levels and layouts: the numbers that a superblock stores, what they mean, and what mdadm calls
//! them. Says which combinations md accepts; knows nothing of where a chunk lies.

use crate::units::Sectors;
use std::fmt;

/// The most devices that md makes an array of. A version 1 superblock has room for this many roles.
pub const DEVICES_MAX: u32 = 1920;
/// The smallest chunk of a striped array: md's page.
pub const CHUNK_MIN: Sectors = Sectors(8);
/// The largest chunk: md keeps its bytes in a signed 32-bit number.
pub const CHUNK_MAX: Sectors = Sectors(1 << 21);

/// A level together with its layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Members one after the other.
    Linear,
    /// Chunks dealt out in turn.
    Raid0(Raid0Layout),
    /// The same on every member.
    Raid1,
    /// Parity on the last member.
    Raid4,
    /// One parity chunk a stripe.
    Raid5(Raid5Layout),
    /// Two parity chunks a stripe, P and Q.
    Raid6(Raid6Layout),
    /// Several copies of each chunk.
    Raid10(Raid10Layout),
}

/// How RAID 0 deals out chunks where members differ in size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Raid0Layout {
    /// The superblock does not say. That is enough while there is a single zone.
    Unstated,
    /// As Linux before 3.14: the chunk's number in the array decides.
    Original,
    /// As Linux since 3.14: the chunk's number within the zone decides.
    Alternate,
}

/// Where parity lies in RAID 5, and in RAID 6 with Q beside it. The discriminant is md's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Raid5Layout {
    /// Parity moves down from the last member; data starts at the first.
    LeftAsymmetric = 0,
    /// Parity moves up from the first member; data starts at the first.
    RightAsymmetric = 1,
    /// Parity moves down from the last member; data starts behind parity. The usual one.
    LeftSymmetric = 2,
    /// Parity moves up from the first member; data starts behind parity.
    RightSymmetric = 3,
    /// Parity stays on the first member.
    ParityFirst = 4,
    /// Parity stays on the last member.
    ParityLast = 5,
}

/// Where P and Q lie in RAID 6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Raid6Layout {
    /// The layouts of RAID 5 with Q behind P.
    Rotating(Raid5Layout),
    /// DDF, zero restart: number 8.
    DdfZeroRestart,
    /// DDF, N restart: number 9.
    DdfNRestart,
    /// DDF, N continue: number 10.
    DdfNContinue,
    /// A RAID 5 of all but the last member, which holds Q: numbers 16 to 20. Never with
    /// [`Raid5Layout::ParityLast`].
    QLast(Raid5Layout),
}

/// How many copies RAID 10 keeps and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raid10Layout {
    /// Copies side by side.
    pub near: u8,
    /// Copies a section of the member further down.
    pub far: u8,
    /// The far copies lie in the next stripe instead.
    pub offset: bool,
    /// Far copies stay within sets of `near × far` members (bits 17 and up hold 2).
    pub far_sets: bool,
}

/// A level with all that an address map asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Level and layout.
    pub level: Level,
    /// The chunk size; zero where the level has none.
    pub chunk: Sectors,
    /// Members that hold data, parity or copies.
    pub raid_disks: u32,
}

/// Numbers that make no array. Each is what md refuses too.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GeometryError {
    /// No level of this number.
    #[error(
        "level {0} is not known: linear (-1), 0, 1, 4, 5, 6 and 10 are; multipath (-4), faulty (-5) \
         and containers hold no data of their own"
    )]
    Level(i32),
    /// The level has no layout of this number.
    #[error("layout {layout:#x} is none of {level}{reason}")]
    Layout {
        /// The level's name.
        level: &'static str,
        /// The number found.
        layout: u32,
        /// What is wrong with it, where more can be said.
        reason: &'static str,
    },
    /// The chunk is too small, too large or no power of two.
    #[error(
        "a chunk of {} bytes is none of {level}: md takes a power of two of 4 KiB to 1 GiB \
         (RAID 0 also other multiples of 512 bytes)", chunk.bytes()
    )]
    Chunk {
        /// The level's name.
        level: &'static str,
        /// The chunk found.
        chunk: Sectors,
    },
    /// Too few or too many members.
    #[error("{level} of {raid_disks} devices: it takes {disks_min} to {DEVICES_MAX}")]
    RaidDisks {
        /// The level's name.
        level: &'static str,
        /// The number found.
        raid_disks: u32,
        /// The least that the level takes.
        disks_min: u32,
    },
}

impl Raid5Layout {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 6] = [
        Self::LeftAsymmetric,
        Self::RightAsymmetric,
        Self::LeftSymmetric,
        Self::RightSymmetric,
        Self::ParityFirst,
        Self::ParityLast,
    ];
    const NAMES: [&'static str; 6] = [
        "left-asymmetric",
        "right-asymmetric",
        "left-symmetric",
        "right-symmetric",
        "parity-first",
        "parity-last",
    ];

    fn from_number(number: u32) -> Option<Self> {
        Self::ALL.get(number as usize).copied()
    }
}

impl Raid6Layout {
    /// All of them, in the order of their numbers.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..=20).filter_map(Self::from_number)
    }

    fn from_number(number: u32) -> Option<Self> {
        Some(match number {
            0..=5 => Self::Rotating(Raid5Layout::from_number(number)?),
            8 => Self::DdfZeroRestart,
            9 => Self::DdfNRestart,
            10 => Self::DdfNContinue,
            16..=20 => Self::QLast(Raid5Layout::from_number(number - 16)?),
            _ => return None,
        })
    }

    fn number(self) -> u32 {
        match self {
            Self::Rotating(of) => of as u32,
            Self::DdfZeroRestart => 8,
            Self::DdfNRestart => 9,
            Self::DdfNContinue => 10,
            Self::QLast(of) => 16 + of as u32,
        }
    }
}

impl Raid10Layout {
    /// `near` copies side by side and no more: mdadm's `n2` and the like.
    pub fn near(copies: u8) -> Self {
        Self { near: copies, far: 1, offset: false, far_sets: false }
    }

    /// How many copies of each chunk there are.
    pub fn copies(self) -> u32 {
        u32::from(self.near) * u32::from(self.far)
    }

    fn from_number(number: u32) -> Result<Self, &'static str> {
        let [near, far, ..] = number.to_le_bytes();
        if near == 0 || far == 0 {
            return Err(": it keeps no copy");
        }
        let far_sets = match number >> 17 {
            0 => false,
            1 => return Err(": its far sets are those of a faulty draft, which md warns of"),
            2 => true,
            _ => return Err(": bits above 18 are not known"),
        };
        Ok(Self { near, far, offset: number & 1 << 16 != 0, far_sets })
    }

    fn number(self) -> u32 {
        u32::from(self.near)
            | u32::from(self.far) << 8
            | u32::from(self.offset) << 16
            | u32::from(self.far_sets) << 18
    }
}

impl Level {
    /// From the numbers of a superblock. `raid0_layout_stated` is feature bit 12; without it the
    /// layout of RAID 0 means nothing.
    ///
    /// # Errors
    /// [`GeometryError::Level`], [`GeometryError::Layout`].
    pub fn from_numbers(
        level: i32,
        layout: u32,
        raid0_layout_stated: bool,
    ) -> Result<Self, GeometryError> {
        let wrong = |level, reason| GeometryError::Layout { level, layout, reason };
        Ok(match level {
            -1 => Self::Linear,
            0 if !raid0_layout_stated => Self::Raid0(Raid0Layout::Unstated),
            0 => Self::Raid0(match layout {
                0 => Raid0Layout::Unstated,
                1 => Raid0Layout::Original,
                2 => Raid0Layout::Alternate,
                _ => return Err(wrong("raid0", "")),
            }),
            1 => Self::Raid1,
            4 => Self::Raid4,
            5 => Self::Raid5(Raid5Layout::from_number(layout).ok_or_else(|| wrong("raid5", ""))?),
            6 => Self::Raid6(Raid6Layout::from_number(layout).ok_or_else(|| wrong("raid6", ""))?),
            10 => Self::Raid10(
                Raid10Layout::from_number(layout).map_err(|reason| wrong("raid10", reason))?,
            ),
            _ => return Err(GeometryError::Level(level)),
        })
    }

    /// The level's number in a superblock.
    pub fn level_number(self) -> i32 {
        match self {
            Self::Linear => -1,
            Self::Raid0(_) => 0,
            Self::Raid1 => 1,
            Self::Raid4 => 4,
            Self::Raid5(_) => 5,
            Self::Raid6(_) => 6,
            Self::Raid10(_) => 10,
        }
    }

    /// The layout's number in a superblock.
    pub fn layout_number(self) -> u32 {
        match self {
            Self::Linear | Self::Raid1 | Self::Raid4 => 0,
            Self::Raid0(Raid0Layout::Unstated) => 0,
            Self::Raid0(Raid0Layout::Original) => 1,
            Self::Raid0(Raid0Layout::Alternate) => 2,
            Self::Raid5(layout) => layout as u32,
            Self::Raid6(layout) => layout.number(),
            Self::Raid10(layout) => layout.number(),
        }
    }

    /// mdadm's name of the level.
    pub fn name(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::Raid0(_) => "raid0",
            Self::Raid1 => "raid1",
            Self::Raid4 => "raid4",
            Self::Raid5(_) => "raid5",
            Self::Raid6(_) => "raid6",
            Self::Raid10(_) => "raid10",
        }
    }

    /// The fewest devices that md makes this level of.
    pub fn disks_min(self) -> u32 {
        match self {
            Self::Linear | Self::Raid0(_) | Self::Raid1 => 1,
            Self::Raid4 | Self::Raid5(_) => 2,
            // md computes a RAID 6 of three and more; mdadm makes one of four and more.
            Self::Raid6(_) => 4,
            Self::Raid10(layout) => layout.copies().max(2),
        }
    }

    /// Whether the level stores something that must agree between members: a resync, a bitmap and
    /// a recovery make sense only then.
    pub fn is_redundant(self) -> bool {
        !matches!(self, Self::Linear | Self::Raid0(_))
    }

    /// Whether the level keeps parity.
    pub fn has_parity(self) -> bool {
        matches!(self, Self::Raid4 | Self::Raid5(_) | Self::Raid6(_))
    }

    /// The level of mdadm's `--level` and `--layout`; without a layout mdadm's default is taken.
    ///
    /// # Errors
    /// `Err` with what may be given instead.
    pub fn from_names(level: &str, layout: Option<&str>) -> Result<Self, String> {
        super::geometry_names::level_from_names(level, layout)
    }
}

/// mdadm's name of the layout; empty where the level has none.
impl fmt::Display for Level {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |of: Raid5Layout| Raid5Layout::NAMES[of as usize];
        match self {
            Self::Linear | Self::Raid1 | Self::Raid4 => Ok(()),
            Self::Raid0(Raid0Layout::Unstated) => formatter.write_str("-unknown-"),
            Self::Raid0(Raid0Layout::Original) => formatter.write_str("original"),
            Self::Raid0(Raid0Layout::Alternate) => formatter.write_str("alternate"),
            Self::Raid5(of) | Self::Raid6(Raid6Layout::Rotating(of)) => {
                formatter.write_str(name(*of))
            }
            Self::Raid6(Raid6Layout::DdfZeroRestart) => formatter.write_str("ddf-zero-restart"),
            Self::Raid6(Raid6Layout::DdfNRestart) => formatter.write_str("ddf-N-restart"),
            Self::Raid6(Raid6Layout::DdfNContinue) => formatter.write_str("ddf-N-continue"),
            Self::Raid6(Raid6Layout::QLast(of)) => write!(formatter, "{}-6", name(*of)),
            Self::Raid10(of) => {
                let far = if of.offset { "offset" } else { "far" };
                match (of.near, of.far) {
                    (near, 1) => write!(formatter, "near={near}"),
                    (1, copies) => write!(formatter, "{far}={copies}"),
                    (near, copies) => write!(formatter, "near={near}, {far}={copies}"),
                }
            }
        }
    }
}

impl Geometry {
    /// Checks that md would run it. The chunk of linear and RAID 1 is not looked at, as md does.
    ///
    /// # Errors
    /// [`GeometryError::Chunk`], [`GeometryError::RaidDisks`], [`GeometryError::Layout`].
    pub fn new(level: Level, chunk: Sectors, raid_disks: u32) -> Result<Self, GeometryError> {
        let in_range = (CHUNK_MIN..=CHUNK_MAX).contains(&chunk);
        let chunk_fits = match level {
            Level::Linear | Level::Raid1 => true,
            Level::Raid0(_) => in_range,
            _ => in_range && chunk.0.is_power_of_two(),
        };
        if !chunk_fits {
            return Err(GeometryError::Chunk { level: level.name(), chunk });
        }
        if let Level::Raid10(layout) = level {
            let wrong = |reason| {
                Err(GeometryError::Layout { level: "raid10", layout: layout.number(), reason })
            };
            if layout.copies() < 2 {
                return wrong(": a single copy is no redundancy");
            }
            if layout.copies() > raid_disks {
                return wrong(": it keeps more copies than there are devices");
            }
        }
        let disks_min = level.disks_min();
        if !(disks_min..=DEVICES_MAX).contains(&raid_disks) {
            return Err(GeometryError::RaidDisks { level: level.name(), raid_disks, disks_min });
        }
        Ok(Self { level, chunk, raid_disks })
    }
}
