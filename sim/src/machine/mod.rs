//! Machines: their shape and what everything on them costs.
//!
//! A machine file gives every number with its source, some of them as ranges. [`MachineFile`] reads
//! it and hands out concrete [`Machine`]s; the simulator sees only those.

mod document;
mod error;
mod file;
mod keys;
mod model;
mod presets;
mod report;
mod shape;
#[cfg(test)]
mod tests;

pub use error::{MachineFileError, Position, Problem};
pub use file::{Level, MachineFile, Parameter};
pub use model::*;
