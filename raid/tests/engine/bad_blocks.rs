//! Stories of bad_blocks.
