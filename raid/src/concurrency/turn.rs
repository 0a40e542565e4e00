//! A value that one task at a time has, also while it waits for I/O. The others sleep.
//!
//! Whoever takes the value gives it back; a task that was dropped in between leaves the others
//! asleep for ever, as with every lock of this crate.

use crate::lock::{SpinKind, SpinLock, WaitQueue};
use crate::platform::{Label, Place, Platform};

/// The value, or the knowledge that somebody has it.
pub(crate) struct Turn<P: Platform, T: Send + 'static> {
    value: SpinLock<P, Option<T>>,
    given_back: WaitQueue<P>,
}

impl<P: Platform, T: Send + 'static> Turn<P, T> {
    pub(crate) fn new(platform: &P, label: Label, kind: SpinKind, value: T) -> Self {
        Self {
            value: SpinLock::new(platform, label, kind, Place::Alone, Some(value)),
            given_back: WaitQueue::new(platform, label, kind, Place::Alone),
        }
    }

    /// Waits for the value and takes it.
    pub(crate) async fn take(&self, cpu: &P::Cpu) -> T {
        let mut taken = None;
        let try_take = async || {
            taken = self.value.with(cpu, async |value: &mut Option<T>| value.take()).await;
            taken.is_some()
        };
        self.given_back.wait_until(cpu, try_take).await;
        taken.expect("it was taken")
    }

    /// Gives it back.
    pub(crate) async fn give_back(&self, cpu: &P::Cpu, value: T) {
        let put = async |place: &mut Option<T>| {
            assert!(place.is_none(), "only what was taken is given back");
            *place = Some(value);
        };
        self.value.with(cpu, put).await;
        self.given_back.wake_one(cpu).await;
    }
}
