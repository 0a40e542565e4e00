//! Replays the partial parity logs of an array that was not shut down cleanly: works out the parity
//! of the rows that writes were under way to. Never writes a device.
//!
//! For each row that an entry tells of, parity becomes the partial parity plus what the data members
//! that the write touched hold now, old or new. Where one of those is missing the row stays as it
//! is, as in md: what was under way there may be lost, what was not is in the partial parity.

use super::OpenError;
use super::replay::Replay;
use super::scan::Scanned;
use crate::device::Device;
use crate::layout::Location;
use crate::layout::parity::Block;
use crate::metadata::assembly::Assembly;
use crate::metadata::ppl::{self, Entry, PplError};
use crate::metadata::superblock::Features;
use crate::parity;
use crate::platform::Platform;
use crate::request::Extent;
use crate::sector_io;
use crate::units::{MemberIndex, SECTOR_BYTES, Sectors};

/// How a replay went.
#[derive(Debug, Default)]
pub(super) struct PplReplay {
    /// Entries that made parity right.
    pub(super) entries: u64,
    /// The first log that could not be used, or not all of it.
    pub(super) damage: Option<OpenError>,
}

/// Replays the log of every member that is there.
pub(super) async fn replay<P: Platform>(
    cpu: &P::Cpu,
    scanned: &Scanned<P>,
    assembly: &Assembly,
    replay: &mut Replay<'_, P>,
) -> Result<PplReplay, OpenError> {
    let mut outcome = PplReplay::default();
    for (role, slot) in (0..).map(MemberIndex).zip(&assembly.slots) {
        let Some(index) = slot.original else { continue };
        let (superblock, device) = (scanned.superblock(index), &scanned.devices[index]);
        let Some((at, length)) = superblock.ppl() else { continue };
        let name = || device.name().to_owned();
        let log = sector_io::read::<P>(cpu, device, Extent { at, length }).await;
        let log = log.map_err(|cause| OpenError::Unreadable {
            device: name(),
            what: "partial parity log",
            cause,
        })?;
        let damaged = |cause: PplError| OpenError::PartialParityLog { device: name(), cause };
        let signature = ppl::signature(superblock.memory_uuid());
        let newest = match ppl::newest(&log, signature, superblock.has(Features::MULTIPLE_PPLS)) {
            Ok(newest) => newest,
            Err(cause) => {
                outcome.damage.get_or_insert(damaged(cause));
                continue;
            }
        };
        for (number, entry) in newest.partial_parity(&log).enumerate() {
            let replayed = match entry {
                Ok((entry, bytes)) => replay_entry(cpu, replay, role, number, entry, bytes).await,
                Err(cause) => Err(cause),
            };
            match replayed {
                Ok(()) => outcome.entries += 1,
                Err(cause) => drop(outcome.damage.get_or_insert(damaged(cause))),
            }
        }
    }
    Ok(outcome)
}

async fn replay_entry<P: Platform>(
    cpu: &P::Cpu,
    replay: &mut Replay<'_, P>,
    role: MemberIndex,
    number: usize,
    entry: Entry,
    partial: &[u8],
) -> Result<(), PplError> {
    let layout = replay.layout;
    let wrong = |field, found: u64, reason| PplError::Entry { field, entry: number, found, reason };
    if entry.data.0 == 0 {
        return Ok(());
    }
    if entry.first.0 >= layout.capacity().0 {
        return Err(wrong("the first sector", entry.first.0, "it lies beyond the array's end"));
    }
    let (stripe, _, first_row) = layout.locate(entry.first);
    let map = layout.stripe(stripe);
    if map.member(Block::P) != role || entry.parity_disk != role.0 {
        let found = u64::from(entry.parity_disk);
        return Err(wrong("the parity disk", found, "the stripe's parity lies elsewhere"));
    }
    let shape = entry.shape(layout.chunk(), layout.data_count());
    let rows_left = layout.chunk().0 - first_row.0;
    let stripe_end = (stripe + 1) * layout.stripe_data().0;
    if shape.strip.0 > rows_left || shape.end > stripe_end {
        return Err(wrong("the data", entry.data.0, "it reaches beyond the stripe"));
    }
    // Rows that touch equally many chunks are done together.
    let touched = |row: u64| shape.row(row).count();
    let mut row = 0;
    while row < shape.strip.0 {
        let count = touched(row);
        let same = (row..shape.strip.0).take_while(|of| touched(*of) == count).count() as u64;
        let length = Sectors(same);
        if let Some(sum) = sum_of_data(cpu, replay, shape.row(row), length).await {
            let mut sum = sum;
            let start = (row * SECTOR_BYTES) as usize;
            if let Some(part) = partial.get(start..start + sum.len()) {
                parity::xor_into(&mut sum, part);
            }
            let at = layout.member_sector(stripe, first_row + Sectors(row));
            replay.write(Location { member: role, at }, &sum);
        }
        row += same;
    }
    Ok(())
}

/// The sum of the data in some rows; `None` if there is none, or a member lacks it.
async fn sum_of_data<P: Platform>(
    cpu: &P::Cpu,
    replay: &Replay<'_, P>,
    firsts: impl Iterator<Item = crate::units::Sector>,
    length: Sectors,
) -> Option<Vec<u8>> {
    let mut sum: Option<Vec<u8>> = None;
    for at in firsts {
        if at.0 >= replay.layout.capacity().0 {
            return None;
        }
        let data = replay.read(cpu, replay.layout.location(at), length).await?;
        match &mut sum {
            None => sum = Some(data),
            Some(sum) => parity::xor_into(sum, &data),
        }
    }
    sum
}
