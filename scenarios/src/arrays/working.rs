//! Work on an array that is open for writing: resync, recovery, and the stop that leaves clean
//! superblocks behind, whatever became of the work.

use super::interrupt::Interrupt;
use super::opening::OpenArray;
use crate::report::progress::Progress;
use anyhow::{Context, Result};
use raid::units::{CpuId, Sector, Sectors};
use raid::ResyncOptions;
use serde::Serialize;
use std::sync::Arc;

/// Pieces that are gone through before the progress moves on.
const PIECES_EACH: u64 = 32;

/// What was done to put an array in order.
#[derive(Debug, Default, Serialize)]
pub struct Done {
    /// Sectors of the array whose redundancy was gone through.
    pub resynced_sectors: u64,
    /// Sectors written because they did not agree.
    pub sectors_written: u64,
    /// The roles that were rebuilt.
    pub rebuilt_roles: Vec<u32>,
}

impl Done {
    /// In a line or two.
    pub fn in_words(&self) -> String {
        let mut text = String::new();
        if self.resynced_sectors > 0 {
            let (gone_through, written) = (self.resynced_sectors, self.sectors_written);
            text += &format!("done: {gone_through} sectors resynced, {written} of them written\n");
        }
        for role in &self.rebuilt_roles {
            text += &format!("done: role {role} rebuilt\n");
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
    let done = work();
    let array = open.whole()?;
    let stopped = open
        .machine
        .block_on(CpuId(0), move |cpu| async move { array.flush(&cpu).await })
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
    let mut done = Done::default();
    let array = open.whole()?;
    if open.survey.assembly.resync_offset.is_some() {
        done.sectors_written = resync_all(open, interrupt)?.0;
        done.resynced_sectors = array.capacity().0;
    }
    Ok(done)
}

/// Makes all redundancy agree. How many sectors were written for that.
///
/// # Errors
/// An array that cannot, or an interruption.
pub fn resync_all(open: &OpenArray, interrupt: &Interrupt) -> Result<Sectors> {
    let array = open.whole()?;
    let capacity = array.capacity();
    let each = open.survey.piece().0 * PIECES_EACH;
    let progress = Progress::of_bytes("resyncing", Some(capacity.bytes()));
    let (mut written, mut at) = (Sectors(0), Sector(0));
    while at.0 < capacity.0 {
        let end = Sector(capacity.0.min(at.0 + each));
        let options = ResyncOptions { range: Some(at..end), ..ResyncOptions::default() };
        let array = Arc::clone(&array);
        let report = open
            .machine
            .block_on(CpuId(0), move |cpu| async move { array.resync(&cpu, options).await })
            .context("the array cannot be resynced")?;
        written = written + report.sectors_written;
        progress.advance((end - at).bytes());
        at = end;
        interrupt.check("the resync goes on when the array is run again")?;
    }
    Ok(written)
}
