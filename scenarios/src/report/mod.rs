//! How results are shown: aligned tables, JSON, progress.

pub mod comparison;
pub mod contention;
pub mod curve;
pub mod gains;
pub mod outcomes;
pub mod progress;
pub mod table;
