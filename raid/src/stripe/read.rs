//! Carries out reads.
//!
//! Data that its member can give is read from there, past the cache: a sector is written whole, so
//! the reader sees it old or new. What a member cannot give is put together from the rest of the
//! stripe, under a claim, and written back where the member still works.

use super::batch::Batch;
use super::fetch::{Fetch, Goal};
use super::split::{BatchExtent, DataPart, batches_of_parts};
use super::{ParityArray, by_stripe};
use crate::array::ReadDone;
use crate::buffer::Buffer;
use crate::common::device_is_lost;
use crate::device::Io;
use crate::error::ArrayError;
use crate::layout::parity::Block;
use crate::levels::parity::blocks::Rows;
use crate::levels::parity::segments::LostRows;
use crate::member::CompletionOf;
use crate::platform::{Cpu, Platform, Work};
use crate::request::Extent;
use crate::units::{MemberIndex, Sector, Sectors};

/// A piece of a read, within one chunk.
enum Piece<P: Platform> {
    /// Its member is reading it.
    Direct { stripe: u64, part: DataPart, member: MemberIndex, completion: CompletionOf<P> },
    /// Its member cannot give it.
    Degraded { stripe: u64, part: DataPart, buffer: Buffer },
}

impl<P: Platform> ParityArray<P> {
    pub(crate) async fn read(&self, cpu: &P::Cpu, extent: Extent, into: Buffer) -> ReadDone {
        self.common.suspension.enter(cpu).await;
        let mut pieces = Vec::new();
        let mut rest = Some(into);
        for piece in extent.split(self.level.layout().chunk()) {
            cpu.spend(Work::ArrayRequest).await;
            let whole = rest.take().expect("the pieces are no longer than the buffer");
            let (buffer, back) = whole.split_at(piece.length.bytes() as usize);
            rest = Some(back);
            pieces.push(self.begin_piece(cpu, piece, buffer).await);
        }
        let mut degraded = Vec::new();
        let mut whole: Option<Buffer> = None;
        for piece in pieces {
            let (buffer, failed) = self.finish_piece(cpu, piece).await;
            degraded.extend(failed);
            whole = Some(match whole {
                None => buffer,
                Some(front) => front.join(buffer),
            });
        }
        let mut buffer = whole.expect("a request has pieces");
        let result = match degraded.is_empty() {
            true => Ok(()),
            false => self.read_degraded(cpu, extent.at, degraded, &mut buffer).await,
        };
        cpu.spend(Work::ArrayCompletion).await;
        self.common.suspension.leave(cpu).await;
        ReadDone { result, buffer }
    }

    async fn begin_piece(&self, cpu: &P::Cpu, piece: Extent, into: Buffer) -> Piece<P> {
        let (stripe, block, within) = self.level.layout().locate(piece.at);
        let Block::Data(data) = block else { unreachable!("the array has data only") };
        let rows = Rows { start: within, end: within + piece.length };
        let part = DataPart { data, rows, at: piece.at };
        let at = self.level.layout().member_sector(stripe, within);
        let role = self.level.layout().stripe(stripe).member(block);
        for member in self.devices_of(role) {
            if self.trusts(cpu, member, Extent { at, ..piece }).await {
                let io = Io::Read { at, into };
                let completion = self.common.member(member).submit(cpu, io).await;
                return Piece::Direct { stripe, part, member, completion };
            }
        }
        Piece::Degraded { stripe, part, buffer: into }
    }

    /// The piece's memory, and the piece itself if it has still to be read.
    async fn finish_piece(
        &self,
        cpu: &P::Cpu,
        piece: Piece<P>,
    ) -> (Buffer, Option<(u64, DataPart)>) {
        let (stripe, part, member, completion) = match piece {
            Piece::Degraded { stripe, part, buffer } => return (buffer, Some((stripe, part))),
            Piece::Direct { stripe, part, member, completion } => {
                (stripe, part, member, completion)
            }
        };
        let done = self.common.member(member).wait(cpu, completion).await;
        let buffer = done.buffer.expect("a device gives a read's buffer back");
        let Err(cause) = done.result else { return (buffer, None) };
        if device_is_lost(&cause) {
            Box::pin(self.fail_member(cpu, member, &cause)).await;
        }
        (buffer, Some((stripe, part)))
    }

    async fn read_degraded(
        &self,
        cpu: &P::Cpu,
        first: Sector,
        parts: Vec<(u64, DataPart)>,
        into: &mut [u8],
    ) -> Result<(), ArrayError> {
        let batches = batches_of_parts(parts, self.batch_heads_max);
        for group in self.groups(batches) {
            self.read_group(cpu, group, first, into).await?;
        }
        Ok(())
    }

    async fn read_group(
        &self,
        cpu: &P::Cpu,
        group: Vec<BatchExtent>,
        first: Sector,
        into: &mut [u8],
    ) -> Result<(), ArrayError> {
        self.reserve(cpu, &group).await;
        let mut fetching = Vec::with_capacity(group.len());
        for of_stripe in by_stripe(group) {
            for batch in self.claim(cpu, of_stripe).await {
                let goal = Goal::Know(batch.parts());
                let begun = self.begin(cpu, &batch, &goal).await;
                fetching.push((batch, goal, begun));
            }
        }
        let mut result = Ok(());
        for (mut batch, goal, begun) in fetching {
            let known = self.know(cpu, &mut batch, &goal, begun, first, into).await;
            result = result.and(known.map_err(|lost| self.beyond_redundancy(&batch, lost)));
            batch.keep_known();
            self.release(cpu, batch).await;
        }
        result
    }

    async fn know(
        &self,
        cpu: &P::Cpu,
        batch: &mut Batch,
        goal: &Goal,
        begun: Result<Fetch<P>, LostRows>,
        first: Sector,
        into: &mut [u8],
    ) -> Result<(), LostRows> {
        let plans = self.reach(cpu, batch, goal, begun?).await?;
        for part in &batch.extent.parts {
            for plan in &plans {
                let Some(rows) = part.rows.intersection(plan.rows) else { continue };
                let bytes = batch.known().must(Block::Data(part.data), rows);
                let at = part.at + (rows.start - part.rows.start);
                let start = (at - first).bytes() as usize;
                into[start..start + bytes.len()].copy_from_slice(bytes);
            }
        }
        cpu.spend(Work::Copy(asked_sectors(batch).bytes())).await;
        if !self.common.read_only {
            Box::pin(self.mend(cpu, batch)).await;
        }
        Ok(())
    }
}

fn asked_sectors(batch: &Batch) -> Sectors {
    Sectors(batch.extent.parts.iter().map(|part| part.rows.length().0).sum())
}
