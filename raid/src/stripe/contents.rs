//! What a batch knows of its blocks: pieces of memory, each some rows of a block.
//!
//! Pure memory. Pieces of a block may lie side by side but never overlap.

use crate::buffer::{Buffer, SharedBuffer};
use crate::layout::parity::Block;
use crate::levels::parity::blocks::{BlockSet, Rows};
use crate::levels::parity::plan::StripePlan;
use crate::levels::parity::segments::Part;

/// The contents of some rows of some blocks.
#[derive(Default)]
pub(super) struct Contents {
    pieces: Vec<Piece<SharedBuffer>>,
}

/// Memory for contents that are being computed.
pub(super) struct Drafts {
    pieces: Vec<Piece<Buffer>>,
}

struct Piece<B> {
    block: Block,
    rows: Rows,
    bytes: B,
}

impl Contents {
    /// Adds a piece.
    pub(super) fn put(&mut self, block: Block, rows: Rows, bytes: SharedBuffer) {
        assert_eq!(bytes.len() as u64, rows.length().bytes(), "{block} {rows}: its bytes");
        assert!(!self.overlaps(block, rows), "{block} {rows} is known already");
        self.pieces.push(Piece { block, rows, bytes });
    }

    /// Adds what was computed.
    pub(super) fn put_all(&mut self, drafts: Drafts) {
        for piece in drafts.pieces {
            self.put(piece.block, piece.rows, piece.bytes.into_shared());
        }
    }

    /// The bytes of some rows, if one piece has them all.
    pub(super) fn find(&self, block: Block, rows: Rows) -> Option<&[u8]> {
        let piece = self.piece(block, rows)?;
        Some(&piece.bytes[rows.bytes_within(piece.rows)])
    }

    /// As [`find`](Self::find), to hand on.
    pub(super) fn share(&self, block: Block, rows: Rows) -> Option<SharedBuffer> {
        let piece = self.piece(block, rows)?;
        Some(piece.bytes.slice(rows.bytes_within(piece.rows)))
    }

    /// Which rows of which blocks are known.
    pub(super) fn parts(&self) -> impl Iterator<Item = Part> {
        self.pieces.iter().map(|piece| (piece.block, piece.rows))
    }

    /// Each piece.
    pub(super) fn pieces(&self) -> impl Iterator<Item = (Block, Rows, &[u8])> {
        self.pieces.iter().map(|piece| (piece.block, piece.rows, &piece.bytes[..]))
    }

    fn piece(&self, block: Block, rows: Rows) -> Option<&Piece<SharedBuffer>> {
        self.pieces.iter().find(|piece| piece.block == block && piece.rows.covers(rows))
    }

    fn overlaps(&self, block: Block, rows: Rows) -> bool {
        self.pieces.iter().any(|piece| piece.block == block && piece.rows.overlaps(rows))
    }
}

impl Drafts {
    /// Memory for the blocks that `of` picks from each plan, in as long runs as possible.
    pub(super) fn new(plans: &[StripePlan], of: impl Fn(&StripePlan) -> BlockSet) -> Self {
        let piece = |(block, rows): Part| {
            let bytes = Buffer::zeroed(rows.length().bytes() as usize);
            Piece { block, rows, bytes }
        };
        Self { pieces: runs_of(plans, of).into_iter().map(piece).collect() }
    }

    /// The memory of some rows of a block.
    pub(super) fn get(&mut self, block: Block, rows: Rows) -> &mut [u8] {
        let [bytes] = self.get_many([block], rows);
        bytes
    }

    /// The memory of the same rows of several blocks.
    pub(super) fn get_many<const N: usize>(
        &mut self,
        blocks: [Block; N],
        rows: Rows,
    ) -> [&mut [u8]; N] {
        let place = |block| {
            let pieces = &self.pieces;
            let covers = |piece: &Piece<Buffer>| piece.block == block && piece.rows.covers(rows);
            pieces.iter().position(covers).expect("memory was made for the plan")
        };
        let places = blocks.map(place);
        let pieces = self.pieces.get_disjoint_mut(places).expect("blocks that differ");
        pieces.map(|piece| &mut piece.bytes[rows.bytes_within(piece.rows)])
    }
}

/// The longest runs of rows of each block that `of` picks from plans that ascend.
pub(super) fn runs_of(plans: &[StripePlan], of: impl Fn(&StripePlan) -> BlockSet) -> Vec<Part> {
    let mut runs: Vec<Part> = Vec::new();
    // Of each block the last run; plans are few and blocks about as many as members.
    for plan in plans {
        for block in of(plan).iter() {
            match runs.iter_mut().rev().find(|(of, _)| *of == block) {
                Some((_, run)) if run.end == plan.rows.start => run.end = plan.rows.end,
                _ => runs.push((block, plan.rows)),
            }
        }
    }
    runs
}
