//! A core's way to the operating system's I/O: its ring, or the worker threads where there is none.

use crate::file::OpenFile;
use crate::inbox::Inbox;
use crate::operations::Operations;
use crate::ring::Ring;
use crate::transfer::Transfer;
use crate::workers::{Job, Workers};
use raid::buffer::Buffer;
use raid::device::{Io, IoDone};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Who does the I/O.
pub(crate) enum Driver {
    Ring(Box<Ring>),
    Workers(Arc<Workers>),
}

pub(crate) struct IoQueue {
    operations: Operations,
    driver: Driver,
    inbox: &'static Inbox,
    /// Wakers of requests that have ended, for the executor to call.
    woken: Vec<Waker>,
}

impl IoQueue {
    pub(crate) fn new(driver: Driver, inbox: &'static Inbox) -> Self {
        Self { operations: Operations::default(), driver, inbox, woken: Vec::new() }
    }

    /// Takes a request to a file in; the slot to ask for its end.
    pub(crate) fn submit(&mut self, file: &Arc<OpenFile>, io: Io) -> u32 {
        let transfer = Transfer::new(io);
        match &mut self.driver {
            Driver::Ring(ring) => {
                let slot = self.operations.begin(file.number, Some(transfer));
                ring.begin(file);
                ring.queue(slot, &mut self.operations);
                slot
            }
            Driver::Workers(workers) => {
                let slot = self.operations.begin(file.number, None);
                let (file, inbox) = (file.clone(), self.inbox);
                workers.submit(Job { file, transfer, inbox, slot });
                slot
            }
        }
    }

    /// The result of a request, or leaves the waker.
    pub(crate) fn poll(&mut self, slot: u32, context: &Context<'_>) -> Poll<IoDone> {
        self.operations.poll(slot, context)
    }

    /// Nobody waits for the request any more. The waker that was left, to be dropped by a caller who
    /// has let go of the queue.
    pub(crate) fn abandon(&mut self, slot: u32) -> Option<Waker> {
        self.operations.abandon(slot)
    }

    /// A worker has finished a request.
    pub(crate) fn finish(&mut self, slot: u32, done: IoDone) -> Option<Waker> {
        self.operations.finish(slot, done)
    }

    /// A file has been closed.
    pub(crate) fn forget(&mut self, number: u32, identity: u64) {
        if let Driver::Ring(ring) = &mut self.driver {
            ring.forget(number, identity);
        }
    }

    /// Registers memory with the kernel. False if it cannot be.
    pub(crate) fn register_buffer(&mut self, buffer: &mut Buffer) -> bool {
        match &mut self.driver {
            Driver::Ring(ring) => ring.register_buffer(buffer),
            Driver::Workers(_) => false,
        }
    }

    /// Whether requests go through io_uring.
    pub(crate) fn is_ring(&self) -> bool {
        matches!(self.driver, Driver::Ring(_))
    }

    /// Hands over what is queued and takes in what has ended, without waiting.
    pub(crate) fn exchange(&mut self) {
        if let Driver::Ring(ring) = &mut self.driver {
            ring.exchange(&mut self.operations, &mut self.woken);
        }
    }

    /// Hands over what is queued and waits until something ends, the bell rings or time is up.
    pub(crate) fn wait(&mut self, timeout: Option<Duration>) {
        match &mut self.driver {
            Driver::Ring(ring) => {
                ring.wait(timeout);
                ring.collect(&mut self.operations, &mut self.woken);
            }
            Driver::Workers(_) => wait_for_bell(self.inbox, timeout),
        }
    }

    /// As [`wait`](Self::wait), and does not ask for the bell again: nothing new is to come.
    pub(crate) fn wait_to_end(&mut self) {
        match &mut self.driver {
            Driver::Ring(ring) => {
                if ring.bell_armed() {
                    self.inbox.ring_bell();
                }
                ring.wait_to_end();
                ring.collect(&mut self.operations, &mut self.woken);
            }
            Driver::Workers(_) => wait_for_bell(self.inbox, None),
        }
    }

    /// The wakers of requests that have ended since the last call.
    pub(crate) fn take_woken(&mut self) -> Vec<Waker> {
        std::mem::take(&mut self.woken)
    }

    /// Gives the emptied list back, to be filled again without allocating.
    pub(crate) fn return_woken(&mut self, empty: Vec<Waker>) {
        assert!(empty.is_empty() && self.woken.is_empty(), "wakers would be lost");
        self.woken = empty;
    }

    /// Whether the system still has requests, or memory that it may write to.
    pub(crate) fn is_busy(&self) -> bool {
        let bell_armed = match &self.driver {
            Driver::Ring(ring) => ring.bell_armed(),
            Driver::Workers(_) => false,
        };
        bell_armed || self.operations.in_flight() > 0
    }
}

fn wait_for_bell(inbox: &Inbox, timeout: Option<Duration>) {
    let timeout = timeout.map(|timeout| Timespec {
        tv_sec: timeout.as_secs() as i64,
        tv_nsec: timeout.subsec_nanos().into(),
    });
    let bell = inbox.bell();
    match poll(&mut [PollFd::new(&bell, PollFlags::IN)], timeout.as_ref()) {
        Ok(0) | Err(Errno::INTR) => {}
        Ok(_) => {
            rustix::io::read(bell, &mut [0_u8; 8]).expect("the bell has rung, so it can be read");
        }
        Err(errno) => panic!("waiting for the bell fails: {errno}"),
    }
}
