//! What the engine asks of a drive.
//!
//! A request is handed over first and waited for second, so that a write to several mirrors is
//! several hand-overs in program order and then as many waits, and a real ring can send them as a
//! batch.

use crate::buffer::{Buffer, SharedBuffer};
use crate::platform::Platform;
use crate::units::{Sector, Sectors};
use std::future::Future;

/// A drive, or a part or stand-in of one: `size()` sectors that hold what was last written.
///
/// Contract, for any number of requests under way at once:
/// - A sector is written whole or not at all; a longer write that fails or is cut by a power loss
///   may leave any mixture of old and new sectors.
/// - Requests under way at once have no order among each other.
/// - A write that has completed is seen by every read submitted afterwards. It survives a power
///   loss if it was [`Durability::Fua`], or if a flush submitted after its completion completed.
/// - After an error the addressed sectors hold old or new data, sector by sector; a read that
///   fails leaves its buffer undefined. A device never reports success with wrong data.
pub trait Device<P: Platform>: Send + Sync + 'static {
    /// Resolves when the drive is done. It may be waited for on the submitting core only. The
    /// request owns its buffer until then, even if this value is dropped.
    type Completion: Future<Output = IoDone>;

    /// What people call this drive, such as a path. Used in messages.
    fn name(&self) -> &str;

    /// How much it holds.
    fn size(&self) -> Sectors;

    /// The smallest unit that it reads and writes, in bytes: a power of two, at least 512.
    fn logical_block_bytes(&self) -> u32;

    /// Hands `io` over. Address, length and memory are multiples of the logical block.
    ///
    /// Requests outside the drive complete with [`IoError::OutOfRange`] and touch nothing.
    fn submit(&self, cpu: &P::Cpu, io: Io) -> impl Future<Output = Self::Completion>;
}

/// A request to a drive.
#[derive(Debug)]
pub enum Io {
    /// Fill `into` from the sectors that start at `at`.
    Read {
        /// The first sector.
        at: Sector,
        /// As long as the read.
        into: Buffer,
    },
    /// Write `data` to the sectors that start at `at`.
    Write {
        /// The first sector.
        at: Sector,
        /// As long as the write.
        data: SharedBuffer,
        /// What completion promises.
        durability: Durability,
    },
    /// Make every write that completed before durable.
    Flush,
    /// The content of these sectors no longer matters; reads may return anything until the next
    /// write.
    Discard {
        /// The first sector.
        at: Sector,
        /// How many.
        length: Sectors,
    },
}

/// How a request ended.
#[derive(Debug)]
pub struct IoDone {
    /// Success, or why not.
    pub result: Result<(), IoError>,
    /// A read's buffer, given back in success and in failure.
    pub buffer: Option<Buffer>,
}

/// What the completion of a write promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The drive has it; a power loss may still take it.
    Cached,
    /// It survives a power loss (force unit access).
    Fua,
}

/// Why a drive did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IoError {
    /// The medium does not give back or take a sector; others may still work.
    #[error("medium error at sector {at}")]
    Media {
        /// The first sector that failed, or the first of the request if the drive does not say.
        at: Sector,
    },
    /// The drive no longer answers.
    #[error("the device is gone")]
    Gone,
    /// No answer in time; the request may or may not have been done.
    #[error("the device timed out")]
    TimedOut,
    /// The request reaches beyond the end of the drive.
    #[error("sectors {at}+{length} lie beyond the device's {size}")]
    OutOfRange {
        /// The first sector asked for.
        at: Sector,
        /// How many.
        length: Sectors,
        /// What the drive has.
        size: Sectors,
    },
    /// The drive cannot do this kind of request.
    #[error("the device does not support {operation}")]
    Unsupported {
        /// The request in a word, such as `discard`.
        operation: &'static str,
    },
    /// The device's bad-block log has no room for all that is bad on it.
    #[error("the bad-block log has no room for what is bad")]
    BadBlockLogFull,
    /// The operating system refused; errno as it gave it.
    #[error("the operating system reports error {errno}")]
    System {
        /// The system's error number.
        errno: i32,
    },
}
