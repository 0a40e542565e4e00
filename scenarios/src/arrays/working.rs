//! Work on an array that is open for writing: resync, recovery, and the stop that leaves clean
//! superblocks behind, whatever became of the work.

use super::interrupt::Interrupt;
use super::opening::OpenArray;
use crate::report::progress::Progress;
use anyhow::{Context, Result, bail};
use raid::units::{CpuId, SECTOR_BYTES, Sector, Sectors};
use raid::{MemberState, RecoverOptions, ResyncOptions};
use serde::Serialize;
use std::sync::Arc;

/// Pieces that are gone through before the progress moves on.
const PIECES_EACH: u64 = 32;
/// Sectors of a member, or of the array on RAID 10, that are resynced or rebuilt before anybody
/// looks up: 64 MiB.
const STEP: Sectors = Sectors((64 << 20) / SECTOR_BYTES);
/// What becomes of the rest after an interruption.
const GOES_ON: &str = "the rest goes on when the array is run again";

/// What was done to put an array in order.
#[derive(Debug, Default, Serialize)]
pub struct Done {
    /// Sectors of the array whose redundancy was gone through.
    pub resynced_sectors: u64,
    /// Sectors written because they did not agree.
    pub sectors_written: u64,
    /// Sectors of the array, about, whose redundancy could not be made to agree: it stays marked.
    pub unsettled_sectors: u64,
    /// Sectors written to members that were not whole.
    pub rebuilt_sectors: u64,
    /// Who is whole now: roles, and behind the last of them the replacements.
    pub rebuilt_members: Vec<u32>,
}

impl Done {
    /// In a line or two.
    pub fn in_words(&self) -> String {
        let mut text = String::new();
        if self.resynced_sectors > 0 {
            let (gone_through, written) = (self.resynced_sectors, self.sectors_written);
            text += &format!("done: {gone_through} sectors resynced, {written} of them written\n");
        }
        if self.unsettled_sectors > 0 {
            let unsettled = self.unsettled_sectors;
            text += &format!(
                "left: about {unsettled} sectors could not be made to agree, as some cannot be read; \
                 the array stays marked as to be resynced\n"
            );
        }
        for member in &self.rebuilt_members {
            text += &format!("done: member {member} rebuilt\n");
        }
        text
    }
}

/// Does the work and then stops the array, also when the work has failed: what is recorded then is
/// true.
///
/// # Errors
/// What became of the work; if it went well, what the stop met.
pub fn work_and_stop<T>(open: &OpenArray, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let array = open.whole()?;
    let done = work();
    let stopped = open
        .machine
        .block_on(CpuId(0), move |cpu| async move { array.stop(&cpu).await })
        .context("the array cannot be stopped in order");
    let done = done?;
    stopped?;
    Ok(done)
}

/// Puts an array in order: what a crash left dirty is resynced, members that are not whole are
/// rebuilt.
///
/// # Errors
/// An array that cannot, or an interruption: the rest goes on when the array is run again.
pub fn put_in_order(open: &OpenArray, interrupt: &Interrupt) -> Result<Done> {
    let mut done = resync_what_may_differ(open, interrupt)?;
    rebuild(open, interrupt, &mut done)?;
    Ok(done)
}

/// Resyncs what the metadata says may differ.
///
/// # Errors
/// An array that cannot, or an interruption: the rest goes on when the array is run again.
pub fn resync_what_may_differ(open: &OpenArray, interrupt: &Interrupt) -> Result<Done> {
    let array = open.whole()?;
    let mut done = Done::default();
    if open.survey.assembly.resync_offset.is_none() {
        return Ok(done);
    }
    let progress = Progress::of_bytes("resyncing", Some(array.capacity().bytes()));
    loop {
        let array = Arc::clone(&array);
        let (report, more) = open
            .machine
            .block_on(CpuId(0), move |cpu| async move {
                array.resync_some(&cpu, ResyncOptions::default(), STEP).await
            })
            .context("the array cannot be resynced")?;
        done.resynced_sectors += report.sectors_checked.0;
        done.sectors_written += report.sectors_written.0;
        done.unsettled_sectors += report.sectors_unsettled.0;
        progress.advance(report.sectors_checked.bytes());
        if !more {
            return Ok(done);
        }
        interrupt.check(GOES_ON)?;
    }
}

/// Rebuilds the members that are not whole.
fn rebuild(open: &OpenArray, interrupt: &Interrupt, done: &mut Done) -> Result<()> {
    let array = open.whole()?;
    let size = open.survey.assembly.component_size;
    let mut progress = None;
    loop {
        let states = {
            let array = Arc::clone(&array);
            open.machine
                .block_on(CpuId(0), move |cpu| async move { array.member_states(&cpu).await })
        };
        let points = states.iter().filter_map(|state| match state {
            MemberState::Recovering { point } => Some(*point),
            _ => None,
        });
        let Some(point) = points.min() else { return Ok(()) };
        let shown = progress.get_or_insert_with(|| {
            let left = size.bytes().saturating_sub(point.byte_offset());
            Progress::of_bytes("rebuilding", Some(left))
        });
        let end = Sector(point.0 - point.0 % STEP.0) + STEP;
        let until = (end.0 < size.0).then_some(end);
        let array = Arc::clone(&array);
        let report = open
            .machine
            .block_on(CpuId(0), move |cpu| async move {
                array.rebuild(&cpu, RecoverOptions { until, ..RecoverOptions::default() }).await
            })
            .context("the array cannot be rebuilt")?;
        shown.advance((end.min(Sector(size.0)).0.saturating_sub(point.0)) * SECTOR_BYTES);
        done.rebuilt_sectors += report.sectors_written.0;
        done.rebuilt_members.extend(report.recovered.iter().map(|member| member.0));
        if let Some(member) = report.failed.first() {
            bail!("member {member} failed while it was rebuilt");
        }
        interrupt.check(GOES_ON)?;
    }
}

/// Makes all redundancy agree. How many sectors were written for that.
///
/// # Errors
/// An array that cannot, or an interruption.
pub fn resync_all(open: &OpenArray, interrupt: &Interrupt) -> Result<Sectors> {
    let array = open.whole()?;
    let capacity = array.capacity();
    let each = open.survey.piece().0 * PIECES_EACH;
    let progress = Progress::of_bytes("repairing", Some(capacity.bytes()));
    let (mut written, mut at) = (Sectors(0), Sector(0));
    while at.0 < capacity.0 {
        let end = Sector(capacity.0.min(at.0 + each));
        let options = ResyncOptions { range: Some(at..end), ..ResyncOptions::default() };
        let array = Arc::clone(&array);
        let report = open
            .machine
            .block_on(CpuId(0), move |cpu| async move { array.resync(&cpu, options).await })
            .context("the array cannot be repaired")?;
        written = written + report.sectors_written;
        progress.advance((end - at).bytes());
        at = end;
        interrupt.check("the rest was not repaired")?;
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_resync_had_to_leave_is_told() {
        let done = Done { resynced_sectors: 64, ..Done::default() };
        assert_eq!(done.in_words(), "done: 64 sectors resynced, 0 of them written\n");
        let left = Done { unsettled_sectors: 16, ..done };
        assert!(left.in_words().contains("left: about 16 sectors could not be made to agree"));
    }
}
