//! Real md arrays on files and block devices: looking at members, opening an array, making one,
//! and moving its content in and out. What an array is and how it is read belongs to the engine;
//! this is what stands between it and a person's command line.
//!
//! Nothing here writes to a file before every member has been looked at.

pub mod checking;
pub mod copying;
pub mod detail;
pub mod examine;
pub mod interrupt;
pub mod looks_like;
pub mod making;
pub mod member_file;
pub mod opening;
pub mod pipeline;
pub mod sizes;
pub mod source;
pub mod target_file;
pub mod working;
