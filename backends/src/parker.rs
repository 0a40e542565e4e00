//! Where a task sleeps until another task, perhaps on another core, wakes it.

use crate::cpu::RealCpu;
use crate::platform::RealPlatform;
use atomic_waker::AtomicWaker;
use raid::platform::Parker;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

#[derive(Default)]
struct State {
    permit: AtomicBool,
    sleeper: AtomicWaker,
}

/// A place to sleep for one task at a time, with room for one permit.
#[derive(Clone, Default)]
pub struct RealParker(Arc<State>);

impl State {
    /// Takes the permit if there is one. Acquire: what was written before `unpark` is seen.
    fn take_permit(&self) -> bool {
        self.permit.swap(false, Ordering::AcqRel)
    }
}

impl Parker<RealPlatform> for RealParker {
    async fn park(&self, _cpu: &RealCpu) {
        poll_fn(|context| {
            if self.0.take_permit() {
                return Poll::Ready(());
            }
            self.0.sleeper.register(context.waker());
            // A permit that came before the registration woke nobody: look again.
            if self.0.take_permit() {
                return Poll::Ready(());
            }
            Poll::Pending
        })
        .await
    }

    async fn unpark(&self, _cpu: &RealCpu) {
        self.0.permit.store(true, Ordering::Release);
        self.0.sleeper.wake();
    }
}
