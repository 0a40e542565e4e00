//! What several levels ask of their members and their chunk.

use super::{DeviceFacts, Level};
use crate::error::CreateError;
use crate::units::{MemberIndex, SECTOR_BYTES, Sectors};

/// The smallest chunk, in bytes: a page, as in md.
pub const CHUNK_BYTES_MIN: u64 = 4 << 10;
/// The largest chunk, in bytes. md counts them in a signed number of 32 bits, and this is the
/// largest power of two that it holds.
pub const CHUNK_BYTES_MAX: u64 = 1 << 30;

/// Checks that there are enough members for the level.
pub(super) fn check_count(level: Level, members: usize) -> Result<u32, CreateError> {
    let members_min = level.members_min();
    let members = u32::try_from(members).expect("fewer members than fill memory");
    if members < members_min {
        return Err(CreateError::TooFewMembers { members, level: level.name(), members_min });
    }
    Ok(members)
}

/// Checks the size of a chunk.
pub(super) fn check_chunk_size(chunk: Sectors, power_of_two: bool) -> Result<(), CreateError> {
    // No device is so large that its size in bytes exceeds 64 bits, but a wrong option may be.
    let chunk_bytes = chunk.0.saturating_mul(SECTOR_BYTES);
    if power_of_two && !chunk.0.is_power_of_two() {
        return Err(CreateError::ChunkNotPowerOfTwo { chunk_bytes });
    }
    if !(CHUNK_BYTES_MIN..=CHUNK_BYTES_MAX).contains(&chunk_bytes) {
        return Err(CreateError::ChunkOutOfRange {
            chunk_bytes,
            chunk_bytes_min: CHUNK_BYTES_MIN,
            chunk_bytes_max: CHUNK_BYTES_MAX,
        });
    }
    Ok(())
}

/// Checks that chunks are whole blocks of each device, and that each device holds `chunks` of them.
pub(super) fn check_chunks_fit<'a>(
    devices: impl IntoIterator<Item = &'a DeviceFacts>,
    chunk: Sectors,
    chunks: u32,
) -> Result<(), CreateError> {
    let chunk_bytes = chunk.bytes();
    for device in devices {
        let block_bytes = block_bytes_of(device);
        let name = device.name.clone();
        let device_bytes = || device.size.bytes();
        if u64::from(block_bytes) > chunk_bytes {
            return Err(CreateError::ChunkBelowBlock { chunk_bytes, device: name, block_bytes });
        }
        if !chunk_bytes.is_multiple_of(u64::from(block_bytes)) {
            return Err(CreateError::ChunkCutsBlock { chunk_bytes, device: name, block_bytes });
        }
        if device.size < chunk {
            return Err(CreateError::DeviceTooSmall {
                device: name,
                device_bytes: device_bytes(),
                chunk_bytes,
            });
        }
        if device.size.0 / chunk.0 < u64::from(chunks) {
            let device = name;
            return Err(CreateError::TooSmallForCopies {
                device,
                device_bytes: device_bytes(),
                chunk_bytes,
                far_copies: chunks,
            });
        }
    }
    Ok(())
}

/// What every member can offer: the size of the smallest. The array's size in bytes, if all of them
/// counted, has to fit 64 bits.
pub(super) fn check_equal_share<'a>(
    devices: impl IntoIterator<Item = &'a DeviceFacts>,
    members: u32,
) -> Result<Sectors, CreateError> {
    let sizes = devices.into_iter().map(|device| device.size);
    let member_size = sizes.min().unwrap_or_default();
    let bytes_max = u128::from(member_size.0) * u128::from(members) * u128::from(SECTOR_BYTES);
    if bytes_max > u128::from(u64::MAX) {
        return Err(CreateError::TooLarge { members, member_size });
    }
    Ok(member_size)
}

/// All devices, where the level needs each of them.
pub(super) fn check_none_missing(
    level: Level,
    devices: &[Option<DeviceFacts>],
) -> Result<Vec<&DeviceFacts>, CreateError> {
    let missing: Vec<MemberIndex> = (0..)
        .map(MemberIndex)
        .zip(devices)
        .filter_map(|(index, device)| device.is_none().then_some(index))
        .collect();
    if !missing.is_empty() {
        return Err(CreateError::members_missing(level, &missing, "missing"));
    }
    Ok(devices.iter().flatten().collect())
}

pub(super) fn block_bytes_of(device: &DeviceFacts) -> u32 {
    let (block_bytes, name) = (device.logical_block_bytes, &device.name);
    assert!(block_bytes.is_power_of_two() && block_bytes >= 512, "{name}: odd logical block");
    block_bytes
}
