//! Why an array of real devices cannot be opened. One line for a person each.

use crate::device::IoError;
use crate::error::CreateError;
use crate::metadata::assembly::AssembleError;
use crate::metadata::bad_blocks::BadBlocksError;
use crate::metadata::bitmap::BitmapError;
use crate::metadata::journal::End;
use crate::metadata::ppl::PplError;

/// Why the devices cannot be opened as an array. Nothing was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The superblocks make no array.
    #[error(transparent)]
    Rules(#[from] AssembleError),
    /// The engine cannot make the array that the superblocks describe.
    #[error(transparent)]
    Engine(#[from] CreateError),
    /// A device does not give what has to be known.
    #[error("{device}: the {what} cannot be read")]
    Unreadable {
        /// Which one.
        device: String,
        /// What was to be read.
        what: &'static str,
        /// What the device said.
        #[source]
        cause: IoError,
    },
    /// A bad-block log is damaged.
    #[error("{device}: {cause}")]
    BadBlocks {
        /// Which one.
        device: String,
        /// What is wrong with it.
        cause: BadBlocksError,
    },
    /// No member has a bitmap that can be used.
    #[error("{device}: {cause}; --force does without the bitmap and looks at all of the array")]
    Bitmap {
        /// Which one.
        device: String,
        /// What is wrong with it.
        cause: BitmapError,
    },
    /// Parity cannot be made right, and is needed.
    #[error(
        "{device}: {cause}. The array was not shut down cleanly and lacks members, so its parity \
         cannot be relied on without this log; --force serves it all the same"
    )]
    PartialParityLog {
        /// Whose log it is.
        device: String,
        /// What is wrong with it.
        cause: PplError,
    },
    /// The journal cannot be read from its start.
    #[error("{device}: {cause}")]
    Journal {
        /// The journal's device.
        device: String,
        /// What is wrong with it.
        cause: End,
    },
    /// The journal tells of a place that the array has not.
    #[error("{device}: the journal holds sector {at}, which the array has not")]
    JournalBeyondEnd {
        /// The journal's device.
        device: String,
        /// The place.
        at: u64,
    },
    /// What only the journal holds cannot be put in its place.
    #[error(
        "the journal holds a part of the stripe at sector {at} of the members, and the rest of it \
         cannot be put together"
    )]
    JournalStripe {
        /// The stripe's block on the members.
        at: u64,
    },
    /// The array can be read, but not written.
    #[error("the array cannot be opened for writing: {reason}")]
    NotWritable {
        /// Why not, and what would help.
        reason: &'static str,
    },
    /// A combination of features that md does not make.
    #[error("the array is in the middle of a reshape and has a {log}: md makes no such array")]
    ReshapeWithLog {
        /// What it has.
        log: &'static str,
    },
}
