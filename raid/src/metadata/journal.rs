//! The write journal of RAID 4, 5 and 6: a ring of 4 KiB blocks on a device of its own.
//!
//! ```text
//! meta block:  0 magic   4 checksum   8 version=1   9 zero (3)   12 bytes in use
//!             16 sequence u64        24 position u64, sectors    32 payloads
//! payload:     0 type u16   2 flags u16   4 size
//!   data (0), parity (1): size in sectors   8 location u64   16 a checksum each 4 KiB
//!   flush (2):            size in bytes     8 stripes, u64 each
//! ```
//!
//! Behind a meta block lie the blocks of its data and parity payloads in order, then the next meta
//! block with the next sequence. The log ends where one is not as it should be: that is how every
//! log ends, and no error. Checksums are CRC-32C seeded with that of the array's UUID.
//!
//! What to do with a [`Batch`] after a crash, in order: *data* is content of the array, held back
//! until its stripe's *parity* comes; then data and parity go to the members together. Data whose
//! stripe's parity never comes counts as well: parity is computed for it. *Flush* says that a
//! stripe reached the members, so what was held back of it is void.
//!
//! [`Scanner`] asks for one block at a time, so it runs over whatever reads blocks.

use super::bytes::{Reader, crc32c_raw};
use crate::units::{SECTOR_BYTES, Sector, Sectors};
use std::collections::VecDeque;

/// The first word of a meta block.
pub const MAGIC: u32 = 0x6433_C509;
/// Bytes of a block.
pub const BLOCK_BYTES: usize = 4096;
/// Sectors of a block.
pub const BLOCK_SECTORS: u64 = BLOCK_BYTES as u64 / SECTOR_BYTES;
const VERSION: u8 = 1;
const PAYLOADS_AT: usize = 32;

/// What a meta block holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// Content of the array, whole blocks of it.
    Data {
        /// The first sector of the array.
        at: Sector,
        /// What it holds.
        bytes: Vec<u8>,
        /// It was discarded: there are no bytes to go by.
        discarded: bool,
    },
    /// One block of parity.
    Parity {
        /// The sector of the members that the stripe's block has.
        stripe: Sector,
        /// P.
        p: Vec<u8>,
        /// Q, on RAID 6.
        q: Option<Vec<u8>>,
    },
    /// These stripes reached the members.
    Flush {
        /// Their sectors on the members.
        stripes: Vec<Sector>,
    },
}

/// What one meta block holds, all of it checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The block's sequence.
    pub sequence: u64,
    /// Its payloads in order.
    pub payloads: Vec<Payload>,
}

/// Why the log ends.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum End {
    /// The tail is no block of the journal.
    #[error("journal tail is sector {tail}, which is no block of a journal of {size} sectors")]
    Tail {
        /// Where the superblock says that the log begins.
        tail: Sector,
        /// The journal's size.
        size: Sectors,
    },
    /// A block could not be read, or not all of it.
    #[error("journal block at sector {at}: {found_bytes} bytes of {BLOCK_BYTES}")]
    CutShort {
        /// Where it lies.
        at: Sector,
        /// What there is of it.
        found_bytes: usize,
    },
    /// A meta block's field is not as it should be.
    #[error("journal block at sector {at}: {field} is {found:#x}, not {expected:#x}")]
    Field {
        /// Where it lies.
        at: Sector,
        /// The field.
        field: &'static str,
        /// What was found.
        found: u64,
        /// What would be right.
        expected: u64,
    },
    /// A payload that cannot be.
    #[error("journal block at sector {at}: payload at byte {offset} is malformed: {reason}")]
    Payload {
        /// Where the meta block lies.
        at: Sector,
        /// Where the payload lies in it.
        offset: usize,
        /// What is wrong with it.
        reason: &'static str,
    },
}

/// What a meta block announces, before the blocks of it are there.
enum Announced {
    Data { at: Sector, checksums: Vec<u32>, discarded: bool },
    Parity { stripe: Sector, checksums: Vec<u32> },
    Flush { stripes: Vec<Sector> },
}

/// A meta block whose payloads' blocks are being read.
struct Open {
    sequence: u64,
    /// Where the meta block lies.
    at: Sector,
    announced: Vec<Announced>,
    /// Where each block lies, and its checksum.
    wanted: VecDeque<(Sector, u32)>,
    bytes: Vec<u8>,
    /// Where the next meta block lies.
    next: Sector,
}

/// Reads a log from its tail, one block at a time: as long as [`Scanner::wants`] one, give it with
/// [`Scanner::give`].
pub struct Scanner {
    seed: u32,
    /// Whole blocks of the ring.
    ring: Sectors,
    at: Sector,
    /// What the next meta block has; the first one says it itself.
    sequence: Option<u64>,
    open: Option<Open>,
    end: Option<End>,
}

impl Scanner {
    /// A scan of a journal of `size` sectors of data from `tail` on: see
    /// [`super::Superblock::journal_tail`] and [`super::Superblock::memory_uuid`].
    pub fn new(memory_uuid: [u8; 16], size: Sectors, tail: Sector) -> Self {
        let ring = Sectors(size.0 / BLOCK_SECTORS * BLOCK_SECTORS);
        let inside = tail.0 < ring.0 && tail.0.is_multiple_of(BLOCK_SECTORS);
        let end = (!inside).then_some(End::Tail { tail, size });
        let seed = crc32c_raw(!0, &memory_uuid);
        Self { seed, ring, at: tail, sequence: None, open: None, end }
    }

    /// The sector of the journal's data where the next block of 4 KiB is wanted; `None` at the end
    /// of the log.
    pub fn wants(&self) -> Option<Sector> {
        match (&self.end, &self.open) {
            (Some(_), _) => None,
            (None, Some(open)) => open.wanted.front().map(|of| of.0),
            (None, None) => Some(self.at),
        }
    }

    /// Why the log ended, once nothing is wanted.
    pub fn end(&self) -> Option<&End> {
        self.end.as_ref()
    }

    /// Where the next meta block would be written, and its sequence; `None` before the first.
    pub fn head(&self) -> (Sector, Option<u64>) {
        (self.at, self.sequence)
    }

    /// Takes the block that was wanted. Gives a batch when all of its blocks are there.
    ///
    /// # Panics
    /// If nothing was wanted.
    pub fn give(&mut self, bytes: &[u8]) -> Option<Batch> {
        let wanted = self.wants().expect("a block was wanted");
        match self.take(wanted, bytes) {
            Ok(batch) => batch,
            Err(end) => {
                (self.end, self.open) = (Some(end), None);
                None
            }
        }
    }

    fn take(&mut self, at: Sector, bytes: &[u8]) -> Result<Option<Batch>, End> {
        let Some(bytes) = bytes.get(..BLOCK_BYTES) else {
            return Err(End::CutShort { at, found_bytes: bytes.len() });
        };
        let mut open = match self.open.take() {
            None => self.meta(at, bytes)?,
            Some(mut open) => {
                let (at, expected) = open.wanted.pop_front().expect("a block was wanted");
                let found = crc32c_raw(self.seed, bytes);
                if found != expected {
                    let (field, found) = ("checksum", u64::from(found));
                    return Err(End::Field { at, field, found, expected: u64::from(expected) });
                }
                open.bytes.extend_from_slice(bytes);
                open
            }
        };
        if !open.wanted.is_empty() {
            self.open = Some(open);
            return Ok(None);
        }
        (self.at, self.sequence) = (open.next, Some(open.sequence.wrapping_add(1)));
        let mut blocks = std::mem::take(&mut open.bytes).into_iter();
        let mut take =
            |count: usize| blocks.by_ref().take(count * BLOCK_BYTES).collect::<Vec<u8>>();
        let payload = |of| match of {
            Announced::Data { at, checksums, discarded } => {
                Payload::Data { at, bytes: take(checksums.len()), discarded }
            }
            Announced::Parity { stripe, checksums } => {
                let (p, q) = (take(1), (checksums.len() == 2).then(|| take(1)));
                Payload::Parity { stripe, p, q }
            }
            Announced::Flush { stripes } => Payload::Flush { stripes },
        };
        let payloads = open.announced.into_iter().map(payload).collect();
        Ok(Some(Batch { sequence: open.sequence, payloads }))
    }

    /// Reads a meta block.
    fn meta(&self, at: Sector, bytes: &[u8]) -> Result<Open, End> {
        let from = Reader::little(bytes);
        let field = |field, found: u64, expected: u64| {
            if found == expected { Ok(()) } else { Err(End::Field { at, field, found, expected }) }
        };
        field("magic", u64::from(from.u32(0)), u64::from(MAGIC))?;
        let before = crc32c_raw(crc32c_raw(self.seed, &bytes[..4]), &[0; 4]);
        let sum = crc32c_raw(before, &bytes[8..]);
        field("checksum", u64::from(from.u32(4)), u64::from(sum))?;
        field("version", u64::from(bytes[8]), u64::from(VERSION))?;
        field("position", from.u64(24), at.0)?;
        let sequence = from.u64(16);
        field("sequence", sequence, self.sequence.unwrap_or(sequence))?;
        let used = from.u32(12) as usize;
        if !(PAYLOADS_AT..=BLOCK_BYTES).contains(&used) {
            let reason = "the bytes in use are no part of the block";
            return Err(End::Payload { at, offset: 12, reason });
        }
        let (mut announced, mut offset) = (Vec::new(), PAYLOADS_AT);
        let mut open = Open {
            sequence,
            at,
            announced: Vec::new(),
            wanted: VecDeque::new(),
            bytes: Vec::new(),
            next: self.behind(at),
        };
        while offset < used {
            let (payload, behind) = self.payload(&mut open, &bytes[..used], offset)?;
            announced.push(payload);
            offset = behind;
        }
        if open.wanted.len() as u64 >= self.ring.0 / BLOCK_SECTORS {
            let reason = "it announces more blocks than the ring has";
            return Err(End::Payload { at, offset: PAYLOADS_AT, reason });
        }
        open.announced = announced;
        Ok(open)
    }

    /// Reads what a payload announces, and where the next one lies.
    fn payload(
        &self,
        open: &mut Open,
        bytes: &[u8],
        offset: usize,
    ) -> Result<(Announced, usize), End> {
        let malformed = |reason| Err(End::Payload { at: open.at, offset, reason });
        if bytes.len() - offset < 8 {
            return malformed("it is cut off");
        }
        let from = Reader::little(bytes);
        let (kind, flags, size) = (from.u16(offset), from.u16(offset + 2), from.u32(offset + 4));
        let (item_bytes, head_bytes, items) = match kind {
            0 | 1 if u64::from(size) % BLOCK_SECTORS != 0 => return malformed("no whole blocks"),
            0 | 1 => (4, 16, (u64::from(size) / BLOCK_SECTORS) as usize),
            2 if size % 8 != 0 => return malformed("no whole stripe numbers"),
            2 => (8, 8, size as usize / 8),
            _ => return malformed("its type is not known"),
        };
        let behind = offset + head_bytes + item_bytes * items;
        if behind > bytes.len() {
            return malformed("it is cut off");
        }
        let item = |index| offset + head_bytes + item_bytes * index;
        if kind == 2 {
            let stripes = (0..items).map(|index| Sector(from.u64(item(index)))).collect();
            return Ok((Announced::Flush { stripes }, behind));
        }
        let checksums: Vec<u32> = (0..items).map(|index| from.u32(item(index))).collect();
        let at = Sector(from.u64(offset + 8));
        if kind == 1 && !(1..=2).contains(&items) {
            return malformed("parity is one block, or two on RAID 6");
        }
        for checksum in &checksums {
            open.wanted.push_back((open.next, *checksum));
            open.next = self.behind(open.next);
        }
        Ok(match kind {
            0 => (Announced::Data { at, checksums, discarded: flags & 1 != 0 }, behind),
            _ => (Announced::Parity { stripe: at, checksums }, behind),
        })
    }

    /// The block behind one, around the ring.
    fn behind(&self, at: Sector) -> Sector {
        let next = at.0 + BLOCK_SECTORS;
        Sector(if next >= self.ring.0 { 0 } else { next })
    }
}

#[cfg(test)]
mod tests;
