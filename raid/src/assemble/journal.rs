//! Replays the write journal: works out what the members hold once everything that the journal holds
//! has reached them. Never writes a device.
//!
//! Of each stripe block the journal holds data and, later, parity. Data with its parity goes to the
//! members as it is. Data whose parity never came counts too: the stripe on the members is still as
//! it was, so its other data can be had, and parity is computed.

use super::OpenError;
use super::replay::Replay;
use super::scan::Scanned;
use crate::device::Device;
use crate::layout::Location;
use crate::layout::parity::Block;
use crate::metadata::journal::{BLOCK_BYTES, BLOCK_SECTORS, Payload, Scanner};
use crate::platform::Platform;
use crate::request::Extent;
use crate::sector_io;
use crate::units::{Sector, Sectors};
use std::collections::BTreeMap;

/// What the journal holds of a stripe's block of 4 KiB.
#[derive(Default)]
struct Held {
    /// By the number of the data block.
    data: BTreeMap<u32, Vec<u8>>,
    /// P, and Q on RAID 6.
    parity: Option<(Vec<u8>, Option<Vec<u8>>)>,
}

/// By the sector of the members.
type Stripes = BTreeMap<u64, Held>;

/// Replays the journal on device `index`. Gives the number of stripe blocks that it held.
pub(super) async fn replay<P: Platform>(
    cpu: &P::Cpu,
    scanned: &Scanned<P>,
    index: usize,
    replay: &mut Replay<'_, P>,
) -> Result<u64, OpenError> {
    let (superblock, device) = (scanned.superblock(index), &scanned.devices[index]);
    let name = || device.name().to_owned();
    let tail = superblock.journal_tail().expect("a journal has a tail");
    let mut scanner = Scanner::new(superblock.memory_uuid(), superblock.data_size(), tail);
    if let Some(end) = scanner.end() {
        return Err(OpenError::Journal { device: name(), cause: end.clone() });
    }
    let (mut stripes, mut count) = (Stripes::new(), 0);
    while let Some(wanted) = scanner.wants() {
        let at = wanted + Sectors(superblock.data_offset().0);
        let extent = Extent { at, length: Sectors(BLOCK_SECTORS) };
        let read = sector_io::read::<P>(cpu, device, extent).await;
        let bytes =
            read.map_err(|cause| OpenError::Unreadable { device: name(), what: "journal", cause })?;
        let Some(batch) = scanner.give(&bytes) else { continue };
        for payload in batch.payloads {
            let beyond = |at: u64| OpenError::JournalBeyondEnd { device: name(), at };
            count += take(cpu, replay, &mut stripes, payload).await?.map_err(beyond)?;
        }
    }
    for (at, held) in stripes {
        settle(cpu, replay, Sector(at), held).await?;
        count += 1;
    }
    Ok(count)
}

/// Takes a payload in. The inner error is a place that the array has not; otherwise how many stripe
/// blocks went to the members.
async fn take<P: Platform>(
    cpu: &P::Cpu,
    replay: &mut Replay<'_, P>,
    stripes: &mut Stripes,
    payload: Payload,
) -> Result<Result<u64, u64>, OpenError> {
    let layout = replay.layout;
    let mut settled = 0;
    match payload {
        Payload::Data { discarded: true, .. } => {}
        Payload::Data { at, .. } if !at.0.is_multiple_of(BLOCK_SECTORS) => return Ok(Err(at.0)),
        Payload::Data { at, bytes, .. } => {
            for (at, block) in
                (at.0..).step_by(BLOCK_SECTORS as usize).zip(bytes.chunks(BLOCK_BYTES))
            {
                if at.saturating_add(BLOCK_SECTORS) > layout.capacity().0 {
                    return Ok(Err(at));
                }
                let (stripe, place, within) = layout.locate(Sector(at));
                let Block::Data(data) = place else { unreachable!("the array stores data") };
                let row = layout.member_sector(stripe, within).0;
                // New data after parity: what came before is a write of its own.
                if stripes.get(&row).is_some_and(|held| held.parity.is_some()) {
                    let held = stripes.remove(&row).expect("it is there");
                    settle(cpu, replay, Sector(row), held).await?;
                    settled += 1;
                }
                stripes.entry(row).or_default().data.insert(data, block.to_vec());
            }
        }
        Payload::Parity { stripe, p, q } => {
            let beyond = stripe.0.saturating_add(BLOCK_SECTORS) > layout.used_of_member().0;
            if beyond || !stripe.0.is_multiple_of(BLOCK_SECTORS) {
                return Ok(Err(stripe.0));
            }
            stripes.entry(stripe.0).or_default().parity = Some((p, q));
        }
        Payload::Flush { stripes: flushed } => {
            for stripe in flushed {
                stripes.remove(&stripe.0);
            }
        }
    }
    Ok(Ok(settled))
}

/// Sends what is held of a stripe's block to the members.
async fn settle<P: Platform>(
    cpu: &P::Cpu,
    replay: &mut Replay<'_, P>,
    at: Sector,
    held: Held,
) -> Result<(), OpenError> {
    let map = replay.layout.stripe(at.0 / replay.layout.chunk().0);
    let length = Sectors(BLOCK_SECTORS);
    match held.parity {
        Some((p, q)) => {
            replay.write(Location { member: map.member(Block::P), at }, &p);
            if let Some(q) = q.filter(|_| map.has_q()) {
                replay.write(Location { member: map.member(Block::Q), at }, &q);
            }
        }
        None => {
            let data = replay.data_of_rows(cpu, map, at, length).await;
            let mut data = data.ok_or(OpenError::JournalStripe { at: at.0 })?;
            for (index, block) in &held.data {
                data[*index as usize].clone_from(block);
            }
            replay.write_parity(map, at, &data);
        }
    }
    for (index, block) in &held.data {
        replay.write(Location { member: map.member(Block::Data(*index)), at }, block);
    }
    Ok(())
}
