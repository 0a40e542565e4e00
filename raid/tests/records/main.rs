//! The metadata of arrays that are written: what is on the devices at any moment suffices to bring
//! the array back after a power cut.

#[path = "../engine/support/mod.rs"]
#[allow(dead_code, reason = "these tests use a part of the world")]
mod support;

mod bench;
mod keeping;
mod power_cuts;
