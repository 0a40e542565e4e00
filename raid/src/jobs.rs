//! What background jobs are asked for and what they report.

use crate::concurrency::barrier::RESYNC_DEPTH;
use crate::error::ArrayError;
use crate::request::Extent;
use crate::units::{MemberIndex, SECTOR_BYTES, Sector, Sectors};
use std::ops::Range;

/// The window, in sectors, if nothing else is asked for: 1 MiB, as in md.
pub const RESYNC_WINDOW: Sectors = Sectors((1 << 20) / SECTOR_BYTES);

/// What to resync or check, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResyncOptions {
    /// Sectors of the array, in whole logical blocks; `None` for all.
    pub range: Option<Range<Sector>>,
    /// How much at a time, in whole logical blocks.
    pub window: Sectors,
    /// How many windows at once: 1 to [`RESYNC_DEPTH`].
    pub windows_in_flight: u32,
}

impl Default for ResyncOptions {
    fn default() -> Self {
        Self { range: None, window: RESYNC_WINDOW, windows_in_flight: 1 }
    }
}

impl ResyncOptions {
    /// The range to go through and the size of a batch of windows.
    pub(crate) fn checked(
        &self,
        logical_block_bytes: u32,
        capacity: Sectors,
    ) -> Result<(Extent, Sectors), ArrayError> {
        check_window(self.window, self.windows_in_flight, logical_block_bytes)?;
        let range = match &self.range {
            None => Extent { at: Sector(0), length: capacity },
            Some(Range { start, end }) => {
                let length_bytes = end.0.saturating_sub(start.0).saturating_mul(SECTOR_BYTES);
                Extent::checked(*start, length_bytes, logical_block_bytes, capacity)?
            }
        };
        let batch = self.window.0.saturating_mul(u64::from(self.windows_in_flight));
        Ok((range, Sectors(batch)))
    }
}

fn check_window(
    window: Sectors,
    windows_in_flight: u32,
    logical_block_bytes: u32,
) -> Result<(), ArrayError> {
    let block = u64::from(logical_block_bytes) / SECTOR_BYTES;
    let window_fits = window.0 > 0 && window.0.is_multiple_of(block);
    if !window_fits || !(1..=RESYNC_DEPTH).contains(&windows_in_flight) {
        let windows_max = RESYNC_DEPTH;
        return Err(ArrayError::ResyncWindows { window, windows_in_flight, windows_max });
    }
    Ok(())
}

/// What a resync did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResyncReport {
    /// Sectors of the array whose copies were compared. Sectors with one live copy are not.
    pub sectors_checked: Sectors,
    /// Sectors written to members because their copy differed or could not be read.
    pub sectors_written: Sectors,
    /// Sectors of the array of which no copy could be read.
    pub sectors_unreadable: Sectors,
    /// Sectors of the array whose redundancy may still disagree. Copies count in whole windows that
    /// hold some of which none could be read, or one could not be written although its member could
    /// not be spared. With parity it is the unreadable sectors.
    pub sectors_unsettled: Sectors,
}

impl ResyncReport {
    /// Adds what another part of the same job did.
    pub(crate) fn add(&mut self, part: &Self) {
        let Self { sectors_checked, sectors_written, sectors_unreadable, sectors_unsettled } = self;
        *sectors_checked = *sectors_checked + part.sectors_checked;
        *sectors_written = *sectors_written + part.sectors_written;
        *sectors_unreadable = *sectors_unreadable + part.sectors_unreadable;
        *sectors_unsettled = *sectors_unsettled + part.sectors_unsettled;
    }
}

/// What a check found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Sectors of the array whose redundancy was compared. Sectors with one live copy are not.
    pub sectors_checked: Sectors,
    /// Of those, the sectors whose redundancy does not agree.
    pub mismatches: Sectors,
    /// Sectors of the array of which some member could not give what it should hold.
    pub sectors_unreadable: Sectors,
}

/// How to fill in members that are recovering.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoverOptions {
    /// How much of a member at a time, in whole logical blocks.
    pub window: Sectors,
    /// Where on the members to stop, in whole logical blocks, so that another recovery goes on from
    /// there; `None` to go to the end.
    pub until: Option<Sector>,
}

impl Default for RecoverOptions {
    fn default() -> Self {
        Self { window: RESYNC_WINDOW, until: None }
    }
}

impl RecoverOptions {
    pub(crate) fn check(&self, logical_block_bytes: u32) -> Result<(), ArrayError> {
        check_window(self.window, 1, logical_block_bytes)?;
        let block = u64::from(logical_block_bytes) / SECTOR_BYTES;
        match self.until {
            Some(at) if !at.0.is_multiple_of(block) => {
                Err(ArrayError::Misaligned { at, length_bytes: 0, logical_block_bytes })
            }
            _ => Ok(()),
        }
    }
}

/// What a recovery did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoverReport {
    /// Sectors written to recovering members.
    pub sectors_written: Sectors,
    /// Sectors that could not be computed from the others and are now bad blocks of the member.
    pub sectors_unreadable: Sectors,
    /// The members and replacements that are in sync now.
    pub recovered: Vec<MemberIndex>,
    /// Those that failed under way.
    pub failed: Vec<MemberIndex>,
}
