//! What the write-intent bitmap says and may say: which chunks have writes under way, which bits are
//! on disk, which may be cleared.
//!
//! A chunk goes through these states:
//! - *clear*: no bit.
//! - *wanted*: a write has begun; the bit is not yet on every member. The write waits.
//! - *set*: the bit is on every member; writes go on.
//! - *idle*: set, no write under way at the last but one housekeeping or before: the next one
//!   clears it, unless a write came in between. So a bit stays at least from one housekeeping to the
//!   next, and a chunk that is written over and over is not cleared and set each time.
//! - *needed*: set, and redundancy may disagree: a write failed, or the bit was found at assembly.
//!   Only a resync ends that.
//!
//! Pure: never waits, never writes; says which sectors of the bitmap are to be written.

use crate::metadata::bitmap::Bitmap;
use crate::request::Extent;
use crate::units::{SECTOR_BYTES, Sector, Sectors};
use std::collections::BTreeSet;

/// What is known of one chunk.
#[derive(Clone, Copy, Debug, Default)]
struct Chunk {
    writes: u32,
    /// Its bit is set on every member.
    durable: bool,
    idle: bool,
    /// Redundancy may disagree.
    needed: bool,
    /// A resync goes through it: what was `needed` when it came.
    resyncing: bool,
    /// Still `needed` after the pass of a resync that is under way went through it.
    left_behind: bool,
}

impl Chunk {
    /// Whether its bit may be cleared as far as resyncs are concerned.
    fn agrees(&self) -> bool {
        !self.needed && !self.resyncing
    }
}

/// The bitmap in memory.
pub(crate) struct WriteIntent {
    /// What is to be on disk.
    bitmap: Bitmap,
    chunks: Vec<Chunk>,
    /// Sectors of the bitmap that differ from what is on disk.
    changed: BTreeSet<u64>,
}

/// Sectors of the bitmap that are being written.
pub(crate) struct Flush {
    /// Offset from the bitmap's start, and bytes; ascending, neighbours joined.
    pub(crate) parts: Vec<(Sectors, Vec<u8>)>,
    /// The chunks whose bits will then be on disk.
    newly_durable: Vec<usize>,
}

impl WriteIntent {
    /// From what was found at assembly: whatever is marked needs a resync.
    pub(crate) fn new(bitmap: Bitmap) -> Self {
        let chunk = |number| Chunk { needed: bitmap.is_dirty(number), ..Chunk::default() };
        let chunks = (0..bitmap.header.chunks()).map(chunk).collect();
        // What other members have may differ, so all of it is written once.
        let changed = (0..bitmap.header.length().0).collect();
        Self { bitmap, chunks, changed }
    }

    /// A write to some sectors of the sync space begins. Whether it has to wait until the bitmap
    /// has been written.
    pub(crate) fn begin(&mut self, extent: Extent) -> bool {
        let mut has_to_wait = false;
        for number in self.chunks_of(extent) {
            let chunk = &mut self.chunks[number];
            chunk.writes += 1;
            chunk.idle = false;
            if !chunk.durable {
                has_to_wait = true;
                self.set_bit(number, true);
            }
        }
        has_to_wait
    }

    /// Whether the bits of some sectors are on every member.
    pub(crate) fn is_durable(&self, extent: Extent) -> bool {
        self.chunks_of(extent).all(|number| self.chunks[number].durable)
    }

    /// A write has ended; `agrees` unless redundancy may disagree there.
    pub(crate) fn end(&mut self, extent: Extent, agrees: bool) {
        for number in self.chunks_of(extent) {
            let chunk = &mut self.chunks[number];
            assert!(chunk.writes > 0, "a write ends that began");
            chunk.writes -= 1;
            if !agrees {
                (chunk.needed, chunk.left_behind) = (true, false);
            }
        }
    }

    /// What a bit stands for.
    pub(crate) fn chunk(&self) -> Sectors {
        self.bitmap.header.chunk()
    }

    /// Whether redundancy may disagree anywhere.
    pub(crate) fn needs_resync(&self) -> bool {
        self.chunks.iter().any(|chunk| !chunk.agrees())
    }

    /// Sectors that a resync has to go through, in the sync space, neighbours joined: those where
    /// redundancy may disagree, but not those that its pass has left behind.
    pub(crate) fn to_resync(&self) -> Vec<Extent> {
        let mut extents: Vec<Extent> = Vec::new();
        for (number, chunk) in self.chunks.iter().enumerate() {
            if !chunk.needed || chunk.left_behind {
                continue;
            }
            let next = self.sectors_of(number);
            match extents.last_mut() {
                Some(last) if last.end() == next.at => last.length = last.length + next.length,
                _ => extents.push(next),
            }
        }
        extents
    }

    /// A resync begins to go through these sectors. Chunks that they fill only in part are not
    /// counted in.
    pub(crate) fn begin_resync(&mut self, extent: Extent) {
        for number in self.chunks_within(extent) {
            let chunk = &mut self.chunks[number];
            (chunk.resyncing, chunk.needed) = (chunk.resyncing | chunk.needed, false);
        }
    }

    /// The resync has gone through these sectors, and `agrees` unless it has left something behind.
    /// Where a write has failed meanwhile the next one has work to do.
    pub(crate) fn end_resync(&mut self, extent: Extent, agrees: bool) {
        for number in self.chunks_within(extent) {
            let chunk = &mut self.chunks[number];
            if std::mem::take(&mut chunk.resyncing) && !agrees {
                chunk.left_behind = !chunk.needed;
                chunk.needed = true;
            }
        }
    }

    /// The resync has not gone through these sectors after all.
    pub(crate) fn abandon_resync(&mut self, extent: Extent) {
        for number in self.chunks_within(extent) {
            let chunk = &mut self.chunks[number];
            chunk.needed |= std::mem::take(&mut chunk.resyncing);
        }
    }

    /// The pass has come to its end: the next one tries again what was left behind.
    pub(crate) fn end_pass(&mut self) {
        self.chunks.iter_mut().for_each(|chunk| chunk.left_behind = false);
    }

    /// Whether [`clear_idle`](Self::clear_idle) would clear any. What was written to those chunks
    /// has to be made durable first; a write that comes meanwhile keeps its chunk from being cleared.
    pub(crate) fn has_idle(&self, at_once: bool) -> bool {
        (0..).zip(&self.chunks).any(|(number, chunk)| {
            let at_rest = chunk.writes == 0 && chunk.agrees() && (chunk.idle || at_once);
            at_rest && self.bitmap.is_dirty(number)
        })
    }

    /// Takes bits away from idle chunks, and lets the others without writes become idle. With
    /// `at_once` all without writes lose theirs. Whether any did: then [`flush`](Self::flush).
    pub(crate) fn clear_idle(&mut self, at_once: bool) -> bool {
        let mut cleared = false;
        for number in 0..self.chunks.len() {
            let chunk = &mut self.chunks[number];
            let marked = self.bitmap.is_dirty(number as u64);
            if !marked || chunk.writes > 0 || !chunk.agrees() {
                continue;
            }
            if chunk.idle || at_once {
                // Before the sectors are written: a write that begins meanwhile waits for its bit.
                (chunk.durable, chunk.idle) = (false, false);
                self.set_bit(number, false);
                cleared = true;
            } else {
                chunk.idle = true;
            }
        }
        cleared
    }

    /// Says of the header what the next flush is to write.
    pub(crate) fn set_events(&mut self, events: u64, events_cleared: Option<u64>) {
        let header = &mut self.bitmap.header;
        let cleared = events_cleared.unwrap_or(header.events_cleared);
        if (header.events, header.events_cleared) != (events, cleared) {
            (header.events, header.events_cleared) = (events, cleared);
            self.changed.insert(0);
        }
    }

    /// What has to be written now.
    pub(crate) fn flush(&mut self) -> Flush {
        let bytes = self.bitmap.encode();
        let mut parts: Vec<(Sectors, Vec<u8>)> = Vec::new();
        for sector in std::mem::take(&mut self.changed) {
            let start = (sector * SECTOR_BYTES) as usize;
            let part = &bytes[start..start + SECTOR_BYTES as usize];
            match parts.last_mut() {
                Some((at, last)) if at.bytes() + last.len() as u64 == start as u64 => {
                    last.extend_from_slice(part);
                }
                _ => parts.push((Sectors(sector), part.to_vec())),
            }
        }
        let marked = |number: &usize| self.bitmap.is_dirty(*number as u64);
        Flush { parts, newly_durable: (0..self.chunks.len()).filter(marked).collect() }
    }

    /// Those sectors are on every member now. Between [`flush`](Self::flush) and this nobody else
    /// may flush or clear.
    pub(crate) fn flushed(&mut self, flush: &Flush) {
        for number in &flush.newly_durable {
            self.chunks[*number].durable = true;
        }
    }

    /// A flush did not reach every member: all of the bitmap has to be written again.
    pub(crate) fn forget_flush(&mut self) {
        self.changed.extend(0..self.bitmap.header.length().0);
    }

    fn chunks_of(&self, extent: Extent) -> std::ops::Range<usize> {
        let chunks = self.bitmap.chunks_of(extent.at, extent.length);
        chunks.start as usize..chunks.end as usize
    }

    /// The chunks that lie in `extent` as a whole.
    fn chunks_within(&self, extent: Extent) -> Vec<usize> {
        let inside = |number: &usize| {
            let chunk = self.sectors_of(*number);
            extent.at <= chunk.at && chunk.end() <= extent.end()
        };
        self.chunks_of(extent).filter(inside).collect()
    }

    fn sectors_of(&self, number: usize) -> Extent {
        let chunk = self.bitmap.header.chunk();
        let at = Sector(number as u64 * chunk.0);
        Extent { at, length: chunk.min(Sector(self.bitmap.header.sync_size.0) - at) }
    }

    fn set_bit(&mut self, number: usize, dirty: bool) {
        self.bitmap.set(number as u64, dirty);
        self.changed.insert(self.bitmap.byte_of(number as u64) as u64 / SECTOR_BYTES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::bitmap::{Header, VERSION};

    const CHUNK: u64 = 8;

    fn extent(at: u64, length: u64) -> Extent {
        Extent { at: Sector(at), length: Sectors(length) }
    }

    fn intent() -> WriteIntent {
        let header = Header {
            version: VERSION,
            array_uuid: [7; 16],
            events: 1,
            events_cleared: 1,
            sync_size: Sectors(44),
            state: 0,
            chunk_bytes: (CHUNK * SECTOR_BYTES) as u32,
            daemon_sleep_seconds: 5,
            write_behind: 0,
            sectors_reserved: 8,
            nodes: 0,
            cluster_name: [0; 64],
        };
        let mut intent = WriteIntent::new(Bitmap::new(header, false, Sectors(8)).expect("fits"));
        write_out(&mut intent);
        intent
    }

    fn write_out(intent: &mut WriteIntent) -> Vec<(Sectors, Vec<u8>)> {
        let flush = intent.flush();
        intent.flushed(&flush);
        flush.parts
    }

    /// The bits as they are to be on disk.
    fn check(intent: &WriteIntent, expected: &str) {
        let bit = |number| if intent.bitmap.is_dirty(number) { '#' } else { '.' };
        let bits: String = (0..intent.bitmap.header.chunks()).map(bit).collect();
        assert_eq!(bits, expected);
    }

    #[test]
    fn a_write_waits_until_its_bits_are_on_disk() {
        let mut intent = intent();
        assert!(intent.begin(extent(7, 2)));
        check(&intent, "##....");
        assert!(!intent.is_durable(extent(7, 2)));
        assert_eq!(write_out(&mut intent).len(), 1);
        assert!(intent.is_durable(extent(7, 2)));
        assert!(!intent.begin(extent(0, 8)), "the bit is there already");
        assert!(intent.begin(extent(40, 4)), "the last chunk is a short one");
        check(&intent, "##...#");
    }

    #[test]
    fn bits_are_cleared_at_the_second_housekeeping_after_the_last_write() {
        let mut intent = intent();
        intent.begin(extent(0, 1));
        write_out(&mut intent);
        assert!(!intent.clear_idle(false));
        intent.end(extent(0, 1), true);
        assert!(!intent.clear_idle(false), "the first one only notes it");
        intent.begin(extent(3, 1));
        intent.end(extent(3, 1), true);
        assert!(!intent.has_idle(false), "a write came in between");
        assert!(!intent.clear_idle(false));
        assert!(intent.has_idle(false) && intent.clear_idle(false));
        check(&intent, "......");
        assert!(intent.begin(extent(0, 1)), "a bit on its way out is no bit");
    }

    #[test]
    fn where_a_write_failed_only_a_resync_helps() {
        let mut intent = intent();
        for (at, agrees) in [(0, false), (8, true), (16, false), (40, false)] {
            intent.begin(extent(at, 1));
            intent.end(extent(at, 1), agrees);
        }
        write_out(&mut intent);
        assert!(intent.clear_idle(true));
        check(&intent, "#.#..#");
        assert_eq!(intent.to_resync(), [extent(0, 8), extent(16, 8), extent(40, 4)]);
        let parts = [extent(0, 20), extent(40, 4)];
        parts.iter().for_each(|part| intent.begin_resync(*part));
        assert!(!intent.clear_idle(true), "not before the resync has gone through");
        parts.iter().for_each(|part| intent.end_resync(*part, true));
        assert_eq!(intent.to_resync(), [extent(16, 8)], "a part of a chunk does not count");
        intent.clear_idle(true);
        check(&intent, "..#...");
    }

    #[test]
    fn a_write_that_fails_during_a_resync_is_not_forgotten() {
        let mut intent = intent();
        let fail = |intent: &mut WriteIntent| {
            intent.begin(extent(8, 1));
            intent.end(extent(8, 1), false);
        };
        fail(&mut intent);
        write_out(&mut intent);
        intent.begin_resync(extent(0, 16));
        fail(&mut intent);
        intent.end_resync(extent(0, 16), true);
        assert_eq!(intent.to_resync(), [extent(8, 8)]);
        intent.clear_idle(true);
        check(&intent, ".#....");
    }

    #[test]
    fn what_a_resync_leaves_behind_stays_marked_and_is_tried_again_in_the_next_pass() {
        let mut intent = intent();
        for at in [8, 24] {
            intent.begin(extent(at, 1));
            intent.end(extent(at, 1), false);
        }
        write_out(&mut intent);
        for (at, agrees) in [(8, false), (24, true)] {
            intent.begin_resync(extent(at, 8));
            intent.end_resync(extent(at, 8), agrees);
        }
        assert!(intent.to_resync().is_empty() && intent.needs_resync());
        intent.clear_idle(true);
        check(&intent, ".#....");
        intent.end_pass();
        assert_eq!(intent.to_resync(), [extent(8, 8)]);
    }

    #[test]
    fn what_was_found_is_needed_and_joined() {
        let mut bitmap = intent().bitmap;
        (1..4).for_each(|chunk| bitmap.set(chunk, true));
        let mut intent = WriteIntent::new(bitmap);
        assert_eq!(intent.to_resync(), [extent(8, 24)]);
        assert!(intent.begin(extent(8, 1)), "another member may not have the bit");
    }

    #[test]
    fn the_header_is_written_when_events_move_on() {
        let mut intent = intent();
        intent.set_events(1, Some(1));
        assert!(write_out(&mut intent).is_empty());
        intent.set_events(2, None);
        let parts = write_out(&mut intent);
        assert_eq!((parts[0].0, parts[0].1[24], parts[0].1[32]), (Sectors(0), 2, 1));
    }
}
