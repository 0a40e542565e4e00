//! Whole sectors of a device, read and written outside of any array: superblocks and what lies
//! beside them.
//!
//! A place need not begin at a logical block: what surrounds it in its blocks is read and written
//! along with it. Only one task at a time may write to places that share a block.

use crate::buffer::{Buffer, SharedBuffer};
use crate::device::{Device, Durability, Io, IoError};
use crate::platform::Platform;
use crate::request::Extent;
use crate::units::{SECTOR_BYTES, Sector, Sectors};

/// The blocks that `extent` lies in, within the device.
fn whole_blocks<P: Platform>(device: &P::Device, extent: Extent) -> Extent {
    let block = u64::from(device.logical_block_bytes()) / SECTOR_BYTES;
    let start = extent.at.0 - extent.at.0 % block;
    let end = extent.end().0.next_multiple_of(block);
    Extent { at: Sector(start), length: Sectors(end - start) }
}

async fn read_blocks<P: Platform>(
    cpu: &P::Cpu,
    device: &P::Device,
    blocks: Extent,
) -> Result<Buffer, IoError> {
    let into = Buffer::zeroed(blocks.length.bytes() as usize);
    let done = device.submit(cpu, Io::Read { at: blocks.at, into }).await.await;
    done.result.map(|()| done.buffer.expect("a device gives a read's buffer back"))
}

/// Reads some sectors.
pub(crate) async fn read<P: Platform>(
    cpu: &P::Cpu,
    device: &P::Device,
    extent: Extent,
) -> Result<Vec<u8>, IoError> {
    let size = device.size();
    if extent.at.0.checked_add(extent.length.0).is_none_or(|end| end > size.0) {
        return Err(IoError::OutOfRange { at: extent.at, length: extent.length, size });
    }
    let blocks = whole_blocks::<P>(device, extent);
    let buffer = read_blocks::<P>(cpu, device, blocks).await?;
    let start = (extent.at - blocks.at).bytes() as usize;
    Ok(buffer[start..start + extent.length.bytes() as usize].to_vec())
}

/// What is to be written where.
pub(crate) struct SectorWrite {
    pub(crate) at: Sector,
    /// Whole sectors, at least one.
    pub(crate) bytes: Vec<u8>,
}

/// Writes some sectors so that they survive a power loss, and waits for that.
pub(crate) async fn write_durably<P: Platform>(
    cpu: &P::Cpu,
    device: &P::Device,
    write: SectorWrite,
) -> Result<(), IoError> {
    submit_durable_write::<P>(cpu, device, write).await?.await.result
}

/// Hands a durable write over; the caller waits for what is returned.
pub(crate) async fn submit_durable_write<P: Platform>(
    cpu: &P::Cpu,
    device: &P::Device,
    write: SectorWrite,
) -> Result<<P::Device as Device<P>>::Completion, IoError> {
    let length = Sectors::from_bytes_rounded_down(write.bytes.len() as u64);
    let extent = Extent { at: write.at, length };
    assert!(length.0 > 0 && length.bytes() == write.bytes.len() as u64, "whole sectors");
    let blocks = whole_blocks::<P>(device, extent);
    let mut buffer = match blocks == extent {
        true => Buffer::zeroed(write.bytes.len()),
        false => read_blocks::<P>(cpu, device, blocks).await?,
    };
    let start = (extent.at - blocks.at).bytes() as usize;
    buffer[start..start + write.bytes.len()].copy_from_slice(&write.bytes);
    let data: SharedBuffer = buffer.into_shared();
    Ok(device.submit(cpu, Io::Write { at: blocks.at, data, durability: Durability::Fua }).await)
}
