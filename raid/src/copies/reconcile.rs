//! Makes the copies of some sectors agree: the first copy that can be read, in the order of the
//! slots, is the truth, and goes to every copy that differs or cannot be read. Reads of sectors
//! whose copies are not known to agree see that same copy, so what a caller has seen stays.
//!
//! Only inside the barrier and with the sectors claimed: then nobody writes them.

use super::CopyArray;
use crate::buffer::{Buffer, SharedBuffer};
use crate::common::device_is_lost;
use crate::device::{Durability, Io, IoError};
use crate::layout::Location;
use crate::member::CompletionOf;
use crate::plan::ReadPlan;
use crate::platform::{Cpu, Platform, Work};
use crate::request::Extent;
use crate::units::{SECTOR_BYTES, Sectors};

/// Sectors of the unit in which damaged chunks are looked through, if the logical block is no
/// larger: a page. Two copies with one bad sector each lose nothing, unless both are in one unit.
const REPAIR_UNIT_SECTORS: u64 = 8;

/// All copies of a piece, being read.
pub(super) struct CopiesInFlight<P: Platform> {
    piece: Extent,
    reads: Vec<(Location, CompletionOf<P>)>,
}

/// A copy, or why it could not be read.
struct Copy {
    location: Location,
    contents: Result<Buffer, IoError>,
}

/// What came of writing the truth to the copies of a piece.
struct Spread {
    truth: SharedBuffer,
    written: Sectors,
    /// As in [`Reconciled`].
    unsettled: bool,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reconciled {
    /// Sectors whose copies were compared.
    pub(super) checked: Sectors,
    /// Sectors written to members.
    pub(super) written: Sectors,
    /// Sectors of which no copy could be read.
    pub(super) unreadable: Sectors,
    /// Whether some copies may still differ: none could be read, or one did not take the truth and
    /// could not be spared.
    pub(super) unsettled: bool,
}

impl<P: Platform> CopyArray<P> {
    /// Reads a piece of which a member could not read its copy, and writes that copy again.
    ///
    /// # Errors
    /// What the last member said about some part of the piece of which no copy can be read; `into`
    /// is undefined then.
    pub(crate) async fn repair(
        &self,
        cpu: &P::Cpu,
        piece: Extent,
        into: &mut [u8],
    ) -> Result<(), IoError> {
        self.common.claims.claim(cpu, piece).await;
        self.barrier.raise(cpu, false).await;
        let mut result = Ok(());
        for unit in piece.split(self.repair_unit()) {
            let copies = self.submit_copies(cpu, unit).await;
            let copies = self.wait_for_copies(cpu, copies).await;
            match self.spread_truth(cpu, unit, copies).await {
                Ok(Spread { truth, .. }) => {
                    let start = (unit.at - piece.at).bytes() as usize;
                    cpu.spend(Work::Copy(unit.length.bytes())).await;
                    into[start..start + truth.len()].copy_from_slice(&truth);
                }
                Err(cause) => result = Err(cause),
            }
        }
        self.barrier.lower(cpu).await;
        self.common.claims.release(cpu, piece).await;
        result
    }

    /// Begins to read all live copies of a piece.
    pub(super) async fn submit_copies(&self, cpu: &P::Cpu, piece: Extent) -> CopiesInFlight<P> {
        let ReadPlan::OneOf { candidates } = self.level.plan_read(piece);
        let mut reads = Vec::with_capacity(candidates.len());
        for location in candidates {
            let member = self.common.member(location.member);
            if member.is_live(cpu).await {
                let into = Buffer::zeroed(piece.length.bytes() as usize);
                let io = Io::Read { at: location.at, into };
                reads.push((location, member.submit(cpu, io).await));
            }
        }
        CopiesInFlight { piece, reads }
    }

    /// Waits for the copies and makes them agree.
    pub(super) async fn reconcile(&self, cpu: &P::Cpu, copies: CopiesInFlight<P>) -> Reconciled {
        let piece = copies.piece;
        let copies = self.wait_for_copies(cpu, copies).await;
        if copies.iter().all(|copy| copy.contents.is_ok()) {
            return self.spread_and_count(cpu, piece, copies).await;
        }
        let mut sum = Reconciled::default();
        for unit in piece.split(self.repair_unit()) {
            let copies = self.submit_copies(cpu, unit).await;
            let copies = self.wait_for_copies(cpu, copies).await;
            let part = self.spread_and_count(cpu, unit, copies).await;
            sum.checked = sum.checked + part.checked;
            sum.written = sum.written + part.written;
            sum.unreadable = sum.unreadable + part.unreadable;
            sum.unsettled |= part.unsettled;
        }
        sum
    }

    async fn spread_and_count(&self, cpu: &P::Cpu, piece: Extent, copies: Vec<Copy>) -> Reconciled {
        if copies.len() < 2 && copies.iter().all(|copy| copy.contents.is_ok()) {
            // Degraded: there is nothing to compare with.
            return Reconciled::default();
        }
        match self.spread_truth(cpu, piece, copies).await {
            Ok(Spread { written, unsettled, .. }) => {
                Reconciled { checked: piece.length, written, unsettled, ..Reconciled::default() }
            }
            Err(_) => {
                let unreadable = piece.length;
                Reconciled { unreadable, unsettled: true, ..Reconciled::default() }
            }
        }
    }

    /// The copies; those of members that turn out to be lost and can be spared are left out.
    async fn wait_for_copies(&self, cpu: &P::Cpu, copies: CopiesInFlight<P>) -> Vec<Copy> {
        let mut known = Vec::with_capacity(copies.reads.len());
        for (location, completion) in copies.reads {
            let done = self.common.member(location.member).wait(cpu, completion).await;
            if let Err(cause) = &done.result
                && device_is_lost(cause)
                && self.fail_member(cpu, location.member, cause).await
            {
                continue;
            }
            let buffer = done.buffer.expect("a device gives a read's buffer back");
            known.push(Copy { location, contents: done.result.map(|()| buffer) });
        }
        known
    }

    /// Writes the first copy that could be read to all that differ from it or could not be read.
    async fn spread_truth(
        &self,
        cpu: &P::Cpu,
        piece: Extent,
        mut copies: Vec<Copy>,
    ) -> Result<Spread, IoError> {
        let Some(first) = copies.iter().position(|copy| copy.contents.is_ok()) else {
            let last = copies.pop().expect("some member that holds the piece is never failed");
            return Err(last.contents.expect_err("no copy was read"));
        };
        let truth = copies.remove(first).contents.expect("it was read").into_shared();
        let mut written = Sectors(0);
        let mut unsettled = false;
        for Copy { location, contents } in copies {
            if let Ok(contents) = &contents {
                cpu.spend(Work::Copy(piece.length.bytes())).await;
                if contents[..] == truth[..] {
                    continue;
                }
            }
            let (at, data) = (location.at, truth.clone());
            let io = Io::Write { at, data, durability: Durability::Cached };
            let member = self.common.member(location.member);
            let completion = member.submit(cpu, io).await;
            if let Err(cause) = member.wait(cpu, completion).await.result {
                unsettled |= !self.fail_member(cpu, location.member, &cause).await;
                continue;
            }
            written = written + piece.length;
            let (member, at, sectors) = (location.member.0, at.0, piece.length.0);
            match contents {
                Ok(_) => tracing::debug!(member, at, sectors, "copy brought up to date"),
                Err(cause) => tracing::info!(member, at, sectors, %cause, "read error repaired"),
            }
        }
        Ok(Spread { truth, written, unsettled })
    }

    fn repair_unit(&self) -> Sectors {
        let block = u64::from(self.common.logical_block_bytes) / SECTOR_BYTES;
        Sectors(block.max(REPAIR_UNIT_SECTORS))
    }
}
