//! Drives resync and recovery of an array whose metadata is kept: what to go through, and how far it
//! has come, written down in steps so that both resume after a stop or a power cut.

use super::Records;
use super::intent::WriteIntent;
use super::settle::Change;
use crate::array::Array;
use crate::error::ArrayError;
use crate::jobs::{RecoverOptions, RecoverReport, ResyncOptions, ResyncReport};
use crate::member::MemberState;
use crate::platform::{Ordering, Platform, Word};
use crate::request::Extent;
use crate::units::{Sector, Sectors};

/// A job writes down how far it has come this many times, as in md.
const CHECKPOINTS: u64 = 16;

impl<P: Platform> Records<P> {
    /// Makes redundancy agree wherever it may not: what the bitmap marks, or everything from the
    /// resync offset on. Goes no further than about `most` sectors of the sync space; whether
    /// anything is left of this pass. What could not be made to agree stays marked, and so does
    /// everything behind it where there is no bitmap.
    pub(crate) async fn resync(
        &self,
        cpu: &P::Cpu,
        array: &Array<P>,
        options: &ResyncOptions,
        most: Sectors,
    ) -> Result<(ResyncReport, bool), ArrayError> {
        // Two would take each other's marks for their own.
        if self.resync_driven.swap(cpu, 1, Ordering::AcqRel).await != 0 {
            return Err(ArrayError::ResyncRunning);
        }
        let result = self.drive_resync(cpu, array, options, most).await;
        self.resync_driven.store(cpu, 0, Ordering::Release).await;
        result
    }

    async fn drive_resync(
        &self,
        cpu: &P::Cpu,
        array: &Array<P>,
        options: &ResyncOptions,
        most: Sectors,
    ) -> Result<(ResyncReport, bool), ArrayError> {
        let space = array.sync_space();
        let ledger = self.ledger.take(cpu).await;
        let from = ledger.resync_resumes.or(ledger.resync_offset);
        let disagreements = ledger.disagreements;
        self.ledger.give_back(cpu, ledger).await;
        let marked =
            self.with_intent(cpu, async |of: &mut WriteIntent| (of.to_resync(), of.chunk()));
        let marked = marked.await;
        let mut step = step(space, options.window).min(most);
        // A bit is cleared by a step that goes through all that it stands for.
        if let Some((_, chunk)) = &marked {
            step = Sectors(step.0.next_multiple_of(chunk.0));
        }
        let ranges = marked.map(|(ranges, _)| ranges).unwrap_or_else(|| {
            let from = from.filter(|from| from.0 < space.0);
            from.map(|at| Extent { at, length: Sector(space.0) - at }).into_iter().collect()
        });
        let mut report = ResyncReport::default();
        let mut gone_through = Sectors(0);
        for part in ranges.iter().flat_map(|range| range.split(step)) {
            if gone_through >= most {
                return Ok((report, true));
            }
            gone_through = gone_through + part.length;
            let done = self.resync_part(cpu, array, options, part).await?;
            report.add(&done);
            let agrees = done.sectors_unsettled.0 == 0;
            if self.intent.is_none() && !self.left_behind(cpu, part, agrees).await {
                let reached = Change::Resynced { up_to: Some(part.end()), disagreements };
                self.settle(cpu, array.common(), reached).await?;
            }
        }
        self.end_pass(cpu, array, disagreements).await?;
        Ok((report, false))
    }

    async fn resync_part(
        &self,
        cpu: &P::Cpu,
        array: &Array<P>,
        options: &ResyncOptions,
        part: Extent,
    ) -> Result<ResyncReport, ArrayError> {
        self.with_intent(cpu, async |of: &mut WriteIntent| of.begin_resync(part)).await;
        let done = match array.array_range(part) {
            range @ Some(_) => array.resync(cpu, ResyncOptions { range, ..options.clone() }).await,
            None => Ok(ResyncReport::default()),
        };
        let end = async |of: &mut WriteIntent| match &done {
            Ok(done) => of.end_resync(part, done.sectors_unsettled.0 == 0),
            Err(_) => of.abandon_resync(part),
        };
        self.with_intent(cpu, end).await;
        done
    }

    /// Whether this part, or one before it in this pass, does not agree: the pass then goes on
    /// behind it, and the next one begins where it has begun.
    async fn left_behind(&self, cpu: &P::Cpu, part: Extent, agrees: bool) -> bool {
        let mut ledger = self.ledger.take(cpu).await;
        let left_behind = ledger.resync_resumes.is_some() || !agrees;
        if left_behind {
            ledger.resync_resumes = Some(part.end());
        }
        self.ledger.give_back(cpu, ledger).await;
        left_behind
    }

    /// All has been gone through. Says that everything agrees, unless something was left behind or a
    /// write has failed meanwhile.
    async fn end_pass(
        &self,
        cpu: &P::Cpu,
        array: &Array<P>,
        disagreements: u64,
    ) -> Result<(), ArrayError> {
        self.while_quiet(cpu, async || {
            let mut ledger = self.ledger.take(cpu).await;
            let left_behind = ledger.resync_resumes.take().is_some();
            self.ledger.give_back(cpu, ledger).await;
            let marked = self.with_intent(cpu, async |of: &mut WriteIntent| {
                of.end_pass();
                of.needs_resync()
            });
            if marked.await.unwrap_or(left_behind) {
                return Ok(());
            }
            let everywhere = Change::Resynced { up_to: None, disagreements };
            self.settle(cpu, array.common(), everywhere).await?;
            if self.disagreements(cpu).await == disagreements {
                array.trust_redundancy(cpu).await;
            }
            Ok(())
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
