//! Memory that a lock guards, in the simulation: checked, since a lock under study may be wrong.

use super::Confined;
use raid::platform::Guarded;
use std::cell::{RefCell, RefMut};

/// The simulator's [`Guarded`]: two tasks inside at once is a panic, not a race.
pub struct SimGuarded<T>(Confined<RefCell<T>>);

impl<T> SimGuarded<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Confined::new(RefCell::new(value)))
    }
}

impl<T: Send + 'static> Guarded<T> for SimGuarded<T> {
    type Access<'a>
        = RefMut<'a, T>
    where
        Self: 'a;

    unsafe fn access(&self) -> RefMut<'_, T> {
        self.0.try_borrow_mut().expect("two tasks are inside one lock")
    }
}
