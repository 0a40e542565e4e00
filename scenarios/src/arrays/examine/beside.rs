//! What lies beside a superblock: write-intent bitmap, bad-block log, partial parity log, journal.
//! What cannot be read becomes a problem of the examination, never an error.

use super::{Examination, place};
use crate::arrays::member_file::{LookError, MemberFile};
use raid::metadata::bad_blocks::{BadBlockLog, BadBlocksError};
use raid::metadata::bitmap::{self, BitmapError, HEADER_BYTES, Header};
use raid::metadata::journal::{BLOCK_BYTES, End, Scanner};
use raid::metadata::ppl;
use raid::metadata::superblock::{Details, Features, Superblock};
use raid::units::{Sector, Sectors};
use serde::Serialize;

/// Bits are read in pieces of so many bytes, so that a bitmap that claims to be huge takes no
/// memory.
const BITS_PIECE_BYTES: usize = 1 << 20;
/// md reads one page of a bad-block log.
const BAD_BLOCK_LOG_MAX: Sectors = Sectors(8);

/// The write-intent bitmap.
#[derive(Debug, Serialize)]
pub struct BitmapFacts {
    /// Its first sector on the device.
    pub at_sector: u64,
    /// Its version.
    pub version: u32,
    /// The event count at which it was written last.
    pub events: u64,
    /// The event count up to which bits were cleared.
    pub events_cleared: u64,
    /// State bits.
    pub state: u32,
    /// Bytes that each bit stands for.
    pub chunk_bytes: u32,
    /// Seconds until md clears bits.
    pub daemon_sleep_seconds: u32,
    /// How many writes a write-mostly member may lag.
    pub write_behind: u32,
    /// How many sectors its bits cover.
    pub sync_size_sectors: u64,
    /// How many bits it has.
    pub bits: u64,
    /// How many of them are set.
    pub dirty_bits: u64,
}

/// The bad-block log.
#[derive(Debug, Serialize)]
pub struct BadBlockFacts {
    /// Where it lies, in sectors from the superblock.
    pub offset_sectors: i64,
    /// How many entries it has room for.
    pub entries_max: u64,
    /// The bad ranges, in sectors of the device.
    pub ranges: Vec<BadRange>,
}

/// A bad range.
#[derive(Clone, Debug, Serialize)]
pub struct BadRange {
    /// Its first sector on the device.
    pub at_sector: u64,
    /// How many.
    pub length_sectors: u64,
}

/// The partial parity log.
#[derive(Debug, Serialize)]
pub struct PplFacts {
    /// Where it lies, in sectors from the superblock.
    pub offset_sectors: i64,
    /// How long it is.
    pub size_sectors: u64,
    /// Counts the headers of the array; `None` where no header can be read.
    pub generation: Option<u64>,
    /// The writes that the header that counts tells of.
    pub entries: Option<u64>,
}

/// The write journal.
#[derive(Debug, Serialize)]
pub struct JournalFacts {
    /// Where the log begins, in sectors of the device's data.
    pub tail_sector: u64,
    /// How much room the log has.
    pub size_sectors: u64,
    /// Batches of writes in it.
    pub batches: u64,
    /// Of those, the blocks of data and parity.
    pub payloads: u64,
}

impl Examination {
    /// Takes in what the superblock points at.
    pub(super) fn look_beside(
        &mut self,
        file: &MemberFile,
        superblock: &Superblock,
    ) -> Result<(), LookError> {
        self.look_at_bitmap(file, superblock)?;
        self.look_at_bad_blocks(file, superblock)?;
        self.look_at_ppl(file, superblock)?;
        self.look_at_journal(file, superblock)
    }

    fn look_at_ppl(&mut self, file: &MemberFile, superblock: &Superblock) -> Result<(), LookError> {
        let Some((at, size)) = superblock.ppl() else { return Ok(()) };
        let log = file.read(at, size.bytes() as usize)?;
        let signature = ppl::signature(superblock.memory_uuid());
        let several = superblock.has(Features::MULTIPLE_PPLS);
        let header = match ppl::newest(&log, signature, several) {
            Ok(newest) => Some(newest.header),
            Err(error) => {
                self.problems.push(error.to_string());
                None
            }
        };
        self.ppl = Some(PplFacts {
            offset_sectors: at.0.cast_signed().wrapping_sub(superblock.at.0.cast_signed()),
            size_sectors: size.0,
            generation: header.as_ref().map(|of| of.generation),
            entries: header.as_ref().map(|of| of.entries.len() as u64),
        });
        Ok(())
    }

    fn look_at_journal(
        &mut self,
        file: &MemberFile,
        superblock: &Superblock,
    ) -> Result<(), LookError> {
        let Some(tail) = superblock.journal_tail() else { return Ok(()) };
        let (data, size) = (superblock.data_offset(), superblock.data_size());
        let mut facts =
            JournalFacts { tail_sector: tail.0, size_sectors: size.0, batches: 0, payloads: 0 };
        let mut scanner = Scanner::new(superblock.memory_uuid(), size, tail);
        while let Some(at) = scanner.wants() {
            let block = file.read(data + Sectors(at.0), BLOCK_BYTES)?;
            if let Some(batch) = scanner.give(&block) {
                facts.batches += 1;
                facts.payloads += batch.payloads.len() as u64;
            }
        }
        if let Some(end @ End::Tail { .. }) = scanner.end() {
            self.problems.push(end.to_string());
        }
        self.journal = Some(facts);
        Ok(())
    }

    fn look_at_bitmap(
        &mut self,
        file: &MemberFile,
        superblock: &Superblock,
    ) -> Result<(), LookError> {
        let Some(at) = superblock.bitmap_at() else { return Ok(()) };
        let bytes = file.read(at, HEADER_BYTES)?;
        let room = superblock.bitmap_room(file.facts().size()).unwrap_or_default();
        let header = match Header::decode(&bytes, room) {
            Ok(header) => header,
            Err(error) => {
                self.problems.push(format!("bitmap at {}: {error}", place(at)));
                return Ok(());
            }
        };
        if header.array_uuid != superblock.memory_uuid() {
            self.problems.push(BitmapError::OtherArray.to_string());
        }
        if header.state & bitmap::STATE_STALE != 0 {
            self.problems.push("the bitmap says of itself that it is stale".to_owned());
        }
        self.bitmap = Some(BitmapFacts {
            at_sector: at.0,
            version: header.version,
            events: header.events,
            events_cleared: header.events_cleared,
            state: header.state,
            chunk_bytes: header.chunk_bytes,
            daemon_sleep_seconds: header.daemon_sleep_seconds,
            write_behind: header.write_behind,
            sync_size_sectors: header.sync_size.0,
            bits: header.chunks(),
            dirty_bits: dirty_bits(file, at, &header)?,
        });
        Ok(())
    }

    fn look_at_bad_blocks(
        &mut self,
        file: &MemberFile,
        superblock: &Superblock,
    ) -> Result<(), LookError> {
        if let Some((facts, fault)) = BadBlockFacts::of(file, superblock)? {
            self.bad_blocks = Some(facts);
            self.problems.extend(fault.map(|fault| fault.to_string()));
        }
        Ok(())
    }
}

impl BadBlockFacts {
    /// What the superblock's bad-block log says, if there is one, and what is wrong with it.
    ///
    /// # Errors
    /// [`LookError::System`].
    pub fn of(
        file: &MemberFile,
        superblock: &Superblock,
    ) -> Result<Option<(Self, Option<BadBlocksError>)>, LookError> {
        let (Some((at, size)), Details::V1(details)) =
            (superblock.bad_block_log(), &superblock.details)
        else {
            return Ok(None);
        };
        let (offset_sectors, entries_max) =
            (i64::from(details.bad_block_log_offset), size.bytes() / 8);
        let size = size.min(BAD_BLOCK_LOG_MAX);
        let bytes = file.read(at, size.bytes() as usize)?;
        let (ranges, fault) = match BadBlockLog::decode(&bytes, size, details.bad_block_shift) {
            Ok(log) => {
                let range = |(at, length): (Sector, Sectors)| BadRange {
                    at_sector: at.0,
                    length_sectors: length.0,
                };
                (log.ranges().map(range).collect(), None)
            }
            Err(fault) => (Vec::new(), Some(fault)),
        };
        Ok(Some((Self { offset_sectors, entries_max, ranges }, fault)))
    }
}

/// How many bits are set, as far as the file reaches.
fn dirty_bits(file: &MemberFile, at: Sector, header: &Header) -> Result<u64, LookError> {
    let (mut left, mut dirty) = (header.chunks(), 0);
    let first = file.read(at, HEADER_BYTES + 256)?;
    let mut piece = first.get(HEADER_BYTES..).unwrap_or_default().to_vec();
    let mut next = at + Sectors(1);
    while left > 0 && !piece.is_empty() {
        for byte in &piece {
            let bits = left.min(8);
            let mask = ((1u32 << bits) - 1) as u8;
            dirty += u64::from((byte & mask).count_ones());
            left -= bits;
        }
        piece = file.read(next, BITS_PIECE_BYTES)?;
        next += Sectors::from_bytes_rounded_down(BITS_PIECE_BYTES as u64);
    }
    Ok(dirty)
}
