//! Check: compares all copies, window by window, while requests run between the windows. It writes
//! nothing and fails no member but one that is lost.

use super::CopyArray;
use super::reconcile::Copy;
use crate::error::ArrayError;
use crate::jobs::{CheckReport, ResyncOptions};
use crate::platform::{Cpu, Ordering, Platform, Word, Work};
use crate::request::Extent;
use crate::units::{SECTOR_BYTES, Sectors};

impl<P: Platform> CopyArray<P> {
    /// Counts the sectors in a range whose copies differ.
    ///
    /// # Errors
    /// Options that cannot be, [`ArrayError::ResyncRunning`].
    pub(crate) async fn check(
        &self,
        cpu: &P::Cpu,
        options: ResyncOptions,
    ) -> Result<CheckReport, ArrayError> {
        let block_bytes = self.common.logical_block_bytes;
        let (range, _) = options.checked(block_bytes, self.capacity())?;
        if self.common.resync_running.swap(cpu, 1, Ordering::AcqRel).await != 0 {
            return Err(ArrayError::ResyncRunning);
        }
        tracing::info!(at = range.at.0, sectors = range.length.0, "check begins");
        let mut report = CheckReport::default();
        for window in range.split(options.window) {
            self.common.claims.claim(cpu, window).await;
            self.barrier.raise(cpu, false).await;
            self.check_window(cpu, window, &mut report).await;
            self.barrier.lower(cpu).await;
            self.common.claims.release(cpu, window).await;
        }
        tracing::info!(
            checked = report.sectors_checked.0,
            mismatches = report.mismatches.0,
            unreadable = report.sectors_unreadable.0,
            "check ends"
        );
        self.common.resync_running.store(cpu, 0, Ordering::Release).await;
        Ok(report)
    }

    async fn check_window(&self, cpu: &P::Cpu, window: Extent, report: &mut CheckReport) {
        let mut pieces = Vec::new();
        for piece in self.level.layout().split(window) {
            pieces.push((piece, self.submit_copies(cpu, piece).await));
        }
        for (piece, copies) in pieces {
            let copies = self.wait_for_copies(cpu, copies).await;
            if copies.iter().all(|copy| copy.contents.is_ok()) {
                self.compare(cpu, piece, &copies, report).await;
                continue;
            }
            for part in self.parts(cpu, piece).await {
                let copies = self.submit_copies(cpu, part).await;
                let copies = self.wait_for_copies(cpu, copies).await;
                self.compare(cpu, part, &copies, report).await;
            }
        }
    }

    async fn compare(
        &self,
        cpu: &P::Cpu,
        piece: Extent,
        copies: &[Copy],
        report: &mut CheckReport,
    ) {
        let read: Vec<_> = copies.iter().filter_map(|copy| copy.contents.as_ref().ok()).collect();
        if read.len() < copies.len() {
            report.sectors_unreadable = report.sectors_unreadable + piece.length;
        }
        let Some((first, others)) = read.split_first() else { return };
        if others.is_empty() {
            return;
        }
        cpu.spend(Work::Copy(piece.length.bytes() * others.len() as u64)).await;
        let differs = |sector: &usize| {
            let bytes = sector * SECTOR_BYTES as usize..(sector + 1) * SECTOR_BYTES as usize;
            others.iter().any(|other| other[bytes.clone()] != first[bytes.clone()])
        };
        let mismatches = (0..piece.length.0 as usize).filter(differs).count();
        report.sectors_checked = report.sectors_checked + piece.length;
        report.mismatches = report.mismatches + Sectors(mismatches as u64);
    }
}
