//! The drives of this machine.

use crate::block::BlockDevice;
use crate::cpu::RealCpu;
use crate::file::{Access, PageCache};
use crate::memory::MemoryDevice;
use crate::null::NullDevice;
use crate::open::{self, OpenError};
use crate::platform::RealPlatform;
use raid::device::{Device, Io, IoDone, IoError};
use raid::units::Sectors;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A drive: a file or block device, or memory, or nothing. A handle, cheap to clone.
#[derive(Clone)]
pub struct RealDevice(Kind);

#[derive(Clone)]
enum Kind {
    Block(BlockDevice),
    Memory(MemoryDevice),
    Null(NullDevice),
}

impl RealDevice {
    /// Opens a file or block device that exists, for direct I/O where the file system has it.
    ///
    /// Opened for writing, it is ours alone: no other process of this crate, and for a block device
    /// no mount, can have it.
    ///
    /// # Errors
    /// Says what is in the way, with the path.
    pub fn open_existing(path: impl AsRef<Path>, access: Access) -> Result<Self, OpenError> {
        Self::open_existing_with(path, access, PageCache::Bypassed)
    }

    /// As [`open_existing`](Self::open_existing), with or without the page cache.
    ///
    /// # Errors
    /// Says what is in the way, with the path.
    pub fn open_existing_with(
        path: impl AsRef<Path>,
        access: Access,
        page_cache: PageCache,
    ) -> Result<Self, OpenError> {
        let file = open::open_existing(path.as_ref(), access, page_cache)?;
        Ok(Self(Kind::Block(BlockDevice::new(file))))
    }

    /// Makes a file of `size` and opens it. Never touches what exists, and leaves nothing behind
    /// if it fails.
    ///
    /// # Errors
    /// Says what is in the way, with the path.
    pub fn create_file(path: impl AsRef<Path>, size: Sectors) -> Result<Self, OpenError> {
        Self::create_file_with(path, size, PageCache::Bypassed)
    }

    /// As [`create_file`](Self::create_file), with or without the page cache.
    ///
    /// # Errors
    /// Says what is in the way, with the path.
    pub fn create_file_with(
        path: impl AsRef<Path>,
        size: Sectors,
        page_cache: PageCache,
    ) -> Result<Self, OpenError> {
        let file = open::create_file(path.as_ref(), size, page_cache)?;
        Ok(Self(Kind::Block(BlockDevice::new(file))))
    }

    /// A drive in memory, zero at first. It takes memory as it is written.
    pub fn memory(name: impl Into<String>, size: Sectors) -> Self {
        Self(Kind::Memory(MemoryDevice::new(name.into(), size)))
    }

    /// A drive that does nothing at once: for measuring everything else. What a read returns is
    /// what was in its buffer.
    pub fn null(name: impl Into<String>, size: Sectors) -> Self {
        Self(Kind::Null(NullDevice::new(name.into(), size)))
    }

    /// Where the file or block device is; none for the others.
    pub fn path(&self) -> Option<&Path> {
        match &self.0 {
            Kind::Block(block) => Some(block.path()),
            Kind::Memory(_) | Kind::Null(_) => None,
        }
    }

    /// Whether requests bypass the page cache.
    pub fn is_direct(&self) -> bool {
        match &self.0 {
            Kind::Block(block) => block.is_direct(),
            Kind::Memory(_) | Kind::Null(_) => true,
        }
    }
}

impl Device<RealPlatform> for RealDevice {
    type Completion = RealCompletion;

    fn name(&self) -> &str {
        match &self.0 {
            Kind::Block(block) => block.name(),
            Kind::Memory(memory) => memory.name(),
            Kind::Null(null) => null.name(),
        }
    }

    fn size(&self) -> Sectors {
        match &self.0 {
            Kind::Block(block) => block.size(),
            Kind::Memory(memory) => memory.size(),
            Kind::Null(null) => null.size(),
        }
    }

    fn logical_block_bytes(&self) -> u32 {
        match &self.0 {
            Kind::Block(block) => block.logical_block_bytes(),
            Kind::Memory(_) | Kind::Null(_) => 512,
        }
    }

    #[inline]
    async fn submit(&self, cpu: &RealCpu, io: Io) -> RealCompletion {
        let admitted = check(&io, self.size(), self.logical_block_bytes());
        match (&self.0, admitted) {
            (_, Err(error)) => RealCompletion::ready(end(io, Err(error))),
            (_, Ok(Admitted::Nothing)) => RealCompletion::ready(end(io, Ok(()))),
            (Kind::Block(block), Ok(Admitted::Work)) => block.submit(cpu, io),
            (Kind::Memory(memory), Ok(Admitted::Work)) => RealCompletion::ready(memory.apply(io)),
            (Kind::Null(_), Ok(Admitted::Work)) => RealCompletion::ready(end(io, Ok(()))),
        }
    }
}

/// What a request that may pass asks for.
enum Admitted {
    Work,
    /// It has no length.
    Nothing,
}

/// Checks a request against a drive.
///
/// # Panics
/// If the caller breaks the rule that address and length are multiples of the logical block.
#[inline]
fn check(io: &Io, size: Sectors, logical_block_bytes: u32) -> Result<Admitted, IoError> {
    let (at, length_bytes) = match io {
        Io::Read { at, into } => (*at, into.len() as u64),
        Io::Write { at, data, .. } => (*at, data.len() as u64),
        Io::Discard { at, length } => (*at, length.bytes()),
        Io::Flush => return Ok(Admitted::Work),
    };
    // Both at once: the block is a power of two.
    let unaligned = (at.byte_offset() | length_bytes) & (u64::from(logical_block_bytes) - 1);
    assert_eq!(unaligned, 0, "a request that is no multiple of the drive's logical block");
    let length = Sectors::from_bytes_rounded_up(length_bytes);
    if at.0.checked_add(length.0).is_none_or(|end| end > size.0) {
        return Err(IoError::OutOfRange { at, length, size });
    }
    Ok(if length_bytes == 0 { Admitted::Nothing } else { Admitted::Work })
}

/// Ends a request without doing anything.
#[inline]
pub(crate) fn end(io: Io, result: Result<(), IoError>) -> IoDone {
    let buffer = match io {
        Io::Read { into, .. } => Some(into),
        Io::Write { .. } | Io::Flush | Io::Discard { .. } => None,
    };
    IoDone { result, buffer }
}

/// Resolves when a request is done. Dropped early, it lets the request go on, which keeps its
/// memory until its end.
pub struct RealCompletion(State);

enum State {
    /// Done when it was submitted; none once it has been taken.
    Ready(Option<IoDone>),
    /// Under way in the core's queue.
    Waiting { cpu: RealCpu, slot: u32 },
}

impl RealCompletion {
    #[inline]
    pub(crate) fn ready(done: IoDone) -> Self {
        Self(State::Ready(Some(done)))
    }

    #[inline]
    pub(crate) fn waiting(cpu: RealCpu, slot: u32) -> Self {
        Self(State::Waiting { cpu, slot })
    }
}

impl Future for RealCompletion {
    type Output = IoDone;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<IoDone> {
        match &mut self.0 {
            State::Ready(done) => Poll::Ready(done.take().expect("a completion resolves once")),
            State::Waiting { cpu, slot } => {
                let polled = cpu.core().io.borrow_mut().poll(*slot, context);
                if polled.is_ready() {
                    self.0 = State::Ready(None);
                }
                polled
            }
        }
    }
}

impl Drop for RealCompletion {
    fn drop(&mut self) {
        if let State::Waiting { cpu, slot } = &self.0 {
            let waker = cpu.core().io.borrow_mut().abandon(*slot);
            drop(waker);
        }
    }
}
