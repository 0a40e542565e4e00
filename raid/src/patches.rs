//! Sectors that are read from memory in place of a device: what a log that was replayed would have
//! written, where nothing may be written.
//!
//! Pure: never reads or writes a device.

use crate::units::{SECTOR_BYTES, Sector};
use std::collections::BTreeMap;

const BYTES: usize = SECTOR_BYTES as usize;

/// The content of some sectors, addressed in a member's data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patches {
    sectors: BTreeMap<u64, Box<[u8; BYTES]>>,
}

impl Patches {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.sectors.is_empty()
    }

    /// How many sectors there are.
    pub fn len(&self) -> usize {
        self.sectors.len()
    }

    /// Adds whole sectors from `at` on, in place of what was there.
    pub fn put(&mut self, at: Sector, bytes: &[u8]) {
        let (sectors, rest) = bytes.as_chunks::<BYTES>();
        assert!(rest.is_empty(), "whole sectors");
        self.sectors.extend((at.0..).zip(sectors.iter().map(|of| Box::new(*of))));
    }

    /// Whether any of `length_bytes` bytes from `at` on is patched.
    pub fn touch(&self, at: Sector, length_bytes: usize) -> bool {
        self.range(at, length_bytes).next().is_some()
    }

    /// Lays the patches over what was read from `at` on.
    pub fn apply(&self, at: Sector, bytes: &mut [u8]) {
        for (sector, content) in self.range(at, bytes.len()) {
            let start = ((sector - at.0) as usize) * BYTES;
            bytes[start..start + BYTES].copy_from_slice(&content[..]);
        }
    }

    /// Sectors and their content, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (Sector, &[u8; BYTES])> {
        self.sectors.iter().map(|(at, content)| (Sector(*at), &**content))
    }

    fn range(&self, at: Sector, length_bytes: usize) -> impl Iterator<Item = (u64, &[u8; BYTES])> {
        let end = at.0.saturating_add((length_bytes / BYTES) as u64);
        self.sectors.range(at.0..end).map(|(sector, content)| (*sector, &**content))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Patches of sectors 2 and 3 laid over some sectors of zeros.
    fn check(at: u64, sectors: usize, expected: &[u8]) {
        let mut patches = Patches::default();
        patches.put(Sector(2), &[7; 2 * BYTES]);
        patches.put(Sector(3), &[8; BYTES]);
        let mut bytes = vec![0; sectors * BYTES];
        assert_eq!(patches.touch(Sector(at), bytes.len()), expected.iter().any(|of| *of != 0));
        patches.apply(Sector(at), &mut bytes);
        let firsts: Vec<u8> = bytes.chunks(BYTES).map(|sector| sector[0]).collect();
        assert_eq!(firsts, expected);
    }

    #[test]
    fn patches_lie_over_what_was_read() {
        check(0, 2, &[0, 0]);
        check(1, 2, &[0, 7]);
        check(2, 2, &[7, 8]);
        check(3, 2, &[8, 0]);
        check(4, 1, &[0]);
    }
}
