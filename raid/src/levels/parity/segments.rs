//! Cuts the rows of a stripe where what can be done with them changes: at the ends of what is
//! written, of sectors that cannot be read, and of what the cache holds.
//!
//! Pure: facts in, plans out.

use super::blocks::{BlockSet, Rows};
use super::plan::{Access, Lost, StripePlan, plan_read, plan_write};
use crate::layout::parity::{Block, StripeMap};

/// Some rows of one block.
pub type Part = (Block, Rows);

/// What is known about a stripe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StripeFacts {
    /// What the members do not give back, or do not hold up to date.
    pub unreadable: Vec<Part>,
    /// What is known without a read.
    pub cached: Vec<Part>,
    /// Blocks whose members take no writes.
    pub unwritable: BlockSet,
}

/// Rows in which all facts are the same.
struct Segment {
    rows: Rows,
    asked: BlockSet,
    access: Access,
}

/// Where redundancy does not suffice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("in sectors {rows} of the chunks {lost}")]
pub struct LostRows {
    /// The first rows that are concerned.
    pub rows: Rows,
    /// What is lost there.
    pub lost: Lost,
}

/// Plans that make `wanted` known, in ascending order of rows; rows of which nothing is wanted have
/// none.
///
/// # Errors
/// [`LostRows`].
pub fn plan_reads(
    map: StripeMap,
    wanted: &[Part],
    facts: &StripeFacts,
) -> Result<Vec<StripePlan>, LostRows> {
    plan_segments(map, wanted, facts, plan_read)
}

/// Plans that write the data `new`.
///
/// # Errors
/// [`LostRows`].
pub fn plan_writes(
    map: StripeMap,
    new: &[Part],
    facts: &StripeFacts,
) -> Result<Vec<StripePlan>, LostRows> {
    plan_segments(map, new, facts, plan_write)
}

fn plan_segments(
    map: StripeMap,
    asked: &[Part],
    facts: &StripeFacts,
    plan: impl Fn(StripeMap, Rows, BlockSet, Access) -> Result<StripePlan, Lost>,
) -> Result<Vec<StripePlan>, LostRows> {
    let segments = cut(map, asked, facts).into_iter();
    let plan = |segment: Segment| {
        let Segment { rows, asked, access } = segment;
        plan(map, rows, asked, access).map_err(|lost| LostRows { rows, lost })
    };
    segments.map(plan).collect()
}

/// The segments of the rows that `asked` names. A segment never reaches over the end of a cached
/// part, so whoever carries it out finds each block in one place.
fn cut(map: StripeMap, asked: &[Part], facts: &StripeFacts) -> Vec<Segment> {
    let parts = asked.iter().chain(&facts.unreadable).chain(&facts.cached);
    let mut edges: Vec<u64> = parts.flat_map(|(_, rows)| [rows.start.0, rows.end.0]).collect();
    edges.sort_unstable();
    edges.dedup();
    let all: BlockSet = map.blocks().collect();
    let mut segments: Vec<Segment> = Vec::new();
    for edge in edges.windows(2) {
        let rows = Rows::new(edge[0], edge[1]);
        let within = |parts: &[Part]| {
            let blocks = parts.iter().filter(|(_, part)| part.overlaps(rows));
            blocks.map(|(block, _)| *block).collect::<BlockSet>()
        };
        let asked = within(asked);
        if asked.is_empty() {
            continue;
        }
        let access = Access {
            readable: all.difference(within(&facts.unreadable)),
            cached: within(&facts.cached),
            writable: all.difference(facts.unwritable),
        };
        segments.push(Segment { rows, asked, access });
    }
    segments
}
