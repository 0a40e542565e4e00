//! What a user should know though nothing failed: one line on standard error.

use std::fmt::Arguments;

/// Prints one line.
pub(crate) fn notice(message: Arguments<'_>) {
    eprintln!("raidbed: {message}");
}
