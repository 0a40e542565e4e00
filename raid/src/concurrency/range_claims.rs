//! Which sectors background jobs work on. Two of them on the same sectors would undo each other: a
//! repair may write what a resync has just found to be outdated.
//!
//! Requests never come here; the barrier keeps them apart from background jobs. A job claims its
//! sectors before it raises the barrier and gives them back after it has lowered it, so nobody waits
//! for a claim inside the barrier.

use crate::lock::{SpinKind, SpinLock, WaitQueue};
use crate::platform::{Label, Place, Platform};
use crate::request::Extent;

/// The sectors that are claimed now: extents that do not overlap.
pub(crate) struct RangeClaims<P: Platform> {
    claims: SpinLock<P, Vec<Extent>>,
    wait: WaitQueue<P>,
}

impl<P: Platform> RangeClaims<P> {
    pub(crate) fn new(platform: &P, kind: SpinKind) -> Self {
        let label = Label::new("range_claims");
        Self {
            claims: SpinLock::new(platform, label, kind, Place::Alone, Vec::new()),
            wait: WaitQueue::new(platform, label, kind, Place::Alone),
        }
    }

    /// Waits until nobody works on any sector of `extent`, and claims it.
    pub(crate) async fn claim(&self, cpu: &P::Cpu, extent: Extent) {
        let try_claim = async || {
            let claim = async |claims: &mut Vec<Extent>| {
                let free = !claims.iter().any(|claimed| claimed.overlaps(extent));
                if free {
                    claims.push(extent);
                }
                free
            };
            self.claims.with(cpu, claim).await
        };
        self.wait.wait_until(cpu, try_claim).await;
    }

    /// Gives back what was claimed.
    pub(crate) async fn release(&self, cpu: &P::Cpu, extent: Extent) {
        let release = async |claims: &mut Vec<Extent>| {
            let index = claims.iter().position(|claimed| *claimed == extent);
            claims.swap_remove(index.expect("only a claimed extent is released"));
        };
        self.claims.with(cpu, release).await;
        self.wait.wake_all(cpu).await;
    }
}
