//! Cuts a request into batches: rows of one stripe that are worked on together, such that each
//! member gets one request for a run of rows, and such that no two batches share a row.
//!
//! Pure: never knows members or memory.

use super::head::HEAD_SECTORS;
use crate::layout::parity::{Block, ParityLayout};
use crate::levels::parity::blocks::Rows;
use crate::request::Extent;
use crate::units::{Sector, Sectors};

/// Rows of a stripe, in whole heads, and what of them the caller asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BatchExtent {
    pub(super) stripe: u64,
    pub(super) rows: Rows,
    /// At most one for each data block.
    pub(super) parts: Vec<DataPart>,
}

/// Sectors of a data block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DataPart {
    /// The block's number.
    pub(super) data: u32,
    pub(super) rows: Rows,
    /// The same sectors in the array.
    pub(super) at: Sector,
}

impl BatchExtent {
    pub(super) fn head_count(&self) -> u64 {
        self.rows.length().0 / HEAD_SECTORS
    }
}

/// The batches of an extent of the array, ascending, none with more than `heads_max` heads.
pub(super) fn batches_of(
    layout: &ParityLayout,
    extent: Extent,
    heads_max: u64,
) -> Vec<BatchExtent> {
    let parts = extent.split(layout.chunk()).map(|piece| {
        let (stripe, block, within) = layout.locate(piece.at);
        let Block::Data(data) = block else { unreachable!("the array has data only") };
        let rows = Rows { start: within, end: within + piece.length };
        (stripe, DataPart { data, rows, at: piece.at })
    });
    batches_of_parts(parts, heads_max)
}

/// As [`batches_of`], of parts whose stripes ascend.
pub(super) fn batches_of_parts(
    parts: impl IntoIterator<Item = (u64, DataPart)>,
    heads_max: u64,
) -> Vec<BatchExtent> {
    let mut batches = Vec::new();
    let mut of_stripe: Vec<DataPart> = Vec::new();
    let mut current = None;
    for (stripe, part) in parts {
        if current != Some(stripe) {
            if let Some(stripe) = current {
                add_stripe(&mut batches, stripe, std::mem::take(&mut of_stripe), heads_max);
            }
            assert!(current < Some(stripe), "stripes ascend");
            current = Some(stripe);
        }
        of_stripe.push(part);
    }
    if let Some(stripe) = current {
        add_stripe(&mut batches, stripe, of_stripe, heads_max);
    }
    batches
}

/// All rows of some stripes, for jobs: batches without parts.
pub(super) fn batches_of_stripes(
    layout: &ParityLayout,
    stripes: std::ops::Range<u64>,
    heads_max: u64,
) -> impl Iterator<Item = BatchExtent> {
    let chunk = layout.chunk().0;
    stripes.flat_map(move |stripe| {
        let rows = Rows::new(0, chunk).split(heads_max * HEAD_SECTORS);
        rows.map(move |rows| BatchExtent { stripe, rows, parts: Vec::new() })
    })
}

fn add_stripe(
    batches: &mut Vec<BatchExtent>,
    stripe: u64,
    mut parts: Vec<DataPart>,
    heads_max: u64,
) {
    parts.sort_by_key(|part| part.rows.start);
    let mut runs: Vec<Rows> = Vec::new();
    for part in &parts {
        let heads = in_whole_heads(part.rows);
        match runs.last_mut() {
            Some(last) if heads.start <= last.end => last.end = last.end.max(heads.end),
            _ => runs.push(heads),
        }
    }
    for rows in runs.into_iter().flat_map(|run| run.split(heads_max * HEAD_SECTORS)) {
        let within = |part: &DataPart| {
            let shared = part.rows.intersection(rows)?;
            Some(DataPart { rows: shared, at: part.at + (shared.start - part.rows.start), ..*part })
        };
        let parts = parts.iter().filter_map(within).collect();
        batches.push(BatchExtent { stripe, rows, parts });
    }
}

fn in_whole_heads(rows: Rows) -> Rows {
    Rows {
        start: Sectors(rows.start.0 / HEAD_SECTORS * HEAD_SECTORS),
        end: Sectors(rows.end.0.next_multiple_of(HEAD_SECTORS)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::parity::{ParityKind, Raid5Layout};
    use proptest::prelude::*;

    fn layout() -> ParityLayout {
        let kind = ParityKind::Raid5(Raid5Layout::LeftSymmetric);
        ParityLayout::new(kind, 4, Sectors(32), Sectors(320))
    }

    /// Batches as `stripe: rows = data rows, ...`.
    fn check(at: u64, length: u64, heads_max: u64, expected: &[&str]) {
        let extent = Extent { at: Sector(at), length: Sectors(length) };
        let text = |batch: &BatchExtent| {
            let part = |part: &DataPart| format!("D{} {}", part.data, part.rows);
            let parts: Vec<_> = batch.parts.iter().map(part).collect();
            format!("{}: {} = {}", batch.stripe, batch.rows, parts.join(", "))
        };
        let batches: Vec<_> = batches_of(&layout(), extent, heads_max).iter().map(text).collect();
        assert_eq!(batches, expected);
    }

    #[test]
    fn a_stripe_is_one_batch() {
        check(96, 96, 8, &["1: 0+32 = D0 0+32, D1 0+32, D2 0+32"]);
    }

    #[test]
    fn rows_are_whole_heads() {
        check(3, 2, 8, &["0: 0+8 = D0 3+2"]);
    }

    #[test]
    fn a_chunk_boundary_parts_rows_that_do_not_meet() {
        check(30, 4, 8, &["0: 0+8 = D1 0+2", "0: 24+8 = D0 30+2"]);
        check(4, 36, 8, &["0: 0+32 = D1 0+8, D0 4+28"]);
    }

    #[test]
    fn a_tall_stripe_is_several_batches() {
        check(0, 64, 2, &["0: 0+16 = D0 0+16, D1 0+16", "0: 16+16 = D0 16+16, D1 16+16"]);
    }

    proptest! {
        #[test]
        fn batches_ascend_share_no_row_and_cover_the_request(
            at in 0u64..900, length in 1u64..60, heads_max in 1u64..5
        ) {
            let extent = Extent { at: Sector(at), length: Sectors(length) };
            let batches = batches_of(&layout(), extent, heads_max);
            let places: Vec<_> =
                batches.iter().map(|batch| (batch.stripe, batch.rows.start, batch.rows.end)).collect();
            for pair in places.windows(2) {
                prop_assert!(pair[0].0 < pair[1].0 || pair[0].2 <= pair[1].1);
            }
            let mut sectors: Vec<u64> = Vec::new();
            for batch in &batches {
                prop_assert!(batch.head_count() <= heads_max);
                for part in &batch.parts {
                    prop_assert!(batch.rows.covers(part.rows));
                    let at = layout().array_sector(batch.stripe, part.data, part.rows.start);
                    prop_assert_eq!(at, part.at);
                    sectors.extend(at.0..at.0 + part.rows.length().0);
                }
            }
            sectors.sort_unstable();
            prop_assert_eq!(sectors, (at..at + length).collect::<Vec<_>>());
        }
    }
}
