//! Memory for I/O: aligned for direct I/O, split without copying, shared without copying.
//!
//! A [`Buffer`] is the only handle on its bytes and may be written; a [`SharedBuffer`] may be cloned
//! and only read. Both are a range of one reference-counted allocation, so that the pieces of a
//! request that is split at chunk boundaries all lie in the caller's memory.
//!
//! Invariant that the unsafe code rests on: the ranges of all live `Buffer`s of one allocation are
//! disjoint from each other and from the ranges of all its `SharedBuffer`s.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fmt;
use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;
use std::sync::Arc;

/// Alignment of every allocation: satisfies the direct I/O of drives with blocks up to 4 KiB.
pub const BUFFER_ALIGNMENT_BYTES: usize = 4096;

/// Zeroed, aligned memory, freed with its last handle.
struct Allocation {
    start: NonNull<u8>,
    layout: Layout,
    registration: Option<Registration>,
}

/// Tells a backend that an allocation is one that it has registered with the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registration {
    /// Which registry (such as: whose ring) the slot belongs to.
    pub registry: u32,
    /// The slot.
    pub slot: u16,
}

// SAFETY: the memory belongs to the allocation and has no tie to a thread; the module's invariant
// makes writers exclusive.
unsafe impl Send for Allocation {}
// SAFETY: as above: through a shared reference bytes are reached only by disjoint `Buffer`s and by
// read-only `SharedBuffer`s.
unsafe impl Sync for Allocation {}

impl Allocation {
    fn zeroed(length_bytes: usize) -> Self {
        let size = length_bytes.max(1).next_multiple_of(BUFFER_ALIGNMENT_BYTES);
        let layout = Layout::from_size_align(size, BUFFER_ALIGNMENT_BYTES)
            .expect("a buffer is smaller than the address space");
        // SAFETY: the layout's size is not zero.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        Self { start, layout, registration: None }
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        // SAFETY: allocated in `zeroed` with this layout, and this is the last handle.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

/// Bytes that belong to one owner: a range of an aligned allocation.
pub struct Buffer {
    allocation: Arc<Allocation>,
    range: Range<usize>,
}

/// Bytes that several owners may read.
#[derive(Clone)]
pub struct SharedBuffer {
    allocation: Arc<Allocation>,
    range: Range<usize>,
}

impl Buffer {
    /// `length_bytes` zero bytes, aligned to [`BUFFER_ALIGNMENT_BYTES`].
    pub fn zeroed(length_bytes: usize) -> Self {
        Self { allocation: Arc::new(Allocation::zeroed(length_bytes)), range: 0..length_bytes }
    }

    /// A copy of `bytes`, aligned.
    pub fn copy_of(bytes: &[u8]) -> Self {
        let mut buffer = Self::zeroed(bytes.len());
        buffer.copy_from_slice(bytes);
        buffer
    }

    /// Marks the memory as registered with a backend. Only the sole handle of a whole allocation
    /// can be marked.
    ///
    /// # Panics
    /// If the allocation has other handles.
    pub fn set_registration(&mut self, registration: Option<Registration>) {
        Arc::get_mut(&mut self.allocation)
            .expect("a buffer is registered before it is split or shared")
            .registration = registration;
    }

    /// Where a backend has registered this memory.
    pub fn registration(&self) -> Option<Registration> {
        self.allocation.registration
    }

    /// Cuts the buffer in two: the first `length_bytes` bytes and the rest.
    ///
    /// # Panics
    /// If it is shorter than that.
    pub fn split_at(self, length_bytes: usize) -> (Buffer, Buffer) {
        assert!(length_bytes <= self.len(), "cannot take {length_bytes} of {} bytes", self.len());
        let middle = self.range.start + length_bytes;
        let front = Buffer { allocation: self.allocation.clone(), range: self.range.start..middle };
        (front, Buffer { range: middle..self.range.end, allocation: self.allocation })
    }

    /// Undoes [`split_at`](Self::split_at).
    ///
    /// # Panics
    /// If `next` is not what directly follows in the same allocation.
    pub fn join(self, next: Buffer) -> Buffer {
        assert!(Arc::ptr_eq(&self.allocation, &next.allocation), "buffers of two allocations");
        assert_eq!(self.range.end, next.range.start, "buffers that do not touch");
        Buffer { allocation: self.allocation, range: self.range.start..next.range.end }
    }

    /// Gives up the right to write, for the right to share.
    pub fn into_shared(self) -> SharedBuffer {
        SharedBuffer { allocation: self.allocation, range: self.range }
    }
}

impl SharedBuffer {
    /// A part of this buffer, without copying.
    ///
    /// # Panics
    /// If `range` reaches beyond it.
    pub fn slice(&self, range: Range<usize>) -> SharedBuffer {
        assert!(range.start <= range.end && range.end <= self.len(), "slice beyond the buffer");
        let start = self.range.start + range.start;
        SharedBuffer { allocation: self.allocation.clone(), range: start..start + range.len() }
    }

    /// Where a backend has registered this memory.
    pub fn registration(&self) -> Option<Registration> {
        self.allocation.registration
    }

    /// Takes the right to write back.
    ///
    /// # Errors
    /// The buffer itself, if any other handle on its allocation is alive.
    pub fn try_into_buffer(mut self) -> Result<Buffer, SharedBuffer> {
        if Arc::get_mut(&mut self.allocation).is_some() {
            Ok(Buffer { allocation: self.allocation, range: self.range })
        } else {
            Err(self)
        }
    }
}

impl Deref for Buffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: the range lies within the allocation, the bytes are initialised (zeroed), and by
        // the module's invariant nobody else writes them.
        unsafe {
            let start = self.allocation.start.as_ptr().add(self.range.start);
            std::slice::from_raw_parts(start, self.range.len())
        }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; and by the invariant nobody else reads them either.
        unsafe {
            let start = self.allocation.start.as_ptr().add(self.range.start);
            std::slice::from_raw_parts_mut(start, self.range.len())
        }
    }
}

impl Deref for SharedBuffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: the range lies within the allocation, and by the module's invariant no `Buffer`
        // overlaps it, so nobody writes.
        unsafe {
            let start = self.allocation.start.as_ptr().add(self.range.start);
            std::slice::from_raw_parts(start, self.range.len())
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Buffer({} bytes)", self.len())
    }
}

impl fmt::Debug for SharedBuffer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "SharedBuffer({} bytes)", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_pieces_join_to_the_whole() {
        let whole = Buffer::copy_of(b"stripe of chunks");
        let (front, back) = whole.split_at(6);
        assert_eq!(&*front, b"stripe");
        assert_eq!(&*back, b" of chunks");
        assert_eq!(&*front.join(back), b"stripe of chunks");
    }

    #[test]
    fn memory_is_aligned_and_zero() {
        let buffer = Buffer::zeroed(5000);
        assert_eq!(buffer.as_ptr() as usize % BUFFER_ALIGNMENT_BYTES, 0);
        assert!(buffer.iter().all(|byte| *byte == 0));
    }

    #[test]
    fn a_shared_buffer_turns_back_only_when_it_is_alone() {
        let shared = Buffer::copy_of(b"data").into_shared();
        let clone = shared.slice(1..3);
        assert_eq!(&*clone, b"at");
        let shared = shared.try_into_buffer().expect_err("the clone is alive");
        drop(clone);
        assert_eq!(&*shared.try_into_buffer().expect("alone"), b"data");
    }

    #[test]
    #[should_panic(expected = "do not touch")]
    fn pieces_join_in_order_only() {
        let (front, back) = Buffer::zeroed(8).split_at(4);
        drop(back.join(front));
    }
}
