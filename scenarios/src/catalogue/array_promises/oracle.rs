//! What an array has promised of each of its sectors, and whether what it gives back keeps that.
//!
//! Knows nothing of levels, members or faults. Each sector is written by one task only, so its
//! writes have an order; versions count up from zero, which stands for a sector of zeroes.

use raid::device::Durability;
use raid::units::{SECTOR_BYTES, Sector, Sectors};
use std::collections::BTreeSet;

const SECTOR: usize = SECTOR_BYTES as usize;

/// One sector.
#[derive(Clone)]
struct Promise {
    /// The newest version whose write was acknowledged.
    acknowledged: u64,
    /// What a read may find now.
    now: BTreeSet<u64>,
    /// What may be found if the power fails now.
    after_cut: BTreeSet<u64>,
}

/// The promises of one array.
pub(super) struct Oracle {
    sectors: Vec<Promise>,
    version: u64,
}

impl Promise {
    fn settled(version: u64) -> Self {
        let only = BTreeSet::from([version]);
        Self { acknowledged: version, now: only.clone(), after_cut: only }
    }
}

impl Oracle {
    /// An array of zeroes.
    pub(super) fn new(capacity: Sectors) -> Self {
        Self { sectors: vec![Promise::settled(0); capacity.0 as usize], version: 0 }
    }

    /// A write begins: its version, which may be found from now on, and its data.
    pub(super) fn submitted(&mut self, at: Sector, length: Sectors) -> (u64, Vec<u8>) {
        self.version += 1;
        let version = self.version;
        for promise in self.range(at, length) {
            promise.now.insert(version);
            promise.after_cut.insert(version);
        }
        let bytes = (at.0..(at + length).0).flat_map(|sector| content(sector, version));
        (version, bytes.collect())
    }

    /// A write was acknowledged.
    pub(super) fn written(
        &mut self,
        at: Sector,
        length: Sectors,
        version: u64,
        durability: Durability,
    ) {
        for promise in self.range(at, length) {
            promise.acknowledged = version;
            promise.now = BTreeSet::from([version]);
            if durability == Durability::Fua {
                promise.after_cut = promise.after_cut.split_off(&version);
            }
        }
    }

    /// What a flush that begins now will make durable.
    pub(super) fn acknowledged(&self) -> Vec<u64> {
        self.sectors.iter().map(|promise| promise.acknowledged).collect()
    }

    /// That flush was acknowledged.
    pub(super) fn flushed(&mut self, acknowledged_before: &[u64]) {
        for (promise, version) in self.sectors.iter_mut().zip(acknowledged_before) {
            promise.after_cut = promise.after_cut.split_off(version);
        }
    }

    /// The power failed.
    pub(super) fn cut(&mut self) {
        for promise in &mut self.sectors {
            promise.now = promise.after_cut.clone();
            // Newer ones were acknowledged, but may be gone.
            promise.acknowledged = *promise.now.first().expect("a sector holds something");
        }
    }

    /// A read gave `bytes`. If `stays`, each sector has to stay what it was until it is written.
    ///
    /// # Errors
    /// The first sector that holds what it may not, in words.
    pub(super) fn read(&mut self, at: Sector, bytes: &[u8], stays: bool) -> Result<(), String> {
        for (sector, bytes) in (at.0..).zip(bytes.chunks_exact(SECTOR)) {
            let promise = &mut self.sectors[sector as usize];
            let Some(version) = version_of(sector, bytes) else {
                return Err(format!("sector {sector} holds what nobody wrote there"));
            };
            if !promise.now.contains(&version) {
                let may = &promise.now;
                return Err(format!("sector {sector} holds version {version}, not one of {may:?}"));
            }
            if stays {
                promise.now = BTreeSet::from([version]);
            }
        }
        Ok(())
    }

    /// Everything that reads have found is durable, as after a resync, which flushes.
    pub(super) fn settle(&mut self) {
        for promise in &mut self.sectors {
            let newest = *promise.now.last().expect("a sector holds something");
            if promise.now.len() == 1 {
                *promise = Promise::settled(newest);
            }
        }
    }

    fn range(&mut self, at: Sector, length: Sectors) -> &mut [Promise] {
        &mut self.sectors[at.0 as usize..(at + length).0 as usize]
    }
}

/// A sector's content: its number and the version, mixed anew for each pair of words, so that no part
/// of it passes for another sector's or version's, and no two sectors cancel out in parity.
fn content(sector: u64, version: u64) -> [u8; SECTOR] {
    let mut bytes = [0; SECTOR];
    if version > 0 {
        bytes[..8].copy_from_slice(&sector.to_le_bytes());
        bytes[8..16].copy_from_slice(&version.to_le_bytes());
        let mut word = sector << 32 ^ version;
        for pair in bytes[16..].chunks_exact_mut(8) {
            // The multiplier of a linear congruential generator of 64 bits (Knuth's MMIX).
            word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            pair.copy_from_slice(&word.to_le_bytes());
        }
    }
    bytes
}

/// The version that `bytes` hold of a sector; `None` if it is none of its versions.
fn version_of(sector: u64, bytes: &[u8]) -> Option<u64> {
    let version = u64::from_le_bytes(bytes[8..16].try_into().expect("eight bytes"));
    (bytes == content(sector, version)).then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Sector = Sector(2);
    const ONE: Sectors = Sectors(1);

    /// An oracle of a sector written twice, the first time flushed; the contents of both versions.
    fn written_twice() -> (Oracle, Vec<u8>, Vec<u8>) {
        let mut oracle = Oracle::new(Sectors(4));
        let (first, old) = oracle.submitted(AT, ONE);
        oracle.written(AT, ONE, first, Durability::Cached);
        let flushed = oracle.acknowledged();
        oracle.flushed(&flushed);
        let (second, new) = oracle.submitted(AT, ONE);
        oracle.written(AT, ONE, second, Durability::Cached);
        (oracle, old, new)
    }

    #[test]
    fn a_read_finds_the_last_write() {
        let (mut oracle, old, new) = written_twice();
        assert!(oracle.read(AT, &old, true).is_err());
        assert_eq!(oracle.read(AT, &new, true), Ok(()));
    }

    #[test]
    fn a_power_cut_may_take_what_was_not_flushed_and_no_more() {
        let (mut oracle, old, new) = written_twice();
        oracle.cut();
        assert!(oracle.read(AT, &[0; SECTOR], true).is_err(), "version 0 was overwritten for good");
        assert_eq!(oracle.read(AT, &old, true), Ok(()));
        assert!(oracle.read(AT, &new, true).is_err(), "it was found to be lost");
    }

    #[test]
    fn another_sector_does_not_pass() {
        let (mut oracle, _, new) = written_twice();
        assert!(oracle.read(Sector(1), &new, true).is_err());
    }
}
