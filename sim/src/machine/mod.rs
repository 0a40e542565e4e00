//! Machines: their shape and what everything on them costs.

mod model;

pub use model::*;
