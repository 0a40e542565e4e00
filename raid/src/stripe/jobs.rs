//! Resync and check: go through stripes, compute parity from the data, and compare it with what the
//! members hold, while requests run on other rows. A resync writes parity that differs; a check
//! writes nothing.
//!
//! As in md, data is taken to be right. Sectors of data that a member cannot give are put together
//! from parity, and then only the other parity, if there is one, is compared.

use super::batch::Batch;
use super::compute::update_parity;
use super::contents::Contents;
use super::fetch::{Fetch, Goal};
use super::head::HEAD_SECTORS;
use super::split::{BatchExtent, batches_of_stripes};
use super::{ParityArray, by_stripe};
use crate::buffer::Buffer;
use crate::device::Durability;
use crate::error::ArrayError;
use crate::jobs::{CheckReport, ResyncOptions, ResyncReport};
use crate::layout::parity::Block;
use crate::levels::parity::blocks::{BlockSet, Rows};
use crate::levels::parity::plan::{ParityStep, Recovery, StripePlan};
use crate::levels::parity::segments::{LostRows, Part};
use crate::platform::{Cpu, Ordering, Platform, Word, Work};
use crate::units::{SECTOR_BYTES, Sectors};
use std::ops::Range;

/// What comparing some stripes came to.
#[derive(Default)]
struct Compared {
    checked: Sectors,
    /// In whole heads, as md counts.
    mismatches: Sectors,
    written: Sectors,
    /// Sectors of stripes that are beyond redundancy: their parity may fit no data that comes back.
    unreadable: Sectors,
}

impl<P: Platform> ParityArray<P> {
    /// Makes the parity in all stripes of a range agree with their data, and flushes the members.
    ///
    /// # Errors
    /// Options that cannot be, [`ArrayError::ReadOnly`], [`ArrayError::ResyncRunning`],
    /// [`ArrayError::Unwritable`], [`ArrayError::Unflushed`]. Sectors that cannot be read are no
    /// error but a count in the report.
    pub(crate) async fn resync(
        &self,
        cpu: &P::Cpu,
        options: ResyncOptions,
    ) -> Result<ResyncReport, ArrayError> {
        if self.common.read_only {
            return Err(ArrayError::ReadOnly);
        }
        let compared = self.go_through(cpu, &options, true).await?;
        let flushed = self.flush(cpu).await;
        flushed.map(|()| ResyncReport {
            sectors_checked: compared.checked,
            sectors_written: compared.written,
            sectors_unreadable: compared.unreadable,
            // Parity that cannot be written is an error, or its sectors are noted as bad. Of what
            // is in doubt nothing is on the devices: that the array is called dirty is all that
            // keeps it from being used after a restart.
            sectors_unsettled: compared.unreadable,
        })
    }

    /// Counts the sectors in all stripes of a range whose parity does not agree with their data: 8
    /// for each 4 KiB of a chunk in which it does not, as md's `mismatch_cnt`.
    ///
    /// # Errors
    /// Options that cannot be, [`ArrayError::ResyncRunning`].
    pub(crate) async fn check(
        &self,
        cpu: &P::Cpu,
        options: ResyncOptions,
    ) -> Result<CheckReport, ArrayError> {
        let compared = self.go_through(cpu, &options, false).await?;
        Ok(CheckReport {
            sectors_checked: compared.checked,
            mismatches: compared.mismatches,
            sectors_unreadable: compared.unreadable,
        })
    }

    async fn go_through(
        &self,
        cpu: &P::Cpu,
        options: &ResyncOptions,
        repair: bool,
    ) -> Result<Compared, ArrayError> {
        let block_bytes = self.common.logical_block_bytes;
        let (range, _) = options.checked(block_bytes, self.capacity())?;
        if self.common.resync_running.swap(cpu, 1, Ordering::AcqRel).await != 0 {
            return Err(ArrayError::ResyncRunning);
        }
        let stripes = self.stripes_of(range.at, range.length);
        let job = if repair { "resync" } else { "check" };
        tracing::info!(job, stripes = stripes.end - stripes.start, "job begins");
        let mut compared = Compared::default();
        let mut result = Ok(());
        for window in self.windows(stripes, options.window) {
            self.common.suspension.enter(cpu).await;
            for group in self.groups(window) {
                let done = self.compare_group(cpu, group, repair, &mut compared).await;
                result = result.and(done);
            }
            self.common.suspension.leave(cpu).await;
        }
        tracing::info!(
            job,
            checked = compared.checked.0,
            mismatches = compared.mismatches.0,
            written = compared.written.0,
            unreadable = compared.unreadable.0,
            "job ends"
        );
        self.common.resync_running.store(cpu, 0, Ordering::Release).await;
        result.map(|()| compared)
    }

    /// Batches in groups of stripes that hold about `window` sectors of the array each.
    pub(super) fn windows(
        &self,
        stripes: Range<u64>,
        window: Sectors,
    ) -> impl Iterator<Item = Vec<BatchExtent>> {
        let layout = *self.level.layout();
        let stripes_each = (window.0 / layout.stripe_data().0).max(1);
        let heads_max = self.batch_heads_max;
        let mut at = stripes.start;
        std::iter::from_fn(move || {
            let end = stripes.end.min(at + stripes_each);
            let window = at..end;
            at = end;
            let batches = batches_of_stripes(&layout, window.clone(), heads_max);
            (!window.is_empty()).then(|| batches.collect())
        })
    }

    async fn compare_group(
        &self,
        cpu: &P::Cpu,
        group: Vec<BatchExtent>,
        repair: bool,
        compared: &mut Compared,
    ) -> Result<(), ArrayError> {
        self.reserve(cpu, &group).await;
        let mut fetching = Vec::with_capacity(group.len());
        for of_stripe in by_stripe(group) {
            for mut batch in self.claim(cpu, of_stripe).await {
                batch.forget_heads();
                let goal = Goal::Know(self.all_but_lost_parity(cpu, &batch, batch.rows()).await);
                let begun = self.begin(cpu, &batch, &goal).await;
                fetching.push((batch, goal, begun));
            }
        }
        let mut result = Ok(());
        for (mut batch, goal, begun) in fetching {
            let done = self.compare_batch(cpu, &mut batch, &goal, begun, repair, compared).await;
            result = result.and(done);
            self.release(cpu, batch).await;
        }
        result
    }

    /// All data, and parity where its member can be asked for it.
    async fn all_but_lost_parity(&self, cpu: &P::Cpu, batch: &Batch, within: Rows) -> Vec<Part> {
        let facts = self.facts(cpu, batch).await;
        let mut parts: Vec<Part> =
            (0..batch.map.data_count()).map(|data| (Block::Data(data), within)).collect();
        for parity in batch.map.blocks().filter(|block| !matches!(block, Block::Data(_))) {
            let readable = facts.readable(parity).filter_map(|rows| rows.intersection(within));
            parts.extend(readable.map(|rows| (parity, rows)));
        }
        parts
    }

    async fn compare_batch(
        &self,
        cpu: &P::Cpu,
        batch: &mut Batch,
        goal: &Goal,
        begun: Result<Fetch<P>, LostRows>,
        repair: bool,
        compared: &mut Compared,
    ) -> Result<(), ArrayError> {
        let reached = match begun {
            Ok(fetch) => self.reach(cpu, batch, goal, fetch).await,
            Err(lost) => Err(lost),
        };
        if let Ok(plans) = reached {
            return self.compare_plans(cpu, batch, plans, repair, compared).await;
        }
        // Head by head: what is lost in one does not hide the others.
        let heads: Vec<Rows> = batch.rows().split(HEAD_SECTORS).collect();
        let mut result = Ok(());
        for rows in heads {
            let goal = Goal::Know(self.all_but_lost_parity(cpu, batch, rows).await);
            match Box::pin(self.settle(cpu, batch, &goal)).await {
                Ok(plans) => {
                    let done = self.compare_plans(cpu, batch, plans, repair, compared).await;
                    result = result.and(done);
                }
                Err(_) => {
                    let data = u64::from(batch.map.data_count());
                    compared.unreadable.0 += rows.length().0 * data;
                }
            }
        }
        result
    }

    /// Compares what the plans have made known.
    async fn compare_plans(
        &self,
        cpu: &P::Cpu,
        batch: &mut Batch,
        plans: Vec<StripePlan>,
        repair: bool,
        compared: &mut Compared,
    ) -> Result<(), ArrayError> {
        if repair {
            Box::pin(self.mend(cpu, batch)).await;
        }
        let data = BlockSet::data(batch.map.data_count());
        let anew = |plan: StripePlan| {
            // What lost data was put together from fits it anyway.
            let used = plan.recovery.map_or(BlockSet::EMPTY, Recovery::parity);
            let held = plan.reads.union(plan.cached).difference(data).difference(used);
            StripePlan { parity: ParityStep::Compute(held), ..plan }
        };
        let plans: Vec<StripePlan> = plans.into_iter().map(anew).collect();
        for plan in plans.iter().filter(|plan| !plan.parity.blocks().is_empty()) {
            compared.checked.0 += plan.rows.length().0 * u64::from(batch.map.data_count());
            let blocks = u64::from(data.count() + plan.parity.blocks().count());
            cpu.spend(Work::Copy(plan.rows.length().bytes() * blocks)).await;
        }
        let right = {
            let mut right = Contents::default();
            right.put_all(update_parity(&plans, &batch.known(), &Contents::default()));
            right
        };
        let mut different: Vec<Part> = Vec::new();
        for plan in &plans {
            for block in plan.parity.blocks().iter() {
                for rows in plan.rows.split(HEAD_SECTORS) {
                    if right.find(block, rows) != Some(batch.known().must(block, rows)) {
                        different.push((block, rows));
                    }
                }
            }
        }
        let mut heads: Vec<u64> =
            different.iter().map(|(_, rows)| rows.start.0 / HEAD_SECTORS).collect();
        heads.sort_unstable();
        heads.dedup();
        compared.mismatches.0 += heads.len() as u64 * HEAD_SECTORS;
        if !repair || different.is_empty() {
            return Ok(());
        }
        self.write_parity(cpu, batch, &joined(different), &right, compared).await
    }

    async fn write_parity(
        &self,
        cpu: &P::Cpu,
        batch: &Batch,
        parts: &[Part],
        right: &Contents,
        compared: &mut Compared,
    ) -> Result<(), ArrayError> {
        let mut handed = Vec::new();
        for (block, rows) in parts {
            let mut data = Buffer::zeroed(rows.length().bytes() as usize);
            for (_, piece, bytes) in right.pieces().filter(|(of, ..)| of == block) {
                if let Some(shared) = piece.intersection(*rows) {
                    data[shared.bytes_within(*rows)]
                        .copy_from_slice(&bytes[shared.bytes_within(piece)]);
                }
            }
            let data = data.into_shared();
            let durability = Durability::Cached;
            self.submit_write(cpu, batch, (*block, *rows), &data, durability, &mut handed).await;
            compared.written.0 += data.len() as u64 / SECTOR_BYTES;
            let (stripe, rows) = (batch.map.stripe(), rows.to_string());
            tracing::debug!(stripe, rows, %block, "parity brought up to date");
        }
        let (_, result) = self.finish_writes(cpu, batch, handed).await;
        result
    }
}

/// Parts in ascending order, those of a block that touch made one.
fn joined(mut parts: Vec<Part>) -> Vec<Part> {
    parts.sort_unstable();
    let mut runs: Vec<Part> = Vec::new();
    for (block, rows) in parts {
        match runs.last_mut() {
            Some((of, run)) if *of == block && run.end == rows.start => run.end = rows.end,
            _ => runs.push((block, rows)),
        }
    }
    runs
}
