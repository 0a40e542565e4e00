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
use crate::member::{CompletionOf, Readable};
use crate::plan::{Candidate, Locations, ReadPlan, WritePlan, least_loaded};
use crate::platform::{Cpu, Platform, Work};
use crate::request::Extent;
use crate::units::{MemberIndex, Sectors};
use smallvec::SmallVec;

/// A piece that is being read.
struct ReadInFlight<P: Platform> {
    piece: Extent,
    candidates: Locations,
    /// Whether any candidate will do, or the first that can be read has to be.
    may_balance: bool,
    reader: Reader<P>,
}

/// Who reads a piece.
enum Reader<P: Platform> {
    Member(MemberIndex, CompletionOf<P>),
    /// No single member has all of it.
    Nobody(Buffer),
}

/// How a piece came out.
enum PieceRead {
    Done,
    /// A member could not read its copy but may take a new one, or no member has all of it.
    NeedsRepair,
    Unreadable(IoError),
}

/// The copies of one write.
pub(super) type Handed<P> = SmallVec<[WriteInFlight<P>; 4]>;

/// A copy that a member is writing.
pub(super) struct WriteInFlight<P: Platform> {
    piece: Extent,
    location: Location,
    /// Whether some of its sectors may be in the member's list of bad blocks.
    had_bad_blocks: bool,
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
        for piece in self.level.layout().split(extent) {
            cpu.spend(Work::ArrayRequest).await;
            let buffer = take_front(&mut rest, piece.length);
            let ReadPlan::OneOf { candidates } = self.level.plan_read(piece);
            let candidates = self.with_replacements(candidates);
            let reader = match self.choose(cpu, piece, &candidates, &[], may_balance).await {
                None => Reader::Nobody(buffer),
                Some(location) => {
                    let completion = self.submit_read(cpu, location, buffer).await;
                    Reader::Member(location.member, completion)
                }
            };
            handed.push(ReadInFlight { piece, candidates, may_balance, reader });
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
        let mut handed = Handed::new();
        for piece in self.level.layout().split(extent) {
            cpu.spend(Work::ArrayRequest).await;
            let start = (piece.at - extent.at).bytes() as usize;
            let data = data.slice(start..start + piece.length.bytes() as usize);
            let targets = self.write_targets(piece);
            self.hand_piece_over(cpu, piece, targets, &data, durability, &mut handed).await;
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

    /// Where a piece has to be written, as far as the members live.
    pub(super) fn write_targets(&self, piece: Extent) -> Locations {
        let WritePlan::AllOf { targets } = self.level.plan_write(piece);
        self.with_replacements(targets)
    }

    /// Hands a piece to those of its targets that live.
    pub(super) async fn hand_piece_over(
        &self,
        cpu: &P::Cpu,
        piece: Extent,
        targets: Locations,
        data: &SharedBuffer,
        durability: Durability,
        handed: &mut Handed<P>,
    ) {
        let mut live = 0;
        for location in targets {
            let member = self.common.member(location.member);
            let flags = member.flags(cpu).await;
            if flags.takes_writes() {
                live += 1;
                let had_bad_blocks = flags.has_bad_blocks();
                let io = Io::Write { at: location.at, data: data.clone(), durability };
                let completion = member.submit(cpu, io).await;
                handed.push(WriteInFlight { piece, location, had_bad_blocks, completion });
            }
        }
        assert!(live > 0, "some member that holds the piece is never failed");
    }

    /// Where to read: the best of the candidates that have the piece and were not tried.
    async fn choose(
        &self,
        cpu: &P::Cpu,
        piece: Extent,
        candidates: &[Location],
        tried: &[MemberIndex],
        may_balance: bool,
    ) -> Option<Location> {
        let mut preferred: SmallVec<[Candidate; 4]> = SmallVec::new();
        for location in candidates.iter().copied() {
            let member = self.common.member(location.member);
            let extent = Extent { at: location.at, length: piece.length };
            if tried.contains(&location.member) {
                continue;
            }
            match member.readable(cpu, extent).await {
                Readable::Yes => {}
                // While copies differ, each sector has to come from the first member that has it, as
                // a resync will see it: the piece is read part by part.
                Readable::InPart if !may_balance => return None,
                Readable::InPart | Readable::No => continue,
            }
            // Write-mostly candidates are the last.
            let last_resort = member.is_write_mostly();
            if !may_balance || (last_resort && preferred.is_empty()) {
                return Some(location);
            }
            if !last_resort {
                let in_flight = member.in_flight(cpu).await;
                preferred.push(Candidate { location, in_flight });
            }
        }
        least_loaded(preferred)
    }

    async fn submit_read(&self, cpu: &P::Cpu, location: Location, into: Buffer) -> CompletionOf<P> {
        self.common.member(location.member).submit(cpu, Io::Read { at: location.at, into }).await
    }

    /// Waits for a piece. If the member is lost, goes on to the next copy.
    async fn finish_read(&self, cpu: &P::Cpu, read: ReadInFlight<P>) -> (PieceRead, Buffer) {
        let (member, completion) = match read.reader {
            Reader::Member(member, completion) => (member, completion),
            Reader::Nobody(buffer) => return (PieceRead::NeedsRepair, buffer),
        };
        let done = self.common.member(member).wait(cpu, completion).await;
        let buffer = done.buffer.expect("a device gives a read's buffer back");
        let Err(cause) = done.result else { return (PieceRead::Done, buffer) };
        if !device_is_lost(&cause) {
            return (self.sectors_lost(&read.candidates, cause), buffer);
        }
        let ReadInFlight { piece, candidates, may_balance, .. } = read;
        let lost = (member, cause);
        Box::pin(self.read_elsewhere(cpu, piece, &candidates, may_balance, lost, buffer)).await
    }

    /// A member could not read its copy.
    fn sectors_lost(&self, candidates: &[Location], cause: IoError) -> PieceRead {
        match candidates.len() {
            // The level keeps no other.
            1 => PieceRead::Unreadable(cause),
            _ => PieceRead::NeedsRepair,
        }
    }

    /// Reads a piece from one copy after the other, after the member `lost` failed to give it.
    async fn read_elsewhere(
        &self,
        cpu: &P::Cpu,
        piece: Extent,
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
            let location = self.choose(cpu, piece, candidates, &tried, may_balance).await;
            let Some(location) = location else {
                return (
                    self.no_single_reader(cpu, piece, candidates, &tried, cause).await,
                    buffer,
                );
            };
            member = location.member;
            let completion = self.submit_read(cpu, location, buffer).await;
            let done = self.common.member(member).wait(cpu, completion).await;
            buffer = done.buffer.expect("a device gives a read's buffer back");
            match done.result {
                Ok(()) => return (PieceRead::Done, buffer),
                Err(error) if !device_is_lost(&error) => {
                    return (self.sectors_lost(candidates, error), buffer);
                }
                Err(error) => cause = error,
            }
        }
    }

    /// After the last member that had all of a piece was lost: whether others have parts of it.
    async fn no_single_reader(
        &self,
        cpu: &P::Cpu,
        piece: Extent,
        candidates: &[Location],
        tried: &[MemberIndex],
        cause: IoError,
    ) -> PieceRead {
        for location in candidates.iter().filter(|location| !tried.contains(&location.member)) {
            let extent = Extent { at: location.at, length: piece.length };
            let readable = self.common.member(location.member).readable(cpu, extent).await;
            if readable != Readable::No {
                return PieceRead::NeedsRepair;
            }
        }
        PieceRead::Unreadable(cause)
    }

    /// Waits for a copy. If a member did not take it, that is recorded before this returns, so the
    /// caller may report success if the array survives that.
    pub(super) async fn finish_write(
        &self,
        cpu: &P::Cpu,
        write: WriteInFlight<P>,
    ) -> Result<(), ArrayError> {
        let WriteInFlight { piece, location, had_bad_blocks, completion } = write;
        let member = location.member;
        let done = self.common.member(member).wait(cpu, completion).await;
        let Err(cause) = done.result else {
            if had_bad_blocks {
                let extent = Extent { at: location.at, length: piece.length };
                Box::pin(self.common.written_again(cpu, member, extent)).await;
            }
            return Ok(());
        };
        if Box::pin(self.write_failed(cpu, piece, location, &cause)).await {
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
