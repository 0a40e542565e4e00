//! Carries out plans: hands requests to members, waits for them, deals with members that fail.
//!
//! A request enters the barrier once, however many pieces it has: with one piece under way it must
//! not wait at a raised barrier for itself. All pieces are handed over before the first is waited
//! for. What needs background jobs and requests kept apart, such as writing a lost sector back, is
//! not done here but in `copies/reconcile.rs`, after the request has left the barrier.

use super::CopyArray;
use crate::array::ReadDone;
use crate::buffer::{Buffer, SharedBuffer};
use crate::common::device_is_lost;
use crate::device::{Durability, Io, IoError};
use crate::error::ArrayError;
use crate::layout::Location;
use crate::member::CompletionOf;
use crate::plan::{Candidate, Locations, ReadPlan, WritePlan, least_loaded};
use crate::platform::{Cpu, Platform, Work};
use crate::request::Extent;
use crate::units::{MemberIndex, Sectors};
use smallvec::SmallVec;

/// A piece that a member is reading.
struct ReadInFlight<P: Platform> {
    piece: Extent,
    candidates: Locations,
    /// Whether any candidate will do, or the first that lives has to be read.
    may_balance: bool,
    member: MemberIndex,
    completion: CompletionOf<P>,
}

/// How a piece came out.
enum PieceRead {
    Done,
    /// A member could not read its copy but may take a new one.
    NeedsRepair,
    Unreadable(IoError),
}

/// A copy that a member is writing.
struct WriteInFlight<P: Platform> {
    piece: Extent,
    member: MemberIndex,
    completion: CompletionOf<P>,
}

impl<P: Platform> CopyArray<P> {
    pub(crate) async fn execute_read(
        &self,
        cpu: &P::Cpu,
        extent: Extent,
        into: Buffer,
    ) -> ReadDone {
        self.common.suspension.enter(cpu).await;
        self.barrier.enter(cpu).await;
        let may_balance = self.copies_agree(cpu, extent).await;
        let mut handed: SmallVec<[ReadInFlight<P>; 1]> = SmallVec::new();
        let mut rest = Some(into);
        for piece in extent.split(self.chunk) {
            cpu.spend(Work::ArrayRequest).await;
            let buffer = take_front(&mut rest, piece.length);
            let ReadPlan::OneOf { candidates } = self.level.plan_read(piece);
            let location = self.choose(cpu, &candidates, &[], may_balance).await;
            let location = location.expect("some member that holds the piece is never failed");
            let completion = self.submit_read(cpu, location, buffer).await;
            let member = location.member;
            handed.push(ReadInFlight { piece, candidates, may_balance, member, completion });
        }
        self.barrier.submitted(cpu).await;
        self.common.suspension.leave(cpu).await;

        let mut result = Ok(());
        let mut to_repair: SmallVec<[Extent; 1]> = SmallVec::new();
        let mut whole: Option<Buffer> = None;
        for read in handed {
            let piece = read.piece;
            let (outcome, buffer) = self.finish_read(cpu, read).await;
            whole = Some(match whole {
                None => buffer,
                Some(front) => front.join(buffer),
            });
            match outcome {
                PieceRead::Done => {}
                PieceRead::NeedsRepair => to_repair.push(piece),
                PieceRead::Unreadable(cause) => result = result.and(unreadable(piece, cause)),
            }
        }
        cpu.spend(Work::ArrayCompletion).await;
        self.barrier.leave(cpu).await;

        let mut buffer = whole.expect("a request has pieces");
        for piece in to_repair {
            let start = (piece.at - extent.at).bytes() as usize;
            let into = &mut buffer[start..start + piece.length.bytes() as usize];
            // Boxed, as all that is rare: a future is as large as the largest that it may wait for.
            if let Err(cause) = Box::pin(self.repair(cpu, piece, into)).await {
                result = result.and(unreadable(piece, cause));
            }
        }
        ReadDone { result, buffer }
    }

    pub(crate) async fn execute_write(
        &self,
        cpu: &P::Cpu,
        extent: Extent,
        data: SharedBuffer,
        durability: Durability,
    ) -> Result<(), ArrayError> {
        self.common.suspension.enter(cpu).await;
        self.barrier.enter(cpu).await;
        let mut handed: SmallVec<[WriteInFlight<P>; 4]> = SmallVec::new();
        for piece in extent.split(self.chunk) {
            cpu.spend(Work::ArrayRequest).await;
            let start = (piece.at - extent.at).bytes() as usize;
            let data = data.slice(start..start + piece.length.bytes() as usize);
            let WritePlan::AllOf { targets } = self.level.plan_write(piece);
            let mut live = 0;
            for Location { member, at } in targets {
                if self.common.member(member).is_live(cpu).await {
                    live += 1;
                    let io = Io::Write { at, data: data.clone(), durability };
                    let completion = self.common.member(member).submit(cpu, io).await;
                    handed.push(WriteInFlight { piece, member, completion });
                }
            }
            assert!(live > 0, "some member that holds the piece is never failed");
        }
        self.barrier.submitted(cpu).await;
        self.common.suspension.leave(cpu).await;
        // The driver gathers writes and sends them off when the submitter has no more: a second
        // occasion on which it wakes whoever waits at the barrier.
        self.barrier.submitted(cpu).await;

        let mut result = Ok(());
        for write in handed {
            result = result.and(self.finish_write(cpu, write).await);
        }
        cpu.spend(Work::ArrayCompletion).await;
        self.barrier.leave(cpu).await;
        result
    }

    /// Where to read: the best of the candidates that live and were not tried.
    async fn choose(
        &self,
        cpu: &P::Cpu,
        candidates: &[Location],
        tried: &[MemberIndex],
        may_balance: bool,
    ) -> Option<Location> {
        let mut live: SmallVec<[Candidate; 4]> = SmallVec::new();
        for location in candidates.iter().copied() {
            let member = self.common.member(location.member);
            if tried.contains(&location.member) || !member.is_live(cpu).await {
                continue;
            }
            if !may_balance {
                return Some(location);
            }
            live.push(Candidate { location, in_flight: member.in_flight(cpu).await });
        }
        least_loaded(live)
    }

    async fn submit_read(&self, cpu: &P::Cpu, location: Location, into: Buffer) -> CompletionOf<P> {
        self.common.member(location.member).submit(cpu, Io::Read { at: location.at, into }).await
    }

    /// Waits for a piece. If the member is lost, goes on to the next copy.
    async fn finish_read(&self, cpu: &P::Cpu, read: ReadInFlight<P>) -> (PieceRead, Buffer) {
        let ReadInFlight { candidates, may_balance, member, completion, .. } = read;
        let done = self.common.member(member).wait(cpu, completion).await;
        let buffer = done.buffer.expect("a device gives a read's buffer back");
        let Err(cause) = done.result else { return (PieceRead::Done, buffer) };
        if !device_is_lost(&cause) {
            return (PieceRead::NeedsRepair, buffer);
        }
        Box::pin(self.read_elsewhere(cpu, &candidates, may_balance, (member, cause), buffer)).await
    }

    /// Reads a piece from one copy after the other, after the member `lost` failed to give it.
    async fn read_elsewhere(
        &self,
        cpu: &P::Cpu,
        candidates: &[Location],
        may_balance: bool,
        lost: (MemberIndex, IoError),
        mut buffer: Buffer,
    ) -> (PieceRead, Buffer) {
        let (mut member, mut cause) = lost;
        let mut tried: SmallVec<[MemberIndex; 4]> = SmallVec::new();
        loop {
            // Whether it could be spared or not: another copy may still have the piece.
            self.fail_member(cpu, member, &cause).await;
            tried.push(member);
            let Some(location) = self.choose(cpu, candidates, &tried, may_balance).await else {
                return (PieceRead::Unreadable(cause), buffer);
            };
            member = location.member;
            let completion = self.submit_read(cpu, location, buffer).await;
            let done = self.common.member(member).wait(cpu, completion).await;
            buffer = done.buffer.expect("a device gives a read's buffer back");
            match done.result {
                Ok(()) => return (PieceRead::Done, buffer),
                Err(error) if !device_is_lost(&error) => return (PieceRead::NeedsRepair, buffer),
                Err(error) => cause = error,
            }
        }
    }

    /// Waits for a copy. A member that did not take it is failed before this returns, so the caller
    /// may report success if the array survives that.
    async fn finish_write(&self, cpu: &P::Cpu, write: WriteInFlight<P>) -> Result<(), ArrayError> {
        let WriteInFlight { piece, member, completion } = write;
        let done = self.common.member(member).wait(cpu, completion).await;
        let Err(cause) = done.result else { return Ok(()) };
        if Box::pin(self.fail_member(cpu, member, &cause)).await {
            return Ok(());
        }
        // Other copies may have taken it: let reads stay with one of them.
        self.distrust_from(cpu, piece.at).await;
        let Extent { at, length } = piece;
        Err(ArrayError::Unwritable { at, length, member, cause })
    }
}

fn unreadable(piece: Extent, cause: IoError) -> Result<(), ArrayError> {
    Err(ArrayError::Unreadable { at: piece.at, length: piece.length, cause })
}

/// Takes the first `length` off a buffer; all of it without splitting if that is what is left.
fn take_front(rest: &mut Option<Buffer>, length: Sectors) -> Buffer {
    let whole = rest.take().expect("the pieces are no longer than the buffer");
    if whole.len() as u64 == length.bytes() {
        return whole;
    }
    let (front, back) = whole.split_at(length.bytes() as usize);
    *rest = Some(back);
    front
}
