//! Carries out writes.
//!
//! The batches of a request go forward together: all their reads are handed over before the first is
//! waited for, and so are their writes. The caller's memory goes to the members as it is; only
//! parity is computed.

use super::batch::Batch;
use super::compute::update_parity;
use super::contents::runs_of;
use super::fetch::{Fetch, Goal};
use super::split::{BatchExtent, DataPart, batches_of};
use super::store::WriteInFlight;
use super::{ParityArray, by_stripe};
use crate::buffer::SharedBuffer;
use crate::device::{Durability, IoError};
use crate::error::ArrayError;
use crate::layout::parity::Block;
use crate::levels::parity::plan::StripePlan;
use crate::levels::parity::segments::LostRows;
use crate::platform::{Cpu, Platform, Work};
use crate::request::Extent;

/// A batch whose writes are under way.
struct Storing<P: Platform> {
    batch: Batch,
    plans: Vec<StripePlan>,
    handed: Vec<WriteInFlight<P>>,
}

impl<P: Platform> ParityArray<P> {
    pub(crate) async fn write(
        &self,
        cpu: &P::Cpu,
        extent: Extent,
        data: SharedBuffer,
        durability: Durability,
    ) -> Result<(), ArrayError> {
        assert!(!self.common.read_only, "who asks has been told");
        self.common.suspension.enter(cpu).await;
        cpu.spend(Work::ArrayRequest).await;
        let result = match &self.heads {
            Some(heads) => {
                Box::pin(self.write_through_heads(cpu, heads, extent, data, durability)).await
            }
            None => self.write_by_itself(cpu, extent, data, durability).await,
        };
        cpu.spend(Work::ArrayCompletion).await;
        self.common.suspension.leave(cpu).await;
        result
    }

    async fn write_by_itself(
        &self,
        cpu: &P::Cpu,
        extent: Extent,
        data: SharedBuffer,
        durability: Durability,
    ) -> Result<(), ArrayError> {
        let bytes_of = |part: &DataPart| {
            let start = (part.at - extent.at).bytes() as usize;
            data.slice(start..start + part.rows.length().bytes() as usize)
        };
        let batches = batches_of(self.level.layout(), extent, self.batch_heads_max);
        for group in self.groups(batches) {
            self.write_group(cpu, group, bytes_of, durability).await?;
        }
        Ok(())
    }

    /// Writes a group of batches, whose data is what `bytes_of` says of each part.
    pub(super) async fn write_group(
        &self,
        cpu: &P::Cpu,
        group: Vec<BatchExtent>,
        bytes_of: impl Fn(&DataPart) -> SharedBuffer,
        durability: Durability,
    ) -> Result<(), ArrayError> {
        self.reserve(cpu, &group).await;
        let mut fetching = Vec::with_capacity(group.len());
        for of_stripe in by_stripe(group) {
            for mut batch in self.claim(cpu, of_stripe).await {
                for part in &batch.extent.parts {
                    batch.new.put(Block::Data(part.data), part.rows, bytes_of(part));
                }
                let goal = Goal::Write(batch.parts());
                let begun = self.begin(cpu, &batch, &goal).await;
                fetching.push((batch, goal, begun));
            }
        }
        let mut storing = Vec::with_capacity(fetching.len());
        let mut result = Ok(());
        for (mut batch, goal, begun) in fetching {
            match self.prepare(cpu, &mut batch, &goal, begun).await {
                Ok(plans) => storing.push(self.store(cpu, batch, plans, durability).await),
                Err(lost) => {
                    result = result.and(Err(self.beyond_redundancy(&batch, lost)));
                    batch.keep_known();
                    self.release(cpu, batch).await;
                }
            }
        }
        for Storing { mut batch, plans, handed } in storing {
            let (unwritten, ended) = self.finish_writes(cpu, &batch, handed).await;
            result = result.and(ended);
            batch.keep_written(&plans, &unwritten);
            self.release(cpu, batch).await;
        }
        result
    }

    /// Gets to know what the write needs.
    async fn prepare(
        &self,
        cpu: &P::Cpu,
        batch: &mut Batch,
        goal: &Goal,
        begun: Result<Fetch<P>, LostRows>,
    ) -> Result<Vec<StripePlan>, LostRows> {
        let mut plans = self.reach(cpu, batch, goal, begun?).await?;
        while !batch.damaged.is_empty() {
            // What is mended holds the old content and has to be kept up to date again.
            Box::pin(self.mend(cpu, batch)).await;
            plans = Box::pin(self.settle(cpu, batch, goal)).await?;
        }
        if !batch.lost.is_empty() {
            Box::pin(self.distrust_left_behind(cpu, batch, &plans)).await;
        }
        Ok(plans)
    }

    /// Parity that a member did not give, perhaps this once only, and that the plans do not bring up
    /// to date, must not be read again. That is on record before the data goes out.
    async fn distrust_left_behind(&self, cpu: &P::Cpu, batch: &Batch, plans: &[StripePlan]) {
        for (member, lost) in &batch.lost {
            let block = batch.map.block(self.common.role_of(*member));
            for plan in plans.iter().filter(|plan| !plan.writes.contains(block)) {
                if let Some(rows) = plan.rows.intersection(*lost)
                    && !matches!(block, Block::Data(_))
                {
                    let extent = batch.on_member(rows);
                    let cause = IoError::Media { at: extent.at };
                    self.distrust(cpu, *member, extent, &cause).await;
                }
            }
        }
    }

    /// Computes parity and hands everything to the members.
    async fn store(
        &self,
        cpu: &P::Cpu,
        mut batch: Batch,
        plans: Vec<StripePlan>,
        durability: Durability,
    ) -> Storing<P> {
        let parity = update_parity(&plans, &batch.known(), &batch.new);
        cpu.spend(Work::Copy(bytes_computed(&plans))).await;
        batch.new.put_all(parity);
        let mut handed = Vec::new();
        for (block, rows) in runs_of(&plans, |plan| plan.writes) {
            let data = batch.new.share(block, rows).expect("what is written is in one piece");
            let part = (block, rows);
            self.submit_write(cpu, &batch, part, &data, durability, &mut handed).await;
        }
        Storing { batch, plans, handed }
    }
}

/// Bytes that computing parity goes through.
fn bytes_computed(plans: &[StripePlan]) -> u64 {
    let bytes = |plan: &StripePlan| {
        let blocks = plan.reads.union(plan.cached).union(plan.new).count();
        let computes = !plan.parity.blocks().is_empty();
        if computes { plan.rows.length().bytes() * u64::from(blocks) } else { 0 }
    };
    plans.iter().map(bytes).sum()
}
