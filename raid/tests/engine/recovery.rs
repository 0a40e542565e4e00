//! Stories of recovery.
