//! The partial parity log: what RAID 5 writes down before it writes a stripe, so that parity can be
//! made right after a crash although a member is missing.
//!
//! ```text
//! header, 4 KiB:  0 reserved, 512 bytes of ones   512 signature   516 zero   520 generation u64
//!               528 entries   532 checksum        536 entries of 24 bytes, 148 at most
//! entry:          0 first data sector u64, of the array   8 partial parity, bytes
//!                12 data, bytes   16 parity's member      20 checksum of the partial parity
//! ```
//!
//! Behind a header lies the partial parity of its entries in order, then the next header. A log with
//! feature "multiple ppls" holds several headers, each member's of its own; the last one counts, as
//! earlier ones were finished. Checksums are CRC-32C, the signature that of the array's UUID.
//!
//! Partial parity is the XOR of the chunks of a stripe that the write does not touch. With it and
//! the data that was (or was not) written, parity is right whatever reached the disks.

use super::bytes::{Reader, Writer, crc32c_raw};
use crate::units::{SECTOR_BYTES, Sector, Sectors};

/// Bytes of a header.
pub const HEADER_BYTES: usize = 4096;
/// How many entries a header holds.
pub const ENTRIES_MAX: usize = (HEADER_BYTES - ENTRIES_AT) / ENTRY_BYTES;
/// What mdadm keeps free for the log: 1 MiB.
pub const LOG_SIZE: Sectors = Sectors(2048);
const RESERVED_BYTES: usize = 512;
const CHECKSUM_AT: usize = 532;
const ENTRIES_AT: usize = 536;
const ENTRY_BYTES: usize = 24;

/// Why bytes are no partial parity log of this array.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PplError {
    /// The bytes end too soon.
    #[error("partial parity log: {found_bytes} bytes are no header of {HEADER_BYTES}")]
    CutShort {
        /// How many there are.
        found_bytes: usize,
    },
    /// The header's checksum is another one.
    #[error(
        "partial parity log: header checksum is {found:08x}, but its bytes give {expected:08x}"
    )]
    Checksum {
        /// The one stored.
        found: u32,
        /// That of the bytes.
        expected: u32,
    },
    /// Another array's log.
    #[error(
        "partial parity log: signature is {found:08x}, but the array's UUID gives {expected:08x}"
    )]
    Signature {
        /// The one stored.
        found: u32,
        /// That of the array.
        expected: u32,
    },
    /// A header that says what cannot be.
    #[error("partial parity log: {field} of entry {entry} is {found}: {reason}")]
    Entry {
        /// The field's name.
        field: &'static str,
        /// Which entry; the number of entries where there are too many.
        entry: usize,
        /// What was found.
        found: u64,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The partial parity is not what was written.
    #[error(
        "partial parity log: checksum of entry {entry} is {found:08x}, but its bytes give \
         {expected:08x}"
    )]
    EntryChecksum {
        /// Which entry.
        entry: usize,
        /// The one stored.
        found: u32,
        /// That of the bytes.
        expected: u32,
    },
}

/// The signature of an array's logs: see [`super::Superblock::memory_uuid`].
pub fn signature(memory_uuid: [u8; 16]) -> u32 {
    checksum(&memory_uuid)
}

/// The checksum of partial parity.
pub fn checksum(bytes: &[u8]) -> u32 {
    !crc32c_raw(!0, bytes)
}

/// A write that may have been under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The first sector of the array that was written.
    pub first: Sector,
    /// How much partial parity there is: one strip, or none where whole stripes were written.
    pub partial_parity: Sectors,
    /// How much data was written.
    pub data: Sectors,
    /// The member that holds the parity.
    pub parity_disk: u32,
    /// The checksum of the partial parity.
    pub checksum: u32,
}

impl Entry {
    /// The strip that the write touched of each chunk, and how many chunks of the stripe it
    /// touched. `chunk` is the array's, `data_disks` how many chunks of data a stripe has.
    pub fn shape(&self, chunk: Sectors, data_disks: u32) -> Shape {
        if self.partial_parity >= chunk {
            let end = self.first.0.saturating_add(self.data.0);
            return Shape { first: self.first, end, chunk, chunks: data_disks, strip: chunk };
        }
        let (chunks, strip) = match self.partial_parity.0 {
            0 => (1, self.data),
            strip => (u32::try_from(self.data.0 / strip).unwrap_or(u32::MAX), self.partial_parity),
        };
        let chunks = chunks.min(data_disks);
        let last = u64::from(chunks.saturating_sub(1)).saturating_mul(chunk.0);
        let end = self.first.0.saturating_add(last).saturating_add(strip.0);
        Shape { first: self.first, end, chunk, chunks, strip }
    }
}

/// Which sectors of a stripe an entry covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    first: Sector,
    /// The sector of the array behind the last one that it covers.
    pub end: u64,
    chunk: Sectors,
    chunks: u32,
    /// How many sectors of each chunk it covers: parity is made right for each of them.
    pub strip: Sectors,
}

impl Shape {
    /// The sectors of the array whose XOR, together with the partial parity at sector `row` of it,
    /// is the parity of the row. Where it yields none, the row was not written.
    ///
    /// # Panics
    /// If the strip has no such row.
    pub fn row(&self, row: u64) -> impl Iterator<Item = Sector> + use<> {
        assert!(row < self.strip.0, "row {row} of {}", self.strip);
        let shape = *self;
        let at = move |chunk: u64| {
            let within = chunk.checked_mul(shape.chunk.0)?.checked_add(row)?;
            shape.first.0.checked_add(within)
        };
        (0..u64::from(shape.chunks)).map_while(at).filter(move |at| *at < shape.end).map(Sector)
    }
}

/// A header of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Whose log it is.
    pub signature: u32,
    /// Counts the headers of one array.
    pub generation: u64,
    /// The writes that it tells of.
    pub entries: Vec<Entry>,
}

impl Header {
    /// Reads a header of the array with this signature.
    ///
    /// # Errors
    /// [`PplError`], but `EntryChecksum`.
    pub fn decode(bytes: &[u8], signature: u32) -> Result<Self, PplError> {
        let Some(bytes) = bytes.get(..HEADER_BYTES) else {
            return Err(PplError::CutShort { found_bytes: bytes.len() });
        };
        let from = Reader::little(bytes);
        let (found, expected) = (from.u32(CHECKSUM_AT), header_checksum(bytes));
        if found != expected {
            return Err(PplError::Checksum { found, expected });
        }
        if from.u32(512) != signature {
            return Err(PplError::Signature { found: from.u32(512), expected: signature });
        }
        let count = from.u32(528) as usize;
        if count > ENTRIES_MAX {
            let reason = "a header holds 148 entries";
            let found = count as u64;
            return Err(PplError::Entry { field: "the number", entry: count, found, reason });
        }
        let entries = (0..count).map(|index| entry(&from, index)).collect::<Result<_, _>>()?;
        Ok(Self { signature, generation: from.u64(520), entries })
    }

    /// The header's bytes, with a fresh checksum.
    ///
    /// # Panics
    /// If there are more than [`ENTRIES_MAX`] entries, or one of more than 4 GiB.
    pub fn encode(&self) -> Vec<u8> {
        assert!(self.entries.len() <= ENTRIES_MAX, "more entries than a header holds");
        let narrow = |of: Sectors| u32::try_from(of.bytes()).expect("an entry below 4 GiB");
        let mut to = Writer::little(HEADER_BYTES);
        to.put(0, &[0xFF; RESERVED_BYTES]);
        to.u32(512, self.signature);
        to.u64(520, self.generation);
        to.u32(528, self.entries.len() as u32);
        for (index, of) in self.entries.iter().enumerate() {
            let at = ENTRIES_AT + index * ENTRY_BYTES;
            to.u64(at, of.first.0);
            to.u32(at + 8, narrow(of.partial_parity));
            to.u32(at + 12, narrow(of.data));
            to.u32(at + 16, of.parity_disk);
            to.u32(at + 20, of.checksum);
        }
        let sum = header_checksum(to.bytes());
        to.u32(CHECKSUM_AT, sum);
        to.finish()
    }

    /// How much of the log it takes with its partial parity.
    pub fn length(&self) -> Sectors {
        let parity: u64 = self.entries.iter().map(|entry| entry.partial_parity.0).sum();
        Sectors(HEADER_BYTES as u64 / SECTOR_BYTES + parity)
    }
}

fn entry(from: &Reader<'_>, index: usize) -> Result<Entry, PplError> {
    let at = ENTRIES_AT + index * ENTRY_BYTES;
    let sectors = |field, offset| {
        let bytes = u64::from(from.u32(at + offset));
        if bytes.is_multiple_of(SECTOR_BYTES) {
            return Ok(Sectors(bytes / SECTOR_BYTES));
        }
        let reason = "it is no whole number of sectors";
        Err(PplError::Entry { field, entry: index, found: bytes, reason })
    };
    Ok(Entry {
        first: Sector(from.u64(at)),
        partial_parity: sectors("the partial parity", 8)?,
        data: sectors("the data", 12)?,
        parity_disk: from.u32(at + 16),
        checksum: from.u32(at + 20),
    })
}

fn header_checksum(bytes: &[u8]) -> u32 {
    let before = crc32c_raw(!0, &bytes[..CHECKSUM_AT]);
    !crc32c_raw(crc32c_raw(before, &[0; 4]), &bytes[CHECKSUM_AT + 4..])
}

/// The header that counts, and where it lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Newest {
    /// The header.
    pub header: Header,
    /// Where it lies in the log.
    pub at: Sector,
}

/// Finds the header that counts in a member's whole log. `multiple` is the superblock's feature
/// "multiple ppls".
///
/// # Errors
/// If not even the first header is one of this array's: what the first is instead. Parity of a
/// dirty array cannot be made right then without a resync.
pub fn newest(log: &[u8], signature: u32, multiple: bool) -> Result<Newest, PplError> {
    let mut newest = Newest { header: Header::decode(log, signature)?, at: Sector(0) };
    if !multiple {
        return Ok(newest);
    }
    loop {
        let at = newest.at + newest.header.length();
        let rest = usize::try_from(at.byte_offset()).ok().and_then(|first| log.get(first..));
        match rest.map(|bytes| Header::decode(bytes, signature)) {
            Some(Ok(header)) if header.generation >= newest.header.generation => {
                newest = Newest { header, at };
            }
            _ => return Ok(newest),
        }
    }
}

impl Newest {
    /// The partial parity of each entry, checked; empty where a whole stripe was written. `log` is
    /// the one that it was found in.
    ///
    /// # Errors
    /// [`PplError::EntryChecksum`], or `Entry` where the log ends before.
    pub fn partial_parity<'log>(
        &self,
        log: &'log [u8],
    ) -> impl Iterator<Item = Result<(Entry, &'log [u8]), PplError>> {
        let mut first = self.at.byte_offset() + HEADER_BYTES as u64;
        self.header.entries.iter().enumerate().map(move |(index, of)| {
            let end = first + of.partial_parity.bytes();
            let range = usize::try_from(first).ok().zip(usize::try_from(end).ok());
            first = end;
            let Some(bytes) = range.and_then(|(first, end)| log.get(first..end)) else {
                let (field, found) = ("the partial parity", of.partial_parity.bytes());
                let reason = "the log ends before";
                return Err(PplError::Entry { field, entry: index, found, reason });
            };
            let expected = checksum(bytes);
            if of.checksum != expected {
                let found = of.checksum;
                return Err(PplError::EntryChecksum { entry: index, found, expected });
            }
            Ok((*of, bytes))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIGNATURE: u32 = 0x1234_5678;

    fn header(generation: u64, partial_parity: &[u8]) -> Header {
        let entry = Entry {
            first: Sector(1000),
            partial_parity: Sectors::from_bytes_rounded_up(partial_parity.len() as u64),
            data: Sectors(16),
            parity_disk: 2,
            checksum: checksum(partial_parity),
        };
        Header { signature: SIGNATURE, generation, entries: vec![entry] }
    }

    /// Headers of these generations one after the other, and which one counts.
    fn check(generations: &[u64], multiple: bool, expected: u64) {
        let parity = [7u8; 1024];
        let mut log = Vec::new();
        for generation in generations {
            log.extend(header(*generation, &parity).encode());
            log.extend(parity);
        }
        log.resize(64 << 10, 0);
        let found = newest(&log, SIGNATURE, multiple).expect("a header");
        assert_eq!(found.header, header(expected, &parity));
        let entries: Vec<_> = found.partial_parity(&log).collect();
        assert_eq!(entries, [Ok((found.header.entries[0], &parity[..]))]);
    }

    #[test]
    fn the_last_header_of_rising_generations_counts() {
        check(&[5], true, 5);
        check(&[5, 8, 9], true, 9);
        check(&[5, 8, 9], false, 5);
        check(&[8, 9, 3], true, 9);
    }

    #[test]
    fn damage_is_told() {
        let sound = header(1, &[]).encode();
        let mut bytes = sound.clone();
        bytes[540] ^= 1;
        assert!(matches!(newest(&bytes, SIGNATURE, true), Err(PplError::Checksum { .. })));
        assert!(matches!(newest(&sound, 1, true), Err(PplError::Signature { .. })));
        assert!(matches!(newest(&sound[1..], 1, true), Err(PplError::CutShort { .. })));
        let parity = [7u8; 512];
        let mut log = header(1, &parity).encode();
        let found = newest(&log, SIGNATURE, true).expect("a header");
        let first = |log: &[u8]| found.partial_parity(log).next().expect("an entry").err();
        assert!(matches!(first(&log), Some(PplError::Entry { .. })), "the log ends before");
        log.extend([8; 512]);
        assert!(matches!(first(&log), Some(PplError::EntryChecksum { .. })));
    }

    #[test]
    fn a_row_takes_the_same_sector_of_each_chunk_that_was_written() {
        let entry = |partial_parity, data| Entry {
            first: Sector(1000),
            partial_parity: Sectors(partial_parity),
            data: Sectors(data),
            parity_disk: 0,
            checksum: 0,
        };
        let rows = |of: Entry, row| -> Vec<u64> {
            of.shape(Sectors(128), 3).row(row).map(|at| at.0).collect()
        };
        // Two sectors of each of two chunks.
        assert_eq!(rows(entry(2, 4), 1), [1001, 1129]);
        // A part of one chunk.
        assert_eq!(rows(entry(8, 8), 7), [1007]);
        // A whole chunk, and a part of the next: the end is not written in the second.
        assert_eq!(rows(entry(128, 192), 63), [1063, 1191]);
        assert_eq!(rows(entry(128, 192), 64), [1064]);
        // No partial parity: a run within one chunk.
        assert_eq!(entry(0, 40).shape(Sectors(128), 3).strip, Sectors(40));
    }
}
