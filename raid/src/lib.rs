//! A RAID engine, written once against an abstract machine.
//!
//! The engine asks the world for two things: a [`platform::Platform`] (cores, shared memory words,
//! sleeping and waking) and [`device::Device`]s. The simulator and the real backends each provide
//! both; nothing in this crate knows which of them it runs on. It reads no clock, starts no thread,
//! opens no file and draws no random number.
//!
//! Begin at [`Array`] for what it does, at [`concurrency`] for who may enter it when, and at
//! [`platform`] for what a world of your own would have to provide.
//!
//! What decides is pure and has no platform in its signature; what waits or shares memory is an
//! `async fn` generic over one parameter, `P: Platform`.

mod common;
mod copies;
mod member;
mod opening;
mod sector_io;
mod stripe;

pub mod array;
pub mod assemble;
pub mod bad_blocks;
pub mod buffer;
pub mod concurrency;
pub mod conformance;
pub mod device;
pub mod error;
pub mod jobs;
pub mod layout;
pub mod levels;
pub mod lock;
pub mod metadata;
pub mod parity;
pub mod patches;
pub mod plan;
pub mod platform;
pub mod request;
pub mod tuning;
pub mod units;

pub use array::{Array, ArrayOptions, ReadDone};
pub use bad_blocks::BadBlocks;
pub use error::{ArrayError, CreateError};
pub use jobs::{
    CheckReport, RESYNC_WINDOW, RecoverOptions, RecoverReport, ResyncOptions, ResyncReport,
};
pub use levels::Level;
pub use member::{MemberDevice, MemberOptions, MemberState};
pub use tuning::Tuning;
