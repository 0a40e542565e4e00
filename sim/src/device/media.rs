//! What a drive holds: what it would read now, and what would survive a power cut now.
//!
//! A completed write is in the volatile cache until a flush, or at once on the medium if it forces
//! unit access. A power cut keeps or loses each cached sector by itself.

use crate::executor::Confined;
use raid::device::Durability;
use raid::units::{SECTOR_BYTES, Sector, Sectors};
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const SECTOR: usize = SECTOR_BYTES as usize;
const PAGE_SECTORS: u64 = 8;
const PAGE: usize = SECTOR * PAGE_SECTORS as usize;

/// Sectors that were written, by pages of 4 KiB; all others are zero.
#[derive(Clone, Default)]
struct Sparse(BTreeMap<u64, Box<[u8; PAGE]>>);

impl Sparse {
    fn sector(&self, sector: u64) -> &[u8] {
        let offset = (sector % PAGE_SECTORS) as usize * SECTOR;
        match self.0.get(&(sector / PAGE_SECTORS)) {
            Some(page) => &page[offset..offset + SECTOR],
            None => &[0; SECTOR],
        }
    }

    fn sector_mut(&mut self, sector: u64) -> &mut [u8] {
        let offset = (sector % PAGE_SECTORS) as usize * SECTOR;
        let page = self.0.entry(sector / PAGE_SECTORS).or_insert_with(|| Box::new([0; PAGE]));
        &mut page[offset..offset + SECTOR]
    }
}

/// The content of one drive. A handle: clones are the same drive, also after the machine that it was
/// in is gone.
#[derive(Clone)]
pub struct Media(Arc<Confined<RefCell<Content>>>);

struct Content {
    size: Sectors,
    current: Sparse,
    durable: Sparse,
    /// Sectors whose current content is in the volatile cache only.
    cached: BTreeSet<u64>,
    /// Sectors that cannot be read until they are written again.
    unreadable: BTreeSet<u64>,
    /// Sectors that cannot be written.
    unwritable: BTreeSet<u64>,
}

impl Media {
    /// A drive full of zeroes.
    pub fn zeroed(size: Sectors) -> Self {
        Self(Arc::new(Confined::new(RefCell::new(Content {
            size,
            current: Sparse::default(),
            durable: Sparse::default(),
            cached: BTreeSet::new(),
            unreadable: BTreeSet::new(),
            unwritable: BTreeSet::new(),
        }))))
    }

    /// How much it holds.
    pub fn size(&self) -> Sectors {
        self.0.borrow().size
    }

    /// What a read would find now, faults aside: `length` sectors from `at`.
    pub fn peek(&self, at: Sector, length: Sectors) -> Vec<u8> {
        let mut bytes = vec![0; length.bytes() as usize];
        self.0.borrow().read(at, &mut bytes);
        bytes
    }

    /// Makes sectors unreadable until they are written again.
    pub fn spoil(&self, at: Sector, length: Sectors) {
        self.0.borrow_mut().unreadable.extend(at.0..at.0 + length.0);
    }

    /// Makes sectors refuse every write from now on.
    pub fn wear_out(&self, at: Sector, length: Sectors) {
        self.0.borrow_mut().unwritable.extend(at.0..at.0 + length.0);
    }

    pub(super) fn read(&self, at: Sector, into: &mut [u8]) -> Result<(), Sector> {
        let content = self.0.borrow();
        let sectors = at.0..at.0 + (into.len() / SECTOR) as u64;
        if let Some(bad) = content.unreadable.range(sectors).next() {
            return Err(Sector(*bad));
        }
        content.read(at, into);
        Ok(())
    }

    pub(super) fn write(
        &self,
        at: Sector,
        data: &[u8],
        durability: Durability,
    ) -> Result<(), Sector> {
        let content = &mut *self.0.borrow_mut();
        let sectors = at.0..at.0 + (data.len() / SECTOR) as u64;
        if let Some(bad) = content.unwritable.range(sectors).next() {
            return Err(Sector(*bad));
        }
        for (sector, bytes) in (at.0..).zip(data.chunks_exact(SECTOR)) {
            content.current.sector_mut(sector).copy_from_slice(bytes);
            content.unreadable.remove(&sector);
            match durability {
                Durability::Cached => {
                    content.cached.insert(sector);
                }
                Durability::Fua => {
                    content.durable.sector_mut(sector).copy_from_slice(bytes);
                    content.cached.remove(&sector);
                }
            }
        }
        Ok(())
    }

    pub(super) fn flush(&self) {
        let content = &mut *self.0.borrow_mut();
        for sector in std::mem::take(&mut content.cached) {
            let bytes = content.current.sector(sector);
            content.durable.sector_mut(sector).copy_from_slice(bytes);
        }
    }

    /// The power fails. `in_flight` are the writes that the drive was working on: like cached ones,
    /// each of their sectors is kept or lost by itself.
    pub(crate) fn power_cut(&self, in_flight: &[(Sector, &[u8])], random: &mut ChaCha8Rng) {
        let content = &mut *self.0.borrow_mut();
        for sector in std::mem::take(&mut content.cached) {
            if random.next_u32() & 1 == 0 {
                let bytes = content.current.sector(sector);
                content.durable.sector_mut(sector).copy_from_slice(bytes);
            }
        }
        for (at, data) in in_flight {
            for (sector, bytes) in (at.0..).zip(data.chunks_exact(SECTOR)) {
                if random.next_u32() & 1 == 0 {
                    content.durable.sector_mut(sector).copy_from_slice(bytes);
                }
            }
        }
        content.current = content.durable.clone();
    }
}

impl Content {
    fn read(&self, at: Sector, into: &mut [u8]) {
        for (sector, bytes) in (at.0..).zip(into.chunks_exact_mut(SECTOR)) {
            bytes.copy_from_slice(self.current.sector(sector));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::rand_core::SeedableRng;

    #[test]
    fn flushed_and_forced_sectors_survive_a_power_cut() {
        let media = Media::zeroed(Sectors(64));
        media.write(Sector(0), &[1; SECTOR], Durability::Cached).expect("a good sector");
        media.flush();
        media.write(Sector(1), &[2; SECTOR], Durability::Fua).expect("a good sector");
        media.power_cut(&[], &mut ChaCha8Rng::seed_from_u64(1));
        assert_eq!(media.peek(Sector(0), Sectors(1)), [1; SECTOR]);
        assert_eq!(media.peek(Sector(1), Sectors(1)), [2; SECTOR]);
    }

    #[test]
    fn cached_sectors_survive_one_by_one() {
        let media = Media::zeroed(Sectors(64));
        media.write(Sector(0), &[7; SECTOR * 64], Durability::Cached).expect("good sectors");
        media.power_cut(&[], &mut ChaCha8Rng::seed_from_u64(1));
        let bytes = media.peek(Sector(0), Sectors(64));
        let kept = bytes.chunks(SECTOR).filter(|sector| sector[0] == 7).count();
        assert!((1..64).contains(&kept), "{kept} of 64 sectors survived");
        assert!(bytes.chunks(SECTOR).all(|sector| sector == [0; SECTOR] || sector == [7; SECTOR]));
    }

    #[test]
    fn a_spoiled_sector_reads_again_once_written() {
        let media = Media::zeroed(Sectors(8));
        media.spoil(Sector(3), Sectors(1));
        let mut buffer = [0; SECTOR * 8];
        assert_eq!(media.read(Sector(0), &mut buffer), Err(Sector(3)));
        media.write(Sector(3), &[1; SECTOR], Durability::Cached).expect("it takes writes");
        assert_eq!(media.read(Sector(0), &mut buffer), Ok(()));
    }
}
