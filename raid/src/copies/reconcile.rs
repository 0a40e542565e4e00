//! Makes the copies of some sectors agree: the first copy that can be read, in the order in which
//! reads prefer them, is the truth, and goes to every copy that differs or cannot be read. Reads of sectors
//! whose copies are not known to agree see that same copy, so what a caller has seen stays.
//!
//! Only inside the barrier and with the sectors claimed: then nobody writes them.

use super::CopyArray;
use crate::buffer::{Buffer, SharedBuffer};
use crate::common::device_is_lost;
use crate::device::{Durability, Io, IoError};
use crate::layout::Location;
use crate::member::{CompletionOf, Readable};
use crate::plan::ReadPlan;
use crate::platform::{Cpu, Platform, Work};
use crate::request::Extent;
use crate::units::Sectors;

/// All copies of a piece, being read.
pub(super) struct CopiesInFlight<P: Platform> {
    piece: Extent,
    reads: Vec<(Location, CopyRead<P>)>,
}

/// A copy that is being read, or is known to be bad in some sectors.
enum CopyRead<P: Platform> {
    Submitted(CompletionOf<P>),
    KnownBad,
}

/// A copy, or why it could not be read.
pub(super) struct Copy {
    pub(super) location: Location,
    pub(super) contents: Result<Buffer, IoError>,
}

/// Whether a copy was written.
pub(super) enum CopyWritten {
    Yes,
    /// No, and nobody will read it: its sectors are noted as bad, or the member has failed.
    Spared,
    /// No, and it may still be read.
    No,
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
        for unit in self.parts(cpu, piece).await {
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

    /// Begins to read all copies of a piece that members have, or should have.
    pub(super) async fn submit_copies(&self, cpu: &P::Cpu, piece: Extent) -> CopiesInFlight<P> {
        let ReadPlan::OneOf { candidates } = self.level.plan_read(piece);
        let candidates = self.with_replacements(candidates);
        let mut reads = Vec::with_capacity(candidates.len());
        for location in candidates {
            let member = self.common.member(location.member);
            let extent = Extent { at: location.at, length: piece.length };
            match member.readable(cpu, extent).await {
                Readable::No => {}
                Readable::InPart => reads.push((location, CopyRead::KnownBad)),
                Readable::Yes => {
                    let into = Buffer::zeroed(piece.length.bytes() as usize);
                    let io = Io::Read { at: location.at, into };
                    let completion = member.submit(cpu, io).await;
                    reads.push((location, CopyRead::Submitted(completion)));
                }
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
        for unit in self.parts(cpu, piece).await {
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
    pub(super) async fn wait_for_copies(
        &self,
        cpu: &P::Cpu,
        copies: CopiesInFlight<P>,
    ) -> Vec<Copy> {
        let mut known = Vec::with_capacity(copies.reads.len());
        for (location, read) in copies.reads {
            let CopyRead::Submitted(completion) = read else {
                let contents = Err(IoError::Media { at: location.at });
                known.push(Copy { location, contents });
                continue;
            };
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
            if self.common.read_only {
                unsettled = true;
                continue;
            }
            match self.write_copy(cpu, piece, location, truth.clone()).await {
                CopyWritten::Yes => {}
                CopyWritten::Spared => continue,
                CopyWritten::No => {
                    unsettled = true;
                    continue;
                }
            }
            written = written + piece.length;
            let (member, at, sectors) = (location.member.0, location.at.0, piece.length.0);
            match contents {
                Ok(_) => tracing::debug!(member, at, sectors, "copy brought up to date"),
                Err(cause) => tracing::info!(member, at, sectors, %cause, "read error repaired"),
            }
        }
        Ok(Spread { truth, written, unsettled })
    }

    /// Writes one copy of a piece.
    pub(super) async fn write_copy(
        &self,
        cpu: &P::Cpu,
        piece: Extent,
        location: Location,
        data: SharedBuffer,
    ) -> CopyWritten {
        let member = self.common.member(location.member);
        let had_bad_blocks = member.flags(cpu).await.has_bad_blocks();
        let io = Io::Write { at: location.at, data, durability: Durability::Cached };
        let completion = member.submit(cpu, io).await;
        match member.wait(cpu, completion).await.result {
            Ok(()) => {
                if had_bad_blocks {
                    let extent = Extent { at: location.at, length: piece.length };
                    self.common.written_again(cpu, location.member, extent).await;
                }
                CopyWritten::Yes
            }
            Err(cause) if self.write_failed(cpu, piece, location, &cause).await => {
                CopyWritten::Spared
            }
            Err(_) => CopyWritten::No,
        }
    }
}
