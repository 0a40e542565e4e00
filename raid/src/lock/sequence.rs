//! The sequence lock: readers write nothing, and try again if a writer came in between.
//!
//! It guards [`Word`]s, never plain memory: a reader may see a mixture of old and new words before
//! it learns that it has to try again.
//!
//! Why it is right, in the language's memory model: the writer stores an odd sequence, then passes a
//! Release fence, then writes its words; the reader reads the words, then passes an Acquire fence,
//! then reads the sequence. If the reader saw any word of the section, the two fences synchronise,
//! so it also sees the odd sequence, or a later one, and tries again. In the other direction the
//! Release store of the even sequence and the Acquire load in `read_begin` make a reader that begins
//! after a section see all of it. So the words themselves may be read and written `Relaxed`.
//!
//! A reader that *writes* a word between `read_begin` and `read_changed` and relies on the writer
//! seeing it (as a request that counts itself in does) needs a `SeqCst`
//! [`fence`](crate::platform::Cpu::fence) between that write and `read_changed`, and the writer one
//! between the sequence and its look at the word: neither side may look before its own write is
//! visible.

use super::side_by_side;
use super::spin::{SpinKind, SpinLock};
use crate::platform::{Cpu, Label, Ordering, Place, Platform, Word};

/// A sequence word and, next to it, the spin lock that writers take.
pub struct SeqLock<P: Platform> {
    /// Odd while a writer is inside.
    sequence: P::Word,
    writers: SpinLock<P, ()>,
}

/// What a reader remembers from its beginning: an even number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequence(u64);

impl<P: Platform> SeqLock<P> {
    /// The room that the lock takes in a region: the sequence, then the spin lock.
    pub const BYTES: u32 = 8 + SpinLock::<P, ()>::BYTES;

    /// A lock that is free.
    ///
    /// # Panics
    /// If `place` has no room for it.
    pub fn new(platform: &P, label: Label, kind: SpinKind, place: Place<'_, P>) -> Self {
        let (region, start_bytes) = side_by_side(platform, label, place, Self::BYTES);
        let within = |offset_bytes| Place::Within { region: &region, offset_bytes };
        Self {
            sequence: platform.word(label, within(start_bytes), 0),
            writers: SpinLock::new(platform, label, kind, within(start_bytes + 8), ()),
        }
    }

    /// Begins to read; spins while a writer is inside.
    pub async fn read_begin(&self, cpu: &P::Cpu) -> Sequence {
        let even = |sequence: u64| sequence & 1 == 0;
        Sequence(self.sequence.spin_until(cpu, Ordering::Acquire, even).await)
    }

    /// Whether a writer was inside since `since`. If so, what was read is a mixture: try again.
    pub async fn read_changed(&self, cpu: &P::Cpu, since: Sequence) -> bool {
        cpu.fence(Ordering::Acquire).await;
        self.sequence.load(cpu, Ordering::Relaxed).await != since.0
    }

    /// Runs `section` while no other writer is inside, and makes every reader that overlaps it try
    /// again. The rules for sections of spin locks apply.
    pub async fn write<R>(&self, cpu: &P::Cpu, section: impl AsyncFnOnce() -> R) -> R {
        let section = async |_: &mut ()| {
            let before = self.sequence.load(cpu, Ordering::Relaxed).await;
            self.sequence.store(cpu, before.wrapping_add(1), Ordering::Relaxed).await;
            cpu.fence(Ordering::Release).await;
            let result = section().await;
            self.sequence.store(cpu, before.wrapping_add(2), Ordering::Release).await;
            result
        };
        self.writers.with(cpu, section).await
    }
}
