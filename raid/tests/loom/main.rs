//! Walks every interleaving of the locks, and every order in which memory may show their words.
//!
//! The engine's own code runs here: it sees the traits of `raid::platform` alone, which
//! [`support`] implements on loom's words and threads. So no `--cfg loom` is needed.
//!
//! Where three cores make too many interleavings, the number of preemptions is bounded; most
//! mistakes need two. What loom leaves out: it never lets a load see a store that happens later
//! (load buffering).

mod barrier;
mod rw_sem;
mod sequence;
mod spin;
mod support;
mod wait_queue;
