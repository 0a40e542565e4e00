//! The core that a task is on, and the ways to spend time on it.

use super::SimPlatform;
use crate::executor::{Kind, Step, TaskFuture, TaskState};
use crate::machine::Machine;
use raid::platform::{Cpu, Label, Ordering, Work};
use raid::units::CpuId;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The core of the task that is running now.
#[derive(Clone)]
pub struct SimCpu {
    platform: SimPlatform,
}

impl SimCpu {
    pub(crate) fn new(platform: SimPlatform) -> Self {
        Self { platform }
    }

    pub(crate) fn current_cpu(&self) -> u32 {
        let state = self.platform.world().state.borrow();
        let current = state.current.expect("only a running task is on a core");
        state.tasks[current].cpu
    }

    /// Keeps the core busy.
    pub(crate) fn work(&self, busy_ns: u64) -> impl Future<Output = ()> {
        Busy { platform: &self.platform, busy_ns, begun: false }
    }

    /// Starts a task on the running task's core, of its group, and lets it come to where it waits for
    /// a drive.
    ///
    /// # Panics
    /// If it does something else first.
    fn start_waiting(&self, future: TaskFuture, label: Label) {
        let world = self.platform.world();
        let (outer, id) = {
            let state = &mut *world.state.borrow_mut();
            let outer = state.running();
            let (group, cpu) = (state.tasks[outer].group, state.tasks[outer].cpu);
            (outer, state.tasks.insert(future, label, group, cpu))
        };
        let (mut future, waker) = {
            let state = &mut *world.state.borrow_mut();
            state.current = Some(id);
            state.tasks[id].is_starting = true;
            state.tasks[id].begin_poll()
        };
        let poll = future.as_mut().poll(&mut Context::from_waker(&waker));
        let state = &mut *world.state.borrow_mut();
        state.current = Some(outer);
        let task = &mut state.tasks[id];
        assert!(
            poll.is_pending() && task.step == Step::None,
            "task {label} waits for a drive first"
        );
        task.end_poll(future, waker);
        task.is_starting = false;
        if task.wake_pending {
            task.state = TaskState::Runnable;
            let cpu = task.cpu;
            state.cores.enqueue(cpu, id);
        } else {
            task.state = TaskState::Blocked;
        }
    }
}

impl Cpu<SimPlatform> for SimCpu {
    fn platform(&self) -> &SimPlatform {
        &self.platform
    }

    fn id(&self) -> CpuId {
        CpuId(self.current_cpu())
    }

    fn now_ns(&self) -> u64 {
        self.platform.world().state.borrow().now_ns
    }

    fn spawn(&self, label: Label, task: impl Future<Output = ()> + 'static) {
        let world = self.platform.world();
        let state = &mut *world.state.borrow_mut();
        let current = state.current.expect("only a running task is on a core");
        let (group, cpu) = (state.tasks[current].group, state.tasks[current].cpu);
        state.spawn(&world.machine, Box::pin(task), label, Some(group), cpu);
    }

    fn spawn_waiting(&self, label: Label, task: impl Future<Output = ()> + 'static) {
        self.start_waiting(Box::pin(task), label);
    }

    fn sleep_ns(&self, duration_ns: u64) -> impl Future<Output = ()> {
        Sleep { platform: &self.platform, duration_ns, timer: None }
    }

    fn spend(&self, work: Work) -> impl Future<Output = ()> {
        self.work(work_ns(&self.platform.world().machine, work))
    }

    fn yield_now(&self) -> impl Future<Output = ()> {
        Yield { platform: &self.platform, yielded: false }
    }

    fn fence(&self, order: Ordering) -> impl Future<Output = ()> {
        assert_ne!(order, Ordering::Relaxed, "a relaxed fence orders nothing");
        Fence { platform: &self.platform, full: order == Ordering::SeqCst }
    }

    fn enter_atomic(&self) {
        let state = &mut *self.platform.world().state.borrow_mut();
        let current = state.current.expect("only a running task is on a core");
        state.tasks[current].atomic_depth += 1;
    }

    fn leave_atomic(&self) {
        let state = &mut *self.platform.world().state.borrow_mut();
        let current = state.current.expect("only a running task is on a core");
        let depth = &mut state.tasks[current].atomic_depth;
        *depth = depth.checked_sub(1).expect("each atomic stretch is left once");
    }
}

fn work_ns(machine: &Machine, work: Work) -> u64 {
    match work {
        Work::Instructions(count) => u64::from(count) * machine.core.instruction_ps / 1000,
        Work::DriverSubmit => machine.software.driver_submit_ns,
        Work::DriverCompletion => machine.software.driver_complete_ns,
        Work::ApplicationSubmit => machine.software.application_submit_ns,
        Work::ApplicationReap => machine.software.application_reap_ns,
        Work::ArrayRequest => machine.software.array_request_ns,
        Work::ArrayCompletion => machine.software.array_completion_ns,
        Work::Copy(bytes) => bytes * 1000 / machine.core.copy_bytes_per_us,
    }
}

struct Busy<'a> {
    platform: &'a SimPlatform,
    busy_ns: u64,
    begun: bool,
}

impl Future for Busy<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.begun {
            return Poll::Ready(());
        }
        self.begun = true;
        let state = &mut *self.platform.world().state.borrow_mut();
        state.begin_work(state.running(), self.busy_ns);
        Poll::Pending
    }
}

/// Loads are in order here and stores leave their buffer in order, so only a full fence waits.
struct Fence<'a> {
    platform: &'a SimPlatform,
    full: bool,
}

impl Future for Fence<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let state = &mut *self.platform.world().state.borrow_mut();
        let task = state.running();
        if !self.full || state.memory.stores_drained(state.tasks[task].cpu) {
            return Poll::Ready(());
        }
        state.wait_for_drain(task);
        Poll::Pending
    }
}

struct Yield<'a> {
    platform: &'a SimPlatform,
    yielded: bool,
}

impl Future for Yield<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.yielded {
            return Poll::Ready(());
        }
        self.yielded = true;
        self.platform.world().state.borrow_mut().yield_current();
        Poll::Pending
    }
}

struct Sleep<'a> {
    platform: &'a SimPlatform,
    duration_ns: u64,
    timer: Option<u32>,
}

impl Future for Sleep<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let state = &mut *self.platform.world().state.borrow_mut();
        let current = state.current.expect("only a running task sleeps");
        state.tasks[current].waits_for = Some(Label::new("a timer"));
        match self.timer {
            Some(timer) if state.timers.has_fired(timer) => Poll::Ready(()),
            Some(_) => Poll::Pending,
            None => {
                let timer = state.timers.set(current);
                self.timer = Some(timer);
                state.schedule(self.duration_ns, Kind::Timer, timer);
                Poll::Pending
            }
        }
    }
}

impl Drop for Sleep<'_> {
    fn drop(&mut self) {
        if let Some(timer) = self.timer
            && let Ok(mut state) = self.platform.world().state.try_borrow_mut()
        {
            state.timers.release(timer);
        }
    }
}
