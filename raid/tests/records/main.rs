//! The metadata of arrays that are written: what is on the devices at any moment suffices to bring
//! the array back after a power cut.

#[path = "../engine/support/mod.rs"]
mod support;

mod bench;
mod dispatching;
mod doubts;
mod faults;
mod keeping;
mod making;
mod power_cuts;
mod resyncs;
