//! What the fields of a superblock mean, whatever its version: roles, places, what is in sync.

use super::search::RESERVED_0_90;
use super::v1::{self, ROLES_MAX};
use super::{Details, Features, SUPERBLOCK_BYTES, Superblock, Version};
use crate::metadata::bytes::ByteOrder;
use crate::metadata::identity::Uuid;
use crate::units::{SECTOR_BYTES, Sector, Sectors};

/// What a device does in its array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Holds the data of this slot, from 0.
    Active(u32),
    /// Waits for a slot to fall free.
    Spare,
    /// Was thrown out.
    Faulty,
    /// Holds the write journal.
    Journal,
}

impl Role {
    pub(super) const SPARE: u16 = 0xFFFF;
    pub(super) const FAULTY: u16 = 0xFFFE;
    pub(super) const JOURNAL: u16 = 0xFFFD;
    /// Roles of slots end here.
    const ACTIVE_MAX: u16 = 0xFF00;

    /// From the number in a version 1 superblock.
    pub fn from_number(number: u16) -> Self {
        match number {
            Self::SPARE => Self::Spare,
            Self::JOURNAL => Self::Journal,
            number if number < Self::ACTIVE_MAX => Self::Active(u32::from(number)),
            _ => Self::Faulty,
        }
    }

    /// The number in a version 1 superblock.
    ///
    /// # Panics
    /// If a slot's number exceeds what the format holds.
    pub fn number(self) -> u16 {
        match self {
            Self::Active(slot) => u16::try_from(slot).expect("a slot of the format"),
            Self::Spare => Self::SPARE,
            Self::Faulty => Self::FAULTY,
            Self::Journal => Self::JOURNAL,
        }
    }
}

/// A reshape under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reshape {
    /// The sector of the array up to which (or down to which) the new geometry holds.
    pub position: Sector,
    /// It goes from the end to the start.
    pub backwards: bool,
    /// How many members it adds; `raid_disks` counts them already.
    pub delta_disks: i32,
    /// The number of the level that it leads to.
    pub new_level: i32,
    /// The number of the layout that it leads to.
    pub new_layout: u32,
    /// The chunk that it leads to.
    pub new_chunk: Sectors,
}

/// What is left for a bitmap behind the superblock of version 0.90.
pub(in crate::metadata) const BITMAP_ROOM_0_90: Sectors =
    Sectors(RESERVED_0_90.0 - SUPERBLOCK_BYTES as u64 / SECTOR_BYTES);

/// `resync_offset` of an array whose redundancy agrees everywhere.
pub(in crate::metadata) const IN_SYNC: u64 = u64::MAX;

impl Superblock {
    /// Whether a feature is on. Version 0.90 has none.
    pub fn has(&self, feature: Features) -> bool {
        matches!(&self.details, Details::V1(details) if details.features.intersects(feature))
    }

    pub(super) fn states_raid0_layout(&self) -> bool {
        self.has(Features::RAID0_LAYOUT)
    }

    /// What this device does in the array, in its own words.
    pub fn role(&self) -> Role {
        match &self.details {
            Details::V0(details) => details.this_disk.role(),
            Details::V1(_) => self.role_of(self.dev_number),
        }
    }

    /// What the device of a number does in the array, as far as this member knows.
    pub fn role_of(&self, dev_number: u32) -> Role {
        let index = dev_number as usize;
        match &self.details {
            Details::V0(details) => details.disks.get(index).map_or(Role::Spare, |of| of.role()),
            Details::V1(details) => {
                details.roles.get(index).map_or(Role::Spare, |number| Role::from_number(*number))
            }
        }
    }

    /// Whether any device is known to fill a slot.
    pub fn knows_a_member_of(&self, slot: u32) -> bool {
        let devices = match &self.details {
            Details::V0(details) => details.disks.len(),
            Details::V1(details) => details.roles.len(),
        };
        (0..devices as u32).any(|number| self.role_of(number) == Role::Active(slot))
    }

    /// The device's own UUID. Version 0.90 has none.
    pub fn device_uuid(&self) -> Option<Uuid> {
        match &self.details {
            Details::V0(_) => None,
            Details::V1(details) => Some(details.device_uuid),
        }
    }

    /// The array's name, without the zeros behind it. Version 0.90 has none.
    pub fn name(&self) -> Option<String> {
        match &self.details {
            Details::V0(_) => None,
            Details::V1(details) => {
                let length = details.name.iter().position(|byte| *byte == 0);
                let name = &details.name[..length.unwrap_or(details.name.len())];
                Some(String::from_utf8_lossy(name).into_owned())
            }
        }
    }

    /// The array's UUID as the bitmap, the partial parity log and the journal know it: version 0.90
    /// keeps it as four numbers, and those lie in memory in the machine's order.
    pub fn memory_uuid(&self) -> [u8; 16] {
        let mut bytes = self.array_uuid.0;
        if let Details::V0(details) = &self.details
            && details.byte_order == ByteOrder::Little
        {
            bytes.chunks_exact_mut(4).for_each(<[u8]>::reverse);
        }
        bytes
    }

    /// Where the data starts.
    pub fn data_offset(&self) -> Sector {
        match &self.details {
            Details::V0(_) => Sector(0),
            Details::V1(details) => Sector(details.data_offset),
        }
    }

    /// How much of the device may hold data.
    pub fn data_size(&self) -> Sectors {
        match &self.details {
            Details::V0(_) => Sectors(self.at.0),
            Details::V1(details) => Sectors(details.data_size),
        }
    }

    /// Where the data starts in the geometry that a reshape leads to.
    pub fn new_data_offset(&self) -> Sector {
        let moved = match &self.details {
            Details::V1(details) if self.has(Features::NEW_OFFSET) => details.new_offset,
            _ => 0,
        };
        Sector(self.data_offset().0.wrapping_add_signed(i64::from(moved)))
    }

    /// Up to which sector of the members the redundancy agrees; `None` where it agrees everywhere.
    pub fn resync_offset(&self) -> Option<Sector> {
        match &self.details {
            Details::V0(details) if details.is_clean() => None,
            Details::V0(details) if details.checkpoint_events == self.events => {
                // All ones is the mark of a clean array, so it says nothing on one that is not.
                let at = details.recovery_checkpoint;
                Some(Sector(if at == u32::MAX { 0 } else { u64::from(at) }))
            }
            Details::V0(_) => Some(Sector(0)),
            Details::V1(details) => {
                (details.resync_offset != IN_SYNC).then_some(Sector(details.resync_offset))
            }
        }
    }

    /// Up to which sector of its data this member is rebuilt; `None` where it is whole.
    pub fn recovery_offset(&self) -> Option<Sector> {
        match &self.details {
            Details::V0(details) => {
                let rebuilding = details.is_reshaping() && details.this_disk.is_active_unsynced();
                rebuilding.then_some(Sector(0))
            }
            Details::V1(details) => {
                let rebuilding =
                    self.has(Features::RECOVERY_OFFSET) && self.role() != Role::Journal;
                rebuilding.then_some(Sector(details.recovery_offset))
            }
        }
    }

    /// Where the journal's log begins, in sectors of the journal device's data.
    pub fn journal_tail(&self) -> Option<Sector> {
        match &self.details {
            Details::V1(details) if self.role() == Role::Journal => {
                Some(Sector(details.recovery_offset))
            }
            _ => None,
        }
    }

    /// Whether reads avoid this member.
    pub fn is_write_mostly(&self) -> bool {
        match &self.details {
            Details::V0(details) => details.this_disk.is_write_mostly(),
            Details::V1(details) => details.device_flags & super::Version1::WRITE_MOSTLY != 0,
        }
    }

    /// Whether this member takes the place of another one that still serves.
    pub fn is_replacement(&self) -> bool {
        self.has(Features::REPLACEMENT)
    }

    /// A place on the device given relative to the superblock; `None` where it lies before the
    /// start.
    fn relative(&self, offset: i64) -> Option<Sector> {
        self.at.0.checked_add_signed(offset).map(Sector)
    }

    /// Where the write-intent bitmap lies, if there is one.
    pub fn bitmap_at(&self) -> Option<Sector> {
        match &self.details {
            Details::V0(details) => details.has_bitmap().then_some(Sector(self.at.0 + 8)),
            Details::V1(details) if self.has(Features::BITMAP) => {
                self.relative(i64::from(details.bitmap_offset()))
            }
            Details::V1(_) => None,
        }
    }

    /// How much room the bitmap has before it runs into something else.
    pub fn bitmap_room(&self, device_size: Sectors) -> Option<Sectors> {
        let start = self.bitmap_at()?;
        if self.version == Version::V0_90 {
            return Some(BITMAP_ROOM_0_90);
        }
        let log = self.bad_block_log().map(|(at, _)| at);
        let ends = [Some(self.at), Some(self.data_offset()), log, Some(Sector(device_size.0))];
        ends.into_iter().flatten().filter(|end| *end > start).min().map(|end| end - start)
    }

    /// Whether the table of roles can hold a device of this number, or grow for it.
    pub fn has_room_for(&self, dev_number: u32) -> bool {
        let number = dev_number as usize;
        match &self.details {
            Details::V0(details) => number < details.disks.len(),
            Details::V1(details) if number < details.roles.len() => true,
            Details::V1(_) => {
                let end = self.at + v1::length(number + 1);
                let data = [self.data_offset(), self.new_data_offset()].map(Some);
                let logs = [self.bad_block_log(), self.ppl()].map(|log| log.map(|(at, _)| at));
                let mut places = data.into_iter().chain(logs).chain([self.bitmap_at()]).flatten();
                dev_number < ROLES_MAX && places.all(|place| place < self.at || place >= end)
            }
        }
    }

    /// Where the partial parity log lies and how long it is, if there is one.
    pub fn ppl(&self) -> Option<(Sector, Sectors)> {
        match &self.details {
            Details::V1(details) if self.has(Features::PPL | Features::MULTIPLE_PPLS) => {
                let (offset, size) = details.ppl();
                Some((self.relative(i64::from(offset))?, Sectors(u64::from(size))))
            }
            _ => None,
        }
    }

    /// Where the bad-block log lies and how long it is, if room is kept for one: an offset of zero
    /// means that none is.
    pub fn bad_block_log(&self) -> Option<(Sector, Sectors)> {
        match &self.details {
            Details::V1(details)
                if details.bad_block_log_size != 0 && details.bad_block_log_offset != 0 =>
            {
                let at = self.relative(i64::from(details.bad_block_log_offset))?;
                Some((at, Sectors(u64::from(details.bad_block_log_size))))
            }
            _ => None,
        }
    }

    /// The reshape under way, if there is one.
    pub fn reshape(&self) -> Option<Reshape> {
        let active = match &self.details {
            Details::V0(details) => details.is_reshaping(),
            Details::V1(_) => self.has(Features::RESHAPE_ACTIVE),
        };
        let backwards = match &self.details {
            // Version 0.90 has no bit for it: md goes by whether members are taken away.
            Details::V0(_) => self.delta_disks < 0,
            Details::V1(_) => self.has(Features::RESHAPE_BACKWARDS),
        };
        active.then_some(Reshape {
            position: Sector(self.reshape_position),
            backwards,
            delta_disks: self.delta_disks,
            new_level: self.new_level,
            new_layout: self.new_layout,
            new_chunk: self.new_chunk,
        })
    }
}
