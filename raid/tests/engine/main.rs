//! The engine's shell in a small world that explores interleavings and faults.

mod barrier;
mod faults;
mod parity_faults;
mod parity_jobs;
mod parity_reference;
mod parity_rig;
mod reference;
mod resync;
mod rig;
mod support;
mod suspension;
