//! The bad-block log: which sectors of a member hold no valid data, although the member works.
//!
//! On disk it is a list of 64-bit entries, `start << 10 | length`, in blocks of `512 << shift`
//! bytes counted from the start of the *device* (not of its data); all ones ends the list. md
//! writes lengths of at most 512 and reads one page, so there are at most 512 entries. The feature
//! bit in the superblock is set only while there are entries.
//!
//! In memory it is a sorted list of ranges that neither touch nor overlap. Never decides what a bad
//! block means; says only whether a range holds one.

use super::bytes::{Reader, Writer};
use crate::units::{SECTOR_BYTES, Sector, Sectors};

const ENTRY_BYTES: usize = 8;
/// md reads one page of the log.
pub const ENTRIES_MAX: usize = 512;
/// The longest entry that md writes.
const ENTRY_LENGTH_MAX: u64 = 512;
const END: u64 = u64::MAX;
/// The format has 10 bits of length and 54 of start.
const LENGTH_BITS: u32 = 10;
/// No entry starts at this block or behind it.
const BLOCKS_MAX: u64 = 1 << (u64::BITS - LENGTH_BITS);
/// A larger block would exceed 64-bit sectors.
const SHIFT_MAX: u8 = 9;

/// Why a bad-block log cannot be read or changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadBlocksError {
    /// The bytes end before the log does.
    #[error("the bad-block log is {size} sectors, but {found_bytes} bytes were found")]
    CutShort {
        /// The log's size by the superblock.
        size: Sectors,
        /// The bytes at hand.
        found_bytes: usize,
    },
    /// Blocks of more than 256 KiB.
    #[error("bad-block shift is {0}, and {SHIFT_MAX} is the most")]
    Shift(u8),
    /// An entry that leads beyond the last sector.
    #[error("bad-block entry {index} is {entry:#018x}: it lies beyond the last sector")]
    Entry {
        /// Its place in the log.
        index: usize,
        /// The entry.
        entry: u64,
    },
    /// Sectors that no entry can name. Nothing was changed.
    #[error("the bad-block log cannot name sectors {at}+{length}")]
    Beyond {
        /// The first of them.
        at: Sector,
        /// How many.
        length: Sectors,
    },
    /// No room for another entry. Nothing was changed.
    #[error("the bad-block log is full: {entries_max} entries")]
    Full {
        /// How many it holds.
        entries_max: usize,
    },
}

/// A run of bad blocks, in blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    start: u64,
    end: u64,
}

impl Run {
    fn entries(self) -> usize {
        (self.end - self.start).div_ceil(ENTRY_LENGTH_MAX) as usize
    }
}

/// The bad blocks of one member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadBlockLog {
    shift: u8,
    entries_max: usize,
    size: Sectors,
    runs: Vec<Run>,
}

impl BadBlockLog {
    /// An empty log of `size` sectors on disk, in blocks of `512 << shift` bytes.
    ///
    /// # Errors
    /// [`BadBlocksError::Shift`].
    pub fn new(size: Sectors, shift: u8) -> Result<Self, BadBlocksError> {
        if shift > SHIFT_MAX {
            return Err(BadBlocksError::Shift(shift));
        }
        let entries = size.0.saturating_mul(SECTOR_BYTES) / ENTRY_BYTES as u64;
        let entries_max = usize::try_from(entries).map_or(ENTRIES_MAX, |of| of.min(ENTRIES_MAX));
        Ok(Self { shift, entries_max, size, runs: Vec::new() })
    }

    /// An empty log of the same shape.
    pub fn emptied(&self) -> Self {
        Self { runs: Vec::new(), ..self.clone() }
    }

    /// Reads a log of `size` sectors.
    ///
    /// # Errors
    /// [`BadBlocksError::CutShort`], `Shift`, `Entry`, and `Full` where md's shorter entries would
    /// not fit.
    pub fn decode(bytes: &[u8], size: Sectors, shift: u8) -> Result<Self, BadBlocksError> {
        let mut log = Self::new(size, shift)?;
        if (bytes.len() as u64) < size.0.saturating_mul(SECTOR_BYTES) {
            return Err(BadBlocksError::CutShort { size, found_bytes: bytes.len() });
        }
        let reader = Reader::little(bytes);
        for index in 0..log.entries_max {
            let entry = reader.u64(index * ENTRY_BYTES);
            if entry == END {
                break;
            }
            let (start, length) = (entry >> LENGTH_BITS, entry & ((1 << LENGTH_BITS) - 1));
            let end = start.saturating_add(length);
            if end > log.blocks_max() {
                return Err(BadBlocksError::Entry { index, entry });
            }
            if length > 0 {
                log.mark(Run { start, end });
            }
        }
        // md writes shorter entries than it could read, so they may be more.
        if log.entries() > log.entries_max {
            return Err(BadBlocksError::Full { entries_max: log.entries_max });
        }
        Ok(log)
    }

    /// The log as it lies on disk: all of its sectors, up to one page.
    pub fn encode(&self) -> Vec<u8> {
        let mut to = Writer::little(self.entries_max * ENTRY_BYTES);
        let mut offset = 0;
        for run in &self.runs {
            let mut start = run.start;
            while start < run.end {
                let length = (run.end - start).min(ENTRY_LENGTH_MAX);
                to.u64(offset, start << LENGTH_BITS | length);
                (start, offset) = (start + length, offset + ENTRY_BYTES);
            }
        }
        while offset < self.entries_max * ENTRY_BYTES {
            to.u64(offset, END);
            offset += ENTRY_BYTES;
        }
        to.finish()
    }

    /// Whether there is no bad block: the superblock's feature bit is then off.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// How many entries the log holds on disk.
    pub fn entries(&self) -> usize {
        self.runs.iter().map(|run| run.entries()).sum()
    }

    /// How many it has room for.
    pub fn entries_max(&self) -> usize {
        self.entries_max
    }

    /// The bad ranges, in sectors of the device, in order.
    pub fn ranges(&self) -> impl Iterator<Item = (Sector, Sectors)> {
        self.runs.iter().map(|run| self.sectors(*run))
    }

    /// The first bad range that overlaps `length` sectors at `at` of the device.
    pub fn first_overlap(&self, at: Sector, length: Sectors) -> Option<(Sector, Sectors)> {
        if length.0 == 0 {
            return None;
        }
        let first = self.runs.partition_point(|run| run.end << self.shift <= at.0);
        let run = *self.runs.get(first)?;
        (run.start << self.shift < at.0.saturating_add(length.0)).then(|| self.sectors(run))
    }

    /// Marks sectors bad, rounded out to blocks.
    ///
    /// # Errors
    /// [`BadBlocksError::Full`], `Beyond`.
    pub fn insert(&mut self, at: Sector, length: Sectors) -> Result<(), BadBlocksError> {
        let start = at.0 >> self.shift;
        let end = at.0.saturating_add(length.0).div_ceil(1 << self.shift);
        if end > self.blocks_max() {
            return Err(BadBlocksError::Beyond { at, length });
        }
        self.change(|log| {
            if start < end {
                log.mark(Run { start, end });
            }
        })
    }

    /// Marks sectors good again, for instance after they were written. Blocks that they fill only
    /// in part stay bad.
    ///
    /// # Errors
    /// [`BadBlocksError::Full`]: a hole in a range needs one entry more.
    pub fn remove(&mut self, at: Sector, length: Sectors) -> Result<(), BadBlocksError> {
        let start = at.0.div_ceil(1 << self.shift);
        let end = at.0.saturating_add(length.0) >> self.shift;
        self.change(|log| {
            if start < end {
                log.clear(Run { start, end });
            }
        })
    }

    /// Makes a change unless it leaves more entries than there is room for.
    fn change(&mut self, change: impl FnOnce(&mut Self)) -> Result<(), BadBlocksError> {
        let before = self.runs.clone();
        change(self);
        if self.entries() > self.entries_max {
            self.runs = before;
            return Err(BadBlocksError::Full { entries_max: self.entries_max });
        }
        Ok(())
    }

    /// Adds a run; those that it overlaps or touches become one with it.
    fn mark(&mut self, run: Run) {
        let first = self.runs.partition_point(|of| of.end < run.start);
        let behind = self.runs.partition_point(|of| of.start <= run.end);
        let touched = &self.runs[first..behind];
        let start = touched.first().map_or(run.start, |of| of.start.min(run.start));
        let end = touched.last().map_or(run.end, |of| of.end.max(run.end));
        self.runs.splice(first..behind, [Run { start, end }]);
    }

    /// Takes a run away from those that it overlaps.
    fn clear(&mut self, run: Run) {
        let first = self.runs.partition_point(|of| of.end <= run.start);
        let behind = self.runs.partition_point(|of| of.start < run.end);
        if first >= behind {
            return;
        }
        let before = Run { start: self.runs[first].start, end: run.start };
        let after = Run { start: run.end, end: self.runs[behind - 1].end };
        let rest = [before, after].into_iter().filter(|of| of.start < of.end);
        self.runs.splice(first..behind, rest);
    }

    fn sectors(&self, run: Run) -> (Sector, Sectors) {
        (Sector(run.start << self.shift), Sectors((run.end - run.start) << self.shift))
    }

    /// No bad block lies at this number or behind it.
    fn blocks_max(&self) -> u64 {
        BLOCKS_MAX.min(u64::MAX >> self.shift)
    }

    /// How many sectors the log has on disk.
    pub fn size(&self) -> Sectors {
        self.size
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const LOG: Sectors = Sectors(8);

    fn log(ranges: &[(u64, u64)]) -> BadBlockLog {
        let mut log = BadBlockLog::new(LOG, 0).expect("a shift of md");
        for (at, length) in ranges {
            log.insert(Sector(*at), Sectors(*length)).expect("room");
        }
        log
    }

    /// Ranges marked bad, one marked good again, and what stays bad.
    fn check(marked: &[(u64, u64)], good: (u64, u64), expected: &[(u64, u64)]) {
        let mut log = log(marked);
        log.remove(Sector(good.0), Sectors(good.1)).expect("room");
        let ranges: Vec<_> = log.ranges().map(|(at, length)| (at.0, length.0)).collect();
        assert_eq!(ranges, expected);
        assert_eq!(BadBlockLog::decode(&log.encode(), LOG, 0), Ok(log));
    }

    #[test]
    fn ranges_merge_where_they_touch() {
        check(&[(10, 2), (14, 2), (12, 2)], (0, 0), &[(10, 6)]);
        check(&[(10, 2), (13, 2)], (0, 0), &[(10, 2), (13, 2)]);
        check(&[(10, 20), (12, 2)], (0, 0), &[(10, 20)]);
    }

    #[test]
    fn a_hole_parts_a_range() {
        check(&[(10, 10)], (13, 2), &[(10, 3), (15, 5)]);
        check(&[(10, 4), (20, 4)], (12, 10), &[(10, 2), (22, 2)]);
        check(&[(10, 4)], (0, 100), &[]);
        check(&[(10, 4)], (14, 100), &[(10, 4)]);
    }

    #[test]
    fn a_long_range_takes_several_entries() {
        let log = log(&[(100, 1025)]);
        assert_eq!(log.entries(), 3);
        let first = u64::from_le_bytes(log.encode()[..8].try_into().expect("eight bytes"));
        assert_eq!(first, 100 << 10 | 512);
    }

    #[test]
    fn a_full_log_refuses_and_stays_as_it_was() {
        let mut log = log(&(0..512).map(|index| (index * 10, 2)).collect::<Vec<_>>());
        let before = log.clone();
        let full = Err(BadBlocksError::Full { entries_max: 512 });
        assert_eq!(log.insert(Sector(9999), Sectors(1)), full);
        assert_eq!(log, before);
        assert_eq!(log.insert(Sector(2), Sectors(1)), Ok(()), "one grows");
        assert_eq!(log.remove(Sector(1), Sectors(1)), full, "a hole would be one more");
    }

    #[test]
    fn blocks_of_several_sectors_round_out_when_bad_and_in_when_good() {
        let mut log = BadBlockLog::new(LOG, 3).expect("a shift of md");
        log.insert(Sector(9), Sectors(1)).expect("room");
        assert_eq!(log.ranges().next(), Some((Sector(8), Sectors(8))));
        log.remove(Sector(8), Sectors(7)).expect("room");
        assert!(!log.is_empty(), "one sector of the block is still bad");
        log.remove(Sector(8), Sectors(8)).expect("room");
        assert!(log.is_empty());
    }

    #[test]
    fn damaged_logs_are_refused() {
        assert!(BadBlockLog::decode(&[0; 4095], LOG, 0).is_err());
        assert_eq!(BadBlockLog::decode(&[0; 4096], LOG, 60), Err(BadBlocksError::Shift(60)));
        let mut bytes = vec![0xFF; 4096];
        bytes[..8].copy_from_slice(&(u64::MAX - 1).to_le_bytes());
        let entry = Err(BadBlocksError::Entry { index: 0, entry: u64::MAX - 1 });
        assert_eq!(
            BadBlockLog::decode(&bytes, LOG, 0),
            entry,
            "1022 blocks from the very last one"
        );
        let long = |index: u64| ((index * 2000) << 10 | 1023).to_le_bytes();
        let bytes: Vec<u8> = (0..512).flat_map(long).collect();
        let full = Err(BadBlocksError::Full { entries_max: 512 });
        assert_eq!(BadBlockLog::decode(&bytes, LOG, 0), full, "md writes two entries for each");
        let beyond = BadBlockLog::new(LOG, 0).expect("empty").insert(Sector(1 << 54), Sectors(1));
        assert!(matches!(beyond, Err(BadBlocksError::Beyond { .. })));
        assert!(BadBlockLog::decode(&[0; 4096], LOG, 0).expect("blank").is_empty());
    }

    proptest! {
        #[test]
        fn a_log_is_a_set_of_sectors(
            changes in prop::collection::vec((any::<bool>(), 0u64..200, 0u64..40), 1..30),
            (at, length) in (0u64..220, 0u64..40),
        ) {
            let (mut log, mut set) = (log(&[]), BTreeSet::new());
            for (bad, at, length) in changes {
                let (at_sector, length_sectors) = (Sector(at), Sectors(length));
                if bad {
                    log.insert(at_sector, length_sectors).expect("room");
                    set.extend(at..at + length);
                } else {
                    log.remove(at_sector, length_sectors).expect("room");
                    set.retain(|sector| !(at..at + length).contains(sector));
                }
            }
            let flat: Vec<u64> =
                log.ranges().flat_map(|(at, length)| at.0..at.0 + length.0).collect();
            prop_assert_eq!(&flat, &set.iter().copied().collect::<Vec<_>>());
            let overlap = log.first_overlap(Sector(at), Sectors(length));
            prop_assert_eq!(overlap.is_some(), set.range(at..at + length).next().is_some());
            prop_assert_eq!(BadBlockLog::decode(&log.encode(), LOG, 0), Ok(log));
        }
    }
}
