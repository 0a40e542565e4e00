//! The superblock of each device of a fresh array, and what lies beside it.

use super::space::{self, BAD_BLOCK_LOG};
use super::{NewArray, NewArrayError, NewConsistency, NewMember};
use crate::metadata::bitmap::{self, Bitmap};
use crate::metadata::bytes::ByteOrder;
use crate::metadata::geometry::Level;
use crate::metadata::ppl;
use crate::metadata::superblock::{
    BITMAP_ROOM_0_90, DESCRIPTORS_MAX, Descriptor, Details, FIELDS_BYTES, Features, IN_SYNC,
    Location, ROLES_MAX, Role, Superblock, Version, Version0, Version1,
};
use crate::units::{SECTOR_BYTES, Sector, Sectors};

/// Seconds after which md clears bits of the bitmap.
const DAEMON_SLEEP_SECONDS: u32 = 5;
/// A fresh array's event count; md counts none on RAID 0 and linear.
const EVENTS_FIRST: u64 = 1;

/// The metadata of one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// The device's name.
    pub device: String,
    /// Its role; `None` for a spare.
    pub role: Option<u32>,
    /// Its superblock.
    pub superblock: Superblock,
    /// Its bitmap.
    pub bitmap: Option<Bitmap>,
    /// What is to be written where: the superblock comes last, so that a device without one is
    /// what a half-made array leaves.
    pub writes: Vec<(Sector, Vec<u8>)>,
}

/// What each member holds of the array, for its size.
pub fn made_sizes(made: &[Made]) -> impl Iterator<Item = Sectors> {
    made.iter().filter(|of| of.role.is_some()).map(|of| {
        let component_size = of.superblock.component_size;
        if component_size.0 == 0 { of.superblock.data_size() } else { component_size }
    })
}

pub(super) fn make(
    array: &NewArray,
    data_offset: Sector,
    component_size: Sectors,
) -> Result<Vec<Made>, NewArrayError> {
    let roles =
        array.members.iter().zip(0u32..).map(|(member, role)| (member.as_ref(), Some(role)));
    let spares = array.spares.iter().map(|member| (Some(member), None));
    let numbered = roles.chain(spares).zip(0u32..);
    let present = numbered.filter_map(|((member, role), number)| Some((member?, role, number)));
    let plan = Plan { array, data_offset, component_size };
    present.map(|(member, role, number)| plan.member(member, role, number)).collect()
}

/// What all devices of the array share.
struct Plan<'array> {
    array: &'array NewArray,
    data_offset: Sector,
    component_size: Sectors,
}

impl Plan<'_> {
    fn member(
        &self,
        member: &NewMember,
        role: Option<u32>,
        number: u32,
    ) -> Result<Made, NewArrayError> {
        let version = self.array.version;
        let too_small = || NewArrayError::DeviceTooSmall {
            device: member.name.clone(),
            size: member.size,
            reserved: Sectors(self.data_offset.0),
        };
        let location = version.location(member.size).ok_or_else(too_small)?;
        let bitmap_header = self.bitmap_header(location)?;
        let details = match version {
            Version::V0_90 => Details::V0(Box::new(self.version_0(number, role, member))),
            _ => Details::V1(self.version_1(location, member, bitmap_header.as_ref())),
        };
        let superblock = self.superblock(location, number, details);
        superblock.check(member.size).map_err(|_| too_small())?;
        let bitmap = match bitmap_header {
            None => None,
            Some(mut header) => {
                header.array_uuid = superblock.memory_uuid();
                let room = superblock.bitmap_room(member.size).expect("it has a bitmap");
                Some(Bitmap::new(header, !self.is_clean(), room)?)
            }
        };
        let mut writes = Vec::new();
        if let (Some(at), Some(bitmap)) = (superblock.bitmap_at(), &bitmap) {
            writes.push((at, bitmap.encode()));
        }
        if let Some((at, _)) = superblock.ppl() {
            let signature = ppl::signature(superblock.memory_uuid());
            let blank = ppl::Header { signature, generation: 0, entries: Vec::new() };
            writes.push((at, blank.encode()));
        }
        writes.push((superblock.at, superblock.encode()));
        Ok(Made { device: member.name.clone(), role, superblock, bitmap, writes })
    }

    fn superblock(&self, location: Location, number: u32, details: Details) -> Superblock {
        let geometry = self.array.geometry;
        Superblock {
            version: location.version,
            at: location.at,
            array_uuid: self.array.uuid,
            created: self.array.created,
            updated: self.array.created,
            level: geometry.level.level_number(),
            layout: geometry.level.layout_number(),
            chunk: match geometry.level {
                Level::Raid1 => Sectors(0),
                _ => geometry.chunk,
            },
            component_size: self.component_size,
            raid_disks: geometry.raid_disks,
            events: self.events(),
            dev_number: number,
            reshape_position: 0,
            delta_disks: 0,
            new_level: 0,
            new_layout: 0,
            new_chunk: Sectors(0),
            details,
        }
    }

    fn events(&self) -> u64 {
        if self.array.geometry.level.is_redundant() { EVENTS_FIRST } else { 0 }
    }

    /// Nothing to resync: no redundancy, or none that could be wrong. A parity array that starts
    /// degraded is clean as mdadm has it: its missing chunks are whatever parity makes of them.
    fn is_clean(&self) -> bool {
        let level = self.array.geometry.level;
        let degraded_parity = level.has_parity() && self.array.missing() > 0;
        self.array.assume_clean || !level.is_redundant() || degraded_parity
    }

    /// The sectors that the bitmap's bits cover: those of a member, but of the array on RAID 10.
    fn sync_size(&self) -> Sectors {
        let geometry = self.array.geometry;
        let Level::Raid10(layout) = geometry.level else { return self.component_size };
        let of_all = u128::from(self.component_size.0) * u128::from(geometry.raid_disks);
        Sectors(u64::try_from(of_all / u128::from(layout.copies())).unwrap_or(u64::MAX))
    }

    /// The bitmap's header, but for the UUID.
    fn bitmap_header(&self, location: Location) -> Result<Option<bitmap::Header>, NewArrayError> {
        let NewConsistency::Bitmap { chunk_bytes } = self.array.consistency else {
            return Ok(None);
        };
        let sync_size = self.sync_size();
        let room = match location.version {
            Version::V0_90 => BITMAP_ROOM_0_90,
            Version::V1_0 => space::bitmap_room(self.component_size),
            // Where data starts early, the log of bad blocks goes without.
            Version::V1_1 | Version::V1_2 => {
                let before_data = self.data_offset.0 - location.at.0 - 8;
                Sectors(space::bitmap_room(self.component_size).0.min(before_data))
            }
        };
        let chunk_bytes =
            chunk_bytes.unwrap_or_else(|| bitmap::default_chunk_bytes(sync_size, room));
        bitmap::check_fits(sync_size, chunk_bytes, room)?;
        let reason = "it is to be a power of two of 4 KiB to 2 GiB";
        let wrong = bitmap::BitmapError::Field { field: "chunk", found: chunk_bytes, reason };
        let in_range = chunk_bytes >= 4096 && chunk_bytes.is_power_of_two();
        let chunk_bytes = u32::try_from(chunk_bytes).ok().filter(|_| in_range).ok_or(wrong)?;
        Ok(Some(bitmap::Header {
            version: bitmap::VERSION,
            array_uuid: [0; 16],
            events: self.events(),
            events_cleared: 0,
            sync_size,
            state: 0,
            chunk_bytes,
            daemon_sleep_seconds: DAEMON_SLEEP_SECONDS,
            write_behind: 0,
            sectors_reserved: 0,
            nodes: 0,
            cluster_name: [0; 64],
        }))
    }

    fn version_1(
        &self,
        location: Location,
        member: &NewMember,
        bitmap: Option<&bitmap::Header>,
    ) -> Version1 {
        let mut features = Features::default();
        let stated = matches!(self.array.geometry.level, Level::Raid0(_)) && self.sizes_differ();
        features = features.with(Features::RAID0_LAYOUT, stated);
        let log = self.array.log();
        // mdadm keeps whole 4 KiB for a bitmap.
        let bitmap_room = bitmap.map(|header| Sectors(header.length().0.next_multiple_of(8)));
        let room = self.room_beside(bitmap);
        let at_end = location.version == Version::V1_0;
        let bad_blocks_wished = self.array.bad_block_log;
        let mut bad_blocks = None;
        let data_size = if at_end {
            bad_blocks = bad_blocks_wished.then_some(-(BAD_BLOCK_LOG.0 as i32));
            self.data_size_before(location.at, bitmap).0
        } else {
            let behind = 8 + room.0;
            if location.at.0 + behind + BAD_BLOCK_LOG.0 <= self.data_offset.0 && bad_blocks_wished {
                bad_blocks = Some(behind as i32);
            }
            member.size.0 - self.data_offset.0
        };
        let mut bitmap_or_ppl = 0;
        if let Some(room) = bitmap_room {
            features = features.with(Features::BITMAP, true);
            let offset = if at_end { -((room + BAD_BLOCK_LOG).0 as i32) } else { 8 };
            bitmap_or_ppl = offset.cast_unsigned();
        } else if let Some(log) = log {
            features = features.with(Features::MULTIPLE_PPLS, true);
            bitmap_or_ppl = Version1::ppl_word(8, log.0 as u16);
        }
        let mut name = [0; 32];
        name[..self.array.name.len()].copy_from_slice(self.array.name.as_bytes());
        Version1 {
            features,
            name,
            bitmap_or_ppl,
            new_offset: 0,
            data_offset: self.data_offset.0,
            data_size,
            recovery_offset: 0,
            corrected_reads: 0,
            device_uuid: member.uuid,
            device_flags: if member.write_mostly { Version1::WRITE_MOSTLY } else { 0 },
            bad_block_shift: 0,
            bad_block_log_size: if bad_blocks.is_some() { BAD_BLOCK_LOG.0 as u16 } else { 0 },
            bad_block_log_offset: bad_blocks.unwrap_or(0),
            resync_offset: if self.is_clean() { IN_SYNC } else { 0 },
            roles: self.roles(),
        }
    }

    /// The table of roles, as long as whole sectors of superblock make it.
    fn roles(&self) -> Vec<u16> {
        let devices = self.array.members.len() + self.array.spares.len();
        let length = (FIELDS_BYTES + 2 * devices).next_multiple_of(SECTOR_BYTES as usize);
        let count = ((length - FIELDS_BYTES) / 2).min(ROLES_MAX as usize);
        let mut roles = vec![Role::Spare.number(); count];
        for (role, member) in self.array.members.iter().enumerate() {
            if member.is_some() {
                roles[role] = Role::Active(role as u32).number();
            }
        }
        roles
    }

    /// What lies between superblock and bad-block log.
    fn room_beside(&self, bitmap: Option<&bitmap::Header>) -> Sectors {
        // mdadm keeps whole 4 KiB for a bitmap.
        let bitmap_room = bitmap.map(|header| Sectors(header.length().0.next_multiple_of(8)));
        let room = bitmap_room.or(self.array.log());
        room.unwrap_or_else(|| space::bitmap_room(self.component_size))
    }

    /// The data in front of a superblock at the end.
    fn data_size_before(&self, superblock: Sector, bitmap: Option<&bitmap::Header>) -> Sectors {
        Sectors(superblock.0) - self.room_beside(bitmap) - BAD_BLOCK_LOG
    }

    /// Whether RAID 0 has several zones.
    fn sizes_differ(&self) -> bool {
        let chunks = |member: &NewMember| {
            let version = self.array.version;
            let size = match version.location(member.size) {
                Some(place) if version == Version::V1_0 => self.data_size_before(place.at, None),
                _ => space::offered(version, member.size, self.data_offset).unwrap_or_default(),
            };
            size.0 / self.array.geometry.chunk.0
        };
        let mut sizes = self.array.devices().map(chunks);
        let first = sizes.next();
        sizes.any(|size| Some(size) != first)
    }

    fn version_0(&self, number: u32, role: Option<u32>, member: &NewMember) -> Version0 {
        let mut disks = [Descriptor::default(); DESCRIPTORS_MAX as usize];
        for (index, of) in self.array.members.iter().enumerate() {
            let (raid_disk, state) = (index as u32, Descriptor::ACTIVE | Descriptor::SYNC);
            let state = if of.is_some() { state } else { Descriptor::REMOVED | Descriptor::FAULTY };
            disks[index] = Descriptor { number: raid_disk, raid_disk, state, ..Default::default() };
        }
        let behind_members = disks.iter_mut().zip(0u32..).skip(self.array.members.len());
        for (disk, number) in behind_members.take(self.array.spares.len()) {
            *disk = Descriptor { number, raid_disk: number, ..Default::default() };
        }
        let mut this_disk = disks[number as usize];
        if member.write_mostly && role.is_some() {
            this_disk.state |= Descriptor::WRITE_MOSTLY;
        }
        let active = (self.array.members.len() - self.array.missing()) as u32;
        let spare = self.array.spares.len() as u32;
        let has_bitmap = matches!(self.array.consistency, NewConsistency::Bitmap { .. });
        let clean = if self.is_clean() { Version0::CLEAN } else { 0 };
        Version0 {
            byte_order: ByteOrder::Little,
            minor_version: 90,
            patch_version: 0,
            valid_words: 0,
            disks_total: active + spare,
            preferred_minor: 0,
            not_persistent: 0,
            state: clean | if has_bitmap { Version0::BITMAP } else { 0 },
            disks_active: active,
            disks_working: active + spare,
            disks_failed: self.array.missing() as u32,
            disks_spare: spare,
            checkpoint_events: self.events(),
            recovery_checkpoint: if self.is_clean() { u32::MAX } else { 0 },
            root_device: 0,
            root_block: 0,
            disks,
            this_disk,
        }
    }
}
