//! Real md arrays on files and block devices: looking at members, opening an array, making one,
//! and moving its content in and out. What an array is and how it is read belongs to the engine;
//! this is what stands between it and a person's command line.
//!
//! Nothing here writes to a file before every member has been looked at.

pub mod examine;
pub mod member_file;
pub mod sizes;
