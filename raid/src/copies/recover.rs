//! Recovery: fills members and replacements that are recovering, window by window in the order of
//! their own sectors, while requests run between the windows.
//!
//! For each window the whole array is claimed and the barrier raised; the window is read from the
//! copies that reads prefer, written, and the member's recovery point moves on. Requests write to
//! recovering members anyway, so what lies behind the point stays as it should be. A recovery that
//! was cut short goes on from the point.

use super::CopyArray;
use super::reconcile::CopyWritten;
use crate::buffer::Buffer;
use crate::common::device_is_lost;
use crate::device::{Io, IoError};
use crate::error::ArrayError;
use crate::jobs::{RecoverOptions, RecoverReport};
use crate::layout::Location;
use crate::member::CompletionOf;
use crate::platform::{Ordering, Platform, Word};
use crate::request::Extent;
use crate::units::{MemberIndex, Sector};

/// Some sectors of the array that the recovering member should hold, being read elsewhere.
struct RunInFlight<P: Platform> {
    piece: Extent,
    target: Location,
    /// `None` if no single member has all of it.
    read: Option<(MemberIndex, CompletionOf<P>)>,
}

impl<P: Platform> CopyArray<P> {
    /// Fills all members that are recovering, from their recovery points on.
    ///
    /// # Errors
    /// Options that cannot be, [`ArrayError::ReadOnly`], [`ArrayError::ResyncRunning`];
    /// [`ArrayError::Unreadable`] if some sectors cannot be read elsewhere and the member has no
    /// room to note that: it stays recovering, and its point says how far it got.
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
        let mut result = Ok(());
        for member in self.common.indexes() {
            if self.common.member(member).flags(cpu).await.is_recovering() {
                let filled = self.recover_member(cpu, member, &options, &mut report).await;
                result = result.and(filled);
            }
        }
        self.common.resync_running.store(cpu, 0, Ordering::Release).await;
        result.map(|()| report)
    }

    async fn recover_member(
        &self,
        cpu: &P::Cpu,
        index: MemberIndex,
        options: &RecoverOptions,
        report: &mut RecoverReport,
    ) -> Result<(), ArrayError> {
        let member = self.common.member(index);
        let used = self.level.layout().used_of_member(self.common.role_of(index));
        let end = Sector(used.0);
        let stop = options.until.map_or(end, |until| until.min(end));
        let from = member.recovery_point(cpu).await;
        tracing::info!(member = index.0, from = from.0, to = stop.0, "recovery begins");
        let mut at = from;
        while at < stop {
            let window = Extent { at, length: options.window.min(stop - at) };
            let whole = self.whole();
            self.common.claims.claim(cpu, whole).await;
            self.barrier.raise(cpu, false).await;
            let filled = self.recover_window(cpu, index, window, report).await;
            at = window.end();
            let is_recovering = member.flags(cpu).await.is_recovering();
            if filled.is_ok() && is_recovering {
                member.set_recovery_point(cpu, at).await;
            }
            self.barrier.lower(cpu).await;
            self.common.claims.release(cpu, whole).await;
            filled?;
            if !is_recovering {
                report.failed.push(index);
                return Ok(());
            }
        }
        if at >= end {
            self.end_recovery(cpu, index, report).await;
        }
        Ok(())
    }

    /// What was filled in is made durable before the member counts.
    async fn end_recovery(&self, cpu: &P::Cpu, index: MemberIndex, report: &mut RecoverReport) {
        let member = self.common.member(index);
        self.common.suspension.enter(cpu).await;
        let completion = member.submit(cpu, Io::Flush).await;
        if let Err(cause) = member.wait(cpu, completion).await.result {
            self.fail_member(cpu, index, &cause).await;
        }
        self.common.recovered(cpu, index).await;
        self.common.suspension.leave(cpu).await;
        let in_sync = member.flags(cpu).await.is_in_sync();
        if in_sync { report.recovered.push(index) } else { report.failed.push(index) }
    }

    async fn recover_window(
        &self,
        cpu: &P::Cpu,
        index: MemberIndex,
        window: Extent,
        report: &mut RecoverReport,
    ) -> Result<(), ArrayError> {
        let layout = self.level.layout();
        let mut runs = Vec::new();
        for run in layout.runs_of_member(self.common.role_of(index), window) {
            let Some(whole) = run.on_array() else { continue };
            for piece in layout.split(whole) {
                let target =
                    Location { member: index, at: run.on_member.at + (piece.at - whole.at) };
                let read = self.submit_source(cpu, piece, index).await;
                runs.push(RunInFlight { piece, target, read });
            }
        }
        let mut result = Ok(());
        for run in runs {
            // All are waited for, even after an error.
            let filled = self.finish_run(cpu, run, report).await;
            result = result.and(filled);
        }
        result
    }

    /// Begins to read a piece from the first other member that has all of it.
    async fn submit_source(
        &self,
        cpu: &P::Cpu,
        piece: Extent,
        target: MemberIndex,
    ) -> Option<(MemberIndex, CompletionOf<P>)> {
        for source in self.sources(piece, target) {
            let member = self.common.member(source.member);
            let extent = Extent { at: source.at, length: piece.length };
            if member.may_read(cpu, extent).await {
                let into = Buffer::zeroed(piece.length.bytes() as usize);
                let io = Io::Read { at: source.at, into };
                return Some((source.member, member.submit(cpu, io).await));
            }
        }
        None
    }

    async fn finish_run(
        &self,
        cpu: &P::Cpu,
        run: RunInFlight<P>,
        report: &mut RecoverReport,
    ) -> Result<(), ArrayError> {
        let RunInFlight { piece, target, read } = run;
        if let Some((source, completion)) = read
            && let Ok(data) = self.wait_for_source(cpu, source, completion).await
        {
            return self.fill(cpu, piece, target, data, report).await;
        }
        for part in self.parts(cpu, piece).await {
            let at = target.at + (part.at - piece.at);
            let target = Location { at, ..target };
            match self.read_source(cpu, part, target.member).await {
                Ok(data) => self.fill(cpu, part, target, data, report).await?,
                Err(cause) => self.leave_out(cpu, part, target, cause, report).await?,
            }
        }
        Ok(())
    }

    /// Reads a part from one other member after the other.
    async fn read_source(
        &self,
        cpu: &P::Cpu,
        part: Extent,
        target: MemberIndex,
    ) -> Result<Buffer, IoError> {
        let mut last = IoError::Gone;
        for source in self.sources(part, target) {
            let member = self.common.member(source.member);
            let extent = Extent { at: source.at, length: part.length };
            if !member.may_read(cpu, extent).await {
                continue;
            }
            let into = Buffer::zeroed(part.length.bytes() as usize);
            let completion = member.submit(cpu, Io::Read { at: source.at, into }).await;
            match self.wait_for_source(cpu, source.member, completion).await {
                Ok(data) => return Ok(data),
                Err(cause) => last = cause,
            }
        }
        Err(last)
    }

    async fn wait_for_source(
        &self,
        cpu: &P::Cpu,
        source: MemberIndex,
        completion: CompletionOf<P>,
    ) -> Result<Buffer, IoError> {
        let done = self.common.member(source).wait(cpu, completion).await;
        if let Err(cause) = done.result {
            if device_is_lost(&cause) {
                self.fail_member(cpu, source, &cause).await;
            }
            return Err(cause);
        }
        Ok(done.buffer.expect("a device gives a read's buffer back"))
    }

    async fn fill(
        &self,
        cpu: &P::Cpu,
        piece: Extent,
        target: Location,
        data: Buffer,
        report: &mut RecoverReport,
    ) -> Result<(), ArrayError> {
        if !self.common.member(target.member).flags(cpu).await.takes_writes() {
            return Ok(());
        }
        match self.write_copy(cpu, piece, target, data.into_shared()).await {
            CopyWritten::Yes => report.sectors_written = report.sectors_written + piece.length,
            CopyWritten::Spared => {}
            CopyWritten::No => {
                // Its source was lost since: whoever needs these sectors gets an error there.
                let cause = IoError::Media { at: target.at };
                return self.leave_out(cpu, piece, target, cause, report).await;
            }
        }
        Ok(())
    }

    /// Goes on without sectors that nobody has, if that can be noted.
    async fn leave_out(
        &self,
        cpu: &P::Cpu,
        part: Extent,
        target: Location,
        cause: IoError,
        report: &mut RecoverReport,
    ) -> Result<(), ArrayError> {
        let extent = Extent { at: target.at, length: part.length };
        if self.common.note_bad(cpu, target.member, extent).await {
            report.sectors_unreadable = report.sectors_unreadable + part.length;
            return Ok(());
        }
        let Extent { at, length } = part;
        Err(ArrayError::Unreadable { at, length, cause })
    }

    /// Where else a piece is, in the order in which reads prefer it.
    fn sources(&self, piece: Extent, target: MemberIndex) -> impl Iterator<Item = Location> {
        let all = self.with_replacements(self.level.layout().locations(piece.at));
        all.into_iter().filter(move |location| location.member != target)
    }
}
