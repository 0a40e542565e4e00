//! Adds a write to heads: page by page in the order of its addresses, or head by head.

use super::content::{Page, RowPlace};
use super::pending::Pending;
use super::{FULL, HANDLE, HeadId, Heads, PLUGGED};
use crate::buffer::SharedBuffer;
use crate::device::Durability;
use crate::error::ArrayError;
use crate::layout::parity::Block;
use crate::levels::parity::blocks::Rows;
use crate::platform::{Cpu, Ordering, Platform, Word, Work};
use crate::request::Extent;
use crate::stripe::ParityArray;
use crate::stripe::head::HEAD_SECTORS;
use crate::units::{Sector, Sectors};
use std::collections::BTreeMap;
use std::sync::Arc;

/// To find which head and data disk an address is of: two divisions (40), the layout's cases (30).
const ADDRESS_INSTRUCTIONS: u32 = 70;
/// To link a page under the stripe lock: the list (15), the count of what is covered (15).
const ADD_INSTRUCTIONS: u32 = 30;

/// A write that is being added.
pub(super) struct Adding<'a, P: Platform> {
    pub(super) array: &'a ParityArray<P>,
    pub(super) heads: &'a Heads<P>,
    pub(super) cpu: &'a P::Cpu,
    /// Counted heads that are let go together.
    plug: Vec<HeadId>,
    /// The head that was filled last and its row, counted, if the lookup keeps it.
    pub(super) last: Option<(HeadId, u64)>,
}

/// What came of adding to a head.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Attempt {
    Added,
    /// No head is inactive.
    NoHead,
    /// Some sector waits there already to be written.
    Overlap,
}

impl<P: Platform> ParityArray<P> {
    /// A write whose pages are left at heads. The caller keeps the array from being suspended.
    pub(in crate::stripe) async fn write_through_heads(
        &self,
        cpu: &P::Cpu,
        heads: &Heads<P>,
        extent: Extent,
        data: SharedBuffer,
        durability: Durability,
    ) -> Result<(), ArrayError> {
        let request = Pending::new(cpu.platform(), heads.kind, extent, data, durability);
        let request = Arc::new(request);
        let turn = &heads.submitters[cpu.id().0 as usize];
        turn.take(cpu).await;
        let mut adding = Adding { array: self, heads, cpu, plug: Vec::new(), last: None };
        if heads.lookup.pivots() {
            let mut by_head: BTreeMap<RowPlace, Vec<Page<P>>> = BTreeMap::new();
            for (place, page) in self.pages_of(extent, &request) {
                by_head.entry(place).or_default().push(page);
            }
            for (place, pages) in by_head {
                adding.add(place, &pages).await;
            }
        } else {
            for (place, page) in self.pages_of(extent, &request) {
                adding.add(place, &[page]).await;
            }
        }
        adding.let_go().await;
        turn.give_back(cpu, ()).await;
        request.end(cpu).await
    }

    /// The pages of a write, in the order of their addresses.
    fn pages_of(
        &self,
        extent: Extent,
        request: &Arc<Pending<P>>,
    ) -> impl Iterator<Item = (RowPlace, Page<P>)> {
        let layout = *self.level.layout();
        extent.split(layout.chunk()).flat_map(move |piece| {
            let (stripe, block, within) = layout.locate(piece.at);
            let Block::Data(data) = block else { unreachable!("the array has data only") };
            let chunk_start = layout.member_sector(stripe, Sectors(0));
            let rows = Rows { start: within, end: within + piece.length };
            rows.split(HEAD_SECTORS).map(move |rows| {
                let start = Sectors(rows.start.0 / HEAD_SECTORS * HEAD_SECTORS);
                let place = RowPlace { stripe, start, row: (chunk_start + start).0 / HEAD_SECTORS };
                let at: Sector = piece.at + (rows.start - within);
                (place, Page { data, rows, at, request: request.clone() })
            })
        })
    }
}

impl<P: Platform> Adding<'_, P> {
    /// Leaves pages at a head. Sleeps, with nothing in its hands, while there is no head for them or
    /// somebody else's write is in their place.
    async fn add(&mut self, place: RowPlace, pages: &[Page<P>]) {
        let (heads, cpu) = (self.heads, self.cpu);
        let mut outcome = self.try_add(place, pages).await;
        while outcome != Attempt::Added {
            self.let_go().await;
            let obstacle = outcome;
            let queue = match obstacle {
                Attempt::NoHead => &heads.wait_for_stripe,
                _ => &heads.wait_for_overlap,
            };
            let is_gone = async || {
                outcome = self.try_add(place, pages).await;
                outcome != obstacle
            };
            queue.wait_until(cpu, is_gone).await;
        }
    }

    async fn try_add(&mut self, place: RowPlace, pages: &[Page<P>]) -> Attempt {
        let (heads, cpu) = (self.heads, self.cpu);
        cpu.spend(Work::Instructions(ADDRESS_INSTRUCTIONS)).await;
        let Some(id) = heads.get(cpu, place.row).await else { return Attempt::NoHead };
        let head = heads.head(id);
        let data_count = self.data_count();
        let leave = async |content: &mut super::content::Content<P>| {
            cpu.spend(Work::Instructions(ADD_INSTRUCTIONS * pages.len() as u32)).await;
            content.place = place;
            if pages.iter().any(|page| content.overlaps(page)) {
                return None;
            }
            for page in pages {
                page.request.page_begins(cpu).await;
                content.add(page.clone());
            }
            Some((content.is_full(data_count), content.can_batch(data_count)))
        };
        let Some((is_full, can_batch)) = head.content.with(cpu, leave).await else {
            self.array.let_head_go(cpu, heads, id).await;
            return Attempt::Overlap;
        };
        if can_batch {
            self.join_batch(id, place).await;
        }
        let bits = HANDLE | PLUGGED | if is_full { FULL } else { 0 };
        if head.state.fetch_or(cpu, bits, Ordering::AcqRel).await & PLUGGED == 0 {
            self.plug.push(id);
        } else {
            self.array.let_head_go(cpu, heads, id).await;
        }
        Attempt::Added
    }

    /// Gives up all that is held, so that it can be handled.
    async fn let_go(&mut self) {
        if let Some((last, _)) = self.last.take() {
            self.array.let_head_go(self.cpu, self.heads, last).await;
        }
        let aftermath = self.heads.unplug(self.cpu, &mut self.plug).await;
        self.array.settle_heads(self.cpu, self.heads, aftermath).await;
    }

    pub(super) fn data_count(&self) -> u32 {
        self.array.level.layout().stripe(0).data_count()
    }
}
