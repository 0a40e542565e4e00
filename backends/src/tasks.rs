//! The tasks of one core and the queue of those that can go on.
//!
//! Single-threaded, and never calls a future itself: whoever polls takes the future out and puts it
//! back, so that a task may start and wake others while it runs.

use raid::platform::Label;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;

/// A task's future: allocated once, when the task starts.
pub(crate) type TaskFuture = Pin<Box<dyn Future<Output = ()>>>;

/// Generations count up to here and start again. A wake-up that is that many tasks too late wakes
/// a task that did not ask for it, which futures allow.
pub(crate) const GENERATION_MASK: u32 = (1 << 20) - 1;

/// Which task of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TaskId {
    pub(crate) slot: u32,
    /// How many tasks had the slot before, modulo 2^20.
    pub(crate) generation: u32,
}

struct Slot {
    generation: u32,
    queued: bool,
    label: Label,
    /// Absent while the task runs, and when the slot is free.
    future: Option<TaskFuture>,
}

#[derive(Default)]
pub(crate) struct Tasks {
    slots: Vec<Slot>,
    free: Vec<u32>,
    ready: VecDeque<TaskId>,
}

impl Tasks {
    /// Takes in a task that is ready to run.
    pub(crate) fn insert(&mut self, label: Label, future: TaskFuture) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, queued: false, label, future: None });
            (self.slots.len() - 1) as u32
        });
        let entry = &mut self.slots[slot as usize];
        entry.label = label;
        entry.future = Some(future);
        entry.queued = true;
        self.ready.push_back(TaskId { slot, generation: entry.generation });
    }

    /// Puts a task into the queue, unless it is there or has ended.
    pub(crate) fn wake(&mut self, task: TaskId) {
        let Some(slot) = self.slots.get_mut(task.slot as usize) else { return };
        if slot.generation == task.generation && !slot.queued {
            slot.queued = true;
            self.ready.push_back(task);
        }
    }

    /// How many queue entries there are.
    pub(crate) fn ready_count(&self) -> usize {
        self.ready.len()
    }

    /// Takes the task at the head of the queue out to run it.
    pub(crate) fn take_ready(&mut self) -> Option<(TaskId, Label, TaskFuture)> {
        while let Some(task) = self.ready.pop_front() {
            let slot = &mut self.slots[task.slot as usize];
            // A task that ended while it was queued leaves its entry behind.
            if slot.generation == task.generation
                && let Some(future) = slot.future.take()
            {
                slot.queued = false;
                return Some((task, slot.label, future));
            }
        }
        None
    }

    /// Puts a task back that waits for something.
    pub(crate) fn suspend(&mut self, task: TaskId, future: TaskFuture) {
        self.slots[task.slot as usize].future = Some(future);
    }

    /// Frees the slot of a task that has ended.
    pub(crate) fn finish(&mut self, task: TaskId) {
        let slot = &mut self.slots[task.slot as usize];
        slot.generation = (slot.generation + 1) & GENERATION_MASK;
        slot.queued = false;
        self.free.push(task.slot);
    }

    /// Ends every task that waits or could run; the caller drops the futures.
    pub(crate) fn take_all(&mut self) -> Vec<TaskFuture> {
        let mut futures = Vec::new();
        for slot in 0..self.slots.len() as u32 {
            let entry = &mut self.slots[slot as usize];
            let generation = entry.generation;
            if let Some(future) = entry.future.take() {
                futures.push(future);
                self.finish(TaskId { slot, generation });
            }
        }
        futures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(tasks: &mut Tasks) -> TaskId {
        tasks.insert(Label::new("task"), Box::pin(async {}));
        *tasks.ready.back().expect("just queued")
    }

    #[test]
    fn a_task_is_queued_once_however_often_it_is_woken() {
        let mut tasks = Tasks::default();
        let one = task(&mut tasks);
        tasks.wake(one);
        tasks.wake(one);
        assert!(tasks.take_ready().is_some());
        assert!(tasks.take_ready().is_none());
    }

    #[test]
    fn a_task_woken_while_it_runs_runs_again() {
        let mut tasks = Tasks::default();
        let one = task(&mut tasks);
        let (_, _, future) = tasks.take_ready().expect("ready");
        tasks.wake(one);
        tasks.suspend(one, future);
        assert_eq!(tasks.take_ready().expect("ready again").0, one);
    }

    #[test]
    fn a_late_wake_up_does_not_reach_the_next_task_of_the_slot() {
        let mut tasks = Tasks::default();
        let one = task(&mut tasks);
        drop(tasks.take_ready());
        tasks.wake(one);
        tasks.finish(one);
        let two = task(&mut tasks);
        assert_eq!(one.slot, two.slot);
        tasks.wake(one);
        assert_eq!(tasks.take_ready().expect("the new one").0, two);
        assert!(tasks.take_ready().is_none());
    }
}
