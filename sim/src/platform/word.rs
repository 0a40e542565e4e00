//! Machine words on simulated cache lines.

use super::cpu::wait_for_drain;
use super::{SimCpu, SimPlatform};
use crate::coherence::{Begun, Operation, Request, WordId};
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
    fn access(&self, operation: Operation, order: Ordering) -> Access<'_> {
        Access { word: self, operation, order, stage: Stage::Begin }
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

/// How far an access has come.
enum Stage {
    Begin,
    /// It took effect; the core is still busy with it.
    Busy(u64),
    /// The line is under way.
    Requested,
}

struct Access<'a> {
    word: &'a SimWord,
    operation: Operation,
    order: Ordering,
    stage: Stage,
}

impl Future for Access<'_> {
    type Output = u64;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<u64> {
        let world = self.word.platform.world();
        let id = self.word.id;
        match self.stage {
            Stage::Busy(old) => return Poll::Ready(old),
            Stage::Requested | Stage::Begin => {}
        }
        let mut state = world.state.borrow_mut();
        let task = state.current.expect("only a running task reaches memory");
        let cpu = state.tasks[task].cpu;
        let now_ns = state.now_ns;
        // The load of a load-linked pair brings only a copy, and its store may have come too late.
        if matches!(self.stage, Stage::Requested)
            && (!self.operation.is_exclusive() || state.tasks[task].arrived_exclusive)
        {
            let old = state.memory.apply(id, self.operation);
            if !self.operation.is_exclusive() {
                return Poll::Ready(old);
            }
            // The line is there; the core has yet to change the word.
            state.begin_work(world.machine.core.rmw_hit_ns);
            drop(state);
            self.stage = Stage::Busy(old);
            return Poll::Pending;
        }
        let what = (self.operation, self.order);
        match state.memory.begin(&world.machine, now_ns, (task, cpu), id, what) {
            Begun::Done { old, busy_ns } => {
                state.begin_work(busy_ns);
                state.schedule_memory();
                drop(state);
                self.stage = Stage::Busy(old);
            }
            Begun::Requested { line, exclusive } => {
                state.set_step(Step::Line { line, exclusive });
                state.schedule_memory();
                drop(state);
                self.stage = Stage::Requested;
            }
            Begun::MustDrain => {
                drop(state);
                wait_for_drain(&self.word.platform);
            }
        }
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
        let world = self.word.platform.world();
        let id = self.word.id;
        let state = &mut *world.state.borrow_mut();
        if self.waiting {
            return Poll::Ready(state.memory.apply(id, Operation::Load));
        }
        self.waiting = true;
        let task = state.current.expect("only a running task reaches memory");
        let cpu = state.tasks[task].cpu;
        match state.memory.watch(id, task, cpu) {
            Some(line) => {
                state.set_step(Step::Watch { line, word: id.0 });
            }
            None => {
                let line = state.memory.line_of(id);
                let now_ns = state.now_ns;
                let request = Request::of_read(task, cpu, now_ns);
                state.memory.request(now_ns, line, request);
                state.set_step(Step::Line { line, exclusive: false });
                state.schedule_memory();
            }
        }
        Poll::Pending
    }
}
