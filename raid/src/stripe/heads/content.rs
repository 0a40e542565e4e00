//! What a head holds: pages that are to be written, and which batch it is in.
//!
//! Pure memory, guarded by the head's stripe lock: never knows members or other heads.

use super::HeadId;
use super::pending::Pending;
use crate::levels::parity::blocks::Rows;
use crate::platform::Platform;
use crate::stripe::head::HEAD_SECTORS;
use crate::units::{Sector, Sectors};
use std::sync::Arc;

/// The row of a stripe that a head stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RowPlace {
    pub(super) stripe: u64,
    /// Where the head begins in the chunk.
    pub(super) start: Sectors,
    /// The row, numbered over the whole member.
    pub(super) row: u64,
}

/// A part of a request that lies in one head, on one data disk: 4 KiB at most.
pub(super) struct Page<P: Platform> {
    /// The data block.
    pub(super) data: u32,
    /// Within the chunk.
    pub(super) rows: Rows,
    /// The same sectors in the array.
    pub(super) at: Sector,
    pub(super) request: Arc<Pending<P>>,
}

/// The batch that a head is in.
#[derive(Default)]
pub(super) enum Membership {
    #[default]
    Alone,
    /// It leads; the others follow in ascending order of rows.
    Lead(Vec<HeadId>),
    /// It follows this one.
    Follows(HeadId),
}

/// What is to be written.
pub(super) struct Content<P: Platform> {
    pub(super) place: RowPlace,
    pages: Vec<Page<P>>,
    /// Of each data block one bit for each sector that is to be written.
    covered: Vec<u8>,
    pub(super) membership: Membership,
    /// Whether a thread is carrying out what was there before.
    pub(super) busy: bool,
}

impl<P: Platform> Default for Content<P> {
    fn default() -> Self {
        let (place, membership) = (RowPlace::default(), Membership::Alone);
        Self { place, pages: Vec::new(), covered: Vec::new(), membership, busy: false }
    }
}

impl<P: Platform> Clone for Page<P> {
    fn clone(&self) -> Self {
        Self { request: self.request.clone(), ..*self }
    }
}

impl<P: Platform> Content<P> {
    /// Whether some sector of `page` is to be written already.
    pub(super) fn overlaps(&self, page: &Page<P>) -> bool {
        let covered = self.covered.get(page.data as usize).copied().unwrap_or(0);
        covered & mask_of(self.place, page.rows) != 0
    }

    /// Adds a page that overlaps nothing.
    pub(super) fn add(&mut self, page: Page<P>) {
        let index = page.data as usize;
        if self.covered.len() <= index {
            self.covered.resize(index + 1, 0);
        }
        self.covered[index] |= mask_of(self.place, page.rows);
        self.pages.push(page);
    }

    /// Whether all of `data_count` blocks are to be written whole.
    pub(super) fn is_full(&self, data_count: u32) -> bool {
        let whole = self.covered.iter().filter(|covered| **covered == u8::MAX);
        whole.count() == data_count as usize
    }

    /// Whether it may lead or follow in a batch.
    pub(super) fn can_batch(&self, data_count: u32) -> bool {
        !self.busy && self.is_full(data_count)
    }

    /// How its pages are to be made durable, if there are any.
    pub(super) fn durability(&self) -> Option<crate::device::Durability> {
        self.pages.first().map(|page| page.request.durability)
    }

    /// Takes the pages, to be carried out.
    pub(super) fn take_pages(&mut self) -> Vec<Page<P>> {
        self.covered.clear();
        self.busy = true;
        std::mem::take(&mut self.pages)
    }
}

fn mask_of(place: RowPlace, rows: Rows) -> u8 {
    let bits = |end: Sectors| ((1u32 << (end - place.start).0) - 1) as u8;
    assert!(place.start <= rows.start && rows.end.0 <= place.start.0 + HEAD_SECTORS);
    bits(rows.end) & !bits(rows.start)
}
