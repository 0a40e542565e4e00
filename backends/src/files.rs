//! Which open files a ring knows: registered with the kernel, so that it need not look them up for
//! each request, and kept open while requests are under way.
//!
//! The reference to the file is counted when its first request of a core begins and its last one
//! ends, not for each request.

use crate::file::OpenFile;
use io_uring::{Submitter, squeue, types};
use std::os::fd::AsRawFd;
use std::sync::Arc;

/// Files beyond this number are used without registration.
const REGISTERED_FILES_MAX: u32 = 256;

#[derive(Default)]
struct Entry {
    /// The file that the kernel has registered at this place.
    registered: Option<u64>,
    /// Present while a request is under way.
    file: Option<Arc<OpenFile>>,
    in_flight: u32,
}

/// The files of one ring, by their numbers.
pub(crate) struct Files {
    entries: Vec<Entry>,
    /// Places that the kernel has for registered files.
    places: u32,
}

/// A file as a request names it: a number, and whether it counts registered files.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    pub(crate) fd: types::Fd,
    pub(crate) flags: squeue::Flags,
}

impl Files {
    pub(crate) fn new(submitter: &Submitter<'_>) -> Self {
        let registered = submitter.register_files_sparse(REGISTERED_FILES_MAX).is_ok();
        Self { entries: Vec::new(), places: if registered { REGISTERED_FILES_MAX } else { 0 } }
    }

    /// Takes note that a request to the file begins.
    pub(crate) fn begin(&mut self, file: &Arc<OpenFile>, submitter: &Submitter<'_>) {
        let index = file.number as usize;
        if index >= self.entries.len() {
            self.entries.resize_with(index + 1, Entry::default);
        }
        let entry = &mut self.entries[index];
        if entry.in_flight == 0 {
            entry.file = Some(file.clone());
            if entry.registered != Some(file.identity) && file.number < self.places {
                let fds = [file.fd.as_raw_fd()];
                let done = submitter.register_files_update(file.number, &fds).is_ok();
                entry.registered = done.then_some(file.identity);
            }
        }
        entry.in_flight += 1;
    }

    /// The file of a request that has begun.
    pub(crate) fn target(&self, number: u32) -> Target {
        let entry = &self.entries[number as usize];
        let file = entry.file.as_ref().expect("a request is under way");
        if entry.registered == Some(file.identity) {
            Target { fd: types::Fd(number as i32), flags: squeue::Flags::FIXED_FILE }
        } else {
            Target { fd: types::Fd(file.fd.as_raw_fd()), flags: squeue::Flags::empty() }
        }
    }

    /// Takes note that a request to the file has ended.
    pub(crate) fn end(&mut self, number: u32) {
        let entry = &mut self.entries[number as usize];
        entry.in_flight -= 1;
        if entry.in_flight == 0 {
            entry.file = None;
        }
    }

    /// The file has been closed: its registration is all that keeps it open.
    pub(crate) fn forget(&mut self, number: u32, identity: u64, submitter: &Submitter<'_>) {
        let Some(entry) = self.entries.get_mut(number as usize) else { return };
        if entry.registered == Some(identity) {
            // A failure leaves the file open until the ring ends, which costs nobody their data.
            let _ = submitter.register_files_update(number, &[-1]);
            entry.registered = None;
        }
    }
}
