//! Sets of a stripe's blocks, and runs of sectors within its chunks.
//!
//! Pure bookkeeping: never knows a member or a layout.

use crate::layout::parity::Block;
use crate::units::Sectors;
use std::fmt;

const WORDS: usize = 6;
/// More members than this no superblock of md describes.
pub const MEMBERS_MAX: u32 = WORDS as u32 * u64::BITS;
const P_BIT: u32 = MEMBERS_MAX - 2;
const Q_BIT: u32 = MEMBERS_MAX - 1;

/// Some blocks of a stripe.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct BlockSet([u64; WORDS]);

/// A run of sectors within the chunks of a stripe, the same on each member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rows {
    /// The first sector of the chunk that is in it.
    pub start: Sectors,
    /// The first that is no more in it.
    pub end: Sectors,
}

impl BlockSet {
    /// No block.
    pub const EMPTY: Self = Self([0; WORDS]);

    /// The data blocks 0 to `count`, without the last.
    pub fn data(count: u32) -> Self {
        (0..count).map(Block::Data).collect()
    }

    /// Whether `block` is in it.
    pub fn contains(&self, block: Block) -> bool {
        let bit = bit_of(block);
        self.0[(bit / u64::BITS) as usize] >> (bit % u64::BITS) & 1 == 1
    }

    /// Puts `block` in.
    pub fn insert(&mut self, block: Block) {
        let bit = bit_of(block);
        self.0[(bit / u64::BITS) as usize] |= 1 << (bit % u64::BITS);
    }

    /// What is in one or the other.
    pub fn union(self, other: Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] | other.0[word]))
    }

    /// What is in both.
    pub fn intersection(self, other: Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] & other.0[word]))
    }

    /// What is in this one only.
    pub fn difference(self, other: Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] & !other.0[word]))
    }

    /// Whether all of it is in `other`.
    pub fn is_subset_of(self, other: Self) -> bool {
        self.difference(other).is_empty()
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self == Self::EMPTY
    }

    /// How many.
    pub fn count(self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// Its data blocks alone.
    pub fn only_data(self) -> Self {
        self.difference([Block::P, Block::Q].into_iter().collect())
    }

    /// Data in ascending order, then P, then Q.
    pub fn iter(self) -> impl Iterator<Item = Block> {
        (0..WORDS as u32).flat_map(move |word| {
            let mut left = self.0[word as usize];
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros())?;
                left &= left - 1;
                Some(block_of(word * u64::BITS + bit))
            })
        })
    }
}

impl FromIterator<Block> for BlockSet {
    fn from_iter<I: IntoIterator<Item = Block>>(blocks: I) -> Self {
        let mut set = Self::EMPTY;
        blocks.into_iter().for_each(|block| set.insert(block));
        set
    }
}

impl fmt::Debug for BlockSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{{{self}}}")
    }
}

impl fmt::Display for BlockSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, block) in self.iter().enumerate() {
            let gap = if index == 0 { "" } else { " " };
            write!(formatter, "{gap}{block}")?;
        }
        Ok(())
    }
}

fn bit_of(block: Block) -> u32 {
    match block {
        Block::P => P_BIT,
        Block::Q => Q_BIT,
        Block::Data(index) => {
            assert!(index < P_BIT, "a stripe of more than {MEMBERS_MAX} blocks");
            index
        }
    }
}

fn block_of(bit: u32) -> Block {
    match bit {
        P_BIT => Block::P,
        Q_BIT => Block::Q,
        index => Block::Data(index),
    }
}

impl Rows {
    /// From one sector of the chunk to another, without the latter.
    ///
    /// # Panics
    /// If that is empty.
    pub fn new(start: u64, end: u64) -> Self {
        assert!(start < end, "rows {start} to {end} are none");
        Self { start: Sectors(start), end: Sectors(end) }
    }

    /// How many sectors.
    pub fn length(self) -> Sectors {
        self.end - self.start
    }

    /// Whether some sector is in both.
    pub fn overlaps(self, other: Self) -> bool {
        self.start < other.end && other.start < self.end
    }

    /// Whether all of `other` is in it.
    pub fn covers(self, other: Self) -> bool {
        self.start <= other.start && other.end <= self.end
    }

    /// What is in both.
    pub fn intersection(self, other: Self) -> Option<Self> {
        self.overlaps(other)
            .then(|| Self { start: self.start.max(other.start), end: self.end.min(other.end) })
    }

    /// The bytes of a buffer that begins where `whole` begins.
    pub fn bytes_within(self, whole: Self) -> std::ops::Range<usize> {
        assert!(whole.covers(self), "rows {self} of {whole}");
        let start = (self.start - whole.start).bytes() as usize;
        start..start + self.length().bytes() as usize
    }

    /// What is left of it without `hole`: nothing, one run or two.
    pub fn without(self, hole: Self) -> impl Iterator<Item = Self> {
        let run = |start: Sectors, end: Sectors| (start < end).then_some(Self { start, end });
        let before = run(self.start, self.end.min(hole.start));
        let behind = run(self.start.max(hole.end), self.end);
        before.into_iter().chain(behind)
    }

    /// The pieces between multiples of `unit`.
    pub fn split(self, unit: u64) -> impl Iterator<Item = Rows> {
        let mut start = self.start.0;
        std::iter::from_fn(move || {
            let end = self.end.0.min((start / unit + 1) * unit);
            let piece = (start < self.end.0).then(|| Rows::new(start, end));
            start = end;
            piece
        })
    }
}

/// First sector and length, as in `8+16`.
impl fmt::Display for Rows {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}+{}", self.start, self.length())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(set: BlockSet, expected: &str) {
        assert_eq!(set.to_string(), expected);
        assert_eq!(set.count() as usize, set.iter().count());
    }

    #[test]
    fn sets_list_data_first_and_parity_last() {
        let some = [Block::Q, Block::Data(70), Block::P, Block::Data(3)].into_iter().collect();
        check(some, "D3 D70 P Q");
        check(some.only_data(), "D3 D70");
        check(BlockSet::data(3).union(some), "D0 D1 D2 D3 D70 P Q");
        check(BlockSet::data(4).intersection(some), "D3");
        check(BlockSet::data(4).difference(some), "D0 D1 D2");
        check(BlockSet::EMPTY, "");
    }

    #[test]
    fn a_hole_leaves_what_is_before_and_behind() {
        let left = |start, end| {
            let left = Rows::new(10, 20).without(Rows::new(start, end));
            left.map(|rows| rows.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(left(0, 10), ["10+10"]);
        assert_eq!(left(5, 12), ["12+8"]);
        assert_eq!(left(12, 15), ["10+2", "15+5"]);
        assert_eq!(left(20, 25), ["10+10"]);
        assert_eq!(left(10, 20), [""; 0]);
    }

    #[test]
    fn rows_split_at_multiples() {
        let pieces: Vec<String> = Rows::new(5, 20).split(8).map(|rows| rows.to_string()).collect();
        assert_eq!(pieces, ["5+3", "8+8", "16+4"]);
    }
}
