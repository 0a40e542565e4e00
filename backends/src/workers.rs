//! Threads that do file I/O where io_uring may not be used. A request goes to a worker with its
//! memory and comes back as a message to its core's inbox.

use crate::file::OpenFile;
use crate::inbox::{Inbox, Message};
use crate::transfer::{Payload, Transfer, discard_mode, write_flags};
use rustix::fs::{fallocate, fdatasync};
use rustix::io::{Errno, pread, pwritev2};
use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Requests that the system can work on at once.
const WORKERS: usize = 8;

/// A request for a worker.
pub(crate) struct Job {
    pub(crate) file: Arc<OpenFile>,
    pub(crate) transfer: Transfer,
    /// Whom to tell.
    pub(crate) inbox: &'static Inbox,
    /// Where that core keeps the operation.
    pub(crate) slot: u32,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    closed: bool,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A pool of threads, ended and joined with its last handle.
pub(crate) struct Workers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    pub(crate) fn start() -> std::io::Result<Self> {
        let mut workers = Self { shared: Arc::default(), threads: Vec::new() };
        for number in 0..WORKERS {
            let shared = workers.shared.clone();
            let builder = std::thread::Builder::new().name(format!("raidbed-io-{number}"));
            workers.threads.push(builder.spawn(move || work(&shared))?);
        }
        Ok(workers)
    }

    pub(crate) fn submit(&self, job: Job) {
        self.shared.queue().jobs.push_back(job);
        self.shared.changed.notify_one();
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.shared.queue().closed = true;
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            // A worker that panicked has said so on standard error.
            let _ = thread.join();
        }
    }
}

fn work(shared: &Shared) {
    while let Some(job) = next(shared) {
        let Job { file, mut transfer, inbox, slot } = job;
        let result = loop {
            let returned = step(&file, &mut transfer);
            if let Some(result) = transfer.advance(returned) {
                break result;
            }
        };
        // Before the answer, so that whoever has it can close the file for good.
        drop(file);
        inbox.post(Message::Finished { slot, done: transfer.finish(result) });
    }
}

fn next(shared: &Shared) -> Option<Job> {
    let mut queue = shared.queue();
    loop {
        if let Some(job) = queue.jobs.pop_front() {
            return Some(job);
        }
        if queue.closed {
            return None;
        }
        queue = shared.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
    }
}

/// One system call for what is left of a transfer.
fn step(file: &OpenFile, transfer: &mut Transfer) -> Result<usize, Errno> {
    let offset_bytes = transfer.offset_bytes();
    let done_bytes = transfer.done_bytes;
    match &mut transfer.payload {
        Payload::Read(buffer) => pread(&file.fd, &mut buffer[done_bytes..], offset_bytes),
        Payload::Write { data, durability } => {
            let rest = [IoSlice::new(&data[done_bytes..])];
            pwritev2(&file.fd, &rest, offset_bytes, write_flags(*durability))
        }
        Payload::Flush => fdatasync(&file.fd).map(|()| 0),
        Payload::Discard { length_bytes } => {
            fallocate(&file.fd, discard_mode(), offset_bytes, *length_bytes).map(|()| 0)
        }
    }
}
