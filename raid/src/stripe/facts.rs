//! What the members can do for a batch, now.
//!
//! Facts grow old: a member may fail right after it was asked. That costs a failed request, never
//! wrong data.

use super::ParityArray;
use super::batch::Batch;
use crate::layout::parity::Block;
use crate::levels::parity::blocks::{BlockSet, Rows};
use crate::levels::parity::segments::StripeFacts;
use crate::member::Readable;
use crate::platform::Platform;
use crate::units::MemberIndex;
use smallvec::SmallVec;

/// What can be done with the stripe of a batch.
pub(super) struct BatchFacts {
    pub(super) stripe: StripeFacts,
    /// Who can be asked for which rows of which block.
    readers: Vec<(Block, MemberIndex, Rows)>,
}

impl BatchFacts {
    /// Whom to ask for some rows of a block, in pieces as long as possible.
    ///
    /// # Panics
    /// If nobody has them.
    pub(super) fn readers_of(&self, block: Block, rows: Rows) -> Vec<(MemberIndex, Rows)> {
        let mut pieces = Vec::new();
        let mut start = rows.start;
        while start < rows.end {
            let next = self.readers.iter().filter(|(of, _, readable)| {
                *of == block && readable.start <= start && start < readable.end
            });
            let (_, member, readable) =
                next.max_by_key(|(.., readable)| readable.end).expect("a block that can be read");
            let end = readable.end.min(rows.end);
            pieces.push((*member, Rows { start, end }));
            start = end;
        }
        pieces
    }

    /// The rows of a block that can be read.
    pub(super) fn readable(&self, block: Block) -> impl Iterator<Item = Rows> {
        self.readers.iter().filter(move |(of, ..)| *of == block).map(|(.., rows)| *rows)
    }
}

impl<P: Platform> ParityArray<P> {
    /// Whether the cache is asked too is the caller's matter: it forgets the heads first if not.
    pub(super) async fn facts(&self, cpu: &P::Cpu, batch: &Batch) -> BatchFacts {
        let cached = batch.known_parts();
        let mut facts = BatchFacts {
            stripe: StripeFacts { unreadable: Vec::new(), cached, unwritable: BlockSet::EMPTY },
            readers: Vec::new(),
        };
        for block in batch.map.blocks() {
            let mut unreadable = vec![batch.rows()];
            let mut writable = false;
            for index in self.devices_of(batch.map.member(block)) {
                writable |= self.common.member(index).flags(cpu).await.takes_writes();
                for rows in self.readable_rows(cpu, batch, index).await {
                    facts.readers.push((block, index, rows));
                    unreadable = unreadable.iter().flat_map(|left| left.without(rows)).collect();
                }
            }
            facts.stripe.unreadable.extend(unreadable.into_iter().map(|rows| (block, rows)));
            if !writable {
                facts.stripe.unwritable.insert(block);
            }
        }
        facts
    }

    /// The member of a role, and the one that replaces it, if any.
    pub(super) fn devices_of(&self, role: MemberIndex) -> SmallVec<[MemberIndex; 2]> {
        [role].into_iter().chain(self.common.replacement_of(role)).collect()
    }

    /// The rows of a batch that a device gives back and that are up to date on it.
    async fn readable_rows(&self, cpu: &P::Cpu, batch: &Batch, index: MemberIndex) -> Vec<Rows> {
        let member = self.common.member(index);
        let extent = batch.on_member(batch.rows());
        let mut readable = match member.readable(cpu, extent).await {
            Readable::No => return Vec::new(),
            Readable::Yes => vec![batch.rows()],
            Readable::InPart => {
                let mut parts = vec![batch.rows()];
                for boundary in member.boundaries(cpu, extent).await {
                    let start = (boundary - extent.at) + batch.rows().start;
                    let cut = |rows: Rows| {
                        let front = Rows { end: start, ..rows };
                        let back = Rows { start, ..rows };
                        let inside = rows.start < start && start < rows.end;
                        if inside { vec![front, back] } else { vec![rows] }
                    };
                    parts = parts.into_iter().flat_map(cut).collect();
                }
                let mut readable = Vec::new();
                for rows in parts {
                    if member.may_read(cpu, batch.on_member(rows)).await {
                        readable.push(rows);
                    }
                }
                readable
            }
        };
        let doubtful = self.doubts.within(cpu, index, extent).await;
        let holes = doubtful.into_iter().map(|extent| batch.rows_of(extent));
        let lost = batch.lost.iter().filter(|(of, _)| *of == index).map(|(_, rows)| *rows);
        for hole in holes.chain(lost) {
            readable = readable.iter().flat_map(|rows| rows.without(hole)).collect();
        }
        readable
    }
}
