//! Machine words on simulated cache lines.

use super::{SimCpu, SimPlatform};
use crate::coherence::{Access, Operation, Request, WordId};
use crate::executor::Step;
use raid::platform::{Ordering, Word};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Memory whose words share lines as their offsets say.
#[derive(Clone, Debug)]
pub struct SimRegion {
    start_bytes: u32,
    length_bytes: u32,
    line_bytes: u32,
    first_line: u32,
}

impl SimRegion {
    pub(super) fn new(platform: &SimPlatform, start_bytes: u32, length_bytes: u32) -> Self {
        let world = platform.world();
        let line_bytes = world.machine.shape.line_bytes;
        let memory = &mut world.state.borrow_mut().memory;
        let first_line = memory.add_line();
        let last = (start_bytes + length_bytes.max(1) - 1) / line_bytes - start_bytes / line_bytes;
        for _ in 0..last {
            memory.add_line();
        }
        Self { start_bytes, length_bytes, line_bytes, first_line }
    }

    /// The line of the word at an offset.
    pub(super) fn line_at(&self, offset_bytes: u32) -> u32 {
        let at_bytes = self.start_bytes + offset_bytes;
        assert!(at_bytes.is_multiple_of(8), "a word lies at a multiple of 8 bytes");
        assert!(offset_bytes + 8 <= self.length_bytes, "a word lies within its region");
        self.first_line + at_bytes / self.line_bytes - self.start_bytes / self.line_bytes
    }
}

/// A word in the shared memory of a simulated machine.
pub struct SimWord {
    platform: SimPlatform,
    id: WordId,
}

impl SimWord {
    pub(super) fn new(platform: SimPlatform, id: WordId) -> Self {
        Self { platform, id }
    }

    #[inline]
    fn access(&self, operation: Operation, order: Ordering) -> Accessing<'_> {
        let access = Access { word: self.id, operation, order };
        Accessing { platform: &self.platform, access, begun: false }
    }
}

impl Word<SimPlatform> for SimWord {
    fn load(&self, _: &SimCpu, order: Ordering) -> impl Future<Output = u64> {
        self.access(Operation::Load, order)
    }

    async fn store(&self, _: &SimCpu, value: u64, order: Ordering) {
        self.access(Operation::Store(value), order).await;
    }

    async fn add(&self, _: &SimCpu, delta: u64, order: Ordering) {
        self.access(Operation::Add(delta), order).await;
    }

    fn fetch_add(&self, _: &SimCpu, delta: u64, order: Ordering) -> impl Future<Output = u64> {
        self.access(Operation::FetchAdd(delta), order)
    }

    fn fetch_or(&self, _: &SimCpu, bits: u64, order: Ordering) -> impl Future<Output = u64> {
        self.access(Operation::FetchOr(bits), order)
    }

    fn swap(&self, _: &SimCpu, value: u64, order: Ordering) -> impl Future<Output = u64> {
        self.access(Operation::Swap(value), order)
    }

    fn swap_bits(
        &self,
        _: &SimCpu,
        mask: u64,
        value: u64,
        order: Ordering,
    ) -> impl Future<Output = u64> {
        self.access(Operation::SwapBits { mask, value }, order)
    }

    async fn compare_exchange(
        &self,
        _: &SimCpu,
        current: u64,
        new: u64,
        order: Ordering,
    ) -> Result<u64, u64> {
        let old = self.access(Operation::CompareExchange { current, new }, order).await;
        if old == current { Ok(old) } else { Err(old) }
    }

    async fn spin_until(&self, _: &SimCpu, order: Ordering, ready: impl Fn(u64) -> bool) -> u64 {
        let mut value = self.access(Operation::Load, order).await;
        while !ready(value) {
            value = Watch { word: self, waiting: false }.await;
        }
        value
    }
}

/// An access under way: what there is to do beside waiting is done by the executor, step by step.
struct Accessing<'a> {
    platform: &'a SimPlatform,
    access: Access,
    begun: bool,
}

impl Future for Accessing<'_> {
    type Output = u64;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<u64> {
        let world = self.platform.world();
        let state = &mut *world.state.borrow_mut();
        let task = state.running();
        if self.begun
            && let Some(old) = state.tasks[task].accessed.take()
        {
            return Poll::Ready(old);
        }
        state.begin_access(&world.machine, task, self.access);
        self.begun = true;
        Poll::Pending
    }
}

/// Waits until the core's copy of the word's line is invalidated, and fetches it again.
struct Watch<'a> {
    word: &'a SimWord,
    waiting: bool,
}

impl Future for Watch<'_> {
    type Output = u64;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<u64> {
        let state = &mut *self.word.platform.world().state.borrow_mut();
        let task = state.running();
        if self.waiting {
            return Poll::Ready(state.tasks[task].accessed.take().expect("the line has arrived"));
        }
        self.waiting = true;
        let id = self.word.id;
        let load = Access { word: id, operation: Operation::Load, order: Ordering::Relaxed };
        state.tasks[task].access = Some(load);
        let cpu = state.tasks[task].cpu;
        match state.memory.watch(id, task, cpu) {
            Some(line) => {
                state.set_step(task, Step::Watch { line, word: id.0 });
            }
            None => {
                let line = state.memory.line_of(id);
                let now_ns = state.now_ns;
                let request = Request::of_read(task, cpu, now_ns);
                state.memory.request(now_ns, line, request);
                state.set_step(task, Step::Line { line, exclusive: false });
                state.schedule_memory();
            }
        }
        Poll::Pending
    }
}
