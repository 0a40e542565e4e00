//! An array that was assembled: one array, or in the middle of a reshape two of them over the same
//! devices, of which each serves its side of the reshape position.

use crate::array::{Array, ReadDone};
use crate::buffer::Buffer;
use crate::metadata::assembly::{Assembly, Reshaping};
use crate::platform::Platform;
use crate::request::Extent;
use crate::units::{SECTOR_BYTES, Sector, Sectors};
use std::sync::Arc;

/// An array of real devices.
pub struct Assembled<P: Platform> {
    assembly: Assembly,
    body: Body<P>,
}

pub(super) enum Body<P: Platform> {
    Whole(Arc<Array<P>>),
    Reshaping { before: Arc<Array<P>>, after: Arc<Array<P>>, of: Reshaping },
}

impl<P: Platform> Assembled<P> {
    pub(super) fn new(assembly: Assembly, body: Body<P>) -> Self {
        Self { assembly, body }
    }

    /// How it came together. The indices of devices are those in which they were given.
    pub fn assembly(&self) -> &Assembly {
        &self.assembly
    }

    /// The array, unless it is in the middle of a reshape.
    pub fn array(&self) -> Option<&Arc<Array<P>>> {
        match &self.body {
            Body::Whole(array) => Some(array),
            Body::Reshaping { .. } => None,
        }
    }

    /// How much it holds. During a reshape that is what both geometries hold, as in md.
    pub fn capacity(&self) -> Sectors {
        match &self.body {
            Body::Whole(array) => array.capacity(),
            Body::Reshaping { before, after, .. } => before.capacity().min(after.capacity()),
        }
    }

    /// The smallest unit of requests, in bytes.
    pub fn logical_block_bytes(&self) -> u32 {
        match &self.body {
            Body::Whole(array) => array.logical_block_bytes(),
            Body::Reshaping { before, after, .. } => {
                before.logical_block_bytes().max(after.logical_block_bytes())
            }
        }
    }

    /// Fills `into` from the sectors that start at `at`.
    ///
    /// # Errors
    /// As [`Array::read`].
    pub async fn read(&self, cpu: &P::Cpu, at: Sector, into: Buffer) -> ReadDone {
        let (before, after, of) = match &self.body {
            Body::Whole(array) => return array.read(cpu, at, into).await,
            Body::Reshaping { before, after, of } => (before, after, of),
        };
        let length_bytes = into.len() as u64;
        let block_bytes = self.logical_block_bytes();
        if let Err(error) = Extent::checked(at, length_bytes, block_bytes, self.capacity()) {
            return ReadDone { result: Err(error), buffer: into };
        }
        let side = |at| if super::is_before(of, at) { before } else { after };
        let end = at + Sectors(length_bytes / SECTOR_BYTES);
        if at < of.position && of.position < end {
            let (front, back) = into.split_at((of.position - at).bytes() as usize);
            let front = side(at).read(cpu, at, front).await;
            let back = side(of.position).read(cpu, of.position, back).await;
            let buffer = front.buffer.join(back.buffer);
            return ReadDone { result: front.result.and(back.result), buffer };
        }
        side(at).read(cpu, at, into).await
    }
}
