//! Wakers that are plain numbers: nothing to allocate, count or free.
//!
//! A waker's data is the number of its core's inbox, the task's slot and its generation, packed
//! into a pointer that is never followed. On the task's own core waking is a push onto a queue;
//! from elsewhere it is a message.

use crate::executor;
use crate::inbox::{self, CORES_MAX, Message};
use crate::tasks::{GENERATION_MASK, TaskId};
use std::ptr::without_provenance;
use std::task::{RawWaker, RawWakerVTable, Waker};

#[cfg(not(target_pointer_width = "64"))]
compile_error!("a waker packs 64 bits into a pointer");

const _: () = assert!(CORES_MAX == 1 << 12 && GENERATION_MASK == (1 << 20) - 1);

fn pack(inbox: u16, task: TaskId) -> *const () {
    let packed = u64::from(inbox) << 52 | u64::from(task.generation) << 32 | u64::from(task.slot);
    without_provenance(packed as usize)
}

fn unpack(data: *const ()) -> (u16, TaskId) {
    let packed = data.addr() as u64;
    let generation = (packed >> 32) as u32 & GENERATION_MASK;
    ((packed >> 52) as u16, TaskId { slot: packed as u32, generation })
}

static TABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake, |_| {});

fn clone(data: *const ()) -> RawWaker {
    RawWaker::new(data, &TABLE)
}

fn wake(data: *const ()) {
    let (number, task) = unpack(data);
    if !executor::wake_here(number, task)
        && let Some(inbox) = inbox::inbox(number)
    {
        inbox.post(Message::Wake(task));
    }
}

/// The waker of a task of the core with that inbox.
pub(crate) fn waker(inbox: u16, task: TaskId) -> Waker {
    // SAFETY: the functions follow no pointer, so they keep the contract of `RawWaker` for any
    // data, on any thread and at any time.
    unsafe { Waker::from_raw(clone(pack(inbox, task))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_survives_packing() {
        for (inbox, slot, generation) in
            [(0, 0, 0), (4095, u32::MAX, GENERATION_MASK), (1, 2, 3), (2048, 1, 0)]
        {
            let task = TaskId { slot, generation };
            assert_eq!(unpack(pack(inbox, task)), (inbox, task));
        }
    }
}
