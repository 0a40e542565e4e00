//! The engine's shell in a small world that explores interleavings and faults.

mod barrier;
mod faults;
mod reference;
mod resync;
mod rig;
mod support;
mod suspension;
