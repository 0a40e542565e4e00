//! Puts the metadata of a fresh array onto devices.
//!
//! Superblocks come last, on all devices at once, and only when everything else is durable: a device
//! without one is what a half-made array leaves. Old superblocks at other places are blanked, so that
//! nobody takes the device for a member of another array.

use super::members::usable;
use super::{OpenError, engine_level};
use crate::array::ArrayOptions;
use crate::device::{Device, Io, IoError};
use crate::levels::DeviceFacts;
use crate::metadata::assembly::{self, Candidate};
use crate::metadata::create::{Made, NewArray, NewArrayError};
use crate::metadata::superblock::{
    Location, SUPERBLOCK_BYTES, Superblock, SuperblockError, locations,
};
use crate::opening;
use crate::platform::Platform;
use crate::request::Extent;
use crate::sector_io::{self, SectorWrite};
use crate::tuning::Tuning;
use crate::units::Sectors;
use std::sync::Arc;

/// Why no array was made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MakeError {
    /// The wishes make no array. Nothing was written.
    #[error(transparent)]
    Array(#[from] NewArrayError),
    /// Devices and members do not go together. Nothing was written.
    #[error("{devices} devices are given for {members} members and spares")]
    Devices {
        /// How many devices.
        devices: usize,
        /// How many members and spares that are there.
        members: usize,
    },
    /// The rules by which arrays are opened would refuse it. Nothing was written.
    #[error("what would be made could not be opened: {0}")]
    Unopenable(Box<OpenError>),
    /// A device did not do what it was asked. Some devices may have lost what they held.
    #[error("{device}: the metadata cannot be written")]
    Device {
        /// Which one.
        device: String,
        /// What it said.
        #[source]
        cause: IoError,
    },
}

/// Makes an array on devices: one for each member of `array` that is there, in the order of roles,
/// then its spares. The content is whatever the devices hold; redundancy agrees only after a resync,
/// unless the array says otherwise.
///
/// # Errors
/// [`MakeError`].
pub async fn make<P: Platform>(
    cpu: &P::Cpu,
    devices: &[Arc<P::Device>],
    array: &NewArray,
) -> Result<(), MakeError> {
    let made = array.make()?;
    if made.len() != devices.len() {
        return Err(MakeError::Devices { devices: devices.len(), members: made.len() });
    }
    check_opens::<P>(devices, &made).map_err(|cause| MakeError::Unopenable(Box::new(cause)))?;
    for (device, made) in devices.iter().zip(&made) {
        let failed = |cause| MakeError::Device { device: device.name().to_owned(), cause };
        let keep = Location { version: made.superblock.version, at: made.superblock.at };
        blank_others::<P>(cpu, device, keep).await.map_err(failed)?;
        let (_, beside) = made.writes.split_last().expect("a superblock at least");
        for (at, bytes) in beside {
            let write = SectorWrite { at: *at, bytes: bytes.clone() };
            sector_io::write_durably::<P>(cpu, device, write).await.map_err(failed)?;
        }
        device.submit(cpu, Io::Flush).await.await.result.map_err(failed)?;
    }
    for (device, made) in devices.iter().zip(made) {
        let failed = |cause| MakeError::Device { device: device.name().to_owned(), cause };
        let (at, bytes) = made.writes.into_iter().last().expect("a superblock at least");
        let write = SectorWrite { at, bytes };
        sector_io::write_durably::<P>(cpu, device, write).await.map_err(failed)?;
    }
    Ok(())
}

/// Whether the array, once made, would be opened: what its members hold is on no device yet.
fn check_opens<P: Platform>(devices: &[Arc<P::Device>], made: &[Made]) -> Result<(), OpenError> {
    let candidate = |(device, made): (&Arc<P::Device>, &Made)| Candidate {
        name: device.name().to_owned(),
        size: device.size(),
        superblock: Ok(made.superblock.clone()),
    };
    let candidates: Vec<Candidate> = devices.iter().zip(made).map(candidate).collect();
    // Roles that were left empty on purpose stay so.
    let rules = assembly::Options { degraded: true, ..assembly::Options::default() };
    let assembly = assembly::assemble(&candidates, rules)?;
    let facts = |index: usize| DeviceFacts {
        name: devices[index].name().to_owned(),
        size: usable(&assembly, &made[index].superblock),
        logical_block_bytes: devices[index].logical_block_bytes(),
    };
    let facts: Vec<Option<DeviceFacts>> =
        assembly.slots.iter().map(|slot| slot.original.map(facts)).collect();
    let (level, chunk) = engine_level(assembly.geometry);
    opening::check(&facts, ArrayOptions { level, chunk, tuning: Tuning::default() })?;
    Ok(())
}

/// Blanks every superblock but the one at `keep`, also a damaged one.
async fn blank_others<P: Platform>(
    cpu: &P::Cpu,
    device: &P::Device,
    keep: Location,
) -> Result<(), IoError> {
    let length = Sectors::from_bytes_rounded_up(SUPERBLOCK_BYTES as u64);
    for place in locations(device.size()).filter(|place| *place != keep) {
        let bytes = sector_io::read::<P>(cpu, device, Extent { at: place.at, length }).await?;
        let found = Superblock::inspect(place, &bytes);
        let none = matches!(
            found,
            Err(SuperblockError::Magic { .. } | SuperblockError::VersionFound { .. })
        );
        if !none {
            let write = SectorWrite { at: place.at, bytes: vec![0; SUPERBLOCK_BYTES] };
            sector_io::write_durably::<P>(cpu, device, write).await?;
        }
    }
    Ok(())
}
