//! Puts the metadata of a fresh array onto devices, in an order that survives a power cut:
//!
//! 1. Every superblock that is found is blanked, durably, on one device after the other. On a device
//!    with several the one that counts goes last, so that none appears that was hidden before.
//! 2. Only when no device has any, bitmaps and logs are written, and made durable on every device.
//! 3. Superblocks are written, durably and one by one: those of spares, then those of members.
//!
//! So a cut within 1 leaves the old array without some members, its content untouched; one
//! within 2 leaves no array; one within 3 the fresh array without some members. An array without a
//! member that it counts on is opened only by who allows it to be degraded. A superblock that the
//! cut tore is damaged, which is an error too. Nothing but metadata is ever written.

use super::members::usable;
use super::{OpenError, check_writable, engine_level};
use crate::device::{Device, Io, IoError};
use crate::levels::DeviceFacts;
use crate::metadata::assembly::{self, Assembly, Candidate};
use crate::metadata::create::{Made, NewArray, NewArrayError};
use crate::metadata::superblock::{SUPERBLOCK_BYTES, Superblock, SuperblockError, locations};
use crate::opening;
use crate::platform::Platform;
use crate::request::Extent;
use crate::sector_io::{self, SectorWrite};
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
    /// Its redundancy would have to be made to agree first, and it could not be opened for that.
    /// Nothing was written.
    #[error(
        "{0}, so the first resync of what would be made could not be done; --assume-clean makes an \
         array whose redundancy is taken to agree"
    )]
    Unsyncable(Box<OpenError>),
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
/// then its spares. Whatever arrays they were of are gone then. The content is whatever the devices hold; redundancy agrees only after a resync,
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
    let unopenable = |cause| MakeError::Unopenable(Box::new(cause));
    let assembly = check_opens::<P>(devices, &made).map_err(unopenable)?;
    if assembly.resync_offset.is_some() {
        check_writable(&assembly).map_err(|cause| MakeError::Unsyncable(Box::new(cause)))?;
    }
    let failed = |device: &P::Device| {
        let device = device.name().to_owned();
        |cause| MakeError::Device { device, cause }
    };
    for device in devices {
        blank_superblocks::<P>(cpu, device).await.map_err(failed(device))?;
    }
    for (device, made) in devices.iter().zip(&made) {
        let (_, beside) = made.writes.split_last().expect("a superblock at least");
        for (at, bytes) in beside {
            let write = SectorWrite { at: *at, bytes: bytes.clone() };
            sector_io::write_durably::<P>(cpu, device, write).await.map_err(failed(device))?;
        }
        device.submit(cpu, Io::Flush).await.await.result.map_err(failed(device))?;
    }
    // Spares come last in the order of devices. An array whose members are all there is whole.
    for (device, made) in devices.iter().zip(made).rev() {
        let (at, bytes) = made.writes.into_iter().last().expect("a superblock at least");
        let write = SectorWrite { at, bytes };
        sector_io::write_durably::<P>(cpu, device, write).await.map_err(failed(device))?;
    }
    Ok(())
}

/// Whether the array, once made, would be opened: what its members hold is on no device yet.
fn check_opens<P: Platform>(
    devices: &[Arc<P::Device>],
    made: &[Made],
) -> Result<Assembly, OpenError> {
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
    opening::check(&facts, level, chunk)?;
    Ok(assembly)
}

/// Blanks every superblock, also a damaged one: those of the arrays that were made first go first.
async fn blank_superblocks<P: Platform>(cpu: &P::Cpu, device: &P::Device) -> Result<(), IoError> {
    let length = Sectors::from_bytes_rounded_up(SUPERBLOCK_BYTES as u64);
    let mut found = Vec::new();
    for place in locations(device.size()) {
        let bytes = sector_io::read::<P>(cpu, device, Extent { at: place.at, length }).await?;
        match Superblock::decode(place, device.size(), &bytes) {
            Err(SuperblockError::Magic { .. } | SuperblockError::VersionFound { .. }) => {}
            // One that is not used hides nothing.
            Err(_) => found.push((None, place)),
            Ok(superblock) => found.push((Some(superblock.created), place)),
        }
    }
    found.sort_by_key(|(created, _)| *created);
    for (_, place) in found {
        let write = SectorWrite { at: place.at, bytes: vec![0; SUPERBLOCK_BYTES] };
        sector_io::write_durably::<P>(cpu, device, write).await?;
    }
    Ok(())
}
