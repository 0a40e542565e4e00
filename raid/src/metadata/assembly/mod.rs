//! Assembling: from what the members say, in any order, to who fills which role.
//!
//! The rules are md's, and stricter where md would guess:
//!
//! - The freshest superblock (the most events) decides. A lag of one event is what a power cut
//!   between two writes leaves, and is accepted; a lag of two is not.
//! - A role is what a superblock's table says of its own device number. A member that failed keeps
//!   its old role and its old events: only the fresher superblocks disown it.
//! - Members that the freshest superblock itself knows to be gone are not missed. If one is absent
//!   that it counts on, [`Options::degraded`] has to allow it.
//! - Parity of an array that was not shut down cleanly may be wrong, so it is not used to make up
//!   for a missing member, unless a partial parity log or a journal repairs it or
//!   [`Options::force`] gives the guarantee up.
//! - Two devices in one role, members of two arrays, or superblocks of one age that tell different
//!   things are errors. md would take whichever came first.
//!
//! Reads nothing and writes nothing: superblocks in, roles out.

mod capacity;
mod error;
mod redundancy;
mod roles;
mod take_back;

#[cfg(test)]
mod verdicts;

pub use capacity::{array_size, sync_space};
pub use error::AssembleError;
pub use roles::{LeftOut, LeftOutReason, Slot};

use super::geometry::{Geometry, Level, Raid0Layout};
use super::identity::Uuid;
use super::superblock::{Features, Superblock, SuperblockError, Version};
use crate::units::{Sector, Sectors};

/// A device that may be a member.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// What a person calls it.
    pub name: String,
    /// Its size.
    pub size: Sectors,
    /// What was found on it.
    pub superblock: Result<Superblock, SuperblockError>,
}

/// What a person allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Go on without members that the array counts on, as long as the level tolerates it. Devices
    /// whose superblock is damaged or too old are then left out.
    pub degraded: bool,
    /// Go on although data may be wrong: a parity array that is both dirty and degraded, an array
    /// whose journal is gone, or one that needs members that it went on without. What it gave up is
    /// in [`Assembly::concessions`].
    pub force: bool,
    /// How RAID 0 is laid out where the superblock does not say.
    pub raid0_layout: Option<Raid0Layout>,
}

/// An array, put together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assembly {
    /// The superblocks' version.
    pub version: Version,
    /// The array's UUID.
    pub array_uuid: Uuid,
    /// Level, layout, chunk, members. In a reshape, those it had before are in
    /// [`Reshaping::before`].
    pub geometry: Geometry,
    /// What the array uses of each member; zero on RAID 0 and linear, which use all.
    pub component_size: Sectors,
    /// The freshest event count.
    pub events: u64,
    /// The device that holds the freshest superblock.
    pub freshest: usize,
    /// Who fills each role. Indices are those of the candidates.
    pub slots: Vec<Slot>,
    /// Devices that wait for a role.
    pub spares: Vec<usize>,
    /// The device that holds the write journal.
    pub journal: Option<usize>,
    /// Devices that are not used, and why.
    pub left_out: Vec<LeftOut>,
    /// Up to which sector of the members redundancy is known to agree; `None` where it agrees
    /// everywhere. With a bitmap, only what the bitmap marks has to be looked at.
    pub resync_offset: Option<Sector>,
    /// How redundancy is brought to agree after a crash.
    pub consistency: Consistency,
    /// The reshape under way.
    pub reshaping: Option<Reshaping>,
    /// What was given up.
    pub concessions: Vec<Concession>,
}

/// How redundancy is brought to agree after a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consistency {
    /// There is none to keep.
    None,
    /// From the resync offset to the end.
    Resync,
    /// What the write-intent bitmap marks.
    Bitmap,
    /// From the partial parity log.
    PartialParityLog,
    /// From the write journal.
    Journal,
}

/// A reshape under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reshaping {
    /// The sector of the array that parts the two geometries.
    pub position: Sector,
    /// Whether the new geometry holds from there on rather than up to there.
    pub backwards: bool,
    /// The geometry that the array comes from. Its data starts at each member's data offset.
    pub before: Geometry,
    /// The geometry that it goes to. Its data starts at each member's new data offset.
    pub after: Geometry,
}

/// What `force` gave up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Concession {
    /// Missing chunks are computed from parity that may be wrong.
    WriteHole,
    /// What only the journal held is lost; serve read-only.
    JournalLost,
    /// A member lacks what was written after the array went on without it.
    StaleMember {
        /// Its index among the candidates.
        device: usize,
        /// Its event count.
        events: u64,
        /// That of the freshest member.
        freshest_events: u64,
    },
}

/// Assembles an array of the devices.
///
/// # Errors
/// [`AssembleError`], one for each rule.
pub fn assemble(devices: &[Candidate], options: Options) -> Result<Assembly, AssembleError> {
    let mut cast = roles::cast(devices, options)?;
    let fresh = cast.fresh;
    if fresh.has(Features::CLUSTERED) {
        return Err(AssembleError::Unsupported {
            feature: "clustered",
            reason: "other machines may be writing to it",
        });
    }
    let mut geometry = fresh.geometry().map_err(|cause| cast.unusable(cast.freshest, cause))?;
    if let (Level::Raid0(Raid0Layout::Unstated), Some(stated)) =
        (geometry.level, options.raid0_layout)
    {
        geometry.level = Level::Raid0(stated);
    }
    let reshaping = reshaping(fresh, geometry)?;
    let mut concessions = match options.force {
        true => take_back::take_back(&mut cast, geometry)?,
        false => Vec::new(),
    };
    if !options.degraded {
        cast.check_nobody_stale_is_missed()?;
    }
    redundancy::check_members(&cast, geometry, options)?;
    check_sizes(&cast, geometry)?;
    let consistency = consistency(fresh, geometry.level);
    let resync_offset = if geometry.level.is_redundant() { fresh.resync_offset() } else { None };
    if consistency == Consistency::Journal && cast.journal.is_none() {
        if !options.force {
            return Err(AssembleError::JournalMissing);
        }
        concessions.push(Concession::JournalLost);
    }
    let unsynced = cast.unsynced_slots();
    let parity_in_doubt = geometry.level.has_parity()
        && resync_offset.is_some()
        && !unsynced.is_empty()
        && !matches!(consistency, Consistency::PartialParityLog | Consistency::Journal);
    if parity_in_doubt {
        if !options.force {
            return Err(AssembleError::DirtyAndDegraded { missing: unsynced });
        }
        concessions.push(Concession::WriteHole);
    }
    Ok(Assembly {
        version: fresh.version,
        array_uuid: fresh.array_uuid,
        geometry,
        component_size: fresh.component_size,
        events: fresh.events,
        freshest: cast.freshest,
        resync_offset,
        consistency,
        reshaping,
        concessions,
        slots: cast.slots,
        spares: cast.spares,
        journal: cast.journal,
        left_out: cast.left_out,
    })
}

fn consistency(fresh: &Superblock, level: Level) -> Consistency {
    if !level.is_redundant() {
        Consistency::None
    } else if fresh.has(Features::JOURNAL) {
        Consistency::Journal
    } else if fresh.ppl().is_some() {
        Consistency::PartialParityLog
    } else if fresh.bitmap_at().is_some() {
        Consistency::Bitmap
    } else {
        Consistency::Resync
    }
}

/// Both sides of the reshape under way. `raid_disks` counts the members that it adds already.
fn reshaping(fresh: &Superblock, geometry: Geometry) -> Result<Option<Reshaping>, AssembleError> {
    let Some(of) = fresh.reshape() else { return Ok(None) };
    let wrong = |reason| AssembleError::ReshapePosition { position: of.position, reason };
    if !matches!(
        geometry.level,
        Level::Raid4 | Level::Raid5(_) | Level::Raid6(_) | Level::Raid10(_)
    ) {
        return Err(wrong("the level is never reshaped"));
    }
    let disks_before = i64::from(geometry.raid_disks) - i64::from(of.delta_disks);
    let disks_before =
        u32::try_from(disks_before).map_err(|_| wrong("delta disks is too large"))?;
    let new_chunk = if of.new_chunk.0 == 0 { geometry.chunk } else { of.new_chunk };
    let new_level = Level::from_numbers(of.new_level, of.new_layout, true)?;
    let before = Geometry::new(geometry.level, geometry.chunk, disks_before)?;
    let after = Geometry::new(new_level, new_chunk, geometry.raid_disks)?;
    let sectors_max =
        u128::from(fresh.component_size.0) * u128::from(geometry.raid_disks.max(disks_before));
    if u128::from(of.position.0) > sectors_max {
        return Err(wrong("it lies beyond the array's end"));
    }
    Ok(Some(Reshaping { position: of.position, backwards: of.backwards, before, after }))
}

/// Whether each member holds what the array uses of it.
fn check_sizes(cast: &roles::Cast<'_>, geometry: Geometry) -> Result<(), AssembleError> {
    let members = || cast.slots.iter().flat_map(Slot::devices);
    if let Level::Raid0(layout) = geometry.level {
        let rounded = |device: usize| {
            let size = cast.superblock(device).data_size();
            size.0 / geometry.chunk.0
        };
        let mut sizes = members().map(rounded);
        let first = sizes.next();
        let zones_differ = sizes.any(|size| Some(size) != first);
        if layout == Raid0Layout::Unstated && zones_differ {
            return Err(AssembleError::Raid0LayoutUnstated);
        }
        return Ok(());
    }
    if geometry.level == Level::Linear {
        return Ok(());
    }
    let component_size = cast.fresh.component_size;
    for device in members() {
        let data_size = cast.superblock(device).data_size();
        if component_size > data_size {
            let device = cast.name(device);
            return Err(AssembleError::ComponentBeyondData { device, component_size, data_size });
        }
        let superblock = cast.superblock(device);
        let moved_end = superblock.new_data_offset().0.checked_add(component_size.0);
        let device_size = cast.devices[device].size;
        if moved_end.is_none_or(|end| end > device_size.0) {
            let cause = SuperblockError::DataBeyondDevice {
                data_offset: superblock.new_data_offset(),
                data_size: component_size,
                device_size,
            };
            return Err(cast.unusable(device, cause));
        }
    }
    Ok(())
}
