//! Opens files and block devices for direct I/O, and makes new files. Never changes the content of
//! what exists.

use crate::file::{Access, Geometry, OpenFile, PageCache};
use crate::notice::notice;
use crate::users::is_used_elsewhere;
use raid::buffer::BUFFER_ALIGNMENT_BYTES;
use raid::units::{SECTOR_BYTES, Sectors};
use rustix::fs::{
    AtFlags, FallocateFlags, FileType, FlockOperation, Mode, OFlags, SeekFrom, StatxFlags,
    fallocate, flock, fstat, ftruncate, ioctl_blksszget, open, seek, stat, statx, unlink,
};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Blocks assumed of a file whose file system does not say what direct I/O needs.
const UNKNOWN_BLOCK_BYTES: u32 = 4096;

/// Why a file or device could not be opened or made.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is nothing at that path.
    #[error("{}: no such file or device", path.display())]
    NotFound {
        /// What was asked for.
        path: PathBuf,
    },
    /// There is something at the path where a new file was to be made.
    #[error("{}: exists already; it was not touched", path.display())]
    Exists {
        /// What was asked for.
        path: PathBuf,
    },
    /// Neither a regular file nor a block device.
    #[error("{}: is a {kind}; a regular file or a block device is needed", path.display())]
    WrongKind {
        /// What was asked for.
        path: PathBuf,
        /// What is there.
        kind: &'static str,
    },
    /// The user may not.
    #[error("{}: permission denied", path.display())]
    Denied {
        /// What was asked for.
        path: PathBuf,
    },
    /// Mounted, even through a loop device, part of an array, or opened for writing by somebody else.
    #[error("{}: in use (mounted, a member of something, or opened by another process)", path.display())]
    InUse {
        /// What was asked for.
        path: PathBuf,
    },
    /// Too small to hold one block.
    #[error("{}: holds {size_bytes} bytes, less than one block of {block_bytes}", path.display())]
    TooSmall {
        /// What was asked for.
        path: PathBuf,
        /// What it holds.
        size_bytes: u64,
        /// What it would have to hold at least.
        block_bytes: u32,
    },
    /// The file system has no room for the new file. It was removed again.
    #[error("{}: no room for {size_bytes} bytes", path.display())]
    NoRoom {
        /// What was asked for.
        path: PathBuf,
        /// How large it was to be.
        size_bytes: u64,
    },
    /// Any other refusal of the system.
    #[error("{}: cannot {action}", path.display())]
    System {
        /// What was asked for.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
}

impl OpenError {
    fn from_errno(path: &Path, action: &'static str, errno: Errno) -> Self {
        let path = path.to_owned();
        match errno {
            Errno::NOENT | Errno::NOTDIR => Self::NotFound { path },
            Errno::EXIST => Self::Exists { path },
            Errno::ACCESS | Errno::PERM => Self::Denied { path },
            Errno::BUSY | Errno::AGAIN => Self::InUse { path },
            other => Self::System { path, action, source: other.into() },
        }
    }
}

/// Opens what exists, for us alone if it is to be written.
pub(crate) fn open_existing(
    path: &Path,
    access: Access,
    page_cache: PageCache,
) -> Result<OpenFile, OpenError> {
    // Looked at first, as opening a pipe would wait for its other end.
    let found = stat(path).map_err(|errno| OpenError::from_errno(path, "look at it", errno))?;
    let kind = require_storage(path, FileType::from_raw_mode(found.st_mode))?;
    let mode = match access {
        Access::ReadOnly => OFlags::RDONLY,
        Access::ReadWrite => OFlags::RDWR,
    };
    // On a block device, O_EXCL claims it as a mount does.
    let exclusive = kind == FileType::BlockDevice && access == Access::ReadWrite;
    let flags = mode | if exclusive { OFlags::EXCL } else { OFlags::empty() };
    let (fd, direct) = open_file(path, flags, page_cache)?;
    if kind == FileType::RegularFile && access == Access::ReadWrite && is_used_elsewhere(&fd) {
        return Err(OpenError::InUse { path: path.to_owned() });
    }
    finish(path, fd, access, direct)
}

/// Makes a file of `size`, whose blocks are allocated if the file system can.
pub(crate) fn create_file(
    path: &Path,
    size: Sectors,
    page_cache: PageCache,
) -> Result<OpenFile, OpenError> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
    let refused = |errno| OpenError::from_errno(path, "create it", errno);
    let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH;
    // Made without O_DIRECT: a file system that refuses that may leave the new file behind.
    let fd = open(path, flags | OFlags::CLOEXEC, mode).map_err(refused)?;
    allocate(path, &fd, size)
        .and_then(|()| {
            let (fd, direct) = open_file(path, OFlags::RDWR, page_cache)?;
            finish(path, fd, Access::ReadWrite, direct)
        })
        .inspect_err(|_| {
            // Ours, and new: the error that is reported is the first one.
            let _ = unlink(path);
        })
}

fn allocate(path: &Path, fd: &OwnedFd, size: Sectors) -> Result<(), OpenError> {
    let allocated = match fallocate(fd, FallocateFlags::empty(), 0, size.bytes().max(1)) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => ftruncate(fd, size.bytes()),
        other => other,
    };
    allocated.map_err(|errno| match errno {
        Errno::NOSPC | Errno::FBIG | Errno::DQUOT => {
            OpenError::NoRoom { path: path.to_owned(), size_bytes: size.bytes() }
        }
        other => OpenError::from_errno(path, "give it its size", other),
    })
}

/// Opens with O_DIRECT, or without where that is asked for or the file system refuses it.
fn open_file(
    path: &Path,
    flags: OFlags,
    page_cache: PageCache,
) -> Result<(OwnedFd, bool), OpenError> {
    let flags = flags | OFlags::CLOEXEC;
    let refused = |errno| OpenError::from_errno(path, "open it", errno);
    if page_cache == PageCache::Used {
        return Ok((open(path, flags, Mode::empty()).map_err(refused)?, false));
    }
    match open(path, flags | OFlags::DIRECT, Mode::empty()) {
        Ok(fd) => Ok((fd, true)),
        Err(Errno::INVAL) => {
            notice(format_args!(
                "{}: this file system has no direct I/O, so the page cache is in between",
                path.display()
            ));
            Ok((open(path, flags, Mode::empty()).map_err(refused)?, false))
        }
        Err(errno) => Err(refused(errno)),
    }
}

/// What requests to a file or block device have to be multiples of when they bypass the page cache,
/// in bytes; none where they cannot, or where it cannot be opened for reading.
pub fn direct_block_bytes(path: impl AsRef<Path>) -> Option<u32> {
    let path = path.as_ref();
    let found = stat(path).ok()?;
    let kind = require_storage(path, FileType::from_raw_mode(found.st_mode)).ok()?;
    let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
    let fd = open(path, flags, Mode::empty()).ok()?;
    block_bytes(&fd, kind, true).ok()
}

/// Locks the file and measures it.
fn finish(path: &Path, fd: OwnedFd, access: Access, direct: bool) -> Result<OpenFile, OpenError> {
    let refused = |action| move |errno| OpenError::from_errno(path, action, errno);
    let opened = fstat(&fd).map_err(refused("look at it"))?;
    let kind = require_storage(path, FileType::from_raw_mode(opened.st_mode))?;
    // A block device that is written has been claimed by O_EXCL; locks on it belong to udev.
    if kind == FileType::RegularFile {
        let lock = match access {
            Access::ReadOnly => FlockOperation::NonBlockingLockShared,
            Access::ReadWrite => FlockOperation::NonBlockingLockExclusive,
        };
        flock(&fd, lock).map_err(refused("lock it"))?;
    }
    let size_bytes = seek(&fd, SeekFrom::End(0)).map_err(refused("measure it"))?;
    let block_bytes = block_bytes(&fd, kind, direct).map_err(refused("ask for its block size"))?;
    let whole_bytes = size_bytes - size_bytes % u64::from(block_bytes);
    if whole_bytes == 0 {
        return Err(OpenError::TooSmall { path: path.to_owned(), size_bytes, block_bytes });
    }
    let size = Sectors::from_bytes_rounded_down(whole_bytes);
    let geometry = Geometry { size, logical_block_bytes: block_bytes, direct };
    Ok(OpenFile::new(fd, path.to_owned(), access, geometry))
}

/// The unit of requests. The page cache takes any number of sectors, also for a block device whose
/// own blocks are larger.
fn block_bytes(fd: &OwnedFd, kind: FileType, direct: bool) -> Result<u32, Errno> {
    let bytes = match (direct, kind) {
        (false, _) => SECTOR_BYTES as u32,
        (true, FileType::BlockDevice) => ioctl_blksszget(fd)?,
        (true, _) => direct_io_block_bytes(fd),
    };
    Ok(bytes.max(SECTOR_BYTES as u32))
}

/// What direct I/O on a regular file is a multiple of (Linux 6.1 and later tell).
fn direct_io_block_bytes(fd: &OwnedFd) -> u32 {
    let Ok(found) = statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN) else {
        return UNKNOWN_BLOCK_BYTES;
    };
    let told = found.stx_mask & StatxFlags::DIOALIGN.bits() != 0;
    let fits = found.stx_dio_mem_align as usize <= BUFFER_ALIGNMENT_BYTES;
    if told && fits && found.stx_dio_offset_align.is_power_of_two() {
        // The memory may have to be aligned more strictly than the offset; one unit serves both.
        found.stx_dio_offset_align.max(found.stx_dio_mem_align)
    } else {
        UNKNOWN_BLOCK_BYTES
    }
}

fn require_storage(path: &Path, kind: FileType) -> Result<FileType, OpenError> {
    let kind = match kind {
        FileType::RegularFile | FileType::BlockDevice => return Ok(kind),
        FileType::Directory => "directory",
        FileType::CharacterDevice => "character device",
        FileType::Fifo => "pipe",
        FileType::Socket => "socket",
        FileType::Symlink | FileType::Unknown => "thing of unknown kind",
    };
    Err(OpenError::WrongKind { path: path.to_owned(), kind })
}
