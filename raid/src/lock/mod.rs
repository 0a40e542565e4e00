//! Locks and wait queues, written once on top of [`Platform`]'s words.
//!
//! The same code is priced by the simulator, guards real drives, and is walked through by a model
//! checker (`tests/loom`), which also says whether the memory orderings suffice.
//!
//! A critical section is a closure, so no guard is passed around. Like spin locks in a kernel they
//! are held with interrupts off: a section may await [`Word`](crate::platform::Word)s and
//! [`Parker::unpark`](crate::platform::Parker::unpark), never I/O, a sleep or a
//! [`yield_now`](crate::platform::Cpu::yield_now).
//!
//! No future of this module may be dropped before it finishes: a lock whose holder or waiter was
//! dropped is never free again.
//!
//! Architecture invariant: nothing here is fair or unfair by chance. There is no random number and
//! no clock; where a published algorithm draws one, a counter stands in for it.

mod numa_queued;
mod queued;
mod rw_sem;
mod sequence;
mod spin;
mod spin_history;
mod test_and_set;
mod ticket;
mod wait_queue;

pub use rw_sem::{LOOKS_MAX, ReaderSpin, RwSem};
pub use sequence::{SeqLock, Sequence};
pub use spin::{SpinKind, SpinLock};
pub use wait_queue::WaitQueue;

use crate::platform::{Label, Place, Platform};

/// The name under which reports show the lines that waiters of queued spin locks spin on, of all
/// locks together; the index is the core's number. These words are loaded and stored only.
pub const QUEUE_NODE: &str = "lock queue node";

/// The region and the offset in bytes at which a primitive puts its words side by side, `bytes` in
/// all.
fn side_by_side<P: Platform>(
    platform: &P,
    label: Label,
    place: Place<'_, P>,
    bytes: u32,
) -> (P::Region, u32) {
    match place {
        Place::Alone => (platform.region(label, 0, bytes), 0),
        Place::Within { region, offset_bytes } => (region.clone(), offset_bytes),
    }
}
