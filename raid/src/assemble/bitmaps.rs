//! Reads the write-intent bitmaps of the members and makes one of them. Never writes.
//!
//! Every member has a copy, and a power cut may have come between the writes of two: what any of
//! them marks counts as marked.

use super::OpenError;
use super::scan::Scanned;
use crate::device::Device;
use crate::metadata::assembly::{Assembly, sync_space};
use crate::metadata::bitmap::{Bitmap, BitmapError, HEADER_BYTES, Header, STATE_STALE, VERSION};
use crate::platform::Platform;
use crate::request::Extent;
use crate::sector_io;
use crate::units::{SECTOR_BYTES, Sectors};

/// The sectors that a bitmap's header lies in.
const HEADER: Sectors = Sectors((HEADER_BYTES as u64).div_ceil(SECTOR_BYTES));

/// The array's bitmap, if it has one; all of it marked if no copy is up to date, or covers what the
/// array has. If all copies are damaged or cannot be read, that is an error, or no bitmap with
/// `force`.
pub(super) async fn read_bitmap<P: Platform>(
    cpu: &P::Cpu,
    scanned: &Scanned<P>,
    assembly: &Assembly,
    force: bool,
) -> Result<Option<Bitmap>, OpenError> {
    if scanned.superblock(assembly.freshest).bitmap_at().is_none() {
        return Ok(None);
    }
    let (mut merged, mut any, mut damage) = (None::<Bitmap>, None, None);
    for index in assembly.slots.iter().flat_map(|slot| slot.original) {
        match read_one(cpu, scanned, assembly, index).await {
            // What a member without all of the data marks is what the others mark.
            Ok(_) if scanned.superblock(index).recovery_offset().is_some() => {}
            Ok(bitmap) if bitmap.header.is_current(assembly.events) => {
                merged = Some(match merged {
                    None => bitmap,
                    Some(merged) => union(merged, &bitmap),
                });
            }
            Ok(bitmap) => any = any.or(Some(bitmap)),
            // Each copy has everything that was marked before its data went out.
            Err(error) => damage = damage.or(Some(error)),
        }
    }
    match (merged, any, damage) {
        (Some(merged), _, _) => Ok(Some(merged)),
        (None, Some(mut stale), _) => {
            (0..stale.header.chunks()).for_each(|chunk| stale.set(chunk, true));
            // From here on it says something again.
            stale.header.state &= !STATE_STALE;
            stale.header.version = VERSION;
            Ok(Some(stale))
        }
        (None, None, Some(damage)) if !force => Err(damage),
        (None, None, _) => Ok(None),
    }
}

/// A member's copy, for as much as the array has, as md takes it. One that does not cover all of that
/// counts as stale.
async fn read_one<P: Platform>(
    cpu: &P::Cpu,
    scanned: &Scanned<P>,
    assembly: &Assembly,
    index: usize,
) -> Result<Bitmap, OpenError> {
    let (superblock, device) = (scanned.superblock(index), &scanned.devices[index]);
    let damaged = |cause| OpenError::Bitmap { device: device.name().to_owned(), cause };
    let places = superblock.bitmap_at().zip(superblock.bitmap_room(device.size()));
    let Some((at, room)) = places else {
        return Err(damaged(BitmapError::CutShort { needed_bytes: 256, found_bytes: 0 }));
    };
    let read = async |length: Sectors| {
        sector_io::read::<P>(cpu, device, Extent { at, length }).await.map_err(|cause| {
            let device = device.name().to_owned();
            OpenError::Unreadable { device, what: "write-intent bitmap", cause }
        })
    };
    // Its room may be all that lies behind the data, so the header says how much to read.
    let mut header = Header::decode(&read(HEADER.min(room)).await?, room).map_err(damaged)?;
    header.check_belongs_to(superblock.memory_uuid()).map_err(damaged)?;
    let covered = sync_space(assembly.geometry, assembly.component_size);
    if assembly.reshaping.is_none() && header.sync_size < covered {
        (header.sync_size, header.state) = (covered, header.state | STATE_STALE);
        return Bitmap::new(header, true, room).map_err(damaged);
    }
    // One that covers more, as mdadm's after rounding up, says the same of what the array has.
    header.sync_size = header.sync_size.min(covered);
    let bytes = read(header.length()).await?;
    Bitmap::with_bits(header, &bytes).map_err(damaged)
}

/// What either marks; two of different chunks mark all.
fn union(mut one: Bitmap, other: &Bitmap) -> Bitmap {
    let same_shape = one.header.chunk_bytes == other.header.chunk_bytes
        && one.header.sync_size == other.header.sync_size;
    for chunk in 0..one.header.chunks() {
        if !same_shape || other.is_dirty(chunk) {
            one.set(chunk, true);
        }
    }
    one
}
