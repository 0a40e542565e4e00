//! From the devices in their roles to the members that the engine opens: where the data of each
//! lies, what of it is whole, which of its sectors are bad.

use super::scan::Scanned;
use super::{OpenError, Side};
use crate::bad_blocks::{self, BadBlocks};
use crate::device::Device;
use crate::member::{MemberDevice, MemberOptions};
use crate::metadata::assembly::Assembly;
use crate::metadata::bad_blocks::BadBlockLog;
use crate::metadata::superblock::{Details, Features, Role, Superblock, SuperblockError};
use crate::patches::Patches;
use crate::platform::Platform;
use crate::request::Extent;
use crate::sector_io;
use crate::units::{Sector, Sectors};
use std::sync::Arc;

impl<P: Platform> Scanned<P> {
    /// The superblock of a device that has a role.
    pub(super) fn superblock(&self, device: usize) -> &Superblock {
        self.candidates[device].superblock.as_ref().expect("only devices with one have a role")
    }
}

/// The bad-block log of each device that has one. With `tolerant`, a device whose log cannot be had
/// counts as one without a superblock: md refuses it as well.
pub(super) async fn read_bad_block_logs<P: Platform>(
    cpu: &P::Cpu,
    scanned: &mut Scanned<P>,
    tolerant: bool,
) -> Vec<Result<Option<BadBlockLog>, OpenError>> {
    let mut logs = Vec::with_capacity(scanned.devices.len());
    for (device, candidate) in scanned.devices.iter().zip(&mut scanned.candidates) {
        let log = match &candidate.superblock {
            Ok(superblock) => read_bad_block_log::<P>(cpu, device, superblock).await,
            Err(_) => Ok(None),
        };
        if log.is_err() && tolerant {
            candidate.superblock = Err(SuperblockError::Beside { what: "bad-block log" });
        }
        logs.push(log);
    }
    logs
}

async fn read_bad_block_log<P: Platform>(
    cpu: &P::Cpu,
    device: &P::Device,
    superblock: &Superblock,
) -> Result<Option<BadBlockLog>, OpenError> {
    let (Details::V1(details), Some((at, length))) =
        (&superblock.details, superblock.bad_block_log())
    else {
        return Ok(None);
    };
    let name = || device.name().to_owned();
    // Without the feature bit the log is empty, whatever lies in its place.
    let log = if superblock.has(Features::BAD_BLOCKS) {
        let bytes = sector_io::read::<P>(cpu, device, Extent { at, length }).await;
        let unreadable =
            |cause| OpenError::Unreadable { device: name(), what: "bad-block log", cause };
        BadBlockLog::decode(&bytes.map_err(unreadable)?, length, details.bad_block_shift)
    } else {
        BadBlockLog::new(length, details.bad_block_shift)
    };
    log.map(Some).map_err(|cause| OpenError::BadBlocks { device: name(), cause })
}

/// Puts spares into roles that nobody fills, to be rebuilt there.
pub(super) fn take_spares<P: Platform>(scanned: &Scanned<P>, assembly: &mut Assembly) {
    let level = assembly.geometry.level;
    if !level.is_redundant() {
        return;
    }
    let component_size = assembly.component_size;
    for slot in assembly.slots.iter_mut().filter(|slot| slot.is_empty()) {
        let fits = |device: &usize| scanned.superblock(*device).data_size() >= component_size;
        let Some(place) = assembly.spares.iter().position(fits) else { return };
        slot.original = Some(assembly.spares.remove(place));
    }
}

/// The members of one side of the array in the order of their roles.
pub(super) fn members<P: Platform>(
    scanned: &Scanned<P>,
    assembly: &Assembly,
    logs: &[Option<BadBlockLog>],
    raid_disks: u32,
    side: Side,
) -> Vec<MemberOptions<P>> {
    let member = |device| member::<P>(scanned, assembly, logs, device, side);
    let slots = assembly.slots.iter().take(raid_disks as usize);
    slots
        .map(|slot| MemberOptions {
            device: slot.original.map(member),
            replacement: slot.replacement.map(member),
        })
        .collect()
}

/// How much of a member the array may use.
pub(super) fn usable(assembly: &Assembly, superblock: &Superblock) -> Sectors {
    match assembly.geometry.level.is_redundant() {
        true => assembly.component_size,
        false => superblock.data_size(),
    }
}

fn member<P: Platform>(
    scanned: &Scanned<P>,
    assembly: &Assembly,
    logs: &[Option<BadBlockLog>],
    index: usize,
    side: Side,
) -> MemberDevice<P> {
    let superblock = scanned.superblock(index);
    let data_start = match side {
        Side::Before => superblock.data_offset(),
        Side::After => superblock.new_data_offset(),
    };
    let data_length = usable(assembly, superblock);
    // A recovery that has come to its end is one that nobody has written down yet.
    let recovery_point = match superblock.role() {
        // A spare that was put into a role.
        Role::Spare => Some(Sector(0)),
        _ => superblock.recovery_offset().filter(|at| at.0 < data_length.0),
    };
    let data = Extent { at: data_start, length: data_length };
    MemberDevice {
        device: Arc::clone(&scanned.devices[index]),
        data_start,
        data_length,
        recovery_point,
        write_mostly: superblock.is_write_mostly(),
        bad_blocks: logs[index].as_ref().map(|log| bad_blocks_within(log, data)),
        patches: Patches::default(),
    }
}

/// The part of a log that concerns the member's data, counted from its start. The room that it has
/// is what entries for sectors outside of the data leave.
fn bad_blocks_within(log: &BadBlockLog, data: Extent) -> BadBlocks {
    let inside = |(at, length): (Sector, Sectors)| {
        let (start, end) = (at.max(data.at), (at + length).min(data.end()));
        let at = Sector(start.0.saturating_sub(data.at.0));
        (start < end).then(|| Extent { at, length: end - start })
    };
    let outside: Vec<Extent> = log
        .ranges()
        .flat_map(|(at, length)| (Extent { at, length }).without(data))
        .flatten()
        .collect();
    let room = log.entries_max().saturating_sub(bad_blocks::entries(&outside));
    BadBlocks::with_extents(room, log.ranges().filter_map(inside))
}
