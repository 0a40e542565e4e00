//! What the superblocks of a running array are to say, and how it is put into each of them, as md
//! does. Pure: never decides what is so, and never writes.

use crate::metadata::identity::Time;
use crate::metadata::superblock::{
    Descriptor, Details, Features, Role, Superblock, Version0, Version1,
};
use crate::units::Sector;

/// `resync_offset` of an array whose redundancy agrees everywhere.
const IN_SYNC: u64 = u64::MAX;

/// What all superblocks say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ArrayRecord {
    /// No write is under way.
    pub(crate) clean: bool,
    /// Up to where redundancy agrees if no write is under way; `None` for everywhere.
    pub(crate) resync_offset: Option<Sector>,
    /// Every device that works or failed while the array ran; not those that were missing.
    pub(crate) devices: Vec<DeviceRecord>,
}

/// What they say of one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeviceRecord {
    /// Its number in the table of roles.
    pub(crate) dev_number: u32,
    /// What it does.
    pub(crate) role: Role,
    /// Up to where it is filled in; `None` for all of it.
    pub(crate) recovery_offset: Option<Sector>,
    /// It is to take the place of another one.
    pub(crate) is_replacement: bool,
    /// Its bad-block log has entries.
    pub(crate) has_bad_blocks: bool,
}

impl ArrayRecord {
    fn resync_word(&self) -> u64 {
        match (self.clean, self.resync_offset) {
            (true, None) => IN_SYNC,
            (true, Some(at)) => at.0,
            (false, _) => 0,
        }
    }

    /// Puts it into the superblock of device `own` of the record.
    pub(crate) fn put_into(
        &self,
        superblock: &mut Superblock,
        own: usize,
        events: u64,
        updated: Time,
    ) {
        let own = &self.devices[own];
        superblock.events = events;
        superblock.updated = updated;
        superblock.dev_number = own.dev_number;
        let raid_disks = superblock.raid_disks;
        match &mut superblock.details {
            Details::V0(details) => self.put_into_0(details, own, events, raid_disks),
            Details::V1(details) => self.put_into_1(details, own),
        }
    }

    fn put_into_1(&self, details: &mut Version1, own: &DeviceRecord) {
        details.resync_offset = self.resync_word();
        // Devices that nobody knows count as spares, as md writes it.
        details.roles.fill(Role::Spare.number());
        for device in &self.devices {
            let index = device.dev_number as usize;
            if details.roles.len() <= index {
                details.roles.resize(index + 1, Role::Spare.number());
            }
            details.roles[index] = device.role.number();
        }
        let recovering = own.recovery_offset.is_some();
        if own.role != Role::Journal {
            details.recovery_offset = own.recovery_offset.map_or(0, |at| at.0);
        }
        details.features = details
            .features
            .with(Features::RECOVERY_OFFSET, recovering || own.role == Role::Journal)
            .with(Features::RECOVERY_BITMAP, false)
            .with(Features::REPLACEMENT, own.is_replacement)
            .with(Features::BAD_BLOCKS, own.has_bad_blocks);
    }

    fn put_into_0(&self, details: &mut Version0, own: &DeviceRecord, events: u64, raid_disks: u32) {
        let clean = self.resync_word() == IN_SYNC;
        let clean = if clean { Version0::CLEAN } else { 0 };
        details.state = (details.state & !Version0::CLEAN) | clean;
        // All ones is md's mark of an array that agrees everywhere.
        details.recovery_checkpoint = u32::try_from(self.resync_word()).unwrap_or(u32::MAX);
        details.checkpoint_events = if self.clean { events } else { 0 };
        let before = details.disks;
        details.disks = [Descriptor::default(); _];
        for device in &self.devices {
            let index = device.dev_number as usize;
            let Some(place) = details.disks.get_mut(index) else { continue };
            let (raid_disk, state) = match device.role {
                // The format cannot say that a device is filled in partly.
                Role::Active(slot) if device.recovery_offset.is_none() => {
                    (slot, Descriptor::ACTIVE | Descriptor::SYNC)
                }
                Role::Faulty => (device.dev_number, Descriptor::FAULTY),
                _ => (device.dev_number, 0),
            };
            let kept = before[index].state & Descriptor::WRITE_MOSTLY;
            let Descriptor { major, minor, .. } = before[index];
            *place = Descriptor {
                number: device.dev_number,
                major,
                minor,
                raid_disk,
                state: state | kept,
            };
        }
        for slot in 0..raid_disks.min(details.disks.len() as u32) {
            let known = self.devices.iter().any(|device| device.dev_number == slot);
            if !known {
                let state = Descriptor::REMOVED | Descriptor::FAULTY;
                let raid_disk = slot;
                details.disks[slot as usize] =
                    Descriptor { number: slot, raid_disk, state, ..Descriptor::default() };
            }
        }
        let count = |holds: &dyn Fn(&DeviceRecord) -> bool| {
            self.devices.iter().filter(|device| holds(device)).count() as u32
        };
        let whole = |device: &DeviceRecord| {
            matches!(device.role, Role::Active(_)) && device.recovery_offset.is_none()
        };
        details.disks_active = count(&whole);
        details.disks_failed = raid_disks.saturating_sub(details.disks_active);
        details.disks_working = count(&|device| device.role != Role::Faulty);
        details.disks_spare = details.disks_working - details.disks_active;
        details.disks_total = self.devices.len() as u32;
        if let Some(this) = details.disks.get(own.dev_number as usize) {
            details.this_disk = *this;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::scratch;
    use crate::metadata::superblock::{ByteOrder, Location, Version};
    use crate::units::Sectors;

    const LATER: Time = Time { seconds: 1_800_000_000, microseconds: 0 };

    fn device(dev_number: u32, role: Role) -> DeviceRecord {
        DeviceRecord {
            dev_number,
            role,
            recovery_offset: None,
            is_replacement: false,
            has_bad_blocks: false,
        }
    }

    /// Member 0 of a pair, after the record was put into it and it was written and read.
    fn check(record: &ArrayRecord) -> Superblock {
        let mut superblock = scratch::member(0);
        record.put_into(&mut superblock, 0, 12, LATER);
        let bytes = superblock.encode();
        let read = Superblock::decode(scratch::LOCATION, scratch::DEVICE_SIZE, &bytes);
        let read = read.expect("a superblock");
        assert_eq!(read, superblock);
        assert_eq!((read.events, read.updated), (12, LATER));
        read
    }

    fn record(clean: bool, devices: Vec<DeviceRecord>) -> ArrayRecord {
        ArrayRecord { clean, resync_offset: None, devices }
    }

    #[test]
    fn an_array_that_is_written_to_says_that_nothing_need_agree() {
        let pair = || vec![device(0, Role::Active(0)), device(1, Role::Active(1))];
        assert_eq!(check(&record(false, pair())).resync_offset(), Some(Sector(0)));
        assert_eq!(check(&record(true, pair())).resync_offset(), None);
        let half = ArrayRecord { resync_offset: Some(Sector(800)), ..record(true, pair()) };
        assert_eq!(check(&half).resync_offset(), Some(Sector(800)));
        let written = ArrayRecord { clean: false, ..half };
        assert_eq!(check(&written).resync_offset(), Some(Sector(0)));
    }

    #[test]
    fn a_failed_member_is_disowned_and_a_missing_one_forgotten() {
        let failed = vec![device(0, Role::Active(0)), device(1, Role::Faulty)];
        let found = check(&record(false, failed));
        assert_eq!(found.role_of(1), Role::Faulty);
        let found = check(&record(false, vec![device(0, Role::Active(0))]));
        assert_eq!((found.role_of(0), found.role_of(1)), (Role::Active(0), Role::Spare));
        assert!(!found.knows_a_member_of(1));
    }

    #[test]
    fn a_recovery_leaves_its_offset_until_it_is_done() {
        let mut own = device(0, Role::Active(0));
        own.recovery_offset = Some(Sector(64));
        own.has_bad_blocks = true;
        let found = check(&record(true, vec![own, device(1, Role::Active(1))]));
        assert_eq!(found.recovery_offset(), Some(Sector(64)));
        assert!(found.has(Features::BAD_BLOCKS));
        let whole = vec![device(0, Role::Active(0)), device(1, Role::Active(1))];
        let found = check(&record(true, whole));
        assert_eq!(found.recovery_offset(), None);
        assert!(!found.has(Features::BAD_BLOCKS));
    }

    const PLACE_0_90: Location = Location { version: Version::V0_90, at: Sector(16256) };

    fn member_0_90() -> Superblock {
        let mut superblock = scratch::member(0);
        (superblock.version, superblock.at) = (Version::V0_90, PLACE_0_90.at);
        (superblock.level, superblock.component_size) = (1, Sectors(16256));
        superblock.details = Details::V0(Box::new(Version0 {
            byte_order: ByteOrder::Little,
            minor_version: 90,
            patch_version: 0,
            valid_words: 0,
            disks_total: 2,
            preferred_minor: 0,
            not_persistent: 0,
            state: Version0::CLEAN,
            disks_active: 2,
            disks_working: 2,
            disks_failed: 0,
            disks_spare: 0,
            checkpoint_events: 10,
            recovery_checkpoint: u32::MAX,
            root_device: 0,
            root_block: 0,
            disks: [Descriptor::default(); _],
            this_disk: Descriptor::default(),
        }));
        superblock
    }

    /// A member of version 0.90 after the record was put into it and it was written and read.
    fn check_0_90(superblock: &mut Superblock, record: &ArrayRecord, updated: Time) -> Superblock {
        record.put_into(superblock, 0, 12, updated);
        let bytes = superblock.encode();
        Superblock::decode(PLACE_0_90, scratch::DEVICE_SIZE, &bytes).expect("a superblock")
    }

    #[test]
    fn version_0_90_counts_its_devices() {
        let mut superblock = member_0_90();
        let failed = vec![device(0, Role::Active(0)), device(1, Role::Faulty)];
        let found = check_0_90(&mut superblock, &record(false, failed), LATER);
        assert_eq!(found.resync_offset(), Some(Sector(0)));
        assert_eq!((found.role(), found.role_of(1)), (Role::Active(0), Role::Faulty));
        let Details::V0(details) = &found.details else { panic!("version 0.90") };
        assert_eq!((details.disks_active, details.disks_failed, details.disks_total), (1, 1, 2));
        let alone = vec![device(0, Role::Active(0))];
        let found = check_0_90(&mut superblock, &record(true, alone), LATER);
        assert_eq!((found.resync_offset(), found.role_of(1)), (None, Role::Faulty));
    }

    #[test]
    fn the_time_of_version_0_90_stands_still_in_2106() {
        let pair = vec![device(0, Role::Active(0)), device(1, Role::Active(1))];
        let later = Time { seconds: 1 << 32, microseconds: 1 };
        let found = check_0_90(&mut member_0_90(), &record(true, pair), later);
        assert_eq!(found.updated.seconds, u64::from(u32::MAX));
    }
}
