//! How to read and write some rows of a stripe, given which of its blocks can be read and written.
//!
//! A write updates parity in the way that reads least:
//! - *reconstruct-write*: read the data that is not written, compute parity anew. Nothing has to be
//!   read if all data is written: a full-stripe write;
//! - *read-modify-write*: read what is overwritten and the parity, add the change;
//! - where neither is possible since data is lost, put that together first from everything else.
//!
//! On a tie parity is computed anew, as in md. Pure: plans are values.

use super::blocks::{BlockSet, Rows};
use crate::layout::parity::{Block, StripeMap};
use std::fmt;

/// What can be done with the blocks of a stripe, in some rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Their members give them back, up to date.
    pub readable: BlockSet,
    /// Known without a read.
    pub cached: BlockSet,
    /// Their members take writes.
    pub writable: BlockSet,
}

/// What to do with some rows of a stripe: read, put lost data together, bring parity up to date,
/// write, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StripePlan {
    /// The stripe, and where its blocks lie.
    pub map: StripeMap,
    /// The rows.
    pub rows: Rows,
    /// New data that the caller has.
    pub new: BlockSet,
    /// To be read from their members.
    pub reads: BlockSet,
    /// Needed, and known without a read.
    pub cached: BlockSet,
    /// Data to be put together from what is known then.
    pub recovery: Option<Recovery>,
    /// What becomes of parity.
    pub parity: ParityStep,
    /// To be written to their members.
    pub writes: BlockSet,
}

/// Which data blocks come back, and from what besides all other data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// One, from P.
    FromP(u32),
    /// One, from Q.
    FromQ(u32),
    /// Two, from P and Q.
    FromBoth(u32, u32),
}

/// How parity is brought up to date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParityStep {
    /// Nothing changes, or nobody holds parity here.
    Nothing,
    /// These are computed from all data.
    Compute(BlockSet),
    /// The change of the new data is added to these.
    Update(BlockSet),
}

/// More is lost than redundancy covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} are lost, more than parity can replace")]
pub struct Lost(
    /// What is neither readable nor known.
    pub BlockSet,
);

impl ParityStep {
    /// The blocks that are up to date afterwards.
    pub fn blocks(self) -> BlockSet {
        match self {
            Self::Nothing => BlockSet::EMPTY,
            Self::Compute(blocks) | Self::Update(blocks) => blocks,
        }
    }
}

impl Recovery {
    /// The parity that it takes.
    pub fn parity(self) -> BlockSet {
        match self {
            Self::FromP(_) => [Block::P].into_iter().collect(),
            Self::FromQ(_) => [Block::Q].into_iter().collect(),
            Self::FromBoth(..) => [Block::P, Block::Q].into_iter().collect(),
        }
    }

    /// The data that comes back.
    pub fn lost(self) -> BlockSet {
        match self {
            Self::FromP(one) | Self::FromQ(one) => [Block::Data(one)].into_iter().collect(),
            Self::FromBoth(one, other) => [one, other].map(Block::Data).into_iter().collect(),
        }
    }
}

/// How to know `wanted`: what can be read is read, what is lost is put together.
///
/// # Errors
/// [`Lost`].
pub fn plan_read(
    map: StripeMap,
    rows: Rows,
    wanted: BlockSet,
    access: Access,
) -> Result<StripePlan, Lost> {
    let known = access.readable.union(access.cached);
    let all: BlockSet = map.blocks().collect();
    let data = BlockSet::data(map.data_count());
    let lost = wanted.difference(known);
    let mut needed = wanted.intersection(known);
    let mut recovery = None;
    if !lost.is_empty() {
        let used = recover(data, known).ok_or(Lost(all.difference(known)))?;
        needed = needed.union(data.intersection(known));
        if let Some((found, parity)) = used {
            recovery = Some(found);
            needed = needed.union(parity);
        }
    }
    let lost_parity = lost.difference(data);
    let parity = match lost_parity.is_empty() {
        true => ParityStep::Nothing,
        false => ParityStep::Compute(lost_parity),
    };
    let (new, writes) = (BlockSet::EMPTY, BlockSet::EMPTY);
    Ok(plan(map, rows, new, needed, access, recovery, parity, writes))
}

/// How to write the data blocks `new`.
///
/// # Errors
/// [`Lost`]: the data would have no place from which it could be read again, or parity cannot be
/// kept up to date.
pub fn plan_write(
    map: StripeMap,
    rows: Rows,
    new: BlockSet,
    access: Access,
) -> Result<StripePlan, Lost> {
    let data = BlockSet::data(map.data_count());
    let all: BlockSet = map.blocks().collect();
    let known = access.readable.union(access.cached);
    // Parity that can be written. What can be read too must not be left behind; what cannot is
    // worth a write only if it comes for free.
    let targets = all.difference(data).intersection(access.writable);
    let required = targets.intersection(access.readable);
    let untouched = data.difference(new);

    let mut candidates: Vec<(BlockSet, Option<Recovery>, ParityStep)> = Vec::with_capacity(4);
    // Of candidates with equal cost the first is taken.
    if untouched.is_subset_of(known) {
        candidates.push((untouched, None, ParityStep::Compute(targets)));
    }
    if required.is_empty() {
        candidates.push((BlockSet::EMPTY, None, ParityStep::Nothing));
    }
    if new.union(required).is_subset_of(known) {
        candidates.push((new.union(required), None, ParityStep::Update(required)));
    }
    if let Some(Some((recovery, parity))) = recover(data, known) {
        let needed = data.intersection(known).union(parity);
        candidates.push((needed, Some(recovery), ParityStep::Compute(targets)));
    }
    let reads_again = |parity: &ParityStep| {
        let lost = data.difference(access.readable).difference(new.intersection(access.writable));
        let without_place = new.difference(access.writable);
        without_place.is_empty() || lost.count() <= parity.blocks().count()
    };
    let cost = |needed: BlockSet| needed.difference(access.cached).count();
    let best = candidates.into_iter().filter(|(_, _, parity)| reads_again(parity));
    let Some((needed, recovery, parity)) = best.min_by_key(|(needed, ..)| cost(*needed)) else {
        return Err(Lost(all.difference(known)));
    };
    let writes = new.intersection(access.writable).union(parity.blocks());
    Ok(plan(map, rows, new, needed, access, recovery, parity, writes))
}

/// How to know all data: nothing if it is known, otherwise which parity is needed to put together
/// what is not. `None` if that cannot be done.
fn recover(data: BlockSet, known: BlockSet) -> Option<Option<(Recovery, BlockSet)>> {
    let lost = data.difference(known);
    let index = |block: Option<Block>| match block {
        Some(Block::Data(index)) => index,
        _ => unreachable!("a set of data blocks, counted"),
    };
    let [p, q] = [Block::P, Block::Q].map(|parity| known.contains(parity));
    let mut blocks = lost.iter();
    let recovery = match lost.count() {
        0 => return Some(None),
        1 if p => Recovery::FromP(index(blocks.next())),
        1 if q => Recovery::FromQ(index(blocks.next())),
        2 if p && q => Recovery::FromBoth(index(blocks.next()), index(blocks.next())),
        _ => return None,
    };
    Some(Some((recovery, recovery.parity())))
}

#[expect(clippy::too_many_arguments, reason = "the fields of a plan, each of a type of its own")]
fn plan(
    map: StripeMap,
    rows: Rows,
    new: BlockSet,
    needed: BlockSet,
    access: Access,
    recovery: Option<Recovery>,
    parity: ParityStep,
    writes: BlockSet,
) -> StripePlan {
    let parity = if parity.blocks().is_empty() { ParityStep::Nothing } else { parity };
    StripePlan {
        map,
        rows,
        new,
        reads: needed.difference(access.cached),
        cached: needed.intersection(access.cached),
        recovery,
        parity,
        writes,
    }
}

/// One line for what is done to which rows, then one for each step that is not empty.
impl fmt::Display for StripePlan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "stripe {}, sectors {}", self.map.stripe(), self.rows)?;
        if !self.new.is_empty() {
            write!(formatter, ", new {}", self.new)?;
        }
        let places = |formatter: &mut fmt::Formatter<'_>, what: &str, blocks: BlockSet| {
            if blocks.is_empty() {
                return Ok(());
            }
            write!(formatter, "\n  {what:<8}")?;
            for block in blocks.iter() {
                write!(formatter, " {block} of member {};", self.map.member(block))?;
            }
            Ok(())
        };
        places(formatter, "read", self.reads)?;
        if !self.cached.is_empty() {
            write!(formatter, "\n  cached   {}", self.cached)?;
        }
        match self.recovery {
            None => {}
            Some(Recovery::FromP(one)) => write!(formatter, "\n  recover  D{one} from P")?,
            Some(Recovery::FromQ(one)) => write!(formatter, "\n  recover  D{one} from Q")?,
            Some(Recovery::FromBoth(one, other)) => {
                write!(formatter, "\n  recover  D{one} D{other} from P and Q")?;
            }
        }
        match self.parity {
            ParityStep::Nothing => {}
            ParityStep::Compute(parity) => {
                write!(formatter, "\n  compute  {parity} from all data")?
            }
            ParityStep::Update(parity) => {
                write!(formatter, "\n  update   {parity} by the change of {}", self.new)?;
            }
        }
        places(formatter, "write", self.writes)
    }
}
