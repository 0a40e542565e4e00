//! One core's io_uring: requests are queued in memory and handed to the kernel as a batch, in the
//! same system call that waits or collects.
//!
//! Used by its own thread only. Memory of a request under way is owned by `Operations`, which frees
//! it only after `collect` has seen the kernel's answer.

use crate::file::OpenFile;
use crate::files::{Files, Target};
use crate::operations::Operations;
use crate::transfer::{Payload, Transfer, discard_mode, write_flags};
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use raid::buffer::{Buffer, Registration};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Waker;
use std::time::Duration;

/// Requests that can be queued before they are handed over; a full queue is handed over at once.
const SUBMISSION_ENTRIES: u32 = 256;
/// Answers that fit before the kernel has to keep them elsewhere.
const COMPLETION_ENTRIES: u32 = 4096;
/// Buffers that a core can have registered.
const REGISTERED_BUFFERS_MAX: u16 = 4096;
/// Longest piece of a transfer, in bytes: the system's limit is a little under 2 GiB.
const PIECE_BYTES_MAX: usize = 1 << 30;
/// The mark of the request that reads the bell. Others are marked with their slot.
const BELL: u64 = u64::MAX;

/// Rings are numbered over the process, so that a registration never fits the wrong one.
static RINGS: AtomicU32 = AtomicU32::new(0);

pub(crate) struct Ring {
    ring: IoUring,
    files: Files,
    bell: RawFd,
    /// Where the kernel puts the bell's count. Allocated apart, as the kernel knows its address.
    bell_count: Box<u64>,
    /// Whether the kernel has a request to read the bell.
    bell_armed: bool,
    /// Answers that had to be taken in to make room before the next `collect`.
    early: VecDeque<cqueue::Entry>,
    /// Which registry this ring's buffers are in.
    registry: u32,
    buffers: u16,
    buffers_max: u16,
}

impl Ring {
    /// Sets a ring up for the calling thread, with what the kernel offers to make it cheap.
    ///
    /// # Errors
    /// If the kernel has no io_uring, forbids it, or has one that is too old (before 5.11).
    pub(crate) fn new(bell: BorrowedFd<'static>) -> io::Result<Self> {
        let ring = build()?;
        let features = ring.params();
        if !features.is_feature_ext_arg() || !features.is_feature_nodrop() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "the kernel's is too old"));
        }
        let submitter = ring.submitter();
        let files = Files::new(&submitter);
        let sparse = submitter.register_buffers_sparse(u32::from(REGISTERED_BUFFERS_MAX)).is_ok();
        Ok(Self {
            files,
            bell: bell.as_raw_fd(),
            bell_count: Box::new(0),
            bell_armed: false,
            early: VecDeque::new(),
            registry: RINGS.fetch_add(1, Ordering::Relaxed),
            buffers: 0,
            buffers_max: if sparse { REGISTERED_BUFFERS_MAX } else { 0 },
            ring,
        })
    }

    /// Registers memory with the kernel, which then need not look its pages up for each request.
    /// False if there is no room or the limit of locked memory is reached. It stays registered
    /// until the ring ends.
    pub(crate) fn register_buffer(&mut self, buffer: &mut Buffer) -> bool {
        if self.buffers == self.buffers_max || buffer.is_empty() || buffer.registration().is_some()
        {
            return false;
        }
        let memory = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        let slot = self.buffers;
        // SAFETY: the memory is valid now, which is when the kernel takes hold of its pages. The
        // kernel keeps the pages until the ring ends, and reaches them through this slot only for
        // requests whose buffer bears this registration, which lies in the allocation itself.
        let updated = unsafe {
            self.ring.submitter().register_buffers_update(u32::from(slot), &[memory], None)
        };
        if updated.is_err() {
            return false;
        }
        buffer.set_registration(Some(Registration { registry: self.registry, slot }));
        self.buffers += 1;
        true
    }

    /// The file has been closed: lets go of its registration.
    pub(crate) fn forget(&mut self, number: u32, identity: u64) {
        self.files.forget(number, identity, &self.ring.submitter());
    }

    /// Takes note that a request to the file begins.
    pub(crate) fn begin(&mut self, file: &Arc<OpenFile>) {
        self.files.begin(file, &self.ring.submitter());
    }

    /// Queues what is left of a transfer that has begun.
    pub(crate) fn queue(&mut self, slot: u32, operations: &mut Operations) {
        let (transfer, file) = operations.flight(slot);
        let entry = entry(self.files.target(file), transfer, self.registry);
        self.push(&entry.user_data(u64::from(slot)));
    }

    fn push(&mut self, entry: &squeue::Entry) {
        // SAFETY: the memory that the entry names belongs to `Operations` or is `bell_count`, and
        // stays until the answer is collected; the file stays open through `files` or the inbox.
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            self.enter(None);
            // Older kernels take nothing in as long as answers lie about that found no room.
            self.early.extend(self.ring.completion());
        }
    }

    /// Hands queued requests over, if there are any, and takes in answers without waiting.
    pub(crate) fn exchange(&mut self, operations: &mut Operations, woken: &mut Vec<Waker>) {
        let submission = self.ring.submission();
        let needed = !submission.is_empty() || submission.taskrun() || submission.cq_overflow();
        drop(submission);
        if needed {
            self.enter(None);
        }
        self.collect(operations, woken);
    }

    /// Hands queued requests over and waits for an answer, the bell, or the end of `timeout`.
    pub(crate) fn wait(&mut self, timeout: Option<Duration>) {
        if !self.bell_armed {
            let count: *mut u64 = &mut *self.bell_count;
            let length_bytes = size_of::<u64>() as u32;
            let read = opcode::Read::new(types::Fd(self.bell), count.cast(), length_bytes);
            self.push(&read.build().user_data(BELL));
            self.bell_armed = true;
        }
        self.enter(Some(timeout));
    }

    /// Waits for an answer to what the kernel has already.
    pub(crate) fn wait_to_end(&mut self) {
        self.enter(Some(None));
    }

    /// Whether the kernel may still write to `bell_count`.
    pub(crate) fn bell_armed(&self) -> bool {
        self.bell_armed
    }

    /// `wait` is none to come back at once, some to wait for at least one answer.
    fn enter(&mut self, wait: Option<Option<Duration>>) {
        let entered = match wait {
            // There are answers to take in already.
            Some(_) if !self.early.is_empty() => self.ring.submitter().submit(),
            None => self.ring.submitter().submit(),
            Some(None) => self.ring.submitter().submit_and_wait(1),
            Some(Some(timeout)) => {
                let timeout = types::Timespec::from(timeout);
                let arguments = types::SubmitArgs::new().timespec(&timeout);
                self.ring.submitter().submit_with_args(1, &arguments)
            }
        };
        if let Err(error) = entered {
            // Time is up, a signal came, or answers must be collected first: the caller goes on.
            let harmless = [Errno::TIME, Errno::INTR, Errno::AGAIN, Errno::BUSY];
            let errno = error.raw_os_error().map(Errno::from_raw_os_error);
            assert!(
                errno.is_some_and(|errno| harmless.contains(&errno)),
                "io_uring_enter fails: {error}"
            );
        }
    }

    /// Takes the kernel's answers in, and queues what is left of transfers that were done in part.
    pub(crate) fn collect(&mut self, operations: &mut Operations, woken: &mut Vec<Waker>) {
        loop {
            let early = self.early.pop_front();
            let Some(answer) = early.or_else(|| self.ring.completion().next()) else { return };
            if answer.user_data() == BELL {
                self.bell_armed = false;
                continue;
            }
            let slot = answer.user_data() as u32;
            let returned = usize::try_from(answer.result())
                .map_err(|_| Errno::from_raw_os_error(-answer.result()));
            let (transfer, file) = operations.flight(slot);
            match transfer.advance(returned) {
                None => self.queue(slot, operations),
                Some(result) => {
                    self.files.end(file);
                    let transfer = operations.take_transfer(slot);
                    woken.extend(operations.finish(slot, transfer.finish(result)));
                }
            }
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // The kernel takes a ring apart some time after it was closed, seconds later even, and would
        // keep the files open until then. Failure leaves it at that.
        let _ = self.ring.submitter().unregister_files();
        if self.bell_armed {
            // Only after a failure to drain: the kernel may still write there.
            std::mem::forget(std::mem::take(&mut self.bell_count));
        }
    }
}

/// A ring with the cheapest way of running completions that the kernel has: not before this thread
/// asks (6.1), not by interrupting it (5.19), or as it always was.
fn build() -> io::Result<IoUring> {
    let with = |set: fn(&mut io_uring::Builder)| {
        let mut builder = IoUring::builder();
        builder.dontfork().setup_clamp().setup_cqsize(COMPLETION_ENTRIES);
        set(&mut builder);
        builder.build(SUBMISSION_ENTRIES)
    };
    let refused_flags =
        |error: &io::Error| error.raw_os_error() == Some(Errno::INVAL.raw_os_error());
    with(|builder| {
        builder.setup_single_issuer().setup_coop_taskrun().setup_taskrun_flag();
        builder.setup_defer_taskrun().setup_submit_all();
    })
    .or_else(|error| match refused_flags(&error) {
        true => with(|builder| {
            builder.setup_coop_taskrun().setup_taskrun_flag().setup_submit_all();
        }),
        false => Err(error),
    })
    .or_else(|error| if refused_flags(&error) { with(|_| {}) } else { Err(error) })
}

/// The request for what is left of a transfer.
fn entry(target: Target, transfer: &mut Transfer, registry: u32) -> squeue::Entry {
    let fd = target.fd;
    let offset_bytes = transfer.offset_bytes();
    let done_bytes = transfer.done_bytes;
    let built = match &mut transfer.payload {
        Payload::Read(buffer) => {
            let slot = slot_in(registry, buffer.registration());
            let memory = &mut buffer[done_bytes..];
            let length_bytes = memory.len().min(PIECE_BYTES_MAX) as u32;
            let start = memory.as_mut_ptr();
            match slot {
                Some(slot) => opcode::ReadFixed::new(fd, start, length_bytes, slot)
                    .offset(offset_bytes)
                    .build(),
                None => opcode::Read::new(fd, start, length_bytes).offset(offset_bytes).build(),
            }
        }
        Payload::Write { data, durability } => {
            let memory = &data[done_bytes..];
            let length_bytes = memory.len().min(PIECE_BYTES_MAX) as u32;
            let flags = write_flags(*durability).bits() as i32;
            match slot_in(registry, data.registration()) {
                Some(slot) => opcode::WriteFixed::new(fd, memory.as_ptr(), length_bytes, slot)
                    .offset(offset_bytes)
                    .rw_flags(flags)
                    .build(),
                None => opcode::Write::new(fd, memory.as_ptr(), length_bytes)
                    .offset(offset_bytes)
                    .rw_flags(flags)
                    .build(),
            }
        }
        Payload::Flush => opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build(),
        Payload::Discard { length_bytes } => opcode::Fallocate::new(fd, *length_bytes)
            .offset(offset_bytes)
            .mode(discard_mode().bits() as i32)
            .build(),
    };
    built.flags(target.flags)
}

fn slot_in(registry: u32, registration: Option<Registration>) -> Option<u16> {
    registration.filter(|found| found.registry == registry).map(|found| found.slot)
}
