//! The core that a task runs on, as the engine sees it.

use crate::executor::Core;
use crate::platform::RealPlatform;
use raid::buffer::Buffer;
use raid::platform::{Cpu, Label, Ordering, Work};
use raid::units::CpuId;
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::sync::atomic::fence;
use std::task::Poll;

/// A handle on the core whose thread this is.
#[derive(Clone)]
pub struct RealCpu(Rc<Core>);

impl RealCpu {
    pub(crate) fn new(core: Rc<Core>) -> Self {
        Self(core)
    }

    pub(crate) fn core(&self) -> &Rc<Core> {
        &self.0
    }

    /// Registers memory with this core's ring, which makes requests with it cheaper when they are
    /// submitted here. The number of buffers that were registered, from the front: the rest hits
    /// a limit of the system (locked memory), or there is no ring. They work all the same.
    ///
    /// The kernel holds the pages until the machine ends: register what lives long.
    ///
    /// # Panics
    /// If a buffer has been split or shared.
    pub fn register_buffers(&self, buffers: &mut [Buffer]) -> usize {
        let mut io = self.0.io.borrow_mut();
        buffers.iter_mut().map_while(|buffer| io.register_buffer(buffer).then_some(())).count()
    }

    /// Whether this core's requests go through io_uring.
    pub fn uses_io_uring(&self) -> bool {
        self.0.io.borrow().is_ring()
    }
}

impl Cpu<RealPlatform> for RealCpu {
    #[inline]
    fn platform(&self) -> &RealPlatform {
        &self.0.platform
    }

    #[inline]
    fn id(&self) -> CpuId {
        self.0.id
    }

    #[inline]
    fn now_ns(&self) -> u64 {
        self.0.platform.now_ns()
    }

    fn spawn(&self, label: Label, task: impl Future<Output = ()> + 'static) {
        self.0.spawn(label, task);
    }

    async fn sleep_ns(&self, duration_ns: u64) {
        let deadline_ns = self.now_ns().saturating_add(duration_ns);
        let mut left = None;
        poll_fn(|context| {
            if self.now_ns() >= deadline_ns {
                return Poll::Ready(());
            }
            let waker = context.waker();
            if !left.as_ref().is_some_and(|left| waker.will_wake(left)) {
                left = Some(waker.clone());
                self.0.timers.borrow_mut().add(deadline_ns, waker.clone());
            }
            Poll::Pending
        })
        .await;
    }

    #[inline]
    async fn spend(&self, _work: Work) {}

    async fn yield_now(&self) {
        let mut yielded = false;
        poll_fn(|context| {
            if yielded {
                return Poll::Ready(());
            }
            yielded = true;
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }

    #[inline]
    async fn fence(&self, order: Ordering) {
        fence(order);
    }

    #[inline]
    fn enter_atomic(&self) {
        self.0.atomic_depth.set(self.0.atomic_depth.get() + 1);
    }

    #[inline]
    fn leave_atomic(&self) {
        let depth = self.0.atomic_depth.get();
        assert!(depth > 0, "left an atomic stretch that was not entered");
        self.0.atomic_depth.set(depth - 1);
    }
}
