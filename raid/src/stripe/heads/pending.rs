//! A write on its way through heads: its data, how many of its pages are left, and whoever waits.

use crate::buffer::SharedBuffer;
use crate::device::Durability;
use crate::error::ArrayError;
use crate::lock::{SpinKind, SpinLock};
use crate::platform::{Label, Ordering, Parker, Place, Platform, Word};
use crate::request::Extent;
use crate::units::{Sector, Sectors};

const MINUS_ONE: u64 = u64::MAX;

/// A write. It ends when all its pages and its submitter have let go of it.
pub(super) struct Pending<P: Platform> {
    extent: Extent,
    data: SharedBuffer,
    pub(super) durability: Durability,
    /// As a bio's `__bi_remaining`.
    remaining: P::Word,
    /// As a bio's `bi_status`: whether there is an error.
    failed: P::Word,
    error: SpinLock<P, Option<ArrayError>>,
    ended: P::Parker,
}

impl<P: Platform> Pending<P> {
    /// A write that its submitter holds.
    pub(super) fn new(
        platform: &P,
        kind: SpinKind,
        extent: Extent,
        data: SharedBuffer,
        durability: Durability,
    ) -> Self {
        let error = Label::new("write error");
        let bio = platform.region(Label::new("bio"), 0, 16);
        let place = |offset_bytes| Place::Within { region: &bio, offset_bytes };
        Self {
            extent,
            data,
            durability,
            remaining: platform.word(Label::new("bi_remaining"), place(0), 1),
            failed: platform.word(Label::new("bi_status"), place(8), 0),
            error: SpinLock::new(platform, error, kind, Place::Alone, None),
            ended: platform.parker(Label::new("a write through stripe heads")),
        }
    }

    /// The caller's bytes for some sectors of the array.
    pub(super) fn bytes(&self, at: Sector, length: Sectors) -> SharedBuffer {
        let start = (at - self.extent.at).bytes() as usize;
        self.data.slice(start..start + length.bytes() as usize)
    }

    /// A page was left at a head.
    pub(super) async fn page_begins(&self, cpu: &P::Cpu) {
        self.remaining.add(cpu, 1, Ordering::Relaxed).await;
    }

    /// A page is on the members, or is not because of an error.
    pub(super) async fn page_ends(&self, cpu: &P::Cpu, result: &Result<(), ArrayError>) {
        if let Err(error) = result {
            let note = async |first: &mut Option<ArrayError>| {
                first.get_or_insert_with(|| error.clone());
            };
            self.error.with(cpu, note).await;
            self.failed.store(cpu, 1, Ordering::Release).await;
        }
        if self.remaining.fetch_add(cpu, MINUS_ONE, Ordering::AcqRel).await == 1 {
            self.ended.unpark(cpu).await;
        }
    }

    /// The submitter has added everything: waits for the end, and says how it was.
    pub(super) async fn end(&self, cpu: &P::Cpu) -> Result<(), ArrayError> {
        if self.remaining.fetch_add(cpu, MINUS_ONE, Ordering::AcqRel).await != 1 {
            self.ended.park(cpu).await;
        }
        if self.failed.load(cpu, Ordering::Acquire).await == 0 {
            return Ok(());
        }
        let error = self.error.with(cpu, async |error: &mut Option<ArrayError>| error.take()).await;
        error.map_or(Ok(()), Err)
    }
}
