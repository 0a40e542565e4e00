//! The simulated world: a whole NUMA machine in virtual nanoseconds, on one host thread.

pub mod machine;
