//! Writes blocks of a batch to members, and deals with members that do not take them.
//!
//! A write that fails is recorded, as a bad block, a failed member, or a doubt, before anybody
//! learns how it ended. Old data beside new parity is never left where somebody could put other data
//! together from it, not even after a restart: see `distrust`.

use super::ParityArray;
use super::batch::Batch;
use crate::buffer::SharedBuffer;
use crate::common::device_is_lost;
use crate::device::{Durability, Io, IoError};
use crate::error::ArrayError;
use crate::layout::parity::Block;
use crate::levels::parity::blocks::Rows;
use crate::levels::parity::segments::Part;
use crate::member::CompletionOf;
use crate::platform::Platform;
use crate::request::Extent;
use crate::units::MemberIndex;

/// A write to one device.
pub(super) struct WriteInFlight<P: Platform> {
    block: Block,
    rows: Rows,
    member: MemberIndex,
    completion: CompletionOf<P>,
}

impl<P: Platform> ParityArray<P> {
    /// Hands some rows of a block to all devices of its role that take writes.
    pub(super) async fn submit_write(
        &self,
        cpu: &P::Cpu,
        batch: &Batch,
        (block, rows): Part,
        data: &SharedBuffer,
        durability: Durability,
        handed: &mut Vec<WriteInFlight<P>>,
    ) {
        let at = batch.on_member(rows).at;
        for member in self.devices_of(batch.map.member(block)) {
            if self.common.member(member).flags(cpu).await.takes_writes() {
                let io = Io::Write { at, data: data.clone(), durability };
                let completion = self.common.member(member).submit(cpu, io).await;
                handed.push(WriteInFlight { block, rows, member, completion });
            }
        }
    }

    /// Waits for writes. The parts that a device did not take and that could not be spared, and the
    /// first error.
    pub(super) async fn finish_writes(
        &self,
        cpu: &P::Cpu,
        batch: &Batch,
        handed: Vec<WriteInFlight<P>>,
    ) -> (Vec<Part>, Result<(), ArrayError>) {
        let (mut unwritten, mut result) = (Vec::new(), Ok(()));
        for WriteInFlight { block, rows, member, completion } in handed {
            let done = self.common.member(member).wait(cpu, completion).await;
            let Err(cause) = done.result else {
                self.written(cpu, member, batch.on_member(rows)).await;
                continue;
            };
            if !Box::pin(self.write_failed(cpu, batch, member, rows, &cause)).await {
                unwritten.push((block, rows));
                let (at, length) = batch.asked_within(rows).unwrap_or((
                    self.level.layout().array_sector(batch.map.stripe(), 0, rows.start),
                    rows.length(),
                ));
                result = result.and(Err(ArrayError::Unwritable { at, length, member, cause }));
            }
        }
        (unwritten, result)
    }

    /// A device has taken a write: its sectors there are good.
    pub(super) async fn written(&self, cpu: &P::Cpu, member: MemberIndex, extent: Extent) {
        if self.common.member(member).flags(cpu).await.has_bad_blocks() {
            self.common.written_again(cpu, member, extent).await;
        }
        self.doubts.clear(cpu, member, extent).await;
    }

    /// A device did not take a write. False if that cannot be spared; nobody relies on its sectors
    /// there until they are written again, in either case.
    pub(super) async fn write_failed(
        &self,
        cpu: &P::Cpu,
        batch: &Batch,
        member: MemberIndex,
        rows: Rows,
        cause: &IoError,
    ) -> bool {
        let extent = batch.on_member(rows);
        let redundant_here = async || {
            let mut lost = 0;
            for block in batch.map.blocks() {
                let mut readable = false;
                for device in self.devices_of(batch.map.member(block)) {
                    readable |= device != member && self.trusts(cpu, device, extent).await;
                }
                lost += u32::from(!readable);
            }
            lost <= self.level.layout().kind().parity_count()
        };
        let survives = |live: &dyn Fn(MemberIndex) -> bool| self.level.survives_on(live);
        let common = &self.common;
        let spared =
            common.write_failed(cpu, member, extent, cause, redundant_here, survives).await;
        if !spared {
            self.distrust(cpu, member, extent, cause).await;
        }
        spared
    }

    /// What a device holds of `extent` does not fit its stripe and must not be used until it is
    /// written again. Its log of bad blocks names the sectors before this returns. Where it has no
    /// room the device is taken out, as in md; and where that cannot be spared the sectors are in
    /// doubt.
    pub(super) async fn distrust(
        &self,
        cpu: &P::Cpu,
        member: MemberIndex,
        extent: Extent,
        cause: &IoError,
    ) {
        if !device_is_lost(cause) && self.common.note_bad(cpu, member, extent).await {
            let (member, at, sectors) = (member.0, extent.at.0, extent.length.0);
            tracing::warn!(member, at, sectors, "sectors beyond redundancy noted as bad");
            return;
        }
        // First, so that nobody uses them meanwhile.
        self.doubts.add(cpu, member, extent).await;
        self.fail_member(cpu, member, cause).await;
    }

    /// Whether a device gives all of `extent` back, up to date.
    pub(super) async fn trusts(&self, cpu: &P::Cpu, member: MemberIndex, extent: Extent) -> bool {
        self.common.member(member).may_read(cpu, extent).await
            && self.doubts.within(cpu, member, extent).await.is_empty()
    }

    /// Takes a member out after `cause`, if the array survives that.
    pub(super) async fn fail_member(
        &self,
        cpu: &P::Cpu,
        index: MemberIndex,
        cause: &IoError,
    ) -> bool {
        let survives = |live: &dyn Fn(MemberIndex) -> bool| self.level.survives_on(live);
        self.common.fail_member(cpu, index, cause, survives).await
    }
}
