//! RAID levels: pure planners. Each says whether an array can be made, how large it is, what to do
//! for a piece of a request, and which members it can lose.
//!
//! Never waits, never touches memory that cores share.

pub mod parity;
mod raid10;

use crate::error::CreateError;
use crate::units::Sectors;
pub use parity::ParityLevel;
pub use raid10::Raid10;

/// Which level, and what belongs to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Mirrored stripes in the near layout.
    Raid10 {
        /// How many copies of each chunk: 1 to the number of members.
        near_copies: u32,
    },
}

/// What a level needs to know of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceFacts {
    /// What people call it.
    pub name: String,
    /// How much it holds.
    pub size: Sectors,
    /// Its logical block.
    pub logical_block_bytes: u32,
}

/// The smallest chunk, in bytes: a page, as in md.
pub const CHUNK_BYTES_MIN: u64 = 4 << 10;
/// The largest chunk, in bytes.
pub const CHUNK_BYTES_MAX: u64 = 16 << 20;

/// Checks what is the same for all levels with chunks: the chunk size itself, and that each device
/// holds at least one. Returns what every member can offer: the size of the smallest.
fn check_chunk(devices: &[DeviceFacts], chunk: Sectors) -> Result<Sectors, CreateError> {
    // No device is so large that its size in bytes exceeds 64 bits, but a wrong option may be.
    let chunk_bytes = chunk.0.saturating_mul(crate::units::SECTOR_BYTES);
    if !chunk.0.is_power_of_two() {
        return Err(CreateError::ChunkNotPowerOfTwo { chunk_bytes });
    }
    if !(CHUNK_BYTES_MIN..=CHUNK_BYTES_MAX).contains(&chunk_bytes) {
        return Err(CreateError::ChunkOutOfRange {
            chunk_bytes,
            chunk_bytes_min: CHUNK_BYTES_MIN,
            chunk_bytes_max: CHUNK_BYTES_MAX,
        });
    }
    for device in devices {
        let (block_bytes, name) = (device.logical_block_bytes, &device.name);
        assert!(block_bytes.is_power_of_two() && block_bytes >= 512, "{name}: odd logical block");
        if u64::from(block_bytes) > chunk_bytes {
            let device = name.clone();
            return Err(CreateError::ChunkBelowBlock { chunk_bytes, device, block_bytes });
        }
        if device.size < chunk {
            return Err(CreateError::DeviceTooSmall {
                device: name.clone(),
                device_bytes: device.size.bytes(),
                chunk_bytes,
            });
        }
    }
    Ok(devices.iter().map(|device| device.size).min().unwrap_or_default())
}
