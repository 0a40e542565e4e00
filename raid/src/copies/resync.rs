//! Resync: makes redundancy agree, window by window, while requests run between the windows.
//!
//! For each window the barrier is raised, all copies are read and compared, those that differ from
//! the first are written, and the barrier is lowered. Several windows may be in flight: the first of
//! a batch lets waiting requests go before it, the others are raised by force, since the resync is
//! inside already.

use super::CopyArray;
use crate::concurrency::barrier::RESYNC_DEPTH;
use crate::error::ArrayError;
use crate::platform::{Ordering, Platform, Word};
use crate::request::Extent;
use crate::units::{SECTOR_BYTES, Sector, Sectors};
use std::ops::Range;

/// The window, in sectors, if nothing else is asked for: 1 MiB, as in md.
pub const RESYNC_WINDOW: Sectors = Sectors((1 << 20) / SECTOR_BYTES);

/// What to resync, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResyncOptions {
    /// Sectors of the array, in whole logical blocks; `None` for all.
    pub range: Option<Range<Sector>>,
    /// How much at a time, in whole logical blocks.
    pub window: Sectors,
    /// How many windows at once: 1 to [`RESYNC_DEPTH`].
    pub windows_in_flight: u32,
}

impl Default for ResyncOptions {
    fn default() -> Self {
        Self { range: None, window: RESYNC_WINDOW, windows_in_flight: 1 }
    }
}

/// What a resync did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResyncReport {
    /// Sectors of the array whose copies were compared. Sectors with one live copy are not.
    pub sectors_checked: Sectors,
    /// Sectors written to members because their copy differed or could not be read.
    pub sectors_written: Sectors,
    /// Sectors of the array of which no copy could be read.
    pub sectors_unreadable: Sectors,
}

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
        let (range, batch) = self.check_resync(&options)?;
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
            for piece in window.split(self.chunk) {
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
                self.distrust_from(cpu, window.at).await;
            } else {
                self.trust_again(cpu, window).await;
            }
            self.barrier.lower(cpu).await;
        }
        self.common.claims.release(cpu, batch).await;
    }

    /// The range to go through and the size of a batch of windows.
    fn check_resync(&self, options: &ResyncOptions) -> Result<(Extent, Sectors), ArrayError> {
        let block = u64::from(self.common.logical_block_bytes) / SECTOR_BYTES;
        let ResyncOptions { range, window, windows_in_flight } = options.clone();
        let window_fits = window.0 > 0 && window.0.is_multiple_of(block);
        if !window_fits || !(1..=RESYNC_DEPTH).contains(&windows_in_flight) {
            let windows_max = RESYNC_DEPTH;
            return Err(ArrayError::ResyncWindows { window, windows_in_flight, windows_max });
        }
        let whole = self.whole();
        let range = match range {
            None => whole,
            Some(Range { start, end }) => {
                let length_bytes = end.0.saturating_sub(start.0).saturating_mul(SECTOR_BYTES);
                let block_bytes = self.common.logical_block_bytes;
                Extent::checked(start, length_bytes, block_bytes, self.capacity())?
            }
        };
        Ok((range, Sectors(window.0.saturating_mul(u64::from(windows_in_flight)))))
    }
}
