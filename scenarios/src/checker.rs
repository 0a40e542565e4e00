//! Blocks that say what they are, and the check that a block read is the one last written.
//!
//! Each sector carries a header and a filling that both follow from where it lies, which write of
//! that block put it there, and the run's seed; so a sector that was misplaced, torn off, stale or
//! damaged shows itself. A [`Ledger`] knows the last write of each block of one job. Blocks that
//! nobody wrote in this run may hold anything, or a sound block of an earlier run.

use raid::units::{SECTOR_BYTES, Sector};

const MAGIC: u64 = u64::from_be_bytes(*b"RAIDBED1");
const WORD_BYTES: usize = 8;

/// Which write of a block: 1 for the first of a run, 0 for none.
pub type Generation = u32;

/// Why a block is not what was last written there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// The sector bears no header of ours.
    #[error("sector {at}: expected write {expected} of this block, found no pattern")]
    Unmarked {
        /// The sector.
        at: Sector,
        /// Which write was expected.
        expected: Generation,
    },
    /// The sector belongs elsewhere.
    #[error("sector {at}: holds the content of sector {found}")]
    Misplaced {
        /// The sector.
        at: Sector,
        /// Where its content belongs.
        found: Sector,
    },
    /// The sector was written by another write than the last.
    #[error("sector {at}: expected write {expected} of this block, found write {found}")]
    Stale {
        /// The sector.
        at: Sector,
        /// Which write was expected.
        expected: Generation,
        /// Which was found.
        found: Generation,
    },
    /// The sector was written by a run with another seed.
    #[error("sector {at}: expected the seed {expected}, found {found}")]
    ForeignSeed {
        /// The sector.
        at: Sector,
        /// This run's seed.
        expected: u64,
        /// The one found.
        found: u64,
    },
    /// The header is sound, what follows is not.
    #[error("sector {at}: damaged at byte {byte}")]
    Damaged {
        /// The sector.
        at: Sector,
        /// The first wrong byte in it.
        byte: usize,
    },
}

/// Fills `block`, which lies at `at`, with the pattern of write `generation`.
pub fn fill(block: &mut [u8], at: Sector, generation: Generation, seed: u64) {
    for (index, sector) in block.chunks_exact_mut(SECTOR_BYTES as usize).enumerate() {
        let words = pattern(Sector(at.0 + index as u64), generation, seed);
        for (bytes, word) in sector.chunks_exact_mut(WORD_BYTES).zip(words) {
            bytes.copy_from_slice(&word.to_be_bytes());
        }
    }
}

/// Checks `block`, read from `at`, against the last write there. `Ok(false)` says that nothing of
/// it could be checked, because this run did not write it and it bears no pattern.
///
/// # Errors
/// The first sector that is not as it must be.
pub fn check(block: &[u8], at: Sector, last: Generation, seed: u64) -> Result<bool, Mismatch> {
    let mut checked = false;
    for (index, sector) in block.chunks_exact(SECTOR_BYTES as usize).enumerate() {
        checked |= check_sector(sector, Sector(at.0 + index as u64), last, seed)?;
    }
    Ok(checked)
}

fn check_sector(sector: &[u8], at: Sector, last: Generation, seed: u64) -> Result<bool, Mismatch> {
    let mut words = sector
        .chunks_exact(WORD_BYTES)
        .map(|bytes| u64::from_be_bytes(bytes.try_into().expect("chunks of a word")));
    let mut next = || words.next().expect("a sector has 64 words");
    let (magic, address, generation, written_with) = (next(), next(), next(), next());
    let written_in_this_run = last != 0;
    if magic != MAGIC {
        return match written_in_this_run {
            true => Err(Mismatch::Unmarked { at, expected: last }),
            false => Ok(false),
        };
    }
    if address != at.0 {
        return Err(Mismatch::Misplaced { at, found: Sector(address) });
    }
    if written_in_this_run && written_with != seed {
        return Err(Mismatch::ForeignSeed { at, expected: seed, found: written_with });
    }
    let found = generation as Generation;
    if written_in_this_run && found != last {
        return Err(Mismatch::Stale { at, expected: last, found });
    }
    for (index, expected) in pattern(at, found, written_with).enumerate() {
        let start = index * WORD_BYTES;
        let bytes = &sector[start..start + WORD_BYTES];
        let wrong = bytes.iter().zip(expected.to_be_bytes()).position(|(is, should)| *is != should);
        if let Some(wrong) = wrong {
            return Err(Mismatch::Damaged { at, byte: start + wrong });
        }
    }
    Ok(true)
}

/// The words of a sector: magic, address, generation, seed, and a filling that follows from them.
fn pattern(at: Sector, generation: Generation, seed: u64) -> impl Iterator<Item = u64> {
    let header = [MAGIC, at.0, u64::from(generation), seed];
    let mut state = header.iter().fold(0, |state, word| mix(state ^ word));
    let filling = std::iter::from_fn(move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        Some(mix(state))
    });
    header.into_iter().chain(filling).take(SECTOR_BYTES as usize / WORD_BYTES)
}

/// The output function of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// What one job knows of its blocks: the last write of each, and which have a request under way.
/// A block with a request under way takes no other, so what must be read is always known.
pub struct Ledger {
    first: u64,
    generations: Vec<Generation>,
    busy: Vec<bool>,
}

impl Ledger {
    /// A ledger for `count` blocks from `first` on.
    pub fn new(first: u64, count: u64) -> Self {
        let count = usize::try_from(count).expect("a ledger fits into memory");
        Self { first, generations: vec![0; count], busy: vec![false; count] }
    }

    /// Takes the block at `wanted`, or else the next one that no request is under way on.
    ///
    /// # Panics
    /// If all are taken: a job needs more blocks than its depth.
    pub fn take(&mut self, wanted: u64) -> u64 {
        let start = (wanted - self.first) as usize;
        let count = self.busy.len();
        let free = (0..count).map(|step| (start + step) % count).find(|index| !self.busy[*index]);
        let index = free.expect("a job has more blocks than requests under way");
        self.busy[index] = true;
        self.first + index as u64
    }

    /// The last write of a block that completed.
    pub fn last_write(&self, block_index: u64) -> Generation {
        self.generations[(block_index - self.first) as usize]
    }

    /// Lets a block go; `written` is the write that has completed, if any.
    pub fn release(&mut self, block_index: u64, written: Option<Generation>) {
        let index = (block_index - self.first) as usize;
        assert!(self.busy[index], "block {block_index} was not taken");
        self.busy[index] = false;
        if let Some(generation) = written {
            self.generations[index] = generation;
        }
    }

    /// The blocks that were written, ascending, with their last write.
    pub fn written(&self) -> impl Iterator<Item = (u64, Generation)> {
        let first = self.first;
        self.generations
            .iter()
            .enumerate()
            .filter(|(_, generation)| **generation != 0)
            .map(move |(index, generation)| (first + index as u64, *generation))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Sector = Sector(1000);

    fn block(generation: Generation, seed: u64) -> Vec<u8> {
        let mut block = vec![0; 2048];
        fill(&mut block, AT, generation, seed);
        block
    }

    #[test]
    fn the_last_write_is_recognised() {
        assert_eq!(check(&block(3, 7), AT, 3, 7), Ok(true));
    }

    #[test]
    fn a_sound_block_of_an_earlier_run_passes_and_an_unmarked_one_is_not_checked() {
        assert_eq!(check(&block(3, 1), AT, 0, 7), Ok(true));
        assert_eq!(check(&[0; 2048], AT, 0, 7), Ok(false));
    }

    #[test]
    fn each_kind_of_wrong_content_is_told_apart() {
        let stale = Mismatch::Stale { at: AT, expected: 4, found: 3 };
        assert_eq!(check(&block(3, 7), AT, 4, 7), Err(stale));
        let misplaced = Mismatch::Misplaced { at: Sector(1008), found: AT };
        assert_eq!(check(&block(3, 7), Sector(1008), 3, 7), Err(misplaced));
        let foreign = Mismatch::ForeignSeed { at: AT, expected: 8, found: 7 };
        assert_eq!(check(&block(3, 7), AT, 3, 8), Err(foreign));
        assert_eq!(check(&[0; 512], AT, 1, 7), Err(Mismatch::Unmarked { at: AT, expected: 1 }));
    }

    #[test]
    fn any_flipped_byte_is_found() {
        for byte in 0..2048 {
            let mut block = block(3, 7);
            block[byte] ^= 0x10;
            assert!(check(&block, AT, 3, 7).is_err(), "byte {byte}");
        }
    }

    #[test]
    fn a_block_with_a_request_under_way_takes_no_other() {
        let mut ledger = Ledger::new(10, 3);
        assert_eq!((ledger.take(12), ledger.take(12), ledger.take(10)), (12, 10, 11));
        ledger.release(10, Some(1));
        assert_eq!(ledger.take(12), 10);
        assert_eq!(ledger.written().collect::<Vec<_>>(), [(10, 1)]);
        assert_eq!(ledger.last_write(11), 0);
    }
}
