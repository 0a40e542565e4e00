//! What one file's md metadata says, as `mdadm --examine` tells it. Reads only; a damaged or a
//! foreign superblock is told as found, with what is wrong with it.

mod beside;
mod facts;
mod text;

pub use beside::{BadBlockFacts, BadRange, BitmapFacts, JournalFacts, PplFacts};
pub use facts::{
    DeviceRow, DeviceTable, Examination, OtherSuperblock, ReshapeFacts, SuperblockFacts, Unused,
};
pub use text::render;

use super::looks_like::looks_like;
use super::member_file::{Found, LookError, MemberFile};
use super::sizes::array_size;
use raid::metadata::superblock::{
    ByteOrder, Descriptor, Details, Features, Role, Superblock, SuperblockError, Version, Version1,
};
use raid::metadata::{Level, Time};
use raid::units::{Sector, Sectors};
use std::path::Path;

impl Examination {
    /// Looks at one file.
    ///
    /// # Errors
    /// [`LookError`], if the file cannot be read.
    pub fn of(file: &MemberFile) -> Result<Self, LookError> {
        let mut found = file.superblocks()?;
        let mut examination = Self::empty(file.facts().name(), file.facts().size());
        let chosen = match file.superblock()? {
            Ok(counts) => found.iter().position(|of| of.location.version == counts.version),
            Err(error) => {
                examination.problems.push(error.to_string());
                // Sound ones come first: of two that contradict each other one is shown.
                let sound = found.iter().position(|of| of.fault.is_none());
                sound.or((!found.is_empty()).then_some(0))
            }
        };
        let Some(chosen) = chosen else {
            let holds = looks_like(file)?.map(|what| format!("it seems to hold {what}"));
            examination.problems.extend(holds);
            return Ok(examination);
        };
        let chosen = found.remove(chosen);
        examination.others = found.iter().map(other).collect();
        examination.superblock = Some(facts(&chosen, file.facts().size()));
        examination.look_beside(file, &chosen.superblock)?;
        Ok(examination)
    }

    /// Of a file that cannot be read: nothing but the reason.
    pub fn unreadable(path: &Path, error: &LookError) -> Self {
        let name = path.display().to_string();
        let reason = match std::error::Error::source(error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        };
        let mut examination = Self::empty(name.clone(), Sectors(0));
        let reason = reason.strip_prefix(&format!("{name}: ")).unwrap_or(&reason);
        examination.problems.push(reason.to_owned());
        examination
    }

    fn empty(file: String, device_size: Sectors) -> Self {
        Self {
            file,
            device_size_sectors: device_size.0,
            superblock: None,
            others: Vec::new(),
            bitmap: None,
            bad_blocks: None,
            ppl: None,
            journal: None,
            problems: Vec::new(),
        }
    }

    /// Whether there is md metadata on it at all.
    pub fn has_metadata(&self) -> bool {
        self.superblock.is_some()
    }
}

fn other(found: &Found) -> OtherSuperblock {
    OtherSuperblock {
        version: found.location.version.to_string(),
        at_sector: found.location.at.0,
        array_uuid: found.superblock.array_uuid.to_string(),
        problem: found.fault.as_ref().map(ToString::to_string),
    }
}

fn facts(found: &Found, device_size: Sectors) -> SuperblockFacts {
    let of = &found.superblock;
    let level = Level::from_numbers(of.level, of.layout, of.has(Features::RAID0_LAYOUT));
    let layout = level.as_ref().map(Level::to_string).unwrap_or_default();
    let geometry = of.geometry().ok();
    let array_size = geometry.and_then(|geometry| array_size(geometry, of.component_size));
    let features = match &of.details {
        Details::V0(_) => Features::default(),
        Details::V1(details) => details.features,
    };
    let checksum_expected = match &found.fault {
        Some(SuperblockError::Checksum { expected, .. }) => Some(*expected),
        _ => None,
    };
    SuperblockFacts {
        version: of.version.to_string(),
        super_offset_sectors: of.at.0,
        byte_order: byte_order(of),
        feature_map: features.0,
        features: features.names().collect(),
        array_uuid: of.array_uuid.to_string(),
        name: of.name(),
        created_seconds: of.created.seconds,
        updated_seconds: of.updated.seconds,
        level: level.map_or_else(|_| format!("-unknown- ({})", of.level), |of| of.name().into()),
        level_number: of.level,
        layout: (!layout.is_empty()).then_some(layout),
        layout_number: of.layout,
        chunk_bytes: of.chunk.0.saturating_mul(512),
        raid_devices: of.raid_disks,
        component_size_sectors: of.component_size.0,
        array_size_sectors: array_size.map(|size| size.0),
        data_offset_sectors: of.data_offset().0,
        data_size_sectors: of.data_size().0,
        new_offset_sectors: of.has(Features::NEW_OFFSET).then(|| of.new_data_offset().0),
        unused: unused(of, device_size),
        state: state(of),
        resync_offset_sectors: of.resync_offset().map(|at| at.0),
        recovery_offset_sectors: of.recovery_offset().map(|at| at.0),
        device_uuid: of.device_uuid().map(|uuid| uuid.to_string()),
        device_flags: device_flags(of),
        corrected_reads: match &of.details {
            Details::V0(_) => None,
            Details::V1(details) => Some(details.corrected_reads),
        },
        events: of.events,
        checksum: checksum_stored(found),
        checksum_expected,
        device_number: of.dev_number,
        role: role_words(of.role(), of.is_replacement()),
        roles: roles(of),
        array_state: array_state(of),
        reshape: reshape(of),
        devices: devices(of),
    }
}

fn byte_order(of: &Superblock) -> Option<&'static str> {
    match &of.details {
        Details::V0(details) if details.byte_order == ByteOrder::Big => Some("big"),
        Details::V0(_) => Some("little"),
        Details::V1(_) => None,
    }
}

fn state(of: &Superblock) -> &'static str {
    if of.resync_offset().is_none() { "clean" } else { "active" }
}

/// As mdadm has it, which keeps 36 KiB behind a superblock at the start free, as the kernel does.
fn unused(of: &Superblock, device_size: Sectors) -> Option<Unused> {
    const KEPT: Sectors = Sectors(72);
    let Details::V1(details) = &of.details else { return None };
    if details.features.intersects(Features::NEW_OFFSET) {
        return None;
    }
    let bitmap = of.bitmap_at();
    let others = [of.bad_block_log(), of.ppl()];
    let (before, after) = if of.version == Version::V1_0 {
        let starts = others.into_iter().flatten().map(|(at, _)| at).chain(bitmap);
        let first = starts.filter(|at| *at < of.at).min().unwrap_or(of.at).0;
        let data_end = details.data_offset.saturating_add(of.component_size.0);
        (0, first.saturating_sub(data_end))
    } else {
        let ends = others.into_iter().flatten().map(|(at, length)| at.0.saturating_add(length.0));
        let last = ends.max().unwrap_or(0).max(of.at.0 + KEPT.0);
        let data_end = details.data_offset.saturating_add(details.data_size);
        (details.data_offset.saturating_sub(last), device_size.0.saturating_sub(data_end))
    };
    Some(Unused { before_sectors: before, after_sectors: after })
}

fn device_flags(of: &Superblock) -> Vec<&'static str> {
    let fail_fast = matches!(
        &of.details, Details::V1(details) if details.device_flags & Version1::FAIL_FAST != 0
    );
    let flags = [(of.is_write_mostly(), "write-mostly"), (fail_fast, "failfast")];
    flags.into_iter().filter(|(on, _)| *on).map(|(_, name)| name).collect()
}

fn checksum_stored(found: &Found) -> u32 {
    let (offset, big) = match &found.superblock.details {
        Details::V0(details) => (38 * 4, details.byte_order == ByteOrder::Big),
        Details::V1(_) => (216, false),
    };
    let word = found.bytes[offset..offset + 4].try_into().expect("four bytes");
    if big { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) }
}

fn role_words(role: Role, replacement: bool) -> String {
    match role {
        Role::Active(slot) if replacement => format!("replacement {slot}"),
        Role::Active(slot) => format!("active {slot}"),
        Role::Spare => "spare".to_owned(),
        Role::Faulty => "faulty".to_owned(),
        Role::Journal => "journal".to_owned(),
    }
}

/// The roles up to the last device that has one.
fn roles(of: &Superblock) -> Vec<String> {
    let devices = match &of.details {
        Details::V0(details) => details.disks.len(),
        Details::V1(details) => details.roles.len(),
    };
    let known = (0..devices as u32).map(|number| of.role_of(number)).collect::<Vec<_>>();
    let used = known.iter().rposition(|role| *role != Role::Spare).map_or(0, |last| last + 1);
    known[..used.max(of.dev_number as usize + 1).min(known.len())]
        .iter()
        .map(|role| role_words(*role, false))
        .collect()
}

fn array_state(of: &Superblock) -> String {
    let devices = match &of.details {
        Details::V0(details) => details.disks.len(),
        Details::V1(details) => details.roles.len(),
    } as u32;
    let slots = of.raid_disks.min(raid::metadata::geometry::DEVICES_MAX);
    let mut counts = vec![0u32; slots as usize];
    for number in 0..devices {
        if let Role::Active(slot) = of.role_of(number)
            && let Some(count) = counts.get_mut(slot as usize)
        {
            *count += 1;
        }
    }
    let letter = |count| match count {
        0 => '.',
        1 => 'A',
        _ => 'R',
    };
    counts.into_iter().map(letter).collect()
}

fn reshape(of: &Superblock) -> Option<ReshapeFacts> {
    let under_way = of.reshape()?;
    let new = Level::from_numbers(under_way.new_level, under_way.new_layout, true);
    let new_layout = match &new {
        Ok(level) => level.to_string(),
        Err(_) => format!("{:#x}", under_way.new_layout),
    };
    let level_changes = under_way.new_level != of.level;
    let chunk_changes = under_way.new_chunk != of.chunk && under_way.new_chunk.0 != 0;
    Some(ReshapeFacts {
        position_sectors: under_way.position.0,
        backwards: under_way.backwards,
        delta_devices: under_way.delta_disks,
        new_level: level_changes.then(|| {
            new.map_or_else(
                |_| format!("-unknown- ({})", under_way.new_level),
                |of| of.name().into(),
            )
        }),
        new_layout: (under_way.new_layout != of.layout).then_some(new_layout),
        new_chunk_bytes: chunk_changes.then(|| under_way.new_chunk.bytes()),
    })
}

fn devices(of: &Superblock) -> Option<DeviceTable> {
    let Details::V0(details) = &of.details else { return None };
    let row = |disk: &Descriptor| DeviceRow {
        number: disk.number,
        major: disk.major,
        minor: disk.minor,
        raid_device: disk.raid_disk,
        state: disk.state,
    };
    let in_use = |(index, disk): &(usize, &Descriptor)| {
        *index < of.raid_disks as usize || **disk != Descriptor::default()
    };
    Some(DeviceTable {
        total: details.disks_total,
        active: details.disks_active,
        working: details.disks_working,
        failed: details.disks_failed,
        spare: details.disks_spare,
        preferred_minor: details.preferred_minor,
        this: row(&details.this_disk),
        rows: details.disks.iter().enumerate().filter(in_use).map(|(_, disk)| row(disk)).collect(),
    })
}

/// As mdadm prints a time: in the zone of whoever reads it.
pub fn time_words(time: Time) -> String {
    i64::try_from(time.seconds)
        .ok()
        .and_then(|seconds| jiff::Timestamp::from_second(seconds).ok())
        .map(|at| jiff::ZonedDateTime::new(at, jiff::tz::TimeZone::system()))
        .map_or_else(
            || format!("{} seconds after 1970", time.seconds),
            |at| at.strftime("%a %b %e %H:%M:%S %Y").to_string(),
        )
}

/// The first sector of something, for a message.
fn place(at: Sector) -> String {
    format!("sector {at}")
}
