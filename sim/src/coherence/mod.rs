//! Cache lines between cores: who has a line, who waits for it, and what the next access costs.
//!
//! A line is in memory, or in one core's cache alone (`exclusive`), or copied in several. An access
//! that finds it in the core's own cache is a hit and costs the core's own time. Any other is a
//! request; the requests on one line are served one after the other:
//!
//! - A read takes the line from its owner, or from the nearest copy, and leaves copies behind. Of a
//!   line that is already copied the next request need not wait for the data to arrive, only for
//!   the directory (`shared_read_ns`).
//! - A read-modify-write or a store takes the line for itself: the data from the nearest holder,
//!   and as long as the farthest copy takes to be invalidated.
//! - The old holders lose the line part of the way into the transfer (`snoop_point_percent`); until
//!   then their accesses hit.
//! - A transfer goes by way of the line's home node, as far as the machine says so.
//! - Stores go through a buffer per core, in order; the core does not wait for them. Stronger
//!   operations wait until the buffer is empty.
//!
//! Architecture invariant: a value changes only when its line is exclusive at the changing core.

mod cpu_set;
mod line;
mod memory;
#[cfg(test)]
mod tests;
mod transfers;

pub(crate) use line::Request;
pub(crate) use memory::{Access, Begun, Memory, Operation, Scheduled, WordId};
