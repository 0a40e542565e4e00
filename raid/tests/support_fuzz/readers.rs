//! The readers under test: what each is given, what it has to hold, and how its checksums are made
//! right again.

use super::corpus::Seed;
use raid::metadata::assembly::{Candidate, Options, assemble};
use raid::metadata::bad_blocks::BadBlockLog;
use raid::metadata::bitmap::Bitmap;
use raid::metadata::journal::{self, Scanner};
use raid::metadata::ppl;
use raid::metadata::superblock::{Location, SUPERBLOCK_BYTES, Superblock, Version};
use raid::units::{Sector, Sectors};

/// A reader of metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    Superblock,
    Bitmap,
    BadBlocks,
    Ppl,
    Journal,
    Assembly,
}

impl Reader {
    pub(crate) const ALL: [Self; 6] =
        [Self::Superblock, Self::Bitmap, Self::BadBlocks, Self::Ppl, Self::Journal, Self::Assembly];

    /// Its name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Superblock => "superblock",
            Self::Bitmap => "bitmap",
            Self::BadBlocks => "bad-blocks",
            Self::Ppl => "ppl",
            Self::Journal => "journal",
            Self::Assembly => "assembly",
        }
    }

    /// The most that reading so many bytes may allocate at one time.
    pub(crate) fn allowed_bytes(self, input_bytes: usize) -> usize {
        let fixed = match self {
            // A slot for each of the 1920 devices that md knows, and messages that name them.
            Self::Assembly => 512 << 10,
            _ => 32 << 10,
        };
        8 * input_bytes + fixed
    }

    /// Reads the bytes and says whether they were taken. Panics where a promise is broken.
    pub(crate) fn read(self, input: &Seed) -> bool {
        match self {
            Self::Superblock => superblock(input),
            Self::Bitmap => bitmap(input),
            Self::BadBlocks => bad_blocks(input),
            Self::Ppl => partial_parity(input),
            Self::Journal => journal_ring(input),
            Self::Assembly => assembly(input),
        }
    }

    /// Makes the checksums right.
    pub(super) fn seal(self, seed: &mut Seed) {
        match self {
            Self::Superblock | Self::Assembly => {
                for of in seed.bytes.chunks_mut(SUPERBLOCK_BYTES) {
                    seal_superblock(seed.version, of);
                }
            }
            Self::Ppl => seal_logs(&mut seed.bytes),
            Self::Journal => seal_journal(&mut seed.bytes, seed.memory_uuid),
            Self::Bitmap | Self::BadBlocks => {}
        }
    }
}

fn superblock(input: &Seed) -> bool {
    let location = Location { version: input.version, at: input.at };
    let Ok(of) = Superblock::decode(location, input.size, &input.bytes) else { return false };
    let again = Superblock::decode(location, input.size, &of.encode());
    assert_eq!(again.as_ref(), Ok(&of), "what was written is read back");
    let facts = (of.role(), of.resync_offset(), of.recovery_offset(), of.journal_tail());
    let places = (of.bitmap_at(), of.bitmap_room(input.size), of.ppl(), of.bad_block_log());
    let rest = (of.reshape(), of.new_data_offset(), of.name(), of.memory_uuid());
    std::hint::black_box((facts, places, rest));
    assert!(of.geometry().is_ok(), "a superblock without one is refused");
    assert!(of.data_offset().0 + of.data_size().0 <= input.size.0, "data lies on the device");
    true
}

fn bitmap(input: &Seed) -> bool {
    let room = Sectors::from_bytes_rounded_down(input.bytes.len() as u64);
    let Ok(of) = Bitmap::decode(&input.bytes, room) else { return false };
    assert!(
        Bitmap::decode(&of.encode(), room).as_ref() == Ok(&of),
        "what was written is read back"
    );
    let dirty: u64 = of.dirty_ranges().map(|(_, length)| length.0).sum();
    assert!(dirty <= of.header.sync_size.0, "no more is dirty than there is");
    true
}

fn bad_blocks(input: &Seed) -> bool {
    let size = Sectors::from_bytes_rounded_down(input.bytes.len() as u64);
    let shift = input.bytes.first().map_or(0, |byte| byte % 12);
    let Ok(of) = BadBlockLog::decode(&input.bytes, size, shift) else { return false };
    let again = BadBlockLog::decode(&of.encode(), size, shift);
    assert_eq!(again.as_ref(), Ok(&of), "what was written is read back");
    for (at, length) in of.ranges() {
        assert_eq!(of.first_overlap(at, length), Some((at, length)));
    }
    true
}

fn partial_parity(input: &Seed) -> bool {
    let signature = ppl::signature(input.memory_uuid);
    let Ok(of) = ppl::newest(&input.bytes, signature, true) else { return false };
    for entry in of.partial_parity(&input.bytes) {
        let Ok((entry, _)) = entry else { continue };
        let shape = entry.shape(Sectors(128), 3);
        for row in [0, shape.strip.0 / 2] {
            if row < shape.strip.0 {
                assert!(shape.row(row).count() <= 3);
            }
        }
    }
    true
}

fn journal_ring(input: &Seed) -> bool {
    let size = Sectors::from_bytes_rounded_down(input.bytes.len() as u64);
    let mut scanner = Scanner::new(input.memory_uuid, size, Sector(0));
    let (mut blocks, mut batches) = (0, 0);
    while let Some(at) = scanner.wants() {
        let start = at.byte_offset() as usize;
        let end = input.bytes.len().min(start + journal::BLOCK_BYTES);
        batches += u32::from(scanner.give(&input.bytes[start..end]).is_some());
        blocks += 1;
        assert!(blocks <= 3 * size.0 / journal::BLOCK_SECTORS + 3, "it goes round and round");
    }
    batches > 0
}

fn assembly(input: &Seed) -> bool {
    let location = Location { version: input.version, at: input.at };
    let member = |(index, bytes): (usize, &[u8])| Candidate {
        name: format!("m{index}"),
        size: input.size,
        superblock: Superblock::decode(location, input.size, bytes),
    };
    let devices: Vec<_> = input.bytes.chunks(SUPERBLOCK_BYTES).enumerate().map(member).collect();
    let options = |degraded| Options { degraded, force: degraded, raid0_layout: None };
    let strict = assemble(&devices, options(false));
    let forced = assemble(&devices, options(true));
    assert!(strict.is_err() || forced.is_ok(), "what is allowed without leave is so with it");
    for found in [&strict, &forced] {
        match found {
            Ok(found) => assert!(found.slots.len() <= 1920, "md knows no more devices"),
            Err(error) => assert!(!error.to_string().contains('\n'), "a message is one line"),
        }
    }
    forced.is_ok()
}

fn put(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn seal_superblock(version: Version, bytes: &mut [u8]) {
    let at = if version == Version::V0_90 { 152 } else { 216 };
    if bytes.len() < 256 {
        return;
    }
    let end = match version {
        Version::V0_90 => bytes.len(),
        _ => (256 + 2 * (word(bytes, 220) as usize).min(SUPERBLOCK_BYTES)).min(bytes.len()),
    };
    put(bytes, at, 0);
    let words = bytes[..end].chunks(4).map(|of| {
        let mut whole = [0; 4];
        whole[..of.len()].copy_from_slice(of);
        u64::from(u32::from_le_bytes(whole))
    });
    let sum: u64 = words.sum();
    put(bytes, at, (sum as u32).wrapping_add((sum >> 32) as u32));
}

/// Every header of a log that still looks like one.
fn seal_logs(bytes: &mut [u8]) {
    for at in (0..bytes.len().saturating_sub(ppl::HEADER_BYTES - 1)).step_by(512) {
        let header = &mut bytes[at..at + ppl::HEADER_BYTES];
        if header[..256].iter().all(|byte| *byte == 0xFF) {
            put(header, 532, 0);
            let sum = crc32c::crc32c(header);
            put(header, 532, sum);
        }
    }
}

/// Every meta block that still looks like one; its place becomes that in the ring.
fn seal_journal(bytes: &mut [u8], memory_uuid: [u8; 16]) {
    // md seeds the sum with that of the UUID, and inverts neither end.
    let raw = |seed: u32, bytes: &[u8]| !crc32c::crc32c_append(!seed, bytes);
    let seed = raw(!0, &memory_uuid);
    for (index, block) in bytes.chunks_exact_mut(journal::BLOCK_BYTES).enumerate() {
        if word(block, 0) == journal::MAGIC {
            put(block, 24, (index as u64 * journal::BLOCK_SECTORS) as u32);
            put(block, 28, 0);
            put(block, 4, 0);
            let sum = raw(seed, block);
            put(block, 4, sum);
        }
    }
}
