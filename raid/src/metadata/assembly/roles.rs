//! Who plays which role: the freshest superblock, those that agree with it, and those left out.

use super::{AssembleError, Candidate, Options};
use crate::metadata::superblock::{Role, Superblock, SuperblockError};
use crate::units::Sector;
use std::fmt;

/// How many events a member may lag: a power cut between the writes of two superblocks.
const LAG_MAX: u64 = 1;

/// A role's devices, as indices of the candidates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    /// The device that fills the role.
    pub original: Option<usize>,
    /// The device that is to take its place. Where the original is gone or fails, it serves what
    /// is rebuilt of it.
    pub replacement: Option<usize>,
    /// Whether one of them holds all of the role's data.
    pub in_sync: bool,
}

impl Slot {
    /// Its devices, the original first.
    pub fn devices(&self) -> impl Iterator<Item = usize> + use<> {
        self.original.into_iter().chain(self.replacement)
    }

    /// Whether it has no device at all.
    pub fn is_empty(&self) -> bool {
        self.original.is_none() && self.replacement.is_none()
    }
}

/// A device that is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Its index among the candidates.
    pub device: usize,
    /// Why.
    pub reason: LeftOutReason,
}

/// Why a device is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeftOutReason {
    /// No superblock that may be used.
    Unusable(SuperblockError),
    /// It was thrown out, as fresher superblocks know.
    Disowned {
        /// The role that it had.
        role: u32,
    },
    /// It was thrown out, as it knows itself.
    Faulty,
    /// It lags too many events behind.
    Stale {
        /// Its event count.
        events: u64,
        /// That of the freshest member.
        freshest_events: u64,
    },
}

impl fmt::Display for LeftOutReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unusable(error) => write!(formatter, "{error}"),
            Self::Disowned { role } => {
                write!(formatter, "had role {role}, but was thrown out since")
            }
            Self::Faulty => formatter.write_str("was marked faulty"),
            Self::Stale { events, freshest_events } => {
                write!(formatter, "is at event {events}, but the freshest at {freshest_events}")
            }
        }
    }
}

/// The devices in their roles.
pub(super) struct Cast<'devices> {
    pub(super) devices: &'devices [Candidate],
    pub(super) fresh: &'devices Superblock,
    pub(super) freshest: usize,
    pub(super) slots: Vec<Slot>,
    pub(super) spares: Vec<usize>,
    pub(super) journal: Option<usize>,
    pub(super) left_out: Vec<LeftOut>,
}

impl Cast<'_> {
    pub(super) fn name(&self, device: usize) -> String {
        self.devices[device].name.clone()
    }

    /// The superblock of a device that has a role.
    pub(super) fn superblock(&self, device: usize) -> &Superblock {
        self.devices[device].superblock.as_ref().expect("only devices with one have a role")
    }

    pub(super) fn unusable(&self, device: usize, cause: SuperblockError) -> AssembleError {
        AssembleError::Unusable { device: self.name(device), cause }
    }

    /// The slots without a device that holds all of its data.
    pub(super) fn unsynced_slots(&self) -> Vec<u32> {
        self.slots_where(|slot| !slot.in_sync)
    }

    /// The slots for which the predicate holds.
    pub(super) fn slots_where(&self, holds: impl Fn(&Slot) -> bool) -> Vec<u32> {
        let indexed = self.slots.iter().enumerate();
        indexed.filter(|(_, slot)| holds(slot)).map(|(index, _)| index as u32).collect()
    }

    /// The devices left out with their reasons, for a message.
    pub(super) fn left_out_lines(&self) -> Vec<String> {
        let line = |of: &LeftOut| format!("{} {}", self.devices[of.device].name, of.reason);
        self.left_out.iter().map(line).collect()
    }

    /// A member that lags too far is no matter where another one fills its role by now, nor where
    /// the freshest superblock does not count on it. A journal that lags is as good as none, and
    /// that has an error of its own.
    pub(super) fn check_nobody_stale_is_missed(&self) -> Result<(), AssembleError> {
        for of in &self.left_out {
            let LeftOutReason::Stale { events, freshest_events } = of.reason else { continue };
            let Role::Active(role) = self.superblock(of.device).role() else { continue };
            if self.slots.get(role as usize).is_some_and(Slot::is_empty) {
                let (device, freshest) = (self.name(of.device), self.name(self.freshest));
                return Err(AssembleError::Stale { device, events, freshest, freshest_events });
            }
        }
        Ok(())
    }

    /// Gives a device that was left out its role all the same.
    pub(super) fn put_back(&mut self, device: usize, role: u32) -> Result<(), AssembleError> {
        let devices = self.devices;
        let of = devices[device].superblock.as_ref().expect("whoever had a role has one");
        check_agreement(self, device, of)?;
        self.left_out.retain(|left_out| left_out.device != device);
        fill(self, device, of, role)
    }

    fn leave_out(&mut self, device: usize, reason: LeftOutReason) {
        self.left_out.push(LeftOut { device, reason });
    }
}

/// Gives every device its role.
pub(super) fn cast(devices: &[Candidate], options: Options) -> Result<Cast<'_>, AssembleError> {
    if devices.is_empty() {
        return Err(AssembleError::NoMembers);
    }
    let mut usable: Vec<(usize, &Superblock)> = Vec::new();
    let mut left_out = Vec::new();
    for (device, candidate) in devices.iter().enumerate() {
        match &candidate.superblock {
            Ok(superblock) => usable.push((device, superblock)),
            Err(cause) if options.degraded => {
                left_out.push(LeftOut { device, reason: LeftOutReason::Unusable(cause.clone()) });
            }
            Err(cause) => return Err(unusable(candidate, cause)),
        }
    }
    let Some((freshest, fresh)) = freshest(&usable) else {
        let cause = devices[0].superblock.as_ref().expect_err("no superblock may be used");
        return Err(unusable(&devices[0], cause));
    };
    check_one_array(devices, &usable)?;
    // A shrinking reshape still needs the members that it takes away.
    let gone = fresh.reshape().map_or(0, |of| of.delta_disks.min(0).unsigned_abs());
    let slots_count =
        fresh.raid_disks.saturating_add(gone).min(super::super::geometry::DEVICES_MAX);
    let slots = vec![Slot::default(); slots_count as usize];
    let (spares, journal) = (Vec::new(), None);
    let mut cast = Cast { devices, fresh, freshest, slots, spares, journal, left_out };
    for (device, superblock) in usable {
        place(&mut cast, device, superblock)?;
    }
    Ok(cast)
}

fn unusable(candidate: &Candidate, cause: &SuperblockError) -> AssembleError {
    AssembleError::Unusable { device: candidate.name.clone(), cause: cause.clone() }
}

/// The superblock with the most events; of several, the first in the order of device numbers, so
/// that the order in which devices are given does not matter.
fn freshest<'of>(usable: &[(usize, &'of Superblock)]) -> Option<(usize, &'of Superblock)> {
    let order = |of: &&(usize, &Superblock)| (of.1.events, std::cmp::Reverse(of.1.dev_number));
    usable.iter().max_by_key(order).copied()
}

fn check_one_array(
    devices: &[Candidate],
    usable: &[(usize, &Superblock)],
) -> Result<(), AssembleError> {
    let (first, reference) = usable[0];
    match usable.iter().find(|(_, other)| other.array_uuid != reference.array_uuid) {
        None => Ok(()),
        Some((second, other)) => Err(AssembleError::TwoArrays {
            first: devices[first].name.clone(),
            first_uuid: reference.array_uuid,
            second: devices[*second].name.clone(),
            second_uuid: other.array_uuid,
        }),
    }
}

/// What the superblocks of one array have to agree on, in words.
fn facts(of: &Superblock) -> [(&'static str, String); 7] {
    [
        ("metadata version", of.version.to_string()),
        ("creation time", format!("{}.{:06}", of.created.seconds, of.created.microseconds)),
        ("level", of.level.to_string()),
        ("layout", format!("{:#x}", of.layout)),
        ("component size", of.component_size.to_string()),
        ("chunk", of.chunk.to_string()),
        ("number of raid devices", of.raid_disks.to_string()),
    ]
}

fn check_agreement(cast: &Cast<'_>, device: usize, of: &Superblock) -> Result<(), AssembleError> {
    let pairs = facts(of).into_iter().zip(facts(cast.fresh));
    for ((field, found), (_, expected)) in pairs {
        if found != expected {
            let (device, reference) = (cast.name(device), cast.name(cast.freshest));
            return Err(AssembleError::Disagreement { field, device, found, reference, expected });
        }
    }
    Ok(())
}

/// Gives one device its role, or leaves it out.
fn place(cast: &mut Cast<'_>, device: usize, of: &Superblock) -> Result<(), AssembleError> {
    let (own, known) = (of.role(), cast.fresh.role_of(of.dev_number));
    let lags = cast.fresh.events - of.events > LAG_MAX;
    match own {
        Role::Faulty => cast.leave_out(device, LeftOutReason::Faulty),
        // What it says of the array would be written down again, as fresh.
        Role::Spare if lags && facts(of) != facts(cast.fresh) => {
            let freshest_events = cast.fresh.events;
            cast.leave_out(device, LeftOutReason::Stale { events: of.events, freshest_events });
        }
        Role::Spare => {
            // A spare holds nothing, so how old it is does not matter.
            if !lags {
                check_agreement(cast, device, of)?;
            }
            cast.spares.push(device);
        }
        Role::Active(role) if own != known && of.events < cast.fresh.events => {
            cast.leave_out(device, LeftOutReason::Disowned { role });
        }
        Role::Active(_) | Role::Journal if lags => {
            let freshest_events = cast.fresh.events;
            cast.leave_out(device, LeftOutReason::Stale { events: of.events, freshest_events });
        }
        Role::Active(_) | Role::Journal if own != known => {
            let (reference, field) = (cast.name(cast.freshest), "the role");
            let (found, expected) = (format!("{own:?}"), format!("{known:?}"));
            let device = cast.name(device);
            return Err(AssembleError::Disagreement { field, device, found, reference, expected });
        }
        Role::Journal => {
            check_agreement(cast, device, of)?;
            if let Some(first) = cast.journal.replace(device) {
                let (first, second) = (cast.name(first), cast.name(device));
                return Err(AssembleError::TwoJournals { first, second });
            }
        }
        Role::Active(role) => {
            check_agreement(cast, device, of)?;
            fill(cast, device, of, role)?;
        }
    }
    Ok(())
}

fn fill(
    cast: &mut Cast<'_>,
    device: usize,
    of: &Superblock,
    role: u32,
) -> Result<(), AssembleError> {
    let Some(slot) = cast.slots.get_mut(role as usize) else {
        // md takes a device with a role that the array has not for a spare.
        cast.spares.push(device);
        return Ok(());
    };
    let place = if of.is_replacement() { &mut slot.replacement } else { &mut slot.original };
    if let Some(first) = place.replace(device) {
        let (first, second) = (cast.name(first), cast.name(device));
        return Err(AssembleError::TwoOfOneRole { role, first, second });
    }
    let whole = of.recovery_offset().is_none_or(|at: Sector| at.0 >= cast.fresh.component_size.0);
    slot.in_sync |= whole;
    Ok(())
}
