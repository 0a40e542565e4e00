//! Linux md's metadata as it lies on disk, each format as a value and its bytes.
//!
//! Everything here is pure. A caller reads the sectors that it is told to read, hands the bytes in,
//! and gets a value or an error that names the field and what was found there; it writes the bytes
//! that `encode` returns. Nothing here reads a clock or draws a number: times and UUIDs are passed
//! in. No allocation is sized by a field that was not checked against the bytes at hand.
//!
//! - [`superblock`]: versions 0.90, 1.0, 1.1 and 1.2, and where each lies on a device;
//! - [`geometry`]: levels and layouts, numbers and mdadm's names;
//! - [`assembly`]: which members make an array, in which role, and why not;
//! - [`create`]: the superblocks of a fresh array, placed as mdadm places them;
//! - [`bitmap`], [`bad_blocks`], [`ppl`], [`journal`]: what lies beside the superblock.
//!
//! Sources: the behaviour of Linux 6.1 and mdadm 4.2, as their images and messages show it, and the
//! published description of the formats (`md(4)`, the RAID wiki). All numbers are little-endian
//! unless said otherwise.

pub mod assembly;
pub mod bad_blocks;
pub mod bitmap;
mod bytes;
pub mod create;
pub mod geometry;
mod geometry_names;
pub mod identity;
pub mod journal;
pub mod ppl;
pub mod superblock;

#[cfg(test)]
pub(crate) mod scratch;

pub use geometry::{Geometry, GeometryError, Level};
pub use identity::{Time, Uuid};
pub use superblock::{Superblock, SuperblockError, Version};
