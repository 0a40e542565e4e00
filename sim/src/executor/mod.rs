//! The discrete-event executor: tasks, virtual time, and the order in which things happen.
//!
//! One host thread runs the whole machine. Time moves only from event to event; the order of events
//! is total and depends on the seed alone. A task holds its core while a *step* of its (work, a
//! cache line under way) is not over, and frees it when it waits for anything else.
//!
//! Architecture invariant: no wall clock, host thread, hash order, address or float decides
//! anything here.

mod confined;
mod guarded;
mod queue;
mod task;
mod tie;

pub(crate) use confined::Confined;
pub use guarded::SimGuarded;
pub(crate) use queue::{Event, EventQueue, Kind};
pub(crate) use task::{Step, TaskFuture, TaskId, TaskState, Tasks, WokenList};
pub use tie::Perturbation;
pub(crate) use tie::TieBreaker;
