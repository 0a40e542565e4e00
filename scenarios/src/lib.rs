//! What stands on top of the engine and the two worlds: the catalogue of scenarios, the workload
//! vocabulary, the reports and the command line of the `raidbed` binary.
//!
//! Begin at [`catalogue`] for the stories, at [`verbs`] for what the binary does with them, and at
//! [`job`] for how one workload runs in both worlds.
//!
//! Nothing in the workspace depends on this crate.

pub mod arrays;
pub mod catalogue;
pub mod checker;
pub mod cli;
pub mod dax_file;
pub mod drives;
pub mod figures;
pub mod inflight;
pub mod inflight_load;
pub mod job;
pub mod placement;
pub mod quantity;
pub mod report;
pub mod statistics;
pub mod sweep;
pub mod target;
pub mod verbs;
pub mod workload;
