//! A drive in memory, for measuring the engine without a system call.
//!
//! It is cut into extents, each with its memory behind a lock of its own, which is held for a copy.
//! An extent that was never written takes no memory and reads as zero. Nothing survives the
//! process, so every write is as durable as any.

use raid::device::{Io, IoDone};
use raid::units::{Sector, Sectors};
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Bytes behind one lock: several requests of the usual 4 KiB to a core at once rarely meet.
const EXTENT_BYTES: u64 = 64 * 1024;

/// The memory of one extent; none as long as it is zero.
type Extent = Option<Box<[u8]>>;

/// A drive in memory.
#[derive(Clone)]
pub(crate) struct MemoryDevice(Arc<Contents>);

struct Contents {
    name: String,
    size: Sectors,
    extents: Box<[RwLock<Extent>]>,
}

/// The part of a request that lies in one extent.
struct Piece {
    extent: usize,
    /// Within the extent.
    inside: Range<usize>,
    /// Within the request.
    of_request: Range<usize>,
}

impl MemoryDevice {
    pub(crate) fn new(name: String, size: Sectors) -> Self {
        let count = size.bytes().div_ceil(EXTENT_BYTES);
        let extents = (0..count).map(|_| RwLock::default()).collect();
        Self(Arc::new(Contents { name, size, extents }))
    }

    pub(crate) fn name(&self) -> &str {
        &self.0.name
    }

    pub(crate) fn size(&self) -> Sectors {
        self.0.size
    }

    /// Does a request that lies within the drive.
    pub(crate) fn apply(&self, io: Io) -> IoDone {
        let buffer = match io {
            Io::Read { at, mut into } => {
                for piece in pieces(at, into.len() as u64) {
                    let target = &mut into[piece.of_request];
                    match &*self.read(piece.extent) {
                        Some(memory) => target.copy_from_slice(&memory[piece.inside]),
                        None => target.fill(0),
                    }
                }
                Some(into)
            }
            Io::Write { at, data, .. } => {
                for piece in pieces(at, data.len() as u64) {
                    let mut extent = self.write(piece.extent);
                    let memory =
                        extent.get_or_insert_with(|| vec![0; EXTENT_BYTES as usize].into());
                    memory[piece.inside].copy_from_slice(&data[piece.of_request]);
                }
                None
            }
            Io::Discard { at, length } => {
                for piece in pieces(at, length.bytes()) {
                    let mut extent = self.write(piece.extent);
                    if piece.inside.len() as u64 == EXTENT_BYTES {
                        *extent = None;
                    } else if let Some(memory) = &mut *extent {
                        memory[piece.inside].fill(0);
                    }
                }
                None
            }
            Io::Flush => None,
        };
        IoDone { result: Ok(()), buffer }
    }

    fn read(&self, extent: usize) -> RwLockReadGuard<'_, Extent> {
        self.0.extents[extent].read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, extent: usize) -> RwLockWriteGuard<'_, Extent> {
        self.0.extents[extent].write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Cuts a request at the boundaries of extents.
fn pieces(at: Sector, length_bytes: u64) -> impl Iterator<Item = Piece> {
    let start = at.byte_offset();
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == length_bytes {
            return None;
        }
        let position = start + done;
        let inside = position % EXTENT_BYTES;
        let length = (EXTENT_BYTES - inside).min(length_bytes - done);
        let of_request = done as usize..(done + length) as usize;
        done += length;
        let extent = (position / EXTENT_BYTES) as usize;
        Some(Piece { extent, inside: inside as usize..(inside + length) as usize, of_request })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(at: u64, length_bytes: u64, expected: &[(usize, Range<usize>)]) {
        let found: Vec<_> =
            pieces(Sector(at), length_bytes).map(|piece| (piece.extent, piece.inside)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn requests_are_cut_at_extents() {
        check(0, 4096, &[(0, 0..4096)]);
        check(127, 1024, &[(0, 65024..65536), (1, 0..512)]);
        check(128, 2 * 65536, &[(1, 0..65536), (2, 0..65536)]);
        check(5, 0, &[]);
    }
}
