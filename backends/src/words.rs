//! Words on real memory: atomics that lie where the caller put them.
//!
//! A region is one allocation of whole 128-byte lines (the pair of 64-byte lines that Intel's
//! adjacent-line prefetcher moves together, and the line of some ARM machines), so that nothing
//! foreign shares its lines. A word never moves and keeps its region alive.

use crate::cpu::RealCpu;
use crate::platform::RealPlatform;
use raid::platform::{Cpu, Ordering, Word};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Bytes in the unit that the hardware moves at most between cores.
const LINE_BYTES: u32 = 128;
const WORD_BYTES: u32 = 8;
const WORDS_PER_LINE: usize = (LINE_BYTES / WORD_BYTES) as usize;

/// How often a spinning core looks before it lets the operating system run another thread: a
/// thread that holds the lock may have been taken off its core. About 20 µs.
const SPINS_PER_YIELD: u32 = 512;

#[derive(Default)]
#[repr(align(128))]
struct Line([AtomicU64; WORDS_PER_LINE]);

/// Memory for words that lie side by side.
#[derive(Clone)]
pub struct RealRegion {
    lines: Arc<[Line]>,
    start_bytes: u32,
    length_bytes: u32,
}

impl RealRegion {
    /// `length_bytes` bytes that start `start_bytes` after a boundary of 128 bytes.
    pub(crate) fn new(start_bytes: u32, length_bytes: u32) -> Self {
        let lines = (start_bytes + length_bytes).div_ceil(LINE_BYTES).max(1);
        Self { lines: (0..lines).map(|_| Line::default()).collect(), start_bytes, length_bytes }
    }

    /// The word at `offset_bytes` from the region's start, set to `value`.
    pub(crate) fn word(&self, offset_bytes: u32, value: u64) -> RealWord {
        assert!(offset_bytes + WORD_BYTES <= self.length_bytes, "a word outside its region");
        let from_boundary = self.start_bytes + offset_bytes;
        assert_eq!(from_boundary % WORD_BYTES, 0, "a word that is not aligned");
        let index = (from_boundary / WORD_BYTES) as usize;
        let word = &self.lines[index / WORDS_PER_LINE].0[index % WORDS_PER_LINE];
        word.store(value, Ordering::SeqCst);
        RealWord { word: NonNull::from(word), _memory: self.lines.clone() }
    }
}

/// A word in shared memory.
pub struct RealWord {
    /// Points into `_memory`.
    word: NonNull<AtomicU64>,
    _memory: Arc<[Line]>,
}

// SAFETY: the pointer leads to an atomic in memory that `_memory` keeps alive and that never moves;
// through it only `&AtomicU64` is made, which is `Send` and `Sync`.
unsafe impl Send for RealWord {}
// SAFETY: as above.
unsafe impl Sync for RealWord {}

impl RealWord {
    #[inline]
    fn atomic(&self) -> &AtomicU64 {
        // SAFETY: `_memory` keeps the atomic alive and in its place as long as `self` lives.
        unsafe { self.word.as_ref() }
    }
}

impl Word<RealPlatform> for RealWord {
    #[inline]
    async fn load(&self, _cpu: &RealCpu, order: Ordering) -> u64 {
        self.atomic().load(order)
    }

    #[inline]
    async fn store(&self, _cpu: &RealCpu, value: u64, order: Ordering) {
        self.atomic().store(value, order);
    }

    #[inline]
    async fn add(&self, _cpu: &RealCpu, delta: u64, order: Ordering) {
        self.atomic().fetch_add(delta, order);
    }

    #[inline]
    async fn fetch_add(&self, _cpu: &RealCpu, delta: u64, order: Ordering) -> u64 {
        self.atomic().fetch_add(delta, order)
    }

    #[inline]
    async fn fetch_or(&self, _cpu: &RealCpu, bits: u64, order: Ordering) -> u64 {
        self.atomic().fetch_or(bits, order)
    }

    #[inline]
    async fn swap(&self, _cpu: &RealCpu, value: u64, order: Ordering) -> u64 {
        self.atomic().swap(value, order)
    }

    #[inline]
    async fn swap_bits(&self, _cpu: &RealCpu, mask: u64, value: u64, order: Ordering) -> u64 {
        let mut old = self.atomic().load(Ordering::Relaxed);
        loop {
            let new = old & !mask | value & mask;
            match self.atomic().compare_exchange_weak(old, new, order, Ordering::Relaxed) {
                Ok(old) => return old,
                Err(changed) => old = changed,
            }
        }
    }

    #[inline]
    async fn compare_exchange(
        &self,
        _cpu: &RealCpu,
        current: u64,
        new: u64,
        order: Ordering,
    ) -> Result<u64, u64> {
        self.atomic().compare_exchange(current, new, order, Ordering::Relaxed)
    }

    #[inline]
    async fn spin_until(&self, cpu: &RealCpu, order: Ordering, ready: impl Fn(u64) -> bool) -> u64 {
        loop {
            for _ in 0..SPINS_PER_YIELD {
                let value = self.atomic().load(order);
                if ready(value) {
                    return value;
                }
                std::hint::spin_loop();
            }
            cpu.platform().assert_running();
            std::thread::yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_lie_where_they_were_put() {
        let region = RealRegion::new(88, 64);
        let first = region.word(0, 1);
        let last = region.word(56, 2);
        let (first, last) = (first.word.as_ptr() as usize, last.word.as_ptr() as usize);
        assert_eq!(first % LINE_BYTES as usize, 88);
        assert_eq!(last - first, 56);
    }

    #[test]
    #[should_panic(expected = "outside its region")]
    fn a_word_must_fit_its_region() {
        RealRegion::new(0, 12).word(8, 0);
    }

    #[test]
    #[should_panic(expected = "not aligned")]
    fn a_word_must_be_aligned_from_the_boundary() {
        RealRegion::new(4, 64).word(8, 0);
    }
}
