//! Simulated drives: how long a request takes, what the drive holds, what may go wrong; and RAM
//! disks, which the core that submits works for by itself.
//!
//! # Contract of faults
//!
//! A simulated drive may
//! - lose, at a power cut, any of the sectors that were written without force unit access since the
//!   last flush, and any sector of a write under way; each sector by itself, never a part of one;
//! - fail to read given sectors until they are written again ([`Media::spoil`]);
//! - fail to write given sectors ([`Media::wear_out`]);
//! - vanish for good ([`SimDevice::disconnect`]): requests under way and all later ones fail.
//!
//! It never returns wrong data with success, and never loses what it promised to keep. The engine
//! must keep every acknowledged write readable while one copy of each sector is left, and must
//! report an error, never wrong data, when none is.

mod drive;
mod media;
#[cfg(test)]
mod tests;
mod timing;

pub(crate) use drive::Drives;
pub use drive::{DrivePlug, SimCompletion, SimDevice};
pub use media::Media;
