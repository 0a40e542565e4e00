//! Carries out a batch: takes its pages off the heads, writes them with new parity, tells the
//! requests, and lets the heads go.

use super::content::{Content, Membership, Page, RowPlace};
use super::{FULL, HANDLE, HeadId, Heads};
use crate::buffer::{Buffer, SharedBuffer};
use crate::device::Durability;
use crate::error::ArrayError;
use crate::levels::parity::blocks::Rows;
use crate::platform::{Cpu, Ordering, Platform, Word, Work};
use crate::stripe::ParityArray;
use crate::stripe::head::HEAD_SECTORS;
use crate::stripe::split::{BatchExtent, DataPart};
use crate::units::Sectors;
use std::collections::BTreeMap;

/// For each page that goes to a member md fills a bio in, hands it to the block layer, which merges
/// it, and takes its end: about the 122 ns of the kernel's polled block path at two instructions a
/// cycle of 4 GHz, without the driver, which is charged for the merged request.
const PAGE_INSTRUCTIONS: u32 = 500;

/// A head of a batch and what is to be written there.
struct Taken<P: Platform> {
    id: HeadId,
    place: RowPlace,
    pages: Vec<Page<P>>,
}

impl<P: Platform> ParityArray<P> {
    /// Carries out what was left at a counted head and at those that follow it, and lets them go.
    pub(super) async fn handle(&self, cpu: &P::Cpu, heads: &Heads<P>, lead: HeadId) {
        let batch = heads.take_batch(cpu, lead).await;
        if heads.wait_for_overlap.has_waiters(cpu).await {
            heads.wait_for_overlap.wake_all(cpu).await;
        }
        let result = match batch.iter().all(|taken| taken.pages.is_empty()) {
            true => Ok(()),
            false => self.carry_out(cpu, &batch).await,
        };
        for Taken { id, pages, .. } in batch {
            let come_to_rest = async |content: &mut Content<P>| {
                content.busy = false;
                content.membership = Membership::Alone;
            };
            heads.head(id).content.with(cpu, come_to_rest).await;
            for page in pages {
                page.request.page_ends(cpu, &result).await;
            }
            self.let_head_go(cpu, heads, id).await;
        }
    }

    /// If it fails, every request with a page in the batch is told so.
    async fn carry_out(&self, cpu: &P::Cpu, batch: &[Taken<P>]) -> Result<(), ArrayError> {
        let (first, last) = (&batch[0].place, &batch[batch.len() - 1].place);
        let rows = Rows { start: first.start, end: last.start + Sectors(HEAD_SECTORS) };
        let mut runs: BTreeMap<u32, Vec<Run<'_, P>>> = BTreeMap::new();
        let mut pages: Vec<&Page<P>> = batch.iter().flat_map(|taken| &taken.pages).collect();
        pages.sort_by_key(|page| (page.data, page.rows.start));
        for page in &pages {
            let of_block = runs.entry(page.data).or_default();
            match of_block.last_mut() {
                Some(run) if run.rows.end == page.rows.start => run.extend(page),
                _ => of_block.push(Run { rows: page.rows, pages: vec![page] }),
            }
        }
        let mut parts = Vec::new();
        let mut bytes = BTreeMap::new();
        for (data, run) in runs.iter().flat_map(|(data, runs)| runs.iter().map(|run| (*data, run)))
        {
            let at = run.pages[0].at;
            parts.push(DataPart { data, rows: run.rows, at });
            bytes.insert(at, run.bytes());
        }
        // md copies the caller's pages into those of the stripe.
        let copied: u64 = parts.iter().map(|part| part.rows.length().bytes()).sum();
        cpu.spend(Work::Copy(copied)).await;
        let blocks = u64::from(self.level.layout().kind().parity_count()) + runs.len() as u64;
        let pages_written = blocks * (rows.length().0 / HEAD_SECTORS);
        cpu.spend(Work::Instructions(PAGE_INSTRUCTIONS * pages_written as u32)).await;
        let forced = pages.iter().any(|page| page.request.durability == Durability::Fua);
        let durability = if forced { Durability::Fua } else { Durability::Cached };
        let group = vec![BatchExtent { stripe: first.stripe, rows, parts }];
        let bytes_of = |part: &DataPart| bytes[&part.at].clone();
        self.write_group(cpu, group, bytes_of, durability).await
    }
}

/// Pages of one block that touch.
struct Run<'a, P: Platform> {
    rows: Rows,
    pages: Vec<&'a Page<P>>,
}

impl<'a, P: Platform> Run<'a, P> {
    fn extend(&mut self, page: &'a Page<P>) {
        self.rows.end = page.rows.end;
        self.pages.push(page);
    }

    /// In one piece: the request's own memory, or a copy if there are several requests.
    fn bytes(&self) -> SharedBuffer {
        let first = self.pages[0];
        let is_of_first = |page: &&Page<P>| std::sync::Arc::ptr_eq(&page.request, &first.request);
        if self.pages.iter().all(is_of_first) {
            return first.request.bytes(first.at, self.rows.length());
        }
        let mut copy = Buffer::zeroed(self.rows.length().bytes() as usize);
        for page in &self.pages {
            let bytes = page.request.bytes(page.at, page.rows.length());
            copy[page.rows.bytes_within(self.rows)].copy_from_slice(&bytes);
        }
        copy.into_shared()
    }
}

impl<P: Platform> Heads<P> {
    /// Takes the pages of a head and of those that follow it. From now on nobody joins them.
    async fn take_batch(&self, cpu: &P::Cpu, lead: HeadId) -> Vec<Taken<P>> {
        let (first, others) = self.take_pages(cpu, lead).await;
        let mut batch = vec![first];
        for id in others {
            batch.push(self.take_pages(cpu, id).await.0);
        }
        batch
    }

    async fn take_pages(&self, cpu: &P::Cpu, id: HeadId) -> (Taken<P>, Vec<HeadId>) {
        let head = self.head(id);
        let take = async |content: &mut Content<P>| {
            // What is added after this sets the bit again.
            head.state.swap_bits(cpu, HANDLE | FULL, 0, Ordering::AcqRel).await;
            let others = match &mut content.membership {
                Membership::Lead(others) => std::mem::take(others),
                Membership::Alone | Membership::Follows(_) => Vec::new(),
            };
            (Taken { id, place: content.place, pages: content.take_pages() }, others)
        };
        head.content.with(cpu, take).await
    }
}
