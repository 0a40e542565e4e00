//! What a workload reads and writes: an array, or one device without RAID, through one interface.

use raid::array::Array;
use raid::buffer::{Buffer, SharedBuffer};
use raid::device::{Device, Durability, Io};
use raid::platform::Platform;
use raid::units::{Sector, Sectors};
use std::sync::Arc;

/// Something that stores sectors, in terms of an application's requests.
pub enum Target<P: Platform> {
    /// The engine.
    Array(Arc<Array<P>>),
    /// A device by itself, for comparison.
    Raw(Arc<P::Device>),
}

impl<P: Platform> Clone for Target<P> {
    fn clone(&self) -> Self {
        match self {
            Target::Array(array) => Target::Array(array.clone()),
            Target::Raw(device) => Target::Raw(device.clone()),
        }
    }
}

impl<P: Platform> Target<P> {
    /// How much it holds.
    pub fn capacity(&self) -> Sectors {
        match self {
            Target::Array(array) => array.capacity(),
            Target::Raw(device) => device.size(),
        }
    }

    /// The smallest unit that it reads and writes.
    pub fn logical_block_bytes(&self) -> u32 {
        match self {
            Target::Array(array) => array.logical_block_bytes(),
            Target::Raw(device) => device.logical_block_bytes(),
        }
    }

    /// Reads; the buffer comes back in success and in failure. A failure is told in words.
    pub async fn read(
        &self,
        cpu: &P::Cpu,
        at: Sector,
        into: Buffer,
    ) -> (Result<(), String>, Buffer) {
        match self {
            Target::Array(array) => {
                let done = array.read(cpu, at, into).await;
                (done.result.map_err(in_words), done.buffer)
            }
            Target::Raw(device) => {
                let done = device.submit(cpu, Io::Read { at, into }).await.await;
                let buffer = done.buffer.expect("a read gives its buffer back");
                (done.result.map_err(in_words), buffer)
            }
        }
    }

    /// Writes; durable only after a flush. A failure is told in words.
    pub async fn write(&self, cpu: &P::Cpu, at: Sector, data: SharedBuffer) -> Result<(), String> {
        let durability = Durability::Cached;
        match self {
            Target::Array(array) => array.write(cpu, at, data, durability).await.map_err(in_words),
            Target::Raw(device) => {
                let io = Io::Write { at, data, durability };
                device.submit(cpu, io).await.await.result.map_err(in_words)
            }
        }
    }
}

/// An error with its causes.
fn in_words(error: impl std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |words, cause| format!("{words}: {cause}"))
}
