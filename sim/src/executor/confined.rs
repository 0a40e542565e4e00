//! Values that are `Send` and `Sync` by type and belong to one thread in fact.
//!
//! The engine may send its data to any core, so the platform's types must be `Send`. All cores of a
//! simulated machine live on one host thread: nothing is ever sent, and each access checks that.

use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};

static THREADS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// This thread's number, from 1 and never used again; 0 before it has one.
    static THIS_THREAD: Cell<u64> = const { Cell::new(0) };
}

#[inline]
fn this_thread() -> u64 {
    match THIS_THREAD.get() {
        0 => number_this_thread(),
        number => number,
    }
}

#[cold]
fn number_this_thread() -> u64 {
    let number = THREADS.fetch_add(1, Ordering::Relaxed) + 1;
    THIS_THREAD.set(number);
    number
}

/// A value that only the thread that made it may reach or drop.
pub(crate) struct Confined<T> {
    value: ManuallyDrop<T>,
    home: u64,
}

// SAFETY: `deref` and `drop` are the only ways to the value, and both panic, or leak, on any thread
// but the one that made it.
unsafe impl<T> Send for Confined<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Confined<T> {}

impl<T> Confined<T> {
    /// Ties `value` to the current thread.
    pub(crate) fn new(value: T) -> Self {
        Self { value: ManuallyDrop::new(value), home: this_thread() }
    }

    fn is_home(&self) -> bool {
        this_thread() == self.home
    }
}

impl<T> Deref for Confined<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        assert!(self.is_home(), "a simulated machine was reached from another host thread");
        &self.value
    }
}

impl<T> Drop for Confined<T> {
    fn drop(&mut self) {
        if self.is_home() {
            // SAFETY: dropped once, here, on the thread that made it.
            unsafe { ManuallyDrop::drop(&mut self.value) }
        }
        // Elsewhere (only during a panic that carries simulated values out) it leaks.
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_thread_is_refused() {
        let confined = Confined::new(std::cell::Cell::new(1));
        confined.set(2);
        let outcome = std::thread::spawn(move || confined.get()).join();
        assert!(outcome.is_err(), "the value must not be reached from there");
    }
}
