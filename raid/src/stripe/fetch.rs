//! Gets to know what a plan needs: reads it from members, and puts together what is lost.
//!
//! A read that fails changes the facts, so the plan is made anew; what has been read by then is
//! kept. Sectors that a working member could not read are put together and written back by `mend`.

use super::ParityArray;
use super::batch::Batch;
use super::compute::{recover, update_parity};
use super::contents::{Contents, runs_of};
use super::head::HEAD_SECTORS;
use crate::buffer::Buffer;
use crate::common::device_is_lost;
use crate::device::{Durability, Io, IoError};
use crate::layout::parity::Block;
use crate::levels::parity::blocks::Rows;
use crate::levels::parity::plan::StripePlan;
use crate::levels::parity::segments::{LostRows, Part, plan_reads, plan_writes};
use crate::member::CompletionOf;
use crate::platform::{Cpu, Platform, Work};
use crate::units::MemberIndex;

/// What a batch is to be ready for.
pub(super) enum Goal {
    /// Knowing these parts.
    Know(Vec<Part>),
    /// Writing these.
    Write(Vec<Part>),
}

/// A plan whose reads are under way.
pub(super) struct Fetch<P: Platform> {
    plans: Vec<StripePlan>,
    reads: Vec<ReadInFlight<P>>,
}

struct ReadInFlight<P: Platform> {
    block: Block,
    member: MemberIndex,
    rows: Rows,
    completion: CompletionOf<P>,
}

impl<P: Platform> ParityArray<P> {
    /// Plans, and hands the reads over.
    ///
    /// # Errors
    /// [`LostRows`]: the goal is beyond redundancy.
    pub(super) async fn begin(
        &self,
        cpu: &P::Cpu,
        batch: &Batch,
        goal: &Goal,
    ) -> Result<Fetch<P>, LostRows> {
        let facts = self.facts(cpu, batch).await;
        let plans = match goal {
            Goal::Know(parts) => plan_reads(batch.map, parts, &facts.stripe)?,
            Goal::Write(parts) => plan_writes(batch.map, parts, &facts.stripe)?,
        };
        let mut reads = Vec::new();
        for (block, rows) in runs_of(&plans, |plan| plan.reads) {
            for (member, rows) in facts.readers_of(block, rows) {
                reads.push(self.submit_read(cpu, batch, block, member, rows).await);
            }
        }
        Ok(Fetch { plans, reads })
    }

    /// Waits for the reads of [`begin`](Self::begin) and reaches the goal: afterwards all that the
    /// plans need is known.
    ///
    /// # Errors
    /// [`LostRows`]: the goal has turned out to be beyond redundancy.
    pub(super) async fn reach(
        &self,
        cpu: &P::Cpu,
        batch: &mut Batch,
        goal: &Goal,
        mut fetch: Fetch<P>,
    ) -> Result<Vec<StripePlan>, LostRows> {
        loop {
            let lost_before = batch.lost.len();
            for read in fetch.reads {
                self.finish_read(cpu, batch, read).await;
            }
            // What came in several pieces is cut there by a new plan, which has nothing to read.
            if batch.lost.len() == lost_before && in_one_piece(batch, &fetch.plans) {
                break;
            }
            fetch = Box::pin(self.begin(cpu, batch, goal)).await?;
        }
        let plans = fetch.plans;
        if plans.iter().any(|plan| plan.recovery.is_some()) {
            cpu.spend(Work::Copy(bytes_read(&plans))).await;
            let recovered = recover(&plans, &batch.known());
            batch.known.put_all(recovered);
        }
        if let Goal::Know(_) = goal {
            let computed = update_parity(&plans, &batch.known(), &Contents::default());
            batch.known.put_all(computed);
        }
        Ok(plans)
    }

    /// [`begin`](Self::begin) and [`reach`](Self::reach).
    pub(super) async fn settle(
        &self,
        cpu: &P::Cpu,
        batch: &mut Batch,
        goal: &Goal,
    ) -> Result<Vec<StripePlan>, LostRows> {
        let fetch = self.begin(cpu, batch, goal).await?;
        self.reach(cpu, batch, goal, fetch).await
    }

    /// Writes back what members could not read, as far as it can be put together. Sectors that a
    /// member does not take are noted as bad, or it is failed, before this returns.
    pub(super) async fn mend(&self, cpu: &P::Cpu, batch: &mut Batch) {
        while let Some((member, rows)) = batch.damaged.pop() {
            let block = batch.map.block(self.common.role_of(member));
            let goal = Goal::Know(vec![(block, rows)]);
            let Ok(plans) = Box::pin(self.settle(cpu, batch, &goal)).await else { continue };
            let mut data = Buffer::zeroed(rows.length().bytes() as usize);
            for plan in &plans {
                let bytes = batch.known().must(block, plan.rows);
                data[plan.rows.bytes_within(rows)].copy_from_slice(bytes);
            }
            let extent = batch.on_member(rows);
            let data = data.into_shared();
            let io = Io::Write { at: extent.at, data, durability: Durability::Cached };
            let device = self.common.member(member);
            if !device.flags(cpu).await.takes_writes() {
                continue;
            }
            let completion = device.submit(cpu, io).await;
            match device.wait(cpu, completion).await.result {
                Ok(()) => {
                    self.written(cpu, member, extent).await;
                    batch.lost.retain(|(of, lost)| *of != member || !rows.covers(*lost));
                    let (member, at, sectors) = (member.0, extent.at.0, extent.length.0);
                    tracing::info!(member, at, sectors, "read error repaired");
                }
                Err(cause) => {
                    // Whether it could be spared or not: it is known not to be up to date.
                    self.write_failed(cpu, batch, member, rows, &cause).await;
                }
            }
        }
    }

    async fn submit_read(
        &self,
        cpu: &P::Cpu,
        batch: &Batch,
        block: Block,
        member: MemberIndex,
        rows: Rows,
    ) -> ReadInFlight<P> {
        let into = Buffer::zeroed(rows.length().bytes() as usize);
        let io = Io::Read { at: batch.on_member(rows).at, into };
        let completion = self.common.member(member).submit(cpu, io).await;
        ReadInFlight { block, member, rows, completion }
    }

    /// Waits for a read. What could not be read is noted, row by row if a sector is at fault.
    async fn finish_read(&self, cpu: &P::Cpu, batch: &mut Batch, read: ReadInFlight<P>) {
        let ReadInFlight { block, member, rows, completion } = read;
        let done = self.common.member(member).wait(cpu, completion).await;
        match done.result {
            Ok(()) => {
                let buffer = done.buffer.expect("a device gives a read's buffer back");
                batch.known.put(block, rows, buffer.into_shared());
            }
            Err(cause) => Box::pin(self.read_failed(cpu, batch, block, member, rows, cause)).await,
        }
    }

    async fn read_failed(
        &self,
        cpu: &P::Cpu,
        batch: &mut Batch,
        block: Block,
        member: MemberIndex,
        rows: Rows,
        cause: IoError,
    ) {
        if device_is_lost(&cause) {
            // Whether it could be spared or not: something else may still be enough.
            self.fail_member(cpu, member, &cause).await;
            batch.lost.push((member, rows));
            return;
        }
        let units: Vec<Rows> = rows.split(self.repair_unit()).collect();
        if units.len() == 1 {
            batch.lost.push((member, rows));
            batch.damaged.push((member, rows));
            return;
        }
        let mut reads = Vec::with_capacity(units.len());
        for unit in units {
            reads.push(self.submit_read(cpu, batch, block, member, unit).await);
        }
        for read in reads {
            Box::pin(self.finish_read(cpu, batch, read)).await;
        }
    }

    /// Sectors of the unit in which damage is looked for: a head, or a logical block if that is
    /// larger.
    fn repair_unit(&self) -> u64 {
        HEAD_SECTORS.max(u64::from(self.common.logical_block_bytes) / crate::units::SECTOR_BYTES)
    }
}

fn in_one_piece(batch: &Batch, plans: &[StripePlan]) -> bool {
    plans
        .iter()
        .all(|plan| plan.reads.iter().all(|block| batch.known.find(block, plan.rows).is_some()))
}

fn bytes_read(plans: &[StripePlan]) -> u64 {
    let bytes = |plan: &StripePlan| {
        let blocks = plan.reads.union(plan.cached).count();
        plan.rows.length().bytes() * u64::from(blocks)
    };
    plans.iter().map(bytes).sum()
}
