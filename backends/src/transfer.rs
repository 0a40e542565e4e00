//! One request to a file on its way through the operating system: what is left of it, and what the
//! system's answers mean. Makes no system call.

use raid::buffer::{Buffer, SharedBuffer};
use raid::device::{Durability, Io, IoDone, IoError};
use raid::units::Sector;
use rustix::fs::FallocateFlags;
use rustix::io::{Errno, ReadWriteFlags};

/// What moves.
#[derive(Debug)]
pub(crate) enum Payload {
    Read(Buffer),
    Write { data: SharedBuffer, durability: Durability },
    Flush,
    Discard { length_bytes: u64 },
}

/// A request, and how much of it is done.
#[derive(Debug)]
pub(crate) struct Transfer {
    pub(crate) payload: Payload,
    at: Sector,
    /// Of a read or a write; the system may do it in pieces.
    pub(crate) done_bytes: usize,
}

impl Transfer {
    pub(crate) fn new(io: Io) -> Self {
        let (at, payload) = match io {
            Io::Read { at, into } => (at, Payload::Read(into)),
            Io::Write { at, data, durability } => (at, Payload::Write { data, durability }),
            Io::Flush => (Sector(0), Payload::Flush),
            Io::Discard { at, length } => (at, Payload::Discard { length_bytes: length.bytes() }),
        };
        Self { payload, at, done_bytes: 0 }
    }

    /// Where in the file the rest of the transfer begins.
    pub(crate) fn offset_bytes(&self) -> u64 {
        self.at.byte_offset() + self.done_bytes as u64
    }

    /// Takes note of what one system call returned: bytes for reads and writes, anything for the
    /// rest. None if the rest of the transfer has to be handed over again.
    pub(crate) fn advance(
        &mut self,
        returned: Result<usize, Errno>,
    ) -> Option<Result<(), IoError>> {
        let length_bytes = match &self.payload {
            Payload::Read(buffer) => buffer.len(),
            Payload::Write { data, .. } => data.len(),
            Payload::Flush | Payload::Discard { .. } => 0,
        };
        match returned {
            Err(Errno::INTR | Errno::AGAIN) => None,
            Err(errno) => Some(Err(self.error(errno))),
            Ok(_) if length_bytes == 0 => Some(Ok(())),
            // Within the size that the file had when it was opened: somebody has cut it.
            Ok(0) => Some(Err(IoError::System { errno: Errno::IO.raw_os_error() })),
            Ok(bytes) => {
                self.done_bytes += bytes;
                assert!(self.done_bytes <= length_bytes, "the system moved more than was asked");
                (self.done_bytes == length_bytes).then_some(Ok(()))
            }
        }
    }

    /// Gives the buffer back with the result.
    pub(crate) fn finish(self, result: Result<(), IoError>) -> IoDone {
        let buffer = match self.payload {
            Payload::Read(buffer) => Some(buffer),
            Payload::Write { .. } | Payload::Flush | Payload::Discard { .. } => None,
        };
        IoDone { result, buffer }
    }

    /// The meaning of an error number, as Linux's block layer assigns them.
    fn error(&self, errno: Errno) -> IoError {
        let operation = match self.payload {
            Payload::Read(_) => "read",
            Payload::Write { durability: Durability::Fua, .. } => "write through",
            Payload::Write { .. } => "write",
            Payload::Flush => "flush",
            Payload::Discard { .. } => "discard",
        };
        match errno {
            // ENODATA: critical medium error; EILSEQ: integrity; EIO: all that has no own number.
            Errno::IO | Errno::NODATA | Errno::ILSEQ => IoError::Media { at: self.at },
            Errno::NODEV | Errno::NXIO | Errno::NOLINK => IoError::Gone,
            Errno::TIMEDOUT => IoError::TimedOut,
            Errno::OPNOTSUPP => IoError::Unsupported { operation },
            other => IoError::System { errno: other.raw_os_error() },
        }
    }
}

/// How a write is asked to be durable.
pub(crate) fn write_flags(durability: Durability) -> ReadWriteFlags {
    match durability {
        Durability::Cached => ReadWriteFlags::empty(),
        Durability::Fua => ReadWriteFlags::DSYNC,
    }
}

/// A discard is a hole in a file; on a block device the kernel discards so that zeros are read.
pub(crate) fn discard_mode() -> FallocateFlags {
    FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A read of 8192 bytes from sector 8, answered like that; the last answer decides.
    fn check(returned: &[Result<usize, Errno>], expected: Option<Result<(), IoError>>) {
        let mut transfer = Transfer::new(Io::Read { at: Sector(8), into: Buffer::zeroed(8192) });
        let mut last = None;
        for result in returned {
            assert_eq!(last, None, "answers after the end");
            last = transfer.advance(*result);
        }
        assert_eq!(last, expected);
        assert_eq!(transfer.finish(Ok(())).buffer.expect("a read's").len(), 8192);
    }

    #[test]
    fn short_transfers_go_on() {
        check(&[Ok(4096)], None);
        check(&[Ok(4096), Err(Errno::INTR), Ok(4096)], Some(Ok(())));
        check(&[Ok(8192)], Some(Ok(())));
    }

    #[test]
    fn errors_keep_their_meaning() {
        check(&[Ok(0)], Some(Err(IoError::System { errno: 5 })));
        check(&[Err(Errno::IO)], Some(Err(IoError::Media { at: Sector(8) })));
        check(&[Ok(4096), Err(Errno::NODEV)], Some(Err(IoError::Gone)));
        check(&[Err(Errno::NOSPC)], Some(Err(IoError::System { errno: 28 })));
        check(&[Err(Errno::OPNOTSUPP)], Some(Err(IoError::Unsupported { operation: "read" })));
    }
}
