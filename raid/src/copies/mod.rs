//! Arrays that hold each sector one or several times, as it is: no parity. A read needs one copy, a
//! write goes to all.
//!
//! Requests and background jobs (`resync.rs`, `reconcile.rs`) are kept apart by the resync barrier.
//! What to do is decided by the pure planners of [`crate::levels`]; `execute.rs` does it.

mod execute;
mod reconcile;
pub(crate) mod resync;

use crate::common::Common;
use crate::concurrency::barrier::Barrier;
use crate::device::IoError;
use crate::error::ArrayError;
use crate::levels::Raid10;
use crate::platform::{Label, Ordering, Place, Platform, Word};
use crate::request::Extent;
use crate::units::{MemberIndex, Sector, Sectors};

/// An array of copies.
pub(crate) struct CopyArray<P: Platform> {
    pub(crate) common: Common<P>,
    pub(crate) level: Raid10,
    chunk: Sectors,
    barrier: Barrier<P>,
    /// Below this sector all copies are known to agree. Above, reads stay with the first copy.
    copies_agree_below: P::Word,
}

impl<P: Platform> CopyArray<P> {
    pub(crate) fn new(platform: &P, common: Common<P>, level: Raid10, barrier: Barrier<P>) -> Self {
        let agree_below = level.layout().capacity().0;
        let label = Label::new("copies_agree_below");
        Self {
            chunk: level.layout().chunk(),
            barrier,
            copies_agree_below: platform.word(label, Place::Alone, agree_below),
            common,
            level,
        }
    }

    pub(crate) fn capacity(&self) -> Sectors {
        self.level.layout().capacity()
    }

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
