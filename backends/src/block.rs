//! A file or block device as a drive.

use crate::cpu::RealCpu;
use crate::device::{RealCompletion, end};
use crate::file::{Access, OpenFile};
use raid::device::{Io, IoError};
use raid::units::Sectors;
use std::path::Path;
use std::sync::Arc;

/// An open file or block device.
#[derive(Clone)]
pub(crate) struct BlockDevice(Arc<OpenFile>);

impl BlockDevice {
    pub(crate) fn new(file: OpenFile) -> Self {
        Self(Arc::new(file))
    }

    pub(crate) fn name(&self) -> &str {
        &self.0.name
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0.path
    }

    pub(crate) fn size(&self) -> Sectors {
        self.0.geometry.size
    }

    pub(crate) fn logical_block_bytes(&self) -> u32 {
        self.0.geometry.logical_block_bytes
    }

    pub(crate) fn is_direct(&self) -> bool {
        self.0.geometry.direct
    }

    /// Queues a request that lies within the drive.
    pub(crate) fn submit(&self, cpu: &RealCpu, io: Io) -> RealCompletion {
        if self.0.access == Access::ReadOnly
            && let Some(operation) = writing(&io)
        {
            return RealCompletion::ready(end(io, Err(IoError::Unsupported { operation })));
        }
        let slot = cpu.core().io.borrow_mut().submit(&self.0, io);
        RealCompletion::waiting(cpu.clone(), slot)
    }
}

/// What a request would change on the drive; none if it only reads.
fn writing(io: &Io) -> Option<&'static str> {
    match io {
        Io::Write { .. } => Some("write"),
        Io::Discard { .. } => Some("discard"),
        Io::Read { .. } | Io::Flush => None,
    }
}
