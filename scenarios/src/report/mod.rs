//! How results are shown: aligned tables, JSON, progress.

pub mod progress;
pub mod table;
