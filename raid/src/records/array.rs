//! What an array whose metadata is kept offers on top of the others, and how its addresses look from
//! the metadata: the *sync space*, in which the bitmap and the resync offset count, is the sectors of
//! a member, but those of the array on RAID 10.

use super::Records;
use crate::array::{Array, Body};
use crate::buffer::SharedBuffer;
use crate::device::Durability;
use crate::error::ArrayError;
use crate::jobs::{RecoverOptions, RecoverReport, ResyncOptions, ResyncReport};
use crate::platform::Platform;
use crate::request::Extent;
use crate::units::{MemberIndex, Sector, Sectors};
use std::ops::Range;

impl<P: Platform> Array<P> {
    pub(crate) fn records(&self) -> Option<&Records<P>> {
        self.common().records.as_ref()
    }

    /// Whether metadata is kept: an assembled array with redundancy, opened to be written.
    pub fn keeps_metadata(&self) -> bool {
        self.records().is_some()
    }

    pub(crate) async fn write_recorded(
        &self,
        cpu: &P::Cpu,
        extent: Extent,
        data: SharedBuffer,
        durability: Durability,
    ) -> Result<(), ArrayError> {
        let records = self.records().expect("metadata is kept");
        if let Some(dispatching) = self.dispatching_now(cpu).await {
            return self.write_dispatched(cpu, dispatching, extent, data, durability).await;
        }
        let (common, in_sync_space) = (self.common(), self.sync_extent(extent));
        records.begin_write(cpu, common, in_sync_space).await?;
        let result = match &self.body {
            Body::Copies(array) => array.execute_write(cpu, extent, data, durability).await,
            Body::Parity(array) => array.write(cpu, extent, data, durability).await,
        };
        records.end_write(cpu, common, in_sync_space, result).await
    }

    /// Brings what is on the members to rest: waits until no write is under way, makes everything
    /// durable and has the superblocks say that the array is clean. It may still be used; a write
    /// makes it active again. Without metadata it flushes.
    ///
    /// # Errors
    /// [`ArrayError::Unrecorded`], [`ArrayError::Unflushed`].
    pub async fn stop(&self, cpu: &P::Cpu) -> Result<(), ArrayError> {
        match self.records() {
            Some(records) => Box::pin(records.stop(cpu, self.common())).await,
            None if self.common().read_only => Ok(()),
            None => self.flush(cpu).await,
        }
    }

    /// Clears bits of the bitmap that nobody needs, and has the superblocks say that the array is
    /// clean if nothing was written since the last time. Whoever owns the array calls it every few
    /// seconds; md does it every five.
    ///
    /// # Errors
    /// [`ArrayError::Unrecorded`].
    pub async fn housekeeping(&self, cpu: &P::Cpu) -> Result<(), ArrayError> {
        match self.records() {
            Some(records) => Box::pin(records.housekeeping(cpu, self.common())).await,
            None => Ok(()),
        }
    }

    /// Makes redundancy agree wherever the metadata says that it may not, and writes down how far
    /// that has come. `options.range` is not looked at. Without metadata it goes through everything.
    ///
    /// # Errors
    /// As [`resync`](Self::resync), and [`ArrayError::Unrecorded`].
    pub async fn resync_what_may_differ(
        &self,
        cpu: &P::Cpu,
        options: ResyncOptions,
    ) -> Result<ResyncReport, ArrayError> {
        let all = Sectors(u64::MAX);
        self.resync_some(cpu, options, all).await.map(|(report, _)| report)
    }

    /// As [`resync_what_may_differ`](Self::resync_what_may_differ), but ends after about `most`
    /// sectors: of a member, or of the array on RAID 10; and says whether anything is left. Without
    /// metadata it goes through everything.
    ///
    /// # Errors
    /// As there.
    pub async fn resync_some(
        &self,
        cpu: &P::Cpu,
        options: ResyncOptions,
        most: Sectors,
    ) -> Result<(ResyncReport, bool), ArrayError> {
        match self.records() {
            Some(records) => Box::pin(records.resync(cpu, self, &options, most)).await,
            None => {
                let done = self.resync(cpu, ResyncOptions { range: None, ..options }).await?;
                Ok((done, false))
            }
        }
    }

    /// As [`recover`](Self::recover), and writes down how far that has come, so that it goes on from
    /// there after a stop.
    ///
    /// # Errors
    /// As [`recover`](Self::recover), and [`ArrayError::Unrecorded`].
    pub async fn rebuild(
        &self,
        cpu: &P::Cpu,
        options: RecoverOptions,
    ) -> Result<RecoverReport, ArrayError> {
        match self.records() {
            Some(records) => Box::pin(records.recover(cpu, self, &options)).await,
            None => self.recover(cpu, options).await,
        }
    }

    /// How many sectors of the sync space can disagree.
    pub(super) fn sync_space(&self) -> Sectors {
        match &self.body {
            Body::Copies(array) => array.capacity(),
            Body::Parity(array) => array.level.layout().used_of_member(),
        }
    }

    /// How many sectors of a member the array uses at most.
    pub(super) fn member_space(&self) -> Sectors {
        match &self.body {
            Body::Copies(array) => {
                let layout = array.level.layout();
                let used =
                    (0..layout.members()).map(|role| layout.used_of_member(MemberIndex(role)));
                used.max().expect("an array has members")
            }
            Body::Parity(array) => array.level.layout().used_of_member(),
        }
    }

    /// Sectors of the array, in the sync space: whole stripes on parity.
    pub(crate) fn sync_extent(&self, extent: Extent) -> Extent {
        match &self.body {
            Body::Copies(_) => extent,
            Body::Parity(array) => {
                let layout = array.level.layout();
                let stripe = layout.stripe_data();
                let first = extent.at.0 / stripe.0;
                let behind = extent.end().0.div_ceil(stripe.0);
                let at = layout.member_sector(first, Sectors(0));
                Extent { at, length: layout.member_sector(behind, Sectors(0)) - at }
            }
        }
    }

    /// The sectors of the array that a part of the sync space stands for; `None` if the array
    /// stores nothing there.
    pub(super) fn array_range(&self, part: Extent) -> Option<Range<Sector>> {
        let (start, end) = match &self.body {
            Body::Copies(_) => (part.at.0, part.end().0),
            Body::Parity(array) => {
                let layout = array.level.layout();
                let (chunk, stripe) = (layout.chunk().0, layout.stripe_data().0);
                let first = part.at.0 / chunk;
                let behind = part.end().0.div_ceil(chunk).min(layout.stripes());
                (first.saturating_mul(stripe), behind.saturating_mul(stripe))
            }
        };
        let block = u64::from(self.logical_block_bytes()) / crate::units::SECTOR_BYTES;
        let start = start - start % block;
        let end = end.next_multiple_of(block).min(self.capacity().0);
        (start < end).then_some(Sector(start)..Sector(end))
    }

    /// Redundancy agrees everywhere, and no write is under way.
    pub(super) async fn trust_redundancy(&self, cpu: &P::Cpu) {
        match &self.body {
            Body::Copies(array) => array.trust_everywhere(cpu).await,
            // Parity is computed anew or brought up to date, and never chosen from.
            Body::Parity(_) => {}
        }
    }
}
