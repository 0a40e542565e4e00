//! The engine's shell in a small world that explores interleavings and faults.

mod bad_blocks;
mod barrier;
mod faults;
mod geometries;
mod levels;
mod parity_faults;
mod parity_jobs;
mod parity_reference;
mod parity_rig;
mod recovery;
mod reference;
mod resync;
mod rig;
mod stripe_heads;
mod support;
mod suspension;
