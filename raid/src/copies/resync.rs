//! Resync: makes redundancy agree, window by window, while requests run between the windows.
//!
//! For each window the barrier is raised, all copies are read and compared, those that differ from
//! the first are written, and the barrier is lowered. Several windows may be in flight: the first of
//! a batch lets waiting requests go before it, the others are raised by force, since the resync is
//! inside already.

use super::CopyArray;
use crate::error::ArrayError;
use crate::jobs::{ResyncOptions, ResyncReport};
use crate::platform::{Ordering, Platform, Word};
use crate::request::Extent;
use crate::units::Sectors;

impl<P: Platform> CopyArray<P> {
    /// Makes all copies in a range agree, and flushes the members.
    ///
    /// # Errors
    /// Options that cannot be, [`ArrayError::ResyncRunning`], [`ArrayError::Unflushed`]. Sectors
    /// that cannot be read are no error but a count in the report.
    pub(crate) async fn resync(
        &self,
        cpu: &P::Cpu,
        options: ResyncOptions,
    ) -> Result<ResyncReport, ArrayError> {
        let block_bytes = self.common.logical_block_bytes;
        let (range, batch) = options.checked(block_bytes, self.capacity())?;
        if self.common.read_only {
            return Err(ArrayError::ReadOnly);
        }
        if self.common.resync_running.swap(cpu, 1, Ordering::AcqRel).await != 0 {
            return Err(ArrayError::ResyncRunning);
        }
        tracing::info!(at = range.at.0, sectors = range.length.0, "resync begins");
        let mut report = ResyncReport::default();
        for batch in range.split(batch) {
            self.resync_batch(cpu, batch, options.window, &mut report).await;
        }
        let flushed = self.flush(cpu).await;
        tracing::info!(
            checked = report.sectors_checked.0,
            written = report.sectors_written.0,
            unreadable = report.sectors_unreadable.0,
            "resync ends"
        );
        self.common.resync_running.store(cpu, 0, Ordering::Release).await;
        flushed.map(|()| report)
    }

    async fn resync_batch(
        &self,
        cpu: &P::Cpu,
        batch: Extent,
        window: Sectors,
        report: &mut ResyncReport,
    ) {
        self.common.claims.claim(cpu, batch).await;
        let mut windows = Vec::new();
        for window in batch.split(window) {
            let force = !windows.is_empty();
            self.barrier.raise(cpu, force).await;
            let mut pieces = Vec::new();
            for piece in self.level.layout().split(window) {
                pieces.push(self.submit_copies(cpu, piece).await);
            }
            windows.push((window, pieces));
        }
        for (window, pieces) in windows {
            let mut unsettled = false;
            for copies in pieces {
                let done = self.reconcile(cpu, copies).await;
                report.sectors_checked = report.sectors_checked + done.checked;
                report.sectors_written = report.sectors_written + done.written;
                report.sectors_unreadable = report.sectors_unreadable + done.unreadable;
                unsettled |= done.unsettled;
            }
            // Before the barrier falls: a write that fails afterwards has to be believed.
            if unsettled {
                report.sectors_unsettled = report.sectors_unsettled + window.length;
                self.distrust_from(cpu, window.at).await;
            } else {
                self.trust_again(cpu, window).await;
            }
            self.barrier.lower(cpu).await;
        }
        self.common.claims.release(cpu, batch).await;
    }
}
