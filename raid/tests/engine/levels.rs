//! Stories of levels.
