//! The metadata of a fresh array, placed as mdadm 4.2 places it: superblocks, bitmap, partial parity
//! log, and room for a bad-block log.
//!
//! Unlike mdadm it does not make the last member of a RAID 5 a spare that is rebuilt at once: a
//! fresh redundant array is one that has to be resynced from the start, or that its maker assumes
//! to be clean. Pure: says what is to be written where; [`crate::assemble::make`] writes it, after it
//! has blanked whatever superblocks older arrays left.

mod error;
mod members;
mod space;

pub use error::NewArrayError;
pub use members::{Made, made_sizes};

use super::geometry::{Geometry, Level};
use super::identity::{Time, Uuid};
use super::ppl;
use super::superblock::{DESCRIPTORS_MAX, ROLES_MAX, Version};
use crate::units::{Sector, Sectors};

/// A device to be taken into the array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewMember {
    /// What a person calls it.
    pub name: String,
    /// Its size.
    pub size: Sectors,
    /// The UUID that it is to have.
    pub uuid: Uuid,
    /// Whether reads are to avoid it.
    pub write_mostly: bool,
}

/// How a fresh array is to be made consistent after a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewConsistency {
    /// By looking at all of it.
    Resync,
    /// By a write-intent bitmap whose bits stand for so many bytes each; mdadm's choice if `None`.
    Bitmap {
        /// Bytes that a bit stands for.
        chunk_bytes: Option<u64>,
    },
    /// By a partial parity log.
    PartialParityLog,
}

/// What an array is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewArray {
    /// The superblocks' version.
    pub version: Version,
    /// Level, layout, chunk, members: checked by [`Geometry::new`].
    pub geometry: Geometry,
    /// The array's name, with the host's before it as mdadm has it (`host:name`). Version 0.90 has
    /// none.
    pub name: String,
    /// The array's UUID.
    pub uuid: Uuid,
    /// Now.
    pub created: Time,
    /// The members by role; `None` is missing.
    pub members: Vec<Option<NewMember>>,
    /// Devices to stand by.
    pub spares: Vec<NewMember>,
    /// What to use of each member; as much as fits if `None`.
    pub component_size: Option<Sectors>,
    /// Where data starts; mdadm's choice if `None`.
    pub data_offset: Option<Sector>,
    /// What makes it consistent after a crash.
    pub consistency: NewConsistency,
    /// Take it that redundancy agrees already, as on blank devices.
    pub assume_clean: bool,
    /// Keep room for a bad-block log.
    pub bad_block_log: bool,
}

impl NewArray {
    /// The metadata of every device, in the order of roles, then spares.
    ///
    /// # Errors
    /// [`NewArrayError`], one for each wish that cannot be granted.
    pub fn make(&self) -> Result<Vec<Made>, NewArrayError> {
        self.check()?;
        let data_offset = self.choose_data_offset()?;
        let component_size = self.choose_component_size(data_offset)?;
        members::make(self, data_offset, component_size)
    }

    /// The devices that are there.
    fn devices(&self) -> impl Iterator<Item = &NewMember> {
        self.members.iter().flatten().chain(&self.spares)
    }

    fn missing(&self) -> usize {
        self.members.iter().filter(|member| member.is_none()).count()
    }

    fn check(&self) -> Result<(), NewArrayError> {
        let Geometry { level, chunk, raid_disks } = self.geometry;
        Geometry::new(level, chunk, raid_disks)?;
        if self.members.len() != raid_disks as usize {
            return Err(NewArrayError::Members { given: self.members.len(), raid_disks });
        }
        if self.missing() == self.members.len() {
            return Err(NewArrayError::AllMissing);
        }
        let devices = (self.members.len() + self.spares.len()) as u32;
        let devices_max = if self.version == Version::V0_90 { DESCRIPTORS_MAX } else { ROLES_MAX };
        if devices > devices_max {
            let version = self.version;
            return Err(NewArrayError::TooManyDevices { devices, version, devices_max });
        }
        if !level.is_redundant() && (self.missing() > 0 || !self.spares.is_empty()) {
            return Err(NewArrayError::NoRedundancy { level: level.name() });
        }
        if self.name.len() > 32 {
            let (name, bytes) = (self.name.clone(), self.name.len());
            return Err(NewArrayError::Name { name, bytes });
        }
        self.check_consistency()
    }

    fn check_consistency(&self) -> Result<(), NewArrayError> {
        let wish = |wish, needs| Err(NewArrayError::Wish { wish, needs });
        let level = self.geometry.level;
        match self.consistency {
            NewConsistency::Bitmap { .. } if !level.is_redundant() => {
                wish("a bitmap", "a level with redundancy")
            }
            NewConsistency::PartialParityLog if !matches!(level, Level::Raid5(_)) => {
                wish("a partial parity log", "level 5")
            }
            NewConsistency::PartialParityLog
                if !matches!(self.version, Version::V1_1 | Version::V1_2) =>
            {
                wish("a partial parity log", "metadata 1.1 or 1.2")
            }
            _ => Ok(()),
        }
    }

    fn choose_data_offset(&self) -> Result<Sector, NewArrayError> {
        let log = self.log();
        let Some(data_offset) = self.data_offset else {
            let first = self.devices().next().expect("a device is there");
            return Ok(space::data_offset(self.version, first.size, self.geometry.chunk, log));
        };
        let wrong = |reason| Err(NewArrayError::DataOffset { data_offset, reason });
        let least = match self.version {
            Version::V0_90 | Version::V1_0 if data_offset.0 != 0 => {
                return wrong("with metadata 0.90 and 1.0 it starts at 0");
            }
            Version::V0_90 | Version::V1_0 => 0,
            Version::V1_1 => 16,
            Version::V1_2 => 24,
        };
        let log = log.map_or(0, |log| log.0);
        if data_offset.0 < least + log {
            return wrong("superblock, bitmap and logs lie before it and need more room");
        }
        Ok(data_offset)
    }

    /// The room of the partial parity log.
    fn log(&self) -> Option<Sectors> {
        let wished = self.consistency == NewConsistency::PartialParityLog;
        wished.then_some(ppl::LOG_SIZE)
    }

    /// What is used of each member; zero on RAID 0 and linear, which use what each has.
    fn choose_component_size(&self, data_offset: Sector) -> Result<Sectors, NewArrayError> {
        let round = |size: Sectors| match self.geometry.level {
            // mdadm counts in KiB.
            Level::Raid1 | Level::Linear => Sectors(size.0 / 2 * 2),
            _ => Sectors(size.0 / self.geometry.chunk.0 * self.geometry.chunk.0),
        };
        let mut smallest: Option<(Sectors, &NewMember)> = None;
        for device in self.devices() {
            let offered = space::offered(self.version, device.size, data_offset);
            let offered = round(offered.unwrap_or_default());
            if offered.0 < 16 {
                let (name, size) = (device.name.clone(), device.size);
                let reserved = Sectors(data_offset.0.max(32));
                return Err(NewArrayError::DeviceTooSmall { device: name, size, reserved });
            }
            if smallest.is_none_or(|(least, _)| offered < least) {
                smallest = Some((offered, device));
            }
        }
        let (offered, device) = smallest.expect("a device is there");
        if !self.geometry.level.is_redundant() {
            return Ok(Sectors(0));
        }
        match self.component_size.map(round) {
            None => Ok(offered),
            Some(wanted) if wanted > offered || wanted.0 == 0 => {
                Err(NewArrayError::SizeTooLarge { wanted, device: device.name.clone(), offered })
            }
            Some(wanted) => Ok(wanted),
        }
    }
}
