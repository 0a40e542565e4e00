//! An open file or block device: its size, its blocks, and the system's rights on it.

use crate::inbox::{self, Message};
use raid::units::Sectors;
use rustix::fs::{FlockOperation, flock};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What may be done with a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads only; others may read too.
    ReadOnly,
    /// Reads and writes; nobody else may open it through this crate.
    ReadWrite,
}

/// Whether requests go through the system's page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageCache {
    /// Bypassed where the file system can. Where it cannot, one line on standard error says so.
    Bypassed,
    /// Used, so that requests may be any number of sectors.
    Used,
}

/// What an opener found out about a file.
pub(crate) struct Geometry {
    pub(crate) size: Sectors,
    pub(crate) logical_block_bytes: u32,
    /// Whether it bypasses the page cache.
    pub(crate) direct: bool,
}

/// An open file. Requests under way keep it open.
pub(crate) struct OpenFile {
    pub(crate) fd: OwnedFd,
    pub(crate) path: PathBuf,
    pub(crate) name: String,
    pub(crate) access: Access,
    pub(crate) geometry: Geometry,
    /// Small, and taken by one open file at a time: an index for tables.
    pub(crate) number: u32,
    /// Never taken twice: which of the files that had that number.
    pub(crate) identity: u64,
}

static NUMBERS: Mutex<Numbers> = Mutex::new(Numbers { returned: Vec::new(), used: 0 });
static IDENTITIES: AtomicU64 = AtomicU64::new(0);

struct Numbers {
    returned: Vec<u32>,
    used: u32,
}

fn numbers() -> MutexGuard<'static, Numbers> {
    NUMBERS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl OpenFile {
    pub(crate) fn new(fd: OwnedFd, path: PathBuf, access: Access, geometry: Geometry) -> Self {
        let mut numbers = numbers();
        let number = numbers.returned.pop().unwrap_or_else(|| {
            numbers.used += 1;
            numbers.used - 1
        });
        let identity = IDENTITIES.fetch_add(1, Ordering::Relaxed);
        let name = path.display().to_string();
        Self { fd, path, name, access, geometry, number, identity }
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        // The lock belongs to the open file, which lives on in the tables of rings until they have
        // read the message. Nothing is to be done if this fails: the lock goes with the file.
        let _ = flock(&self.fd, FlockOperation::Unlock);
        let (number, identity) = (self.number, self.identity);
        inbox::tell_all(|| Message::Forget { number, identity });
        numbers().returned.push(number);
    }
}
