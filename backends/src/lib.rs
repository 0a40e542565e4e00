//! The real world for the RAID engine: this machine's cores, memory and drives.
//!
//! Each core runs one pinned thread with an executor of its own, which sleeps in io_uring; nothing
//! is shared between cores but what the engine asks to share, and a message queue for waking and
//! starting tasks elsewhere. Where io_uring may not be used, threads that wait do the file I/O.
//!
//! Begin at [`RealMachine`], which starts the cores, and [`RealDevice`], which opens drives.
//!
//! Architecture invariant: nothing here knows of arrays, levels or metadata; and memory that the
//! kernel may still write to is never freed, whatever futures are dropped and tasks panic.

mod block;
mod cpu;
mod device;
mod executor;
mod file;
mod files;
mod guarded;
mod inbox;
mod machine;
mod memory;
mod notice;
mod null;
mod open;
mod operations;
mod parker;
mod platform;
mod probe;
mod queue;
mod ring;
mod tasks;
mod timers;
mod topology;
mod transfer;
mod users;
mod waker;
mod words;
mod workers;

pub use cpu::RealCpu;
pub use device::{RealCompletion, RealDevice};
pub use file::{Access, PageCache};
pub use guarded::RealGuarded;
pub use machine::{Cpus, Options, RealMachine, StartError};
pub use open::{OpenError, direct_block_bytes};
pub use parker::RealParker;
pub use platform::RealPlatform;
pub use probe::{LockCounts, RealLockProbe};
pub use topology::{HostCpu, allowed_cpus};
pub use words::{RealRegion, RealWord};
