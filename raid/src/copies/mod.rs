//! Arrays that hold each sector one or several times, as it is: no parity. A read needs one copy, a
//! write goes to all.
//!
//! Requests and background jobs (`resync.rs`, `reconcile.rs`) are kept apart by the resync barrier.
//! What to do is decided by the pure planners of [`crate::levels`]; `execute.rs` does it.

mod check;
mod dispatched;
mod execute;
mod reconcile;
mod recover;
mod resync;

use crate::common::Common;
use crate::concurrency::barrier::Barrier;
use crate::device::IoError;
use crate::error::ArrayError;
use crate::layout::{Location, Locations};
use crate::levels::CopyLevel;
use crate::platform::{Label, Ordering, Place, Platform, Word};
use crate::records::Records;
use crate::request::Extent;
use crate::tuning::Tuning;
use crate::units::{MemberIndex, SECTOR_BYTES, Sector, Sectors};
pub(crate) use dispatched::Dispatching;

/// Sectors of the unit in which damaged pieces are looked through, if the logical block is no
/// larger: a page. Two copies with one bad sector each lose nothing, unless both are in one unit.
const REPAIR_UNIT_SECTORS: u64 = 8;

/// An array of copies.
pub(crate) struct CopyArray<P: Platform> {
    pub(crate) common: Common<P>,
    pub(crate) level: CopyLevel,
    barrier: Barrier<P>,
    /// How writes get to the members, if not by their own tasks.
    pub(crate) dispatching: Option<Box<Dispatching<P>>>,
    /// Below this sector all copies are known to agree. Above, reads stay with the first copy.
    copies_agree_below: P::Word,
}

impl<P: Platform> CopyArray<P> {
    pub(crate) fn new(
        platform: &P,
        common: Common<P>,
        level: CopyLevel,
        barrier: Barrier<P>,
        tuning: Tuning,
    ) -> Self {
        let has_bitmap = common.records.as_ref().is_some_and(Records::has_bitmap);
        let dispatching = has_bitmap.then(|| Dispatching::new(platform, tuning)).flatten();
        let agree_below = level.layout().capacity().0;
        let label = Label::new("copies_agree_below");
        Self {
            barrier,
            dispatching,
            copies_agree_below: platform.word(label, Place::Alone, agree_below),
            common,
            level,
        }
    }

    pub(crate) fn capacity(&self) -> Sectors {
        self.level.layout().capacity()
    }

    /// Here and not in `Array`, so that the flush of a job shows in traces too.
    #[tracing::instrument(level = "trace", skip_all)]
    pub(crate) async fn flush(&self, cpu: &P::Cpu) -> Result<(), ArrayError> {
        self.common.suspension.enter(cpu).await;
        let fail = async |member, cause: &IoError| self.fail_member(cpu, member, cause).await;
        let result = self.common.flush_members(cpu, fail).await;
        self.common.suspension.leave(cpu).await;
        result
    }

    pub(crate) async fn suspend(&self, cpu: &P::Cpu) {
        self.common.suspension.suspend(cpu).await;
        self.common.claims.claim(cpu, self.whole()).await;
        self.barrier.raise(cpu, false).await;
    }

    pub(crate) async fn resume(&self, cpu: &P::Cpu) {
        self.barrier.lower(cpu).await;
        self.common.claims.release(cpu, self.whole()).await;
        self.common.suspension.resume(cpu).await;
    }

    /// Takes a member out after `cause`, if the array survives that.
    async fn fail_member(&self, cpu: &P::Cpu, index: MemberIndex, cause: &IoError) -> bool {
        self.common.fail_member(cpu, index, cause, |live| self.level.survives_on(live)).await
    }

    /// A member did not take its copy of `piece`. Whether the array can do without, and says so.
    async fn write_failed(
        &self,
        cpu: &P::Cpu,
        piece: Extent,
        location: Location,
        cause: &IoError,
    ) -> bool {
        let Location { member, at } = location;
        let redundant_here = async || {
            for other in self.with_replacements(self.level.layout().locations(piece.at)) {
                let extent = Extent { at: other.at, length: piece.length };
                let reader = self.common.member(other.member);
                if other.member != member && reader.may_read(cpu, extent).await {
                    return true;
                }
            }
            false
        };
        let extent = Extent { at, length: piece.length };
        let survives = |live: &dyn Fn(MemberIndex) -> bool| self.level.survives_on(live);
        self.common.write_failed(cpu, member, extent, cause, redundant_here, survives).await
    }

    /// The places of a plan, with those on replacements, and with members that are to be read only
    /// when nothing else can be at the end.
    fn with_replacements(&self, mut locations: Locations) -> Locations {
        let common = &self.common;
        if common.has_replacements() {
            let replacement = |location: &Location| {
                let member = common.replacement_of(location.member)?;
                Some(Location { member, at: location.at })
            };
            let more: Locations = locations.iter().filter_map(replacement).collect();
            locations.extend(more);
        }
        if common.has_write_mostly {
            // A stable sort.
            locations.sort_by_key(|location| common.member(location.member).is_write_mostly());
        }
        locations
    }

    /// Cuts a piece into units in which damage is looked for, and where a member begins or ceases
    /// to be readable: within a part, each member can be asked for all of it or for nothing.
    async fn parts(&self, cpu: &P::Cpu, piece: Extent) -> Vec<Extent> {
        let mut cuts = Vec::new();
        for Location { member, at } in
            self.with_replacements(self.level.layout().locations(piece.at))
        {
            let extent = Extent { at, length: piece.length };
            for boundary in self.common.member(member).boundaries(cpu, extent).await {
                cuts.push(piece.at + (boundary - at));
            }
        }
        let block = u64::from(self.common.logical_block_bytes) / SECTOR_BYTES;
        let unit = Sectors(block.max(REPAIR_UNIT_SECTORS));
        cuts.extend(piece.split(unit).map(Extent::end));
        cuts.sort_unstable();
        cuts.dedup();
        let mut at = piece.at;
        let part = |end| {
            let part = Extent { at, length: end - at };
            at = end;
            part
        };
        cuts.into_iter().map(part).collect()
    }

    /// Whether all copies of `extent` are known to agree.
    async fn copies_agree(&self, cpu: &P::Cpu, extent: Extent) -> bool {
        extent.end().0 <= self.copies_agree_below.load(cpu, Ordering::Acquire).await
    }

    /// The copies may differ from `at` on.
    pub(crate) async fn distrust_from(&self, cpu: &P::Cpu, at: Sector) {
        let mut current = self.copies_agree_below.load(cpu, Ordering::Relaxed).await;
        while at.0 < current {
            let word = &self.copies_agree_below;
            match word.compare_exchange(cpu, current, at.0, Ordering::AcqRel).await {
                Ok(_) => return,
                Err(now) => current = now,
            }
        }
    }

    /// The copies agree everywhere. The caller sees to it that no write is under way.
    pub(crate) async fn trust_everywhere(&self, cpu: &P::Cpu) {
        let capacity = self.capacity().0;
        self.copies_agree_below.store(cpu, capacity, Ordering::Release).await;
    }

    /// The copies of `extent` agree now. That says something new only if they agreed up to it.
    async fn trust_again(&self, cpu: &P::Cpu, extent: Extent) {
        let current = self.copies_agree_below.load(cpu, Ordering::Acquire).await;
        if extent.at.0 <= current && current < extent.end().0 {
            // If it changed meanwhile, a write has failed, and what it distrusts stays so.
            let word = &self.copies_agree_below;
            let _ = word.compare_exchange(cpu, current, extent.end().0, Ordering::AcqRel).await;
        }
    }

    /// The claim of a job that needs the whole array.
    fn whole(&self) -> Extent {
        Extent { at: Sector(0), length: self.capacity() }
    }
}
