//! The metadata of real arrays: what md wrote is read, means what mdadm printed, and is written
//! back byte for byte.

#[path = "../support_fixtures/mod.rs"]
mod support_fixtures;

mod assembling;
mod beside_the_superblock;
mod creating;
mod superblocks;
