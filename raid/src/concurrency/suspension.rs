//! Suspension: keeps requests from being handed out while the array stands still as a whole.
//!
//! Each request looks at `suspended`, counts itself in `active_io` while it is being handed to the
//! members, and counts itself off when that is done; both words lie side by side, as in md's
//! `mddev`. What the members still work on is not this file's business: the barrier waits for that.

use crate::lock::{SpinKind, WaitQueue};
use crate::platform::{Label, Ordering, Place, Platform, Word};

const MINUS_ONE: u64 = u64::MAX;

/// The gate in front of the submission path.
pub(crate) struct Suspension<P: Platform> {
    /// How often the array is suspended.
    suspended: P::Word,
    /// Requests that are being handed to the members.
    active_io: P::Word,
    wait: WaitQueue<P>,
}

impl<P: Platform> Suspension<P> {
    pub(crate) fn new(platform: &P, kind: SpinKind) -> Self {
        let region = platform.region(Label::new("mddev"), 0, 16);
        let place = |offset_bytes| Place::Within { region: &region, offset_bytes };
        Self {
            suspended: platform.word(Label::new("suspended"), place(0), 0),
            active_io: platform.word(Label::new("active_io"), place(8), 0),
            wait: WaitQueue::new(platform, Label::new("sb_wait"), kind, Place::Alone),
        }
    }

    /// A request enters the submission path. Waits while the array is suspended.
    pub(crate) async fn enter(&self, cpu: &P::Cpu) {
        loop {
            // Looked at first, as the driver does, so that those who wait leave the count alone.
            if self.suspended.load(cpu, Ordering::Acquire).await == 0 {
                self.active_io.add(cpu, 1, Ordering::AcqRel).await;
                // And again, because the suspension may have come in between: one who suspends
                // reads the count by a read-modify-write after it has set `suspended`, so either it
                // sees this request, or this request sees the suspension.
                if self.suspended.load(cpu, Ordering::Acquire).await == 0 {
                    return;
                }
                self.leave(cpu).await;
            }
            let resumed = async || self.suspended.load(cpu, Ordering::Acquire).await == 0;
            self.wait.wait_until(cpu, resumed).await;
        }
    }

    /// The request has been handed to the members.
    pub(crate) async fn leave(&self, cpu: &P::Cpu) {
        let before = self.active_io.fetch_add(cpu, MINUS_ONE, Ordering::AcqRel).await;
        assert!(before > 0, "a request leaves that never entered");
        if before == 1 && self.suspended.load(cpu, Ordering::Acquire).await != 0 {
            self.wait.wake_all(cpu).await;
        }
    }

    /// Keeps requests out, and waits until none is being handed out. Suspensions nest.
    pub(crate) async fn suspend(&self, cpu: &P::Cpu) {
        self.suspended.fetch_add(cpu, 1, Ordering::AcqRel).await;
        let idle = async || self.active_io.fetch_add(cpu, 0, Ordering::AcqRel).await == 0;
        self.wait.wait_until(cpu, idle).await;
    }

    /// Undoes one [`suspend`](Self::suspend).
    pub(crate) async fn resume(&self, cpu: &P::Cpu) {
        let before = self.suspended.fetch_add(cpu, MINUS_ONE, Ordering::AcqRel).await;
        assert!(before > 0, "the array is resumed as often as it was suspended");
        self.wait.wake_all(cpu).await;
    }
}
