//! A batch: rows of one stripe that are claimed, and all that is known of them while they are
//! worked on.
//!
//! Pure memory: what is read and written is decided elsewhere.

use super::cache::Claim;
use super::compute::Known;
use super::contents::Contents;
use super::head::HEAD_SECTORS;
use super::split::BatchExtent;
use crate::layout::parity::{Block, StripeMap};
use crate::levels::parity::blocks::{BlockSet, Rows};
use crate::levels::parity::plan::StripePlan;
use crate::levels::parity::segments::Part;
use crate::request::Extent;
use crate::units::{MemberIndex, Sector, Sectors};

/// Claimed rows.
pub(super) struct Batch {
    pub(super) extent: BatchExtent,
    pub(super) map: StripeMap,
    pub(super) claim: Claim,
    /// What the members hold, or would hold if they worked, as far as it is known beside the heads.
    pub(super) known: Contents,
    /// What is to be written.
    pub(super) new: Contents,
    /// What a member did not give.
    pub(super) lost: Vec<(MemberIndex, Rows)>,
    /// Of that, what may be written again: the member still answers.
    pub(super) damaged: Vec<(MemberIndex, Rows)>,
    /// Where the chunk starts on each member.
    chunk_start: Sector,
}

impl Batch {
    pub(super) fn new(
        extent: BatchExtent,
        map: StripeMap,
        claim: Claim,
        chunk_start: Sector,
    ) -> Self {
        let (known, new) = (Contents::default(), Contents::default());
        let (lost, damaged) = (Vec::new(), Vec::new());
        Self { extent, map, claim, known, new, lost, damaged, chunk_start }
    }

    pub(super) fn rows(&self) -> Rows {
        self.extent.rows
    }

    /// What the caller asks for.
    pub(super) fn parts(&self) -> Vec<Part> {
        self.extent.parts.iter().map(|part| (Block::Data(part.data), part.rows)).collect()
    }

    /// Some rows as sectors of a member.
    pub(super) fn on_member(&self, rows: Rows) -> Extent {
        Extent { at: self.chunk_start + rows.start, length: rows.length() }
    }

    /// Sectors of a member as rows of the chunk.
    pub(super) fn rows_of(&self, extent: Extent) -> Rows {
        let start = extent.at - self.chunk_start;
        Rows { start, end: start + extent.length }
    }

    /// What is known, for computing.
    pub(super) fn known(&self) -> Known<'_> {
        let heads_start = self.rows().start.0;
        Known { contents: &self.known, heads: &self.claim.heads, heads_start }
    }

    /// Which rows of which blocks are known.
    pub(super) fn known_parts(&self) -> Vec<Part> {
        let heads = self.claim.heads.iter().zip(self.head_starts());
        let in_heads = heads.flat_map(|(head, start)| head.known(start));
        self.known.parts().chain(in_heads).collect()
    }

    /// Forgets what the cache knew, so that the members are asked.
    pub(super) fn forget_heads(&mut self) {
        self.claim.heads.iter_mut().for_each(|head| *head = Default::default());
    }

    /// Keeps what has been read for those who come next.
    pub(super) fn keep_known(&mut self) {
        let known = std::mem::take(&mut self.known);
        for (block, rows, bytes) in known.pieces() {
            self.keep(block, rows, bytes);
        }
    }

    /// Keeps what has been written, except for `unwritten`, of which nobody knows whether it has.
    /// Rows of which all data is new are not kept: they would be copied for nothing, since who
    /// writes whole stripes seldom comes back.
    pub(super) fn keep_written(&mut self, plans: &[StripePlan], unwritten: &[Part]) {
        self.keep_known();
        let all: BlockSet = self.map.blocks().collect();
        let data = all.only_data();
        for plan in plans {
            let left_behind = match plan.new == data {
                true => all,
                false => all.difference(data).difference(plan.parity.blocks()),
            };
            left_behind.iter().for_each(|block| self.forget(block, plan.rows));
        }
        let new = std::mem::take(&mut self.new);
        for (block, rows, bytes) in new.pieces() {
            for plan in plans.iter().filter(|plan| plan.new != data) {
                if let Some(shared) = plan.rows.intersection(rows) {
                    self.keep(block, shared, &bytes[shared.bytes_within(rows)]);
                }
            }
        }
        for (block, rows) in unwritten {
            self.forget(*block, *rows);
        }
    }

    fn keep(&mut self, block: Block, rows: Rows, bytes: &[u8]) {
        for (index, start, part) in self.by_head(rows) {
            let bytes = &bytes[part.bytes_within(rows)];
            self.claim.heads[index].put(block, start, part, bytes);
        }
    }

    fn forget(&mut self, block: Block, rows: Rows) {
        for (index, start, part) in self.by_head(rows) {
            self.claim.heads[index].forget(block, start, part);
        }
    }

    /// The heads that hold some rows: which, where it starts, and the rows in it.
    fn by_head(&self, rows: Rows) -> impl Iterator<Item = (usize, u64, Rows)> + use<> {
        let first = self.rows().start.0;
        assert!(self.rows().covers(rows), "rows {rows} of {}", self.rows());
        rows.split(HEAD_SECTORS).map(move |part| {
            let index = (part.start.0 - first) / HEAD_SECTORS;
            (index as usize, first + index * HEAD_SECTORS, part)
        })
    }

    fn head_starts(&self) -> impl Iterator<Item = u64> + use<> {
        let Rows { start, end } = self.rows();
        (start.0..end.0).step_by(HEAD_SECTORS as usize)
    }

    /// The sectors of the array that `rows` of the stripe hold, one run for each data block that
    /// the caller asks for.
    pub(super) fn asked_within(&self, rows: Rows) -> Option<(Sector, Sectors)> {
        let part = self.extent.parts.iter().find(|part| part.rows.overlaps(rows))?;
        let shared = part.rows.intersection(rows)?;
        Some((part.at + (shared.start - part.rows.start), shared.length()))
    }
}
