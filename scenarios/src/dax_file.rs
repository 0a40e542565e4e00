//! A file on persistent memory that a file system maps directly (DAX), as far as its locks go: the
//! structure of XFS in Linux 4.7. Its data is no memory of ours: a copy costs the core its time.
//!
//! Three reader-writer semaphores guard one file, taken in this order:
//!
//! - `iolock`, by each read and write for as long as it lasts;
//! - `mmaplock`, by page faults and by whoever takes blocks away or zeroes them, never by a read or
//!   a write;
//! - `ilock`, for the inode: shared to look an extent up; alone to write the time stamps down.
//!
//! With the change count of version 5 of the format each write writes the time stamps down, in a
//! transaction ("xfs: open code inc_inode_iversion when logging an inode", Dave Chinner, 2013: every
//! write bumps the count, and does so through the update of the time stamps). The transaction
//! reserves its space in the log before it takes the `ilock`, and is committed under it.
//!
//! It is no part of RAID, but stands on the same platform, so that it runs in both worlds.

use raid::lock::{LOOKS_MAX, ReaderSpin, RwSem, SpinKind, SpinLock};
use raid::platform::{Cpu, Label, Ordering, Place, Platform, Word, Work};
use std::sync::Arc;

/// One request of a read or write.
pub const BLOCK_BYTES: u64 = 4096;

/// Of a read or write between system call and copy: checks, splitting, mapping the memory. Estimated
/// from the length of the path, like the numbers below.
const PATH_INSTRUCTIONS: u32 = 800;
/// Finding an extent in the inode's list.
const LOOKUP_INSTRUCTIONS: u32 = 300;
/// Two allocations and the arithmetic of the reservation.
const RESERVE_INSTRUCTIONS: u32 = 800;
/// Joining the inode, formatting it into the log's item, releasing what was reserved.
const COMMIT_INSTRUCTIONS: u32 = 1500;
/// Putting the item on the list of committed ones.
const INSERT_INSTRUCTIONS: u32 = 100;

/// How readers of each semaphore wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spinning {
    /// Of each file's `iolock`.
    pub iolock: ReaderSpin,
    /// Of each file's `ilock`.
    pub ilock: ReaderSpin,
    /// Of each file's `mmaplock`.
    pub mmaplock: ReaderSpin,
    /// Of the log's `xc_ctx_lock`, which each transaction shares while it is committed.
    pub log: ReaderSpin,
}

/// How writes of whole blocks within the file take the `iolock`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteLocking {
    /// Shared, as direct I/O does.
    Shared,
    /// Alone, as POSIX has it: Linux since "xfs: fix locking for DAX writes" (Christoph Hellwig,
    /// September 2016, commit 17879e8f865f).
    Exclusive,
}

/// The log of a file system, as far as its files share it.
pub struct Log<P: Platform> {
    /// Space reserved, and space that may be written: a line each.
    grant_heads: [P::Word; 2],
    context: RwSem<P>,
    committed: SpinLock<P, ()>,
}

/// A file.
pub struct DaxFile<P: Platform> {
    iolock: RwSem<P>,
    ilock: RwSem<P>,
    mmaplock: RwSem<P>,
    /// On one line in the inode, with the time stamps behind it.
    size: P::Word,
    time_stamps: P::Word,
    /// Requests under way past the page cache.
    dio_count: P::Word,
    write_locking: WriteLocking,
    log: Arc<Log<P>>,
}

const MINUS_ONE: u64 = u64::MAX;

impl<P: Platform> Log<P> {
    /// An empty one.
    pub fn new(platform: &P, kind: SpinKind, spinning: Spinning) -> Self {
        let heads = ["l_reserve_head", "l_write_head"].map(Label::new);
        let (context, committed) = (Label::new("xc_ctx_lock"), Label::new("xc_cil_lock"));
        let alone = || Place::Alone;
        Self {
            grant_heads: heads.map(|label| platform.word(label, Place::Alone, 0)),
            context: RwSem::new(platform, context, kind, alone(), spinning.log, LOOKS_MAX),
            committed: SpinLock::new(platform, committed, kind, alone(), ()),
        }
    }

    async fn reserve(&self, cpu: &P::Cpu) {
        cpu.spend(Work::Instructions(RESERVE_INSTRUCTIONS)).await;
        for head in &self.grant_heads {
            head.fetch_add(cpu, 1, Ordering::Relaxed).await;
        }
    }

    async fn commit(&self, cpu: &P::Cpu) {
        let insert = async |_: &mut ()| cpu.spend(Work::Instructions(INSERT_INSTRUCTIONS)).await;
        let commit = async || {
            cpu.spend(Work::Instructions(COMMIT_INSTRUCTIONS)).await;
            self.committed.with(cpu, insert).await;
            for head in &self.grant_heads {
                head.fetch_add(cpu, MINUS_ONE, Ordering::Relaxed).await;
            }
        };
        self.context.read(cpu, commit).await;
    }
}

impl<P: Platform> DaxFile<P> {
    /// A file whose semaphores lie side by side, in the order in which the inode has them.
    pub fn new(
        platform: &P,
        log: Arc<Log<P>>,
        kind: SpinKind,
        spinning: Spinning,
        write_locking: WriteLocking,
    ) -> Self {
        let locks = platform.region(Label::new("xfs_inode"), 0, 3 * RwSem::<P>::BYTES);
        let sem = |name, index, spin| {
            let place = Place::Within { region: &locks, offset_bytes: index * RwSem::<P>::BYTES };
            RwSem::new(platform, Label::new(name), kind, place, spin, LOOKS_MAX)
        };
        let inode = platform.region(Label::new("inode"), 0, 16);
        let within = |offset_bytes| Place::Within { region: &inode, offset_bytes };
        Self {
            ilock: sem("ilock", 0, spinning.ilock),
            iolock: sem("iolock", 1, spinning.iolock),
            mmaplock: sem("mmaplock", 2, spinning.mmaplock),
            size: platform.word(Label::new("i_size"), within(0), 0),
            time_stamps: platform.word(Label::new("i_mtime"), within(8), 0),
            dio_count: platform.word(Label::new("i_dio_count"), Place::Alone, 0),
            write_locking,
            log,
        }
    }

    /// Reads one block.
    pub async fn read(&self, cpu: &P::Cpu) {
        self.iolock.read(cpu, async || self.transfer(cpu).await).await;
    }

    /// Writes one block within the file.
    pub async fn write(&self, cpu: &P::Cpu) {
        let write = async || {
            self.update_times(cpu).await;
            self.transfer(cpu).await;
        };
        match self.write_locking {
            WriteLocking::Shared => self.iolock.read(cpu, write).await,
            WriteLocking::Exclusive => self.iolock.write(cpu, write).await,
        }
    }

    /// Reads one block through a mapping whose page has to be faulted in.
    pub async fn read_mapped(&self, cpu: &P::Cpu) {
        cpu.spend(Work::Instructions(PATH_INSTRUCTIONS)).await;
        self.mmaplock.read(cpu, async || self.look_up(cpu).await).await;
        cpu.spend(Work::Copy(BLOCK_BYTES)).await;
    }

    /// Zeroes a range of the file, with everybody else kept out of it.
    pub async fn zero_range(&self, cpu: &P::Cpu, bytes: u64) {
        let zero = async || {
            self.update_times(cpu).await;
            cpu.spend(Work::Copy(bytes)).await;
        };
        let without_faults = async || self.mmaplock.write(cpu, zero).await;
        self.iolock.write(cpu, without_faults).await;
    }

    async fn update_times(&self, cpu: &P::Cpu) {
        self.log.reserve(cpu).await;
        let update = async || {
            self.time_stamps.store(cpu, 1, Ordering::Relaxed).await;
            self.log.commit(cpu).await;
        };
        self.ilock.write(cpu, update).await;
    }

    async fn transfer(&self, cpu: &P::Cpu) {
        self.size.load(cpu, Ordering::Relaxed).await;
        self.dio_count.fetch_add(cpu, 1, Ordering::Relaxed).await;
        cpu.spend(Work::Instructions(PATH_INSTRUCTIONS)).await;
        self.look_up(cpu).await;
        cpu.spend(Work::Copy(BLOCK_BYTES)).await;
        self.dio_count.fetch_add(cpu, MINUS_ONE, Ordering::Release).await;
    }

    async fn look_up(&self, cpu: &P::Cpu) {
        let work = Work::Instructions(LOOKUP_INSTRUCTIONS);
        self.ilock.read(cpu, async || cpu.spend(work).await).await;
    }
}
