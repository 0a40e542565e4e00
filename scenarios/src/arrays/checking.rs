//! Compares the redundancy of an array, slice by slice, and finds where the first differences are.

use super::interrupt::Interrupt;
use super::opening::OpenArray;
use crate::report::progress::Progress;
use anyhow::{Context, Result, ensure};
use backends::RealPlatform;
use raid::units::{CpuId, Sector, Sectors};
use raid::{Array, CheckReport, ResyncOptions};
use serde::Serialize;
use std::ops::Range;
use std::sync::Arc;

/// How many differing places are looked for.
const PLACES_MAX: usize = 8;
/// A place is no longer than this, or a stripe.
const PLACE: Sectors = Sectors(8);
/// Pieces that are compared before the progress moves on.
const PIECES_EACH: u64 = 32;

/// What a check found.
#[derive(Debug, Default, Serialize)]
pub struct Findings {
    /// Sectors of the array.
    pub sectors: u64,
    /// Those of them whose redundancy was compared. The others have no redundancy left to compare:
    /// a member is missing or not yet rebuilt, lists them as bad, or could not give them.
    pub sectors_checked: u64,
    /// Sectors whose redundancy does not agree, as md's `mismatch_cnt`.
    pub mismatch_cnt: u64,
    /// Sectors that some member could not give.
    pub sectors_unreadable: u64,
    /// The first places where it does not agree, in sectors of the array.
    pub first: Vec<Place>,
}

/// A range of sectors of the array.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// Its first sector.
    pub at_sector: u64,
    /// How many.
    pub length_sectors: u64,
}

/// Compares all of the array and writes nothing.
///
/// # Errors
/// An array that cannot be checked, or an interruption.
pub fn check(open: &OpenArray, interrupt: &Interrupt) -> Result<Findings> {
    let array = open.whole()?;
    let piece = open.survey.piece();
    let has_parity = open.survey.assembly.geometry.level.has_parity();
    let smallest = if has_parity { open.survey.stripe() } else { PLACE };
    let capacity = array.capacity();
    let progress = Progress::of_bytes("checking", Some(capacity.bytes()));
    let mut findings = Findings { sectors: capacity.0, ..Findings::default() };
    let mut at = Sector(0);
    while at.0 < capacity.0 {
        let end = Sector(capacity.0.min(at.0 + piece.0 * PIECES_EACH));
        let found = check_range(open, &array, at..end)?;
        findings.sectors_checked += found.sectors_checked.0;
        findings.mismatch_cnt += found.mismatches.0;
        findings.sectors_unreadable += found.sectors_unreadable.0;
        if found.mismatches.0 > 0 {
            find_places(open, &array, at..end, smallest, &mut findings.first)?;
        }
        progress.advance((end - at).bytes());
        at = end;
        interrupt.check("the rest was not checked")?;
    }
    ensure!(
        findings.sectors_checked > 0,
        "there is nothing to compare: with what is missing or unreadable the array has no \
         redundancy left"
    );
    Ok(findings)
}

fn check_range(
    open: &OpenArray,
    array: &Arc<Array<RealPlatform>>,
    range: Range<Sector>,
) -> Result<CheckReport> {
    let array = Arc::clone(array);
    let options = ResyncOptions { range: Some(range), ..ResyncOptions::default() };
    open.machine
        .block_on(CpuId(0), move |cpu| async move { array.check(&cpu, options).await })
        .context("the array cannot be checked")
}

/// Halves a range that differs until the places are small.
fn find_places(
    open: &OpenArray,
    array: &Arc<Array<RealPlatform>>,
    range: Range<Sector>,
    smallest: Sectors,
    places: &mut Vec<Place>,
) -> Result<()> {
    let length = range.end - range.start;
    if length <= smallest {
        places.push(Place { at_sector: range.start.0, length_sectors: length.0 });
        return Ok(());
    }
    let half = (length.0 / 2).next_multiple_of(smallest.0);
    let middle = range.start + Sectors(half);
    for part in [range.start..middle, middle..range.end] {
        let differs = || check_range(open, array, part.clone()).map(|of| of.mismatches.0 > 0);
        if places.len() < PLACES_MAX && !part.is_empty() && differs()? {
            find_places(open, array, part, smallest, places)?;
        }
    }
    Ok(())
}
