//! The write-intent bitmap: which parts of an array may not agree, because a write was under way.
//!
//! ```text
//!  0 magic "bitm"   4 version     8 array uuid (16)   24 events u64   32 events cleared u64
//! 40 sync size u64 (sectors)     48 state            52 chunk bytes  56 daemon sleep, seconds
//! 60 write-behind                64 sectors reserved 68 nodes        72 cluster name (64)
//! 256 one bit a chunk, lowest bit of the lowest byte first
//! ```
//!
//! A chunk here is a part of the *sync space*: the sectors of one member, or for RAID 10 those of
//! the array. A bit is set, and durable, before its data is written, and cleared some time after.
//! Sizing follows mdadm 4.2. Never waits and never writes: says which bytes are to be written.

use super::bytes::{Reader, Writer};
use crate::units::{SECTOR_BYTES, Sector, Sectors};
use std::ops::Range;

/// The first word: "bitm".
pub const MAGIC: u32 = 0x6D74_6962;
/// Bytes before the first bit.
pub const HEADER_BYTES: usize = 256;
/// Bits in the order of the machine that wrote them.
pub const VERSION_HOST_ENDIAN: u32 = 3;
/// Bits with the lowest first: what is written today.
pub const VERSION: u32 = 4;
/// Several bitmaps, one for each machine of a cluster.
pub const VERSION_CLUSTERED: u32 = 5;
/// State bit: the bits mean nothing.
pub const STATE_STALE: u32 = 1 << 1;
/// State bit: writing the bitmap failed.
pub const STATE_WRITE_ERROR: u32 = 1 << 2;
/// The smallest chunk that mdadm chooses, in bytes.
const CHUNK_BYTES_MIN: u64 = 4096;
/// The chunk that mdadm prefers, in bytes.
const CHUNK_BYTES_DEFAULT: u64 = 64 << 20;
/// The most room that mdadm takes when it chooses the chunk.
const ROOM_DEFAULT_MAX: Sectors = Sectors(256);
/// md's limit of writes that a write-mostly member may lag behind.
const WRITE_BEHIND_MAX: u32 = (1 << 14) - 1;

/// Why a bitmap cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BitmapError {
    /// The bytes end before the bitmap does.
    #[error("the bitmap needs {needed_bytes} bytes, but {found_bytes} were found")]
    CutShort {
        /// How many it has.
        needed_bytes: u64,
        /// How many there are.
        found_bytes: usize,
    },
    /// Other bytes than a bitmap's first.
    #[error("bitmap magic is {0:#010x}, not {MAGIC:#010x}")]
    Magic(u32),
    /// A version that is not known.
    #[error("bitmap version is {0}: 3 and 4 are supported, and 5 is that of a cluster")]
    VersionFound(u32),
    /// A field has a value that md refuses.
    #[error("bitmap {field} is {found}: {reason}")]
    Field {
        /// Its name.
        field: &'static str,
        /// What was found.
        found: u64,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The bitmap does not fit where it lies.
    #[error(
        "a bitmap of {bits} chunks of {chunk_bytes} bytes is larger than its space: it needs \
         {needed} sectors, and there are {room}; chunks of {chunk_bytes_min} bytes would fit"
    )]
    TooLarge {
        /// How many chunks there are.
        bits: u64,
        /// How large each is.
        chunk_bytes: u64,
        /// What the bitmap needs.
        needed: Sectors,
        /// What there is.
        room: Sectors,
        /// The smallest chunk that fits.
        chunk_bytes_min: u64,
    },
    /// It belongs to another array.
    #[error("the bitmap belongs to another array: its UUID differs from the superblock's")]
    OtherArray,
}

/// What a bitmap says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// [`VERSION`], or an older or a clustered one.
    pub version: u32,
    /// The array's UUID: see [`super::Superblock::memory_uuid`].
    pub array_uuid: [u8; 16],
    /// The event count at which it was written last.
    pub events: u64,
    /// The event count up to which bits were cleared: members that are no older need only what is
    /// marked.
    pub events_cleared: u64,
    /// How many sectors its bits cover.
    pub sync_size: Sectors,
    /// State bits.
    pub state: u32,
    /// The bytes that each bit stands for: a power of two.
    pub chunk_bytes: u32,
    /// How long md waits before it clears bits, in seconds.
    pub daemon_sleep_seconds: u32,
    /// How many writes a write-mostly member may lag.
    pub write_behind: u32,
    /// Sectors that are free for the bitmap; zero where nobody wrote it down.
    pub sectors_reserved: u32,
    /// Machines that share the array.
    pub nodes: u32,
    /// The cluster's name.
    pub cluster_name: [u8; 64],
}

impl Header {
    /// Reads it and checks that the whole bitmap fits into `room`.
    ///
    /// # Errors
    /// [`BitmapError`], but `OtherArray`.
    pub fn decode(bytes: &[u8], room: Sectors) -> Result<Self, BitmapError> {
        if bytes.len() < HEADER_BYTES {
            let needed_bytes = HEADER_BYTES as u64;
            return Err(BitmapError::CutShort { needed_bytes, found_bytes: bytes.len() });
        }
        let from = Reader::little(bytes);
        if from.u32(0) != MAGIC {
            return Err(BitmapError::Magic(from.u32(0)));
        }
        let header = Self {
            version: from.u32(4),
            array_uuid: from.array(8),
            events: from.u64(24),
            events_cleared: from.u64(32),
            sync_size: Sectors(from.u64(40)),
            state: from.u32(48),
            chunk_bytes: from.u32(52),
            daemon_sleep_seconds: from.u32(56),
            write_behind: from.u32(60),
            sectors_reserved: from.u32(64),
            nodes: from.u32(68),
            cluster_name: from.array(72),
        };
        header.check(room).map(|()| header)
    }

    fn check(&self, room: Sectors) -> Result<(), BitmapError> {
        if !matches!(self.version, VERSION_HOST_ENDIAN | VERSION) {
            return Err(BitmapError::VersionFound(self.version));
        }
        let field = |field, found: u32, reason| {
            Err(BitmapError::Field { field, found: u64::from(found), reason })
        };
        if self.chunk_bytes < 512 || !self.chunk_bytes.is_power_of_two() {
            return field(
                "chunk",
                self.chunk_bytes,
                "md takes a power of two of 512 and more bytes",
            );
        }
        if self.daemon_sleep_seconds == 0 {
            return field("daemon sleep", 0, "it is at least a second");
        }
        if self.write_behind > WRITE_BEHIND_MAX {
            return field("write-behind", self.write_behind, "md takes at most 16383");
        }
        let reserved = Sectors(u64::from(self.sectors_reserved));
        let room = if reserved.0 == 0 { room } else { room.min(reserved) };
        check_fits(self.sync_size, u64::from(self.chunk_bytes), room)
    }

    /// Refuses a bitmap of another array.
    ///
    /// # Errors
    /// [`BitmapError::OtherArray`].
    pub fn check_belongs_to(&self, array_uuid: [u8; 16]) -> Result<(), BitmapError> {
        (self.array_uuid == array_uuid).then_some(()).ok_or(BitmapError::OtherArray)
    }

    /// How many chunks there are, and so bits.
    pub fn chunks(&self) -> u64 {
        self.sync_size.0.div_ceil(self.chunk().0)
    }

    /// The sectors that each bit stands for.
    pub fn chunk(&self) -> Sectors {
        Sectors(u64::from(self.chunk_bytes) / SECTOR_BYTES)
    }

    /// The sectors that header and bits fill.
    pub fn length(&self) -> Sectors {
        length(self.chunks())
    }

    /// Whether what its bits say can be relied on by an array of this event count. If not, all of
    /// the array has to be looked at.
    pub fn is_current(&self, array_events: u64) -> bool {
        // Nobody knows on which machine bits in host order were written.
        let readable = self.version == VERSION;
        readable && self.events >= array_events && self.state & STATE_STALE == 0
    }

    fn encode(&self, to: &mut Writer) {
        to.u32(0, MAGIC);
        to.u32(4, self.version);
        to.put(8, &self.array_uuid);
        to.u64(24, self.events);
        to.u64(32, self.events_cleared);
        to.u64(40, self.sync_size.0);
        to.u32(48, self.state);
        to.u32(52, self.chunk_bytes);
        to.u32(56, self.daemon_sleep_seconds);
        to.u32(60, self.write_behind);
        to.u32(64, self.sectors_reserved);
        to.u32(68, self.nodes);
        to.put(72, &self.cluster_name);
    }
}

fn length(chunks: u64) -> Sectors {
    Sectors::from_bytes_rounded_up(HEADER_BYTES as u64 + chunks.div_ceil(8))
}

/// Whether a bitmap of such chunks fits.
///
/// # Errors
/// [`BitmapError::TooLarge`].
pub fn check_fits(sync_size: Sectors, chunk_bytes: u64, room: Sectors) -> Result<(), BitmapError> {
    let bits = sync_size.0.div_ceil((chunk_bytes / SECTOR_BYTES).max(1));
    let needed = length(bits);
    if needed <= room {
        return Ok(());
    }
    let chunk_bytes_min = smallest_chunk_bytes(sync_size, room);
    Err(BitmapError::TooLarge { bits, chunk_bytes, needed, room, chunk_bytes_min })
}

/// The smallest chunk for which mdadm finds room, in bytes; it counts one bit more than needed.
fn smallest_chunk_bytes(sync_size: Sectors, room: Sectors) -> u64 {
    let bits_max = (room.bytes().saturating_sub(HEADER_BYTES as u64) * 8).max(1);
    let mut chunk_bytes = CHUNK_BYTES_MIN;
    let mut bits = sync_size.0 / (CHUNK_BYTES_MIN / SECTOR_BYTES) + 1;
    while bits > bits_max {
        chunk_bytes = chunk_bytes.saturating_mul(2);
        bits = bits.div_ceil(2);
    }
    chunk_bytes
}

/// The chunk that mdadm takes by default, in bytes: 64 MiB, or more where the room asks for it.
pub fn default_chunk_bytes(sync_size: Sectors, room: Sectors) -> u64 {
    smallest_chunk_bytes(sync_size, room.min(ROOM_DEFAULT_MAX)).max(CHUNK_BYTES_DEFAULT)
}

/// A bitmap with its bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bitmap {
    /// What it says of itself.
    pub header: Header,
    /// The bits up to the end of the last sector. Those behind the last chunk mean nothing.
    bits: Vec<u8>,
}

impl Bitmap {
    /// Reads a bitmap from the bytes at its place, of which `room` sectors may be used.
    ///
    /// # Errors
    /// [`BitmapError`], but `OtherArray`.
    pub fn decode(bytes: &[u8], room: Sectors) -> Result<Self, BitmapError> {
        Self::with_bits(Header::decode(bytes, room)?, bytes)
    }

    /// As [`decode`](Self::decode), of what a header that is known already says of the bytes: it may
    /// cover less than the one among them.
    ///
    /// # Errors
    /// [`BitmapError::CutShort`].
    pub fn with_bits(header: Header, bytes: &[u8]) -> Result<Self, BitmapError> {
        let needed_bytes = header.length().bytes();
        match bytes.get(HEADER_BYTES..needed_bytes as usize) {
            Some(bits) => Ok(Self { header, bits: bits.to_vec() }),
            None => Err(BitmapError::CutShort { needed_bytes, found_bytes: bytes.len() }),
        }
    }

    /// A bitmap whose bits are all alike.
    ///
    /// # Errors
    /// If the header's fields make none that fits into `room`.
    pub fn new(header: Header, dirty: bool, room: Sectors) -> Result<Self, BitmapError> {
        header.check(room)?;
        let bytes = header.length().bytes() as usize - HEADER_BYTES;
        let mut bitmap = Self { bits: vec![0; bytes], header };
        if dirty {
            (0..bitmap.header.chunks()).for_each(|chunk| bitmap.set(chunk, true));
        }
        Ok(bitmap)
    }

    /// Header and bits, whole sectors.
    pub fn encode(&self) -> Vec<u8> {
        let mut to = Writer::little(HEADER_BYTES + self.bits.len());
        self.header.encode(&mut to);
        to.put(HEADER_BYTES, &self.bits);
        to.finish()
    }

    /// Whether a chunk may not agree.
    ///
    /// # Panics
    /// If there is no such chunk.
    pub fn is_dirty(&self, chunk: u64) -> bool {
        assert!(chunk < self.header.chunks(), "chunk {chunk} of {}", self.header.chunks());
        self.bits[(chunk / 8) as usize] & 1 << (chunk % 8) != 0
    }

    /// Marks or clears a chunk.
    ///
    /// # Panics
    /// If there is no such chunk.
    pub fn set(&mut self, chunk: u64, dirty: bool) {
        assert!(chunk < self.header.chunks(), "chunk {chunk} of {}", self.header.chunks());
        let byte = &mut self.bits[(chunk / 8) as usize];
        let bit = 1 << (chunk % 8);
        *byte = if dirty { *byte | bit } else { *byte & !bit };
    }

    /// The chunks that sectors of the sync space lie in, cut off at its end.
    pub fn chunks_of(&self, at: Sector, length: Sectors) -> Range<u64> {
        let end = at.0.saturating_add(length.0).min(self.header.sync_size.0);
        let chunk = self.header.chunk().0;
        if at.0 >= end { 0..0 } else { at.0 / chunk..end.div_ceil(chunk) }
    }

    /// The byte of the encoded bitmap that holds a chunk's bit: what has to be written after
    /// [`Bitmap::set`].
    pub fn byte_of(&self, chunk: u64) -> usize {
        HEADER_BYTES + (chunk / 8) as usize
    }

    /// How many chunks are marked.
    pub fn dirty_chunks(&self) -> u64 {
        (0..self.header.chunks()).filter(|chunk| self.is_dirty(*chunk)).count() as u64
    }

    /// What is marked, in sectors of the sync space, neighbours joined.
    pub fn dirty_ranges(&self) -> impl Iterator<Item = (Sector, Sectors)> {
        let (chunks, chunk) = (self.header.chunks(), self.header.chunk().0);
        let mut next = 0;
        std::iter::from_fn(move || {
            let first = (next..chunks).find(|of| self.is_dirty(*of))?;
            let behind = (first..chunks).find(|of| !self.is_dirty(*of)).unwrap_or(chunks);
            next = behind;
            let end = (behind * chunk).min(self.header.sync_size.0);
            Some((Sector(first * chunk), Sectors(end - first * chunk)))
        })
    }
}

#[cfg(test)]
mod tests;
