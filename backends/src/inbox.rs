//! How other threads reach a core: a queue of messages, and a bell for when the core sleeps.
//!
//! Inboxes are numbered over the whole process and live for ever, so that a waker is a plain number
//! that may outlast its core. A machine leases one for each core and gives it back; messages to an
//! inbox that nobody leases are dropped.
//!
//! Sleeping: the core says that it will sleep, then looks at the queue once more; a sender queues
//! its message, then looks whether the core sleeps. With a full fence between the two steps on both
//! sides, at least one of them sees the other, so no message is slept over, and a core that runs
//! costs its senders no system call.

use crate::cpu::RealCpu;
use crate::tasks::TaskId;
use crossbeam_queue::SegQueue;
use raid::device::IoDone;
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Cores that can be alive at once in a process.
pub(crate) const CORES_MAX: usize = 1 << 12;

/// Makes a task's future on the core that it will run on.
pub(crate) type TaskStart = Box<dyn FnOnce(&RealCpu) + Send>;

/// What a core is told by other threads.
pub(crate) enum Message {
    /// Queue this task.
    Wake(TaskId),
    /// Start a task.
    Start(TaskStart),
    /// A worker thread has finished this operation.
    Finished {
        /// Where the core keeps the operation.
        slot: u32,
        /// How it ended.
        done: IoDone,
    },
    /// A file has been closed: let go of it.
    Forget {
        /// Its number among the open files.
        number: u32,
        /// Which of the files that had that number.
        identity: u64,
    },
    /// Drop all tasks and end.
    Stop,
}

pub(crate) struct Inbox {
    messages: SegQueue<Message>,
    sleeping: AtomicBool,
    open: AtomicBool,
    bell: OwnedFd,
}

static INBOXES: [OnceLock<Box<Inbox>>; CORES_MAX] = [const { OnceLock::new() }; CORES_MAX];
static LEASES: Mutex<Leases> = Mutex::new(Leases { returned: Vec::new(), used: 0 });

struct Leases {
    returned: Vec<u16>,
    used: u16,
}

fn leases() -> MutexGuard<'static, Leases> {
    LEASES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The inbox of that number, if it was ever leased.
pub(crate) fn inbox(number: u16) -> Option<&'static Inbox> {
    INBOXES.get(number as usize)?.get().map(|inbox| &**inbox)
}

/// Tells every core of the process.
pub(crate) fn tell_all(message: impl Fn() -> Message) {
    let used = leases().used;
    for inbox in (0..used).filter_map(inbox) {
        if inbox.open.load(Ordering::Acquire) {
            inbox.post(message());
        }
    }
}

/// A core's right to an inbox.
pub(crate) struct Lease {
    number: u16,
    inbox: &'static Inbox,
}

impl Lease {
    /// Leases a free inbox.
    ///
    /// # Errors
    /// If the system gives no file for its bell.
    pub(crate) fn new() -> std::io::Result<Self> {
        let mut leases = leases();
        let number = leases.returned.last().copied().unwrap_or(leases.used);
        assert!((number as usize) < CORES_MAX, "more than {CORES_MAX} cores at once");
        let cell = &INBOXES[number as usize];
        let inbox = match cell.get() {
            Some(inbox) => inbox,
            None => {
                // Not non-blocking: a ring reads it, and waits until the bell rings.
                let bell = eventfd(0, EventfdFlags::CLOEXEC)?;
                cell.get_or_init(|| {
                    Box::new(Inbox {
                        messages: SegQueue::new(),
                        sleeping: AtomicBool::new(false),
                        open: AtomicBool::new(false),
                        bell,
                    })
                })
            }
        };
        if leases.returned.pop().is_none() {
            leases.used += 1;
        }
        inbox.open.store(true, Ordering::SeqCst);
        Ok(Self { number, inbox })
    }

    pub(crate) fn number(&self) -> u16 {
        self.number
    }

    pub(crate) fn inbox(&self) -> &'static Inbox {
        self.inbox
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.inbox.close();
        leases().returned.push(self.number);
    }
}

impl Inbox {
    /// Queues a message and rings the bell if the core sleeps.
    pub(crate) fn post(&self, message: Message) {
        self.messages.push(message);
        fence(Ordering::SeqCst);
        if self.sleeping.load(Ordering::Relaxed) && self.sleeping.swap(false, Ordering::Relaxed) {
            self.ring_bell();
        }
        if !self.open.load(Ordering::SeqCst) {
            self.discard_messages();
        }
    }

    /// Wakes whoever waits for the bell.
    pub(crate) fn ring_bell(&self) {
        rustix::io::write(&self.bell, &1_u64.to_ne_bytes())
            .expect("an event counter takes a write unless 2^64 are outstanding");
    }

    /// The event counter that [`post`](Self::post) rings.
    pub(crate) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Takes the oldest message. For the owning core.
    pub(crate) fn take(&self) -> Option<Message> {
        // `pop` on an empty queue has a full fence, looking has not.
        if self.messages.is_empty() { None } else { self.messages.pop() }
    }

    /// Announces that the core will sleep. False if it may not, as there is a message.
    pub(crate) fn begin_sleep(&self) -> bool {
        self.sleeping.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let may_sleep = self.messages.is_empty();
        if !may_sleep {
            self.end_sleep();
        }
        may_sleep
    }

    /// The core runs again.
    pub(crate) fn end_sleep(&self) {
        self.sleeping.store(false, Ordering::Relaxed);
    }

    /// Takes no more messages.
    pub(crate) fn close(&self) {
        self.open.store(false, Ordering::SeqCst);
        self.discard_messages();
    }

    fn discard_messages(&self) {
        while let Some(message) = self.messages.pop() {
            drop(message);
        }
    }
}
