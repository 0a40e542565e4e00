//! Drives resync and recovery of an array whose metadata is kept: what to go through, and how far it
//! has come, written down in steps so that both resume after a stop or a power cut.

use super::Records;
use super::settle::Change;
use crate::array::Array;
use crate::error::ArrayError;
use crate::jobs::{RecoverOptions, RecoverReport, ResyncOptions, ResyncReport};
use crate::member::MemberState;
use crate::platform::Platform;
use crate::request::Extent;
use crate::units::{Sector, Sectors};

/// A job writes down how far it has come this many times, as in md.
const CHECKPOINTS: u64 = 16;

impl<P: Platform> Records<P> {
    /// Makes redundancy agree wherever it may not: what the bitmap marks, or everything from the
    /// resync offset on. Goes no further than about `most` sectors of the sync space; whether
    /// anything is left.
    pub(crate) async fn resync(
        &self,
        cpu: &P::Cpu,
        array: &Array<P>,
        options: &ResyncOptions,
        most: Sectors,
    ) -> Result<(ResyncReport, bool), ArrayError> {
        let space = array.sync_space();
        let ledger = self.ledger.take(cpu).await;
        let (from, disagreements) = (ledger.resync_offset, ledger.disagreements);
        self.ledger.give_back(cpu, ledger).await;
        let ranges = match self.needed(cpu).await {
            Some(needed) => needed,
            None => {
                let from = from.filter(|from| from.0 < space.0);
                from.map(|at| Extent { at, length: Sector(space.0) - at }).into_iter().collect()
            }
        };
        let mut step = step(space, options.window).min(most);
        // A bit is cleared by a step that goes through all that it stands for.
        if let Some(chunk) = self.bitmap_chunk(cpu).await {
            step = Sectors(step.0.next_multiple_of(chunk.0));
        }
        let mut report = ResyncReport::default();
        let mut gone_through = Sectors(0);
        for part in ranges.iter().flat_map(|range| range.split(step)) {
            if gone_through >= most {
                return Ok((report, true));
            }
            gone_through = gone_through + part.length;
            let part_options = ResyncOptions { range: array.array_range(part), ..options.clone() };
            if part_options.range.is_some() {
                let done = array.resync(cpu, part_options).await?;
                report.sectors_checked = report.sectors_checked + done.sectors_checked;
                report.sectors_written = report.sectors_written + done.sectors_written;
                report.sectors_unreadable = report.sectors_unreadable + done.sectors_unreadable;
            }
            self.resynced(cpu, part).await;
            if self.intent.is_none() {
                let reached = Change::Resynced { up_to: Some(part.end()), disagreements };
                self.settle(cpu, array.common(), reached).await?;
            }
        }
        // A write that failed meanwhile has left something to do.
        self.while_quiet(cpu, async || {
            if self.needed(cpu).await.is_none_or(|needed| needed.is_empty()) {
                let everywhere = Change::Resynced { up_to: None, disagreements };
                self.settle(cpu, array.common(), everywhere).await?;
                if self.disagreements(cpu).await == disagreements {
                    array.trust_redundancy(cpu).await;
                }
            }
            Ok((report, false))
        })
        .await
    }

    async fn disagreements(&self, cpu: &P::Cpu) -> u64 {
        let ledger = self.ledger.take(cpu).await;
        let disagreements = ledger.disagreements;
        self.ledger.give_back(cpu, ledger).await;
        disagreements
    }

    /// Fills all members and replacements that are recovering.
    pub(crate) async fn recover(
        &self,
        cpu: &P::Cpu,
        array: &Array<P>,
        options: &RecoverOptions,
    ) -> Result<RecoverReport, ArrayError> {
        let space = array.member_space();
        let step = step(space, options.window);
        let mut report = RecoverReport::default();
        loop {
            let states = array.member_states(cpu).await;
            let points = states.iter().filter_map(|state| match state {
                MemberState::Recovering { point } => Some(*point),
                _ => None,
            });
            let Some(point) = points.min() else { return Ok(report) };
            let limit = options.until.unwrap_or(Sector(u64::MAX));
            if point >= limit {
                return Ok(report);
            }
            let until = Sector(point.0 - point.0 % step.0) + step;
            let until = (until.0 < space.0).then_some(until.min(limit)).or(options.until);
            let done = array.recover(cpu, RecoverOptions { until, ..options.clone() }).await;
            // What was filled in is on the members, whatever came then.
            self.settle(cpu, array.common(), Change::Nothing).await?;
            let done = done?;
            report.sectors_written = report.sectors_written + done.sectors_written;
            report.sectors_unreadable = report.sectors_unreadable + done.sectors_unreadable;
            report.recovered.extend(done.recovered);
            report.failed.extend(done.failed);
        }
    }
}

/// How far a job goes before it writes that down: whole windows.
fn step(space: Sectors, window: Sectors) -> Sectors {
    let window = window.0.max(1);
    Sectors((space.0 / CHECKPOINTS).max(1).next_multiple_of(window))
}
