//! Recovery: fills members and replacements that are recovering, window by window in the order of
//! their own sectors, while requests run on other rows.
//!
//! Requests write new data to recovering members anyway, but parity only where it costs nothing:
//! beyond the recovery point it is still to be computed. So the point moves past rows before they
//! are released. A recovery that was cut short goes on from the point; it goes by whole stripes.

use super::batch::Batch;
use super::fetch::{Fetch, Goal};
use super::head::HEAD_SECTORS;
use super::split::BatchExtent;
use super::{ParityArray, by_stripe};
use crate::buffer::Buffer;
use crate::device::{Durability, Io};
use crate::error::ArrayError;
use crate::jobs::{RecoverOptions, RecoverReport};
use crate::levels::parity::blocks::Rows;
use crate::levels::parity::segments::LostRows;
use crate::platform::{Ordering, Platform, Word};
use crate::units::{MemberIndex, Sector, Sectors};

impl<P: Platform> ParityArray<P> {
    /// Fills all members that are recovering, from their recovery points on.
    ///
    /// # Errors
    /// Options that cannot be, [`ArrayError::ReadOnly`], [`ArrayError::ResyncRunning`];
    /// [`ArrayError::BeyondRedundancy`] if some sectors cannot be put together and the member has
    /// no room to note that: it stays recovering, and its point says how far it got.
    pub(crate) async fn recover(
        &self,
        cpu: &P::Cpu,
        options: RecoverOptions,
    ) -> Result<RecoverReport, ArrayError> {
        options.check(self.common.logical_block_bytes)?;
        if self.common.read_only {
            return Err(ArrayError::ReadOnly);
        }
        if self.common.resync_running.swap(cpu, 1, Ordering::AcqRel).await != 0 {
            return Err(ArrayError::ResyncRunning);
        }
        let mut report = RecoverReport::default();
        let result = self.recover_members(cpu, &options, &mut report).await;
        self.common.resync_running.store(cpu, 0, Ordering::Release).await;
        result.map(|()| report)
    }

    /// All at once, as md does: what is read for one serves the others too.
    async fn recover_members(
        &self,
        cpu: &P::Cpu,
        options: &RecoverOptions,
        report: &mut RecoverReport,
    ) -> Result<(), ArrayError> {
        let mut targets = Vec::new();
        for index in self.common.indexes() {
            if self.common.member(index).flags(cpu).await.is_recovering() {
                targets.push(index);
            }
        }
        let mut from = None;
        for index in &targets {
            let point = self.common.member(*index).recovery_point(cpu).await;
            from = Some(from.map_or(point, |least: Sector| least.min(point)));
        }
        let Some(from) = from else { return Ok(()) };
        let layout = *self.level.layout();
        let end = Sector(layout.used_of_member().0);
        let stop = options.until.map_or(end, |until| until.min(end));
        tracing::info!(members = targets.len(), from = from.0, to = stop.0, "recovery begins");
        let chunk = layout.chunk().0;
        let stripes = from.0 / chunk..stop.0.div_ceil(chunk);
        let per_member = u64::from(layout.data_count());
        for window in self.windows(stripes, Sectors(options.window.0 * per_member)) {
            self.common.suspension.enter(cpu).await;
            let filled = self.fill_window(cpu, window, &targets, report).await;
            self.common.suspension.leave(cpu).await;
            filled?;
        }
        if stop >= end {
            self.end_recovery(cpu, &targets).await;
        }
        for index in targets {
            let flags = self.common.member(index).flags(cpu).await;
            if flags.is_in_sync() {
                report.recovered.push(index);
            } else if !flags.takes_writes() {
                report.failed.push(index);
            }
        }
        Ok(())
    }

    /// What is below `until` is filled in, on members that have taken all of it.
    async fn move_points(&self, cpu: &P::Cpu, targets: &[MemberIndex], until: Sector) {
        for index in targets {
            let member = self.common.member(*index);
            if member.flags(cpu).await.is_recovering() && member.recovery_point(cpu).await < until {
                member.set_recovery_point(cpu, until).await;
            }
        }
    }

    /// What was filled in is made durable before the members count.
    async fn end_recovery(&self, cpu: &P::Cpu, targets: &[MemberIndex]) {
        self.common.suspension.enter(cpu).await;
        for index in targets {
            let member = self.common.member(*index);
            if !member.flags(cpu).await.is_recovering() {
                continue;
            }
            let completion = member.submit(cpu, Io::Flush).await;
            if let Err(cause) = member.wait(cpu, completion).await.result {
                self.fail_member(cpu, *index, &cause).await;
            }
            self.common.recovered(cpu, *index).await;
        }
        self.common.suspension.leave(cpu).await;
    }

    async fn fill_window(
        &self,
        cpu: &P::Cpu,
        window: Vec<BatchExtent>,
        targets: &[MemberIndex],
        report: &mut RecoverReport,
    ) -> Result<(), ArrayError> {
        let mut result = Ok(());
        // Batches ascend, so all below the end of one that is filled is filled.
        for group in self.groups(window) {
            self.reserve(cpu, &group).await;
            let mut fetching = Vec::with_capacity(group.len());
            for of_stripe in by_stripe(group) {
                for batch in self.claim(cpu, of_stripe).await {
                    let goal = self.goal_of(&batch, targets, batch.rows());
                    let begun = self.begin(cpu, &batch, &goal).await;
                    fetching.push((batch, goal, begun));
                }
            }
            for (mut batch, goal, begun) in fetching {
                if result.is_ok() {
                    let with = (goal, begun);
                    result = self.fill_batch(cpu, &mut batch, targets, with, report).await;
                } else if let Ok(fetch) = begun {
                    // Reads that are under way are waited for, whatever they bring.
                    let _ = self.reach(cpu, &mut batch, &goal, fetch).await;
                }
                if result.is_ok() {
                    // Before the rows are released: who writes them then has to know that what
                    // the targets hold there counts.
                    let until = batch.on_member(batch.rows()).end();
                    self.move_points(cpu, targets, until).await;
                }
                self.release(cpu, batch).await;
            }
        }
        result
    }

    /// The blocks that belong on the targets.
    fn goal_of(&self, batch: &Batch, targets: &[MemberIndex], rows: Rows) -> Goal {
        let block = |index: &MemberIndex| batch.map.block(self.common.role_of(*index));
        Goal::Know(targets.iter().map(|index| (block(index), rows)).collect())
    }

    async fn fill_batch(
        &self,
        cpu: &P::Cpu,
        batch: &mut Batch,
        targets: &[MemberIndex],
        (goal, begun): (Goal, Result<Fetch<P>, LostRows>),
        report: &mut RecoverReport,
    ) -> Result<(), ArrayError> {
        let reached = match begun {
            Ok(fetch) => self.reach(cpu, batch, &goal, fetch).await,
            Err(lost) => Err(lost),
        };
        if reached.is_ok() {
            let rows = batch.rows();
            return self.fill(cpu, batch, targets, rows, report).await;
        }
        // Head by head: what is lost in one is left out.
        let heads: Vec<Rows> = batch.rows().split(HEAD_SECTORS).collect();
        for rows in heads {
            for target in targets {
                let target = &[*target][..];
                let goal = self.goal_of(batch, target, rows);
                match Box::pin(self.settle(cpu, batch, &goal)).await {
                    Ok(_) => self.fill(cpu, batch, target, rows, report).await?,
                    Err(lost) => self.leave_out(cpu, batch, target[0], rows, lost, report).await?,
                }
            }
        }
        Ok(())
    }

    /// Writes rows, which are known, to the targets.
    async fn fill(
        &self,
        cpu: &P::Cpu,
        batch: &mut Batch,
        targets: &[MemberIndex],
        rows: Rows,
        report: &mut RecoverReport,
    ) -> Result<(), ArrayError> {
        Box::pin(self.mend(cpu, batch)).await;
        let extent = batch.on_member(rows);
        let mut handed = Vec::new();
        for index in targets {
            let member = self.common.member(*index);
            if !member.flags(cpu).await.is_recovering() {
                continue;
            }
            let block = batch.map.block(self.common.role_of(*index));
            let mut data = Buffer::zeroed(rows.length().bytes() as usize);
            for (of, known) in batch.known_parts() {
                if of == block
                    && let Some(shared) = known.intersection(rows)
                {
                    let bytes = batch.known().must(block, shared);
                    data[shared.bytes_within(rows)].copy_from_slice(bytes);
                }
            }
            let data = data.into_shared();
            let io = Io::Write { at: extent.at, data, durability: Durability::Cached };
            handed.push((*index, member.submit(cpu, io).await));
        }
        for (index, completion) in handed {
            let member = self.common.member(index);
            match member.wait(cpu, completion).await.result {
                Ok(()) => {
                    self.written(cpu, index, extent).await;
                    report.sectors_written = report.sectors_written + rows.length();
                }
                Err(cause) => {
                    // Whether others have the rows or not, they are noted as bad or the member has
                    // failed, which can be spared while it is recovering.
                    let spared = self.write_failed(cpu, batch, index, rows, &cause).await;
                    if !spared && member.flags(cpu).await.takes_writes() {
                        report.sectors_unreadable = report.sectors_unreadable + rows.length();
                    }
                }
            }
        }
        Ok(())
    }

    /// Goes on without rows that cannot be put together, if that can be noted.
    async fn leave_out(
        &self,
        cpu: &P::Cpu,
        batch: &Batch,
        index: MemberIndex,
        rows: Rows,
        lost: LostRows,
        report: &mut RecoverReport,
    ) -> Result<(), ArrayError> {
        if self.common.note_bad(cpu, index, batch.on_member(rows)).await {
            report.sectors_unreadable = report.sectors_unreadable + rows.length();
            return Ok(());
        }
        Err(self.beyond_redundancy(batch, lost))
    }
}
