//! Opens the arrays that Linux md made: from devices in any order to an array that is served.
//!
//! The superblocks are read, the rules of [`crate::metadata::assembly`] say who fills which role, and
//! what lies beside the superblocks (bad-block logs, the write-intent bitmap, the partial parity log
//! or the journal) is read and taken into account.
//!
//! - Without [`AssembleOptions::writable`] nothing is ever written to any device. A log that has to
//!   be replayed is replayed in memory: its result lies over what the members hold.
//! - An array that was not shut down cleanly is served as md would serve it: mirrors from the first
//!   copy, parity as it stands.
//! - An array in mid-reshape is two arrays over the same devices, parted at the reshape position; it
//!   is read only.

mod bitmaps;
mod create;
mod error;
mod geometry;
mod journal;
mod members;
mod ppl;
mod replay;
mod scan;
mod sides;

pub use create::{MakeError, make};
pub use error::OpenError;
pub use geometry::engine_level;
pub use sides::Assembled;

use crate::array::{Array, ArrayOptions};
use crate::layout::parity::ParityLayout;
use crate::member::MemberOptions;
use crate::metadata::assembly::{self, Assembly, Consistency};
use crate::metadata::bad_blocks::BadBlockLog;
use crate::metadata::bitmap::Bitmap;
use crate::metadata::geometry::Geometry;
use crate::metadata::identity::Time;
use crate::metadata::superblock::Superblock;
use crate::opening::{self, Use};
use crate::platform::{Cpu, Platform};
use crate::records::{RecordedDevice, RecordsSeed};
use crate::tuning::Tuning;
use crate::units::{MemberIndex, Sector};
use scan::Scanned;
use sides::Body;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What a person allows, and how to serve.
#[derive(Clone, Copy, Debug, Default)]
pub struct AssembleOptions {
    /// What the rules of assembly allow.
    pub rules: assembly::Options,
    /// Allow writes, and keep the metadata up to date as md does.
    pub writable: bool,
    /// Put spares into empty roles, to be filled by [`Array::rebuild`]. Only if writable.
    pub take_spares: bool,
    /// The time of day, for superblocks that are written.
    pub now: Time,
    /// Which strategies guard what requests share.
    pub tuning: Tuning,
}

/// Which side of a reshape; an array without one is all before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The geometry that it comes from.
    Before,
    /// The geometry that it goes to.
    After,
}

/// Opens the array that the devices make up, given in any order, spares and others too.
///
/// # Errors
/// [`OpenError`]; nothing was written then.
pub async fn assemble<P: Platform>(
    cpu: &P::Cpu,
    devices: Vec<Arc<P::Device>>,
    options: AssembleOptions,
) -> Result<Assembled<P>, OpenError> {
    let tolerant = options.rules.degraded;
    let mut scanned = scan::scan::<P>(cpu, devices, tolerant).await?;
    let mut logs = members::read_bad_block_logs(cpu, &mut scanned, tolerant).await;
    let mut assembly = assembly::assemble(&scanned.candidates, options.rules)?;
    if options.writable {
        check_writable(&assembly)?;
        check_numbers(&scanned, &assembly)?;
    }
    if options.writable && options.take_spares {
        members::take_spares(&scanned, &mut assembly);
    }
    let mut logs_in_use = vec![None; logs.len()];
    for index in assembly.slots.iter().flat_map(|slot| slot.devices()) {
        logs_in_use[index] = std::mem::replace(&mut logs[index], Ok(None))?;
    }
    let bitmap = bitmaps::read_bitmap(cpu, &scanned, &assembly, options.rules.force).await?;
    let opening = Opening { scanned: &scanned, assembly: &assembly, logs: &logs_in_use, options };
    let body = match assembly.reshaping {
        None => Body::Whole(opening.open_whole(cpu, bitmap).await?),
        Some(of) => {
            if matches!(assembly.consistency, Consistency::Journal) {
                return Err(OpenError::ReshapeWithLog { log: "write journal" });
            }
            if matches!(assembly.consistency, Consistency::PartialParityLog) {
                return Err(OpenError::ReshapeWithLog { log: "partial parity log" });
            }
            let before = opening.open_side(cpu, of.before, Side::Before).await?;
            let after = opening.open_side(cpu, of.after, Side::After).await?;
            Body::Reshaping { before, after, of }
        }
    };
    Ok(Assembled::new(assembly, body))
}

/// An event count from which on it could come to its end while the array runs; at a million events a
/// second that takes 292 thousand years.
const EVENTS_MAX: u64 = u64::MAX / 2;

/// What keeps an array that can be read from being written.
fn check_writable(assembly: &Assembly) -> Result<(), OpenError> {
    let not = |reason| Err(OpenError::NotWritable { reason });
    if assembly.reshaping.is_some() {
        return not("it is in the middle of a reshape; let md finish that first");
    }
    if !assembly.concessions.is_empty() {
        return not(
            "it is served only by --force, and what that gives up must not be written down",
        );
    }
    if assembly.events > EVENTS_MAX {
        return not(
            "its event count is near the highest that there is, and each change needs more",
        );
    }
    match assembly.consistency {
        Consistency::Journal => not("it has a write journal, which is not kept up to date here"),
        Consistency::PartialParityLog => {
            not("it has a partial parity log, which is not kept up to date here")
        }
        Consistency::None | Consistency::Resync | Consistency::Bitmap => Ok(()),
    }
}

/// Whether each superblock has a place for the role of every device that is in use.
fn check_numbers<P: Platform>(scanned: &Scanned<P>, assembly: &Assembly) -> Result<(), OpenError> {
    let in_slots = assembly.slots.iter().flat_map(|slot| slot.devices());
    let in_use: Vec<&Superblock> = in_slots
        .chain(assembly.spares.iter().copied())
        .map(|device| scanned.superblock(device))
        .collect();
    let not = |reason| Err(OpenError::NotWritable { reason });
    let numbers: BTreeSet<u32> = in_use.iter().map(|of| of.dev_number).collect();
    if numbers.len() < in_use.len() {
        return not("two of its devices have one number, so one's role would hide the other's; \
                    leave out the one that is no member");
    }
    let highest = numbers.last().copied().unwrap_or(0);
    match in_use.iter().all(|of| of.has_room_for(highest)) {
        true => Ok(()),
        false => not("the number of one of its devices is higher than the table of roles can hold"),
    }
}

/// What an array is opened from.
struct Opening<'a, P: Platform> {
    scanned: &'a Scanned<P>,
    assembly: &'a Assembly,
    logs: &'a [Option<BadBlockLog>],
    options: AssembleOptions,
}

impl<P: Platform> Opening<'_, P> {
    fn members(&self, geometry: Geometry, side: Side) -> Vec<MemberOptions<P>> {
        members::members(self.scanned, self.assembly, self.logs, geometry.raid_disks, side)
    }

    /// An array without a reshape.
    async fn open_whole(
        &self,
        cpu: &P::Cpu,
        bitmap: Option<Bitmap>,
    ) -> Result<Arc<Array<P>>, OpenError> {
        let geometry = self.assembly.geometry;
        let mut members = self.members(geometry, Side::Before);
        if !self.options.writable {
            self.replay_log(cpu, &mut members).await?;
            return self.open(cpu, geometry, members, Use::ReadOnly).await;
        }
        if !geometry.level.is_redundant() {
            return self.open(cpu, geometry, members, Use::Bare).await;
        }
        let seed = RecordsSeed {
            devices: self.recorded_devices(),
            bitmap,
            events: self.assembly.events,
            resync_offset: self.assembly.resync_offset,
            opened: self.options.now,
            opened_ns: cpu.now_ns(),
        };
        self.open(cpu, geometry, members, Use::Recorded(Box::new(seed))).await
    }

    /// One side of a reshape.
    async fn open_side(
        &self,
        cpu: &P::Cpu,
        geometry: Geometry,
        side: Side,
    ) -> Result<Arc<Array<P>>, OpenError> {
        self.open(cpu, geometry, self.members(geometry, side), Use::ReadOnly).await
    }

    async fn open(
        &self,
        cpu: &P::Cpu,
        geometry: Geometry,
        members: Vec<MemberOptions<P>>,
        purpose: Use<P>,
    ) -> Result<Arc<Array<P>>, OpenError> {
        let (level, chunk) = geometry::engine_level(geometry);
        let options = ArrayOptions { level, chunk, tuning: self.options.tuning };
        let array = opening::open_assembled(cpu.platform(), members, options, purpose)?;
        if self.assembly.resync_offset.is_some() {
            array.distrust_copies(cpu).await;
        }
        Ok(array)
    }

    /// The devices whose superblocks are kept up to date: members, replacements and spares.
    fn recorded_devices(&self) -> Vec<RecordedDevice<P>> {
        let slots = &self.assembly.slots;
        let roles = slots.len() as u32;
        let originals = slots.iter().zip(0..).map(|(slot, role)| (slot.original, Some(role)));
        let replacements = slots.iter().filter_map(|slot| slot.replacement).zip(roles..);
        let replacements = replacements.map(|(device, index)| (Some(device), Some(index)));
        let spares = self.assembly.spares.iter().map(|device| (Some(*device), None));
        let all = originals.chain(replacements).chain(spares);
        all.filter_map(|(device, index)| {
            let device = device?;
            Some(RecordedDevice {
                device: Arc::clone(&self.scanned.devices[device]),
                superblock: self.scanned.superblock(device).clone(),
                member: index.map(MemberIndex),
                bad_blocks: self.logs[device].clone(),
            })
        })
        .collect()
    }

    /// Replays the partial parity log or the journal, if the array has one, into patches of the
    /// members.
    async fn replay_log(
        &self,
        cpu: &P::Cpu,
        members: &mut [MemberOptions<P>],
    ) -> Result<(), OpenError> {
        let dirty = self.assembly.resync_offset.is_some();
        let layout = match self.assembly.consistency {
            Consistency::Journal if self.assembly.journal.is_some() => self.parity_layout(),
            Consistency::PartialParityLog if dirty => self.parity_layout(),
            _ => return Ok(()),
        };
        let mut replay = replay::Replay::new(members, layout);
        match self.assembly.journal {
            Some(index) => {
                let blocks = journal::replay(cpu, self.scanned, index, &mut replay).await?;
                tracing::info!(blocks, "journal replayed in memory");
            }
            None => {
                let outcome = ppl::replay(cpu, self.scanned, self.assembly, &mut replay).await?;
                tracing::info!(entries = outcome.entries, "partial parity log replayed in memory");
                let degraded = self.assembly.slots.iter().any(|slot| !slot.in_sync);
                if let Some(damage) =
                    outcome.damage.filter(|_| degraded && !self.options.rules.force)
                {
                    return Err(damage);
                }
            }
        }
        let patches = replay.finish();
        for (member, patches) in members.iter_mut().zip(patches) {
            for device in [&mut member.device, &mut member.replacement].into_iter().flatten() {
                device.patches = patches.clone();
            }
        }
        Ok(())
    }

    fn parity_layout(&self) -> ParityLayout {
        let geometry = self.assembly.geometry;
        let kind =
            geometry::parity_kind(geometry.level).expect("only levels with parity have logs");
        let size = self.assembly.component_size;
        ParityLayout::new(kind, geometry.raid_disks, geometry.chunk, size)
    }
}

/// Where the two geometries of a reshape part, for [`sides`].
pub(crate) fn is_before(of: &assembly::Reshaping, at: Sector) -> bool {
    // Forwards, what lies below the position has been moved; backwards, what lies above.
    if of.backwards { at < of.position } else { at >= of.position }
}
