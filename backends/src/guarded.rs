//! Plain memory that one of the engine's locks guards.
//!
//! It keeps to lines of its own, so that writing the value does not take away the line in which
//! other cores look up where the lock's words are.

use raid::platform::Guarded;
use std::cell::UnsafeCell;

/// A value behind a lock.
#[repr(align(128))]
pub struct RealGuarded<T>(UnsafeCell<T>);

// SAFETY: the value is reached only through `access`, whose callers hold the lock that guards it;
// so it is on one core at a time, as if it were sent from one to the next.
unsafe impl<T: Send> Sync for RealGuarded<T> {}

impl<T> RealGuarded<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }
}

impl<T: Send + 'static> Guarded<T> for RealGuarded<T> {
    type Access<'a> = &'a mut T;

    unsafe fn access(&self) -> &mut T {
        // SAFETY: the caller holds the lock and has no other access, so this is the only reference.
        unsafe { &mut *self.0.get() }
    }
}
