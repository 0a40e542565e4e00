//! Looks for the superblock of each device, at every place where one may lie. Never writes.

use super::OpenError;
use crate::device::Device;
use crate::metadata::assembly::Candidate;
use crate::metadata::superblock::{SUPERBLOCK_BYTES, Search, SuperblockError, locations};
use crate::platform::Platform;
use crate::request::Extent;
use crate::sector_io;
use crate::units::Sectors;
use std::sync::Arc;

/// A device and what was found on it.
pub(super) struct Scanned<P: Platform> {
    pub(super) devices: Vec<Arc<P::Device>>,
    /// In the order of the devices.
    pub(super) candidates: Vec<Candidate>,
}

/// Reads the superblocks. With `tolerant`, a device that cannot be read counts as one without a
/// superblock.
pub(super) async fn scan<P: Platform>(
    cpu: &P::Cpu,
    devices: Vec<Arc<P::Device>>,
    tolerant: bool,
) -> Result<Scanned<P>, OpenError> {
    let mut candidates = Vec::with_capacity(devices.len());
    for device in &devices {
        let (name, size) = (device.name().to_owned(), device.size());
        let mut search = Search::new(size);
        let mut unreadable = None;
        for place in locations(size) {
            let length = Sectors::from_bytes_rounded_up(SUPERBLOCK_BYTES as u64);
            match sector_io::read::<P>(cpu, device, Extent { at: place.at, length }).await {
                Ok(bytes) => search.offer(place, &bytes),
                Err(cause) => unreadable = Some(cause),
            }
        }
        let superblock = search.finish();
        if let (Err(SuperblockError::None { .. }), Some(cause), false) =
            (&superblock, unreadable, tolerant)
        {
            return Err(OpenError::Unreadable { device: name, what: "superblock", cause });
        }
        candidates.push(Candidate { name, size, superblock });
    }
    Ok(Scanned { devices, candidates })
}
