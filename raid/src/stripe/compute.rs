//! Carries out what a plan computes, on memory.
//!
//! Pure: never does I/O, and never decides.

use super::contents::{Contents, Drafts};
use super::head::{HEAD_SECTORS, Head};
use crate::layout::parity::{Block, StripeMap};
use crate::levels::parity::blocks::{BlockSet, Rows};
use crate::levels::parity::plan::{ParityStep, Recovery, StripePlan};
use crate::parity;

/// What is known of a batch: what is on the members, or would be if they worked.
pub(super) struct Known<'a> {
    pub(super) contents: &'a Contents,
    pub(super) heads: &'a [Head],
    /// Where the heads begin within the chunk, in sectors.
    pub(super) heads_start: u64,
}

impl<'a> Known<'a> {
    /// The bytes of some rows that a plan says are known.
    fn bytes(&self, block: Block, rows: Rows) -> Option<&'a [u8]> {
        self.contents.find(block, rows).or_else(|| {
            let index = (rows.start.0 - self.heads_start) / HEAD_SECTORS;
            let start = self.heads_start + index * HEAD_SECTORS;
            let in_one_head = rows.end.0 <= start + HEAD_SECTORS;
            in_one_head.then(|| self.heads[index as usize].find(block, start, rows)).flatten()
        })
    }

    pub(super) fn must(&self, block: Block, rows: Rows) -> &'a [u8] {
        self.bytes(block, rows).unwrap_or_else(|| panic!("{block} {rows} was planned to be known"))
    }
}

/// Data, indexed by exponent, for those blocks of which `of` has it.
fn by_exponent<'a>(
    map: StripeMap,
    of: impl Fn(Block) -> Option<&'a [u8]>,
) -> Vec<Option<&'a [u8]>> {
    let mut blocks = Vec::new();
    for data in 0..map.data_count() {
        let exponent = map.exponent(data) as usize;
        if blocks.len() <= exponent {
            blocks.resize(exponent + 1, None);
        }
        blocks[exponent] = of(Block::Data(data));
    }
    blocks
}

/// The data that the plans put together.
pub(super) fn recover(plans: &[StripePlan], known: &Known<'_>) -> Drafts {
    let lost = |plan: &StripePlan| plan.recovery.map_or(BlockSet::EMPTY, Recovery::lost);
    let mut drafts = Drafts::new(plans, lost);
    for plan in plans {
        let Some(recovery) = plan.recovery else { continue };
        let (map, rows) = (plan.map, plan.rows);
        let lost = recovery.lost();
        let left =
            by_exponent(map, |block| (!lost.contains(block)).then(|| known.must(block, rows)));
        match recovery {
            Recovery::FromP(one) => {
                let into = drafts.get(Block::Data(one), rows);
                parity::recover_from_p(&left, known.must(Block::P, rows), into);
            }
            Recovery::FromQ(one) => {
                let into = drafts.get(Block::Data(one), rows);
                let q = known.must(Block::Q, rows);
                parity::recover_from_q(&left, map.exponent(one), q, into);
            }
            Recovery::FromBoth(one, other) => {
                let p_and_q = (known.must(Block::P, rows), known.must(Block::Q, rows));
                let blocks = [one, other].map(Block::Data);
                let [first, second] = drafts.get_many(blocks, rows);
                let first = (map.exponent(one), first);
                parity::recover_two(&left, p_and_q, first, (map.exponent(other), second));
            }
        }
    }
    drafts
}

/// The parity that the plans bring up to date, given the data that they write.
pub(super) fn update_parity(plans: &[StripePlan], known: &Known<'_>, new: &Contents) -> Drafts {
    let mut drafts = Drafts::new(plans, |plan| plan.parity.blocks());
    for plan in plans {
        match plan.parity {
            ParityStep::Nothing => {}
            ParityStep::Compute(blocks) => {
                let of = |block| Some(current(plan, block, known, new));
                compute(&by_exponent(plan.map, of), blocks, plan.rows, &mut drafts);
            }
            ParityStep::Update(blocks) => update(plan, blocks, known, new, &mut drafts),
        }
    }
    drafts
}

/// The content of a data block once the plan is done.
fn current<'a>(plan: &StripePlan, block: Block, known: &Known<'a>, new: &'a Contents) -> &'a [u8] {
    match plan.new.contains(block) {
        true => new.find(block, plan.rows).expect("the caller has the data that it writes"),
        false => known.must(block, plan.rows),
    }
}

fn compute(data: &[Option<&[u8]>], blocks: BlockSet, rows: Rows, drafts: &mut Drafts) {
    match (blocks.contains(Block::P), blocks.contains(Block::Q)) {
        (true, true) => {
            let [p, q] = drafts.get_many([Block::P, Block::Q], rows);
            parity::compute_p_and_q(data, p, q);
        }
        (true, false) => parity::compute_p(data, drafts.get(Block::P, rows)),
        (false, true) => parity::compute_q(data, drafts.get(Block::Q, rows)),
        (false, false) => {}
    }
}

fn update(
    plan: &StripePlan,
    blocks: BlockSet,
    known: &Known<'_>,
    new: &Contents,
    drafts: &mut Drafts,
) {
    let rows = plan.rows;
    for block in blocks.iter() {
        drafts.get(block, rows).copy_from_slice(known.must(block, rows));
    }
    for block in plan.new.iter() {
        let Block::Data(data) = block else { unreachable!("the caller writes data only") };
        let old = known.must(block, rows);
        let mut delta = current(plan, block, known, new).to_vec();
        parity::xor_into(&mut delta, old);
        if blocks.contains(Block::P) {
            parity::xor_into(drafts.get(Block::P, rows), &delta);
        }
        if blocks.contains(Block::Q) {
            parity::update_q(drafts.get(Block::Q, rows), plan.map.exponent(data), &delta);
        }
    }
}
