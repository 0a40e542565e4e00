//! The simulated world: a whole NUMA machine in virtual nanoseconds, on one host thread.
//!
//! One seed gives one run, event for event, on any host and in any build. See [`Simulation`].

mod coherence;
pub mod contention;
mod cpu;
mod deadlock;
pub mod device;
mod executor;
pub mod hosts;
pub mod machine;
mod platform;
mod simulation;
mod text_trace;
mod trace;
mod world;

pub use deadlock::{Deadlock, StuckTasks};
pub use executor::{Perturbation, SimGuarded};
pub use platform::{SimCpu, SimLockProbe, SimParker, SimPlatform, SimRegion, SimWord};
pub use simulation::{Options, Outcome, Simulation};
pub use text_trace::record_trace;
