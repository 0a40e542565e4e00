//! The `raidbed` binary.
fn main() {}
