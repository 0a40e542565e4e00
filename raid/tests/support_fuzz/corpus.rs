//! What the mutations start from: pieces of real arrays' images.

use super::readers::Reader;
use crate::support_fixtures::Fixture;
use raid::metadata::superblock::{SUPERBLOCK_BYTES, Version, find};
use raid::units::{Sector, Sectors};

/// Arrays that show every version, feature and structure between them.
const ARRAYS: [&str; 15] = [
    "linear-3",
    "raid0-multizone-original",
    "raid1-2",
    "raid1-2-badblocks",
    "raid1-2-crash-bitmap",
    "raid1-2-meta0.90-bitmap",
    "raid1-2-meta1.1-bitmap",
    "raid10-4-n2-crash-bitmap",
    "raid5-3-replace-mid",
    "raid5-4-badblocks",
    "raid5-4-crash-journal",
    "raid5-4-crash-ppl",
    "raid5-4-meta0.90",
    "raid5-4-meta1.0",
    "raid5-reshape-3to4",
];
/// Enough of a log for several headers with their partial parity.
const LOG_PIECE: Sectors = Sectors(256);
/// Blocks of the journal that make a small ring.
const RING: Sectors = Sectors(64 * 8);

/// A piece of an image, or several superblocks one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Seed {
    pub(crate) bytes: Vec<u8>,
    pub(crate) version: Version,
    /// Where a superblock lies, in sectors.
    pub(crate) at: Sector,
    /// The device's size.
    pub(crate) size: Sectors,
    /// The array's UUID as logs know it.
    pub(crate) memory_uuid: [u8; 16],
}

/// The seeds of each reader.
pub(crate) struct Corpus {
    seeds: Vec<(Reader, Seed)>,
}

impl Corpus {
    pub(crate) fn load() -> Self {
        let mut seeds = Vec::new();
        for name in ARRAYS {
            let fixture = Fixture::load(name);
            let mut whole: Option<Seed> = None;
            for image in &fixture.images {
                let pieces = pieces(image);
                let superblock = &pieces[0].1;
                let bytes = superblock.bytes.clone();
                match &mut whole {
                    Some(whole) => whole.bytes.extend(bytes),
                    None => whole = Some(superblock.clone()),
                }
                seeds.extend(pieces);
            }
            seeds.push((Reader::Assembly, whole.expect("an array has members")));
        }
        Self { seeds }
    }

    /// The seeds of one reader.
    pub(crate) fn of(&self, reader: Reader) -> Vec<&Seed> {
        self.seeds.iter().filter(|seed| seed.0 == reader).map(|seed| &seed.1).collect()
    }
}

/// What an image holds for each reader, the superblock first.
fn pieces(image: &[u8]) -> Vec<(Reader, Seed)> {
    let superblock = find(image).expect("every image has a superblock");
    let size = Sectors::from_bytes_rounded_down(image.len() as u64);
    let seed = |at: Sector, length: Sectors| {
        let start = at.byte_offset() as usize;
        Seed {
            bytes: image[start..start + length.bytes() as usize].to_vec(),
            version: superblock.version,
            at: superblock.at,
            size,
            memory_uuid: superblock.memory_uuid(),
        }
    };
    let whole = Sectors::from_bytes_rounded_up(SUPERBLOCK_BYTES as u64);
    let mut pieces = vec![(Reader::Superblock, seed(superblock.at, whole))];
    if let (Some(at), Some(room)) = (superblock.bitmap_at(), superblock.bitmap_room(size)) {
        pieces.push((Reader::Bitmap, seed(at, room)));
    }
    if let Some((at, length)) = superblock.bad_block_log() {
        pieces.push((Reader::BadBlocks, seed(at, length)));
    }
    if let Some((at, _)) = superblock.ppl() {
        pieces.push((Reader::Ppl, seed(at, LOG_PIECE)));
    }
    if let Some(tail) = superblock.journal_tail() {
        pieces.push((Reader::Journal, seed(superblock.data_offset() + Sectors(tail.0), RING)));
    }
    pieces
}
