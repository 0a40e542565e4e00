//! A RAID engine, written once against an abstract machine.
//!
//! The engine asks the world for two things: a [`platform::Platform`] (cores, shared memory words,
//! sleeping and waking) and [`device::Device`]s. The simulator and the real backends each provide
//! both; nothing in this crate knows which of them it runs on. It reads no clock, starts no thread,
//! opens no file and draws no random number.
//!
//! What decides is pure and has no platform in its signature; what waits or shares memory is an
//! `async fn` generic over one parameter, `P: Platform`.

pub mod buffer;
pub mod device;
pub mod lock;
pub mod platform;
pub mod units;
