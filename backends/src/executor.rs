//! One core: runs its tasks, and sleeps in the kernel when none can go on.
//!
//! Single-threaded: everything here belongs to the core's thread and is reached from others only
//! through the inbox. A turn of the loop takes messages in, fires timers, runs a bounded number of
//! tasks and then exchanges requests and answers with the kernel as a batch.
//!
//! No borrow of the core's state is held while a task or a waker runs.

use crate::cpu::RealCpu;
use crate::inbox::{Inbox, Message};
use crate::platform::RealPlatform;
use crate::queue::{Driver, IoQueue};
use crate::tasks::{TaskId, Tasks};
use crate::timers::Timers;
use crate::waker;
use raid::platform::Label;
use raid::units::CpuId;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::rc::Rc;
use std::task::Context;
use std::time::Duration;

/// Tasks that run before the core looks at its ring, messages and timers again.
const POLLS_PER_TURN: usize = 64;
/// Messages taken in one turn.
const MESSAGES_PER_TURN: usize = 256;

thread_local! {
    /// The core whose thread this is, while it runs.
    static CURRENT: Cell<*const Core> = const { Cell::new(ptr::null()) };
}

/// The state of one core.
pub(crate) struct Core {
    pub(crate) id: CpuId,
    pub(crate) platform: RealPlatform,
    pub(crate) io: RefCell<IoQueue>,
    pub(crate) timers: RefCell<Timers>,
    /// How many atomic stretches the running task is in.
    pub(crate) atomic_depth: Cell<u32>,
    tasks: RefCell<Tasks>,
    /// The task that runs now or ran last.
    running: Cell<Option<Label>>,
    stopping: Cell<bool>,
    number: u16,
    inbox: &'static Inbox,
}

/// Queues a task if this is the thread of its core. False if it is not.
pub(crate) fn wake_here(number: u16, task: TaskId) -> bool {
    let core = CURRENT.get();
    // SAFETY: the pointer is the thread's own, and is null unless `run_core` holds the core.
    let Some(core) = (unsafe { core.as_ref() }) else { return false };
    let here = core.number == number;
    if here {
        core.tasks.borrow_mut().wake(task);
    }
    here
}

/// Makes a core the thread's own until it is dropped, which must be before the core.
struct Current;

impl Current {
    fn enter(core: &Rc<Core>) -> Self {
        CURRENT.set(Rc::as_ptr(core));
        Self
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        CURRENT.set(ptr::null());
    }
}

/// Whether the calling thread belongs to a core of any machine.
pub(crate) fn on_a_core() -> bool {
    !CURRENT.get().is_null()
}

/// Runs a core until it is told to stop or a task panics, which stops the whole machine. Then drops
/// its tasks and waits for the kernel.
pub(crate) fn run_core(id: CpuId, platform: RealPlatform, driver: Driver) {
    let lease = platform.lease(id);
    let (number, inbox) = (lease.number(), lease.inbox());
    let core = Rc::new(Core {
        id,
        platform,
        io: RefCell::new(IoQueue::new(driver, inbox)),
        timers: RefCell::default(),
        atomic_depth: Cell::new(0),
        tasks: RefCell::default(),
        running: Cell::new(None),
        stopping: Cell::new(false),
        number,
        inbox,
    });
    let _current = Current::enter(&core);
    let ran = catch_unwind(AssertUnwindSafe(|| core.run()));
    core.stopping.set(true);
    core.note_failure(ran);
    // Whatever the tasks' destructors do, the kernel must let go of their memory first.
    let ended = catch_unwind(AssertUnwindSafe(|| core.end_tasks()));
    core.note_failure(ended);
    core.drain();
}

impl Core {
    /// Starts a task. After the core has been told to stop, nothing starts.
    pub(crate) fn spawn(&self, label: Label, future: impl Future<Output = ()> + 'static) {
        if !self.stopping.get() {
            self.tasks.borrow_mut().insert(label, Box::pin(future));
        }
    }

    fn run(self: &Rc<Self>) {
        loop {
            self.take_messages();
            if self.stopping.get() {
                return;
            }
            self.fire_timers();
            self.run_tasks();
            if self.tasks.borrow().ready_count() > 0 {
                self.io.borrow_mut().exchange();
                self.wake_the_finished();
            } else {
                self.sleep();
            }
        }
    }

    fn take_messages(self: &Rc<Self>) {
        for _ in 0..MESSAGES_PER_TURN {
            let Some(message) = self.inbox.take() else { return };
            match message {
                Message::Wake(task) => self.tasks.borrow_mut().wake(task),
                Message::Start(start) if self.stopping.get() => drop(start),
                Message::Start(start) => start(&RealCpu::new(self.clone())),
                Message::Finished { slot, done } => {
                    let waker = self.io.borrow_mut().finish(slot, done);
                    if let Some(waker) = waker {
                        waker.wake();
                    }
                }
                Message::Forget { number, identity } => {
                    self.io.borrow_mut().forget(number, identity);
                }
                Message::Stop => self.stopping.set(true),
            }
        }
    }

    fn fire_timers(&self) {
        if self.timers.borrow().next_deadline_ns().is_none() {
            return;
        }
        let now_ns = self.platform.now_ns();
        loop {
            let due = self.timers.borrow_mut().take_due(now_ns);
            let Some(waker) = due else { return };
            waker.wake();
        }
    }

    fn run_tasks(&self) {
        let turns = self.tasks.borrow().ready_count().min(POLLS_PER_TURN);
        for _ in 0..turns {
            let Some((task, label, mut future)) = self.tasks.borrow_mut().take_ready() else {
                return;
            };
            self.running.set(Some(label));
            let waker = waker::waker(self.number, task);
            let ended = future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
            assert_eq!(self.atomic_depth.get(), 0, "task {label} sleeps in an atomic stretch");
            if ended {
                // Its destructors run before the slot is anybody else's, and without a borrow.
                drop(future);
                self.tasks.borrow_mut().finish(task);
            } else {
                self.tasks.borrow_mut().suspend(task, future);
            }
        }
    }

    /// Sleeps until an answer, a message or a timer comes.
    fn sleep(&self) {
        let timeout = match self.timers.borrow().next_deadline_ns() {
            None => None,
            Some(deadline_ns) => {
                let Some(rest_ns) = deadline_ns.checked_sub(self.platform.now_ns()) else { return };
                Some(Duration::from_nanos(rest_ns))
            }
        };
        if self.inbox.begin_sleep() {
            self.io.borrow_mut().wait(timeout);
            self.inbox.end_sleep();
        } else {
            self.io.borrow_mut().exchange();
        }
        self.wake_the_finished();
    }

    fn wake_the_finished(&self) {
        let mut woken = self.io.borrow_mut().take_woken();
        for waker in woken.drain(..) {
            waker.wake();
        }
        self.io.borrow_mut().return_woken(woken);
    }

    /// Drops all tasks, and those that their destructors start.
    fn end_tasks(&self) {
        loop {
            let futures = self.tasks.borrow_mut().take_all();
            if futures.is_empty() {
                return;
            }
            drop(futures);
        }
    }

    /// Stops the machine if something panicked here.
    fn note_failure(&self, outcome: std::thread::Result<()>) {
        let Err(payload) = outcome else { return };
        let message = payload
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap_or_default();
        let core = self.id.0;
        self.platform.fail(match self.running.get() {
            Some(label) => format!("task {label} on core {core} panicked: {message}"),
            None => format!("core {core} failed: {message}"),
        });
    }

    /// Waits until the kernel and the workers have no request and no memory of this core.
    fn drain(self: &Rc<Self>) {
        while self.io.borrow().is_busy() {
            if self.inbox.begin_sleep() {
                self.io.borrow_mut().wait_to_end();
                self.inbox.end_sleep();
            }
            drop(self.io.borrow_mut().take_woken());
            self.take_messages();
        }
    }
}
