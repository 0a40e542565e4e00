//! Tasks: a future, the core that it is on, and what it is doing.
//!
//! States: `Runnable` (in a core's queue) → `Running` (its core's current task) → `Blocked` (waits
//! for a wake-up) → `Runnable`; or it ends. A running task has a `Step` under way whenever it is
//! not being polled.

use crate::coherence::Access;
use crate::platform::HeldLock;
use raid::platform::Label;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};

/// A slot in the table of tasks. Reused after a task has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TaskId(pub(crate) u32);

/// What keeps a running task's core busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing: it is being polled, or it does not run.
    None,
    /// Work of a known length.
    Work,
    /// It waits for this line to arrive.
    Line { line: u32, exclusive: bool },
    /// It spins: it has a copy of the line and waits for it to be invalidated.
    Watch { line: u32, word: u32 },
    /// It waits for its core's store buffer to drain.
    Drain,
}

/// Where a task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskState {
    Runnable,
    Running,
    Blocked,
}

pub(crate) type TaskFuture = Pin<Box<dyn Future<Output = ()>>>;

/// One task.
pub(crate) struct Task {
    future: Option<TaskFuture>,
    waker: Option<Waker>,
    generation: u32,
    alive: bool,
    pub(crate) label: Label,
    /// Tasks of one group (a process) switch among themselves for free.
    pub(crate) group: u32,
    pub(crate) cpu: u32,
    pub(crate) state: TaskState,
    pub(crate) step: Step,
    /// What it does to a word, while a step of that is under way.
    pub(crate) access: Option<Access>,
    /// The old value of the word that it reached last, until it takes note of it.
    pub(crate) accessed: Option<u64>,
    /// It was woken since it last began to be polled.
    pub(crate) wake_pending: bool,
    /// It gave the core up of its own will and stands in the run queue.
    pub(crate) yielded: bool,
    /// Another task starts it and lets it come to where it waits for a drive, even for one that is
    /// done: it cannot go on from there while the other has the core.
    pub(crate) is_starting: bool,
    /// Stretches in which it may not sleep.
    pub(crate) atomic_depth: u32,
    /// What it waits for when it is blocked, if it said so.
    pub(crate) waits_for: Option<Label>,
    /// Locks that it holds or waits for, outermost first.
    pub(crate) locks: Vec<HeldLock>,
}

impl Task {
    /// Takes the future out to be polled.
    #[inline]
    pub(crate) fn begin_poll(&mut self) -> (TaskFuture, Waker) {
        self.step = Step::None;
        self.wake_pending = false;
        self.yielded = false;
        self.waits_for = None;
        let future = self.future.take().expect("a task is polled once at a time");
        (future, self.waker.take().expect("a task is polled once at a time"))
    }

    /// Puts it back.
    #[inline]
    pub(crate) fn end_poll(&mut self, future: TaskFuture, waker: Waker) {
        self.future = Some(future);
        self.waker = Some(waker);
    }
}

/// The table of tasks.
pub(crate) struct Tasks {
    slots: Vec<Task>,
    free: Vec<u32>,
    alive: u32,
    woken: Arc<WokenList>,
}

impl Tasks {
    pub(crate) fn new(woken: Arc<WokenList>) -> Self {
        Self { slots: Vec::new(), free: Vec::new(), alive: 0, woken }
    }

    pub(crate) fn insert(
        &mut self,
        future: TaskFuture,
        label: Label,
        group: u32,
        cpu: u32,
    ) -> TaskId {
        let index = self.free.pop().unwrap_or(self.slots.len() as u32);
        let generation = self.slots.get(index as usize).map_or(0, |old| old.generation + 1);
        let waker = TaskWaker { task: TaskId(index), generation, list: self.woken.clone() };
        let task = Task {
            future: Some(future),
            waker: Some(Waker::from(Arc::new(waker))),
            generation,
            alive: true,
            label,
            group,
            cpu,
            state: TaskState::Runnable,
            step: Step::None,
            access: None,
            accessed: None,
            wake_pending: false,
            yielded: false,
            is_starting: false,
            atomic_depth: 0,
            waits_for: None,
            locks: Vec::new(),
        };
        if index as usize == self.slots.len() {
            self.slots.push(task);
        } else {
            self.slots[index as usize] = task;
        }
        self.alive += 1;
        TaskId(index)
    }

    /// Forgets a task that has ended.
    pub(crate) fn remove(&mut self, id: TaskId) {
        let task = &mut self[id];
        assert_eq!(task.atomic_depth, 0, "task {} ended with a lock held", task.label);
        task.alive = false;
        self.free.push(id.0);
        self.alive -= 1;
    }

    /// Whether a waker's task is still the one that it was made for.
    pub(crate) fn is_current(&self, id: TaskId, generation: u32) -> bool {
        let task = &self[id];
        task.alive && task.generation == generation
    }

    pub(crate) fn alive_count(&self) -> u32 {
        self.alive
    }

    pub(crate) fn iter_alive(&self) -> impl Iterator<Item = &Task> {
        self.slots.iter().filter(|task| task.alive)
    }

    /// Takes every future out, to be dropped where nothing is borrowed.
    pub(crate) fn take_futures(&mut self) -> Vec<TaskFuture> {
        self.slots.iter_mut().filter_map(|task| task.future.take()).collect()
    }
}

impl std::ops::Index<TaskId> for Tasks {
    type Output = Task;
    fn index(&self, id: TaskId) -> &Task {
        &self.slots[id.0 as usize]
    }
}

impl std::ops::IndexMut<TaskId> for Tasks {
    fn index_mut(&mut self, id: TaskId) -> &mut Task {
        &mut self.slots[id.0 as usize]
    }
}

/// Tasks woken through a standard waker. The simulator's own primitives do not need it; it serves
/// futures from elsewhere, such as channels.
#[derive(Default)]
pub(crate) struct WokenList {
    any: AtomicBool,
    tasks: Mutex<Vec<(TaskId, u32)>>,
}

impl WokenList {
    /// Whether anything was woken since the last call of [`take`](Self::take).
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// What was woken since the last call, in order.
    pub(crate) fn take(&self) -> Vec<(TaskId, u32)> {
        self.any.store(false, Ordering::Relaxed);
        std::mem::take(&mut self.tasks.lock().expect("no panic happens under this lock"))
    }
}

struct TaskWaker {
    task: TaskId,
    generation: u32,
    list: Arc<WokenList>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut tasks = self.list.tasks.lock().expect("no panic happens under this lock");
        tasks.push((self.task, self.generation));
        self.list.any.store(true, Ordering::Relaxed);
    }
}
