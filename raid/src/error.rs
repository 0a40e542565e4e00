//! What can go wrong when an array is made and when it is used. Each message is one line for a
//! person: what, where, and what would be right.

use crate::device::IoError;
use crate::levels::Level;
use crate::units::{MemberIndex, Sector, Sectors};

/// Why no array can be made of these devices with these options. Nothing was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CreateError {
    /// The level needs more.
    #[error("{level} needs at least {members_min} members, but there are only {members}")]
    TooFewMembers {
        /// How many there are.
        members: u32,
        /// The level in the field's words.
        level: &'static str,
        /// How many it needs.
        members_min: u32,
    },
    /// More members than the level's arithmetic can tell apart.
    #[error("{level} has at most {members_max} members, but there are {members}")]
    TooManyMembers {
        /// How many there are.
        members: u32,
        /// The level in the field's words.
        level: &'static str,
        /// How many it can have.
        members_max: u32,
    },
    /// Zero copies.
    #[error("zero near copies would store nothing: give 1 to {members}")]
    NoCopies {
        /// How many members there are.
        members: u32,
    },
    /// Two copies of a chunk would lie on one member.
    #[error("{near_copies} near copies need as many members, but there are {members}")]
    MoreCopiesThanMembers {
        /// Copies asked for.
        near_copies: u32,
        /// How many members there are.
        members: u32,
    },
    /// Two copies of a chunk would lie on one member.
    #[error(
        "{near_copies} near and {far_copies} far copies of each need {} members, but there are \
         {members}", u64::from(*near_copies) * u64::from(*far_copies)
    )]
    MoreFarCopiesThanMembers {
        /// Copies side by side.
        near_copies: u32,
        /// How often those are stored.
        far_copies: u32,
        /// How many members there are.
        members: u32,
    },
    /// A combination of near and far copies for which md's map loses data.
    #[error(
        "on {members} members this layout puts two chunks in one place: take another number of \
         members or of copies"
    )]
    LayoutCollides {
        /// How many members there are.
        members: u32,
    },
    /// Data would be missing, since no other member has it.
    #[error("{level} cannot do without {members}")]
    MembersMissing {
        /// The level in the field's words.
        level: &'static str,
        /// Who, as part of a sentence.
        members: String,
    },
    /// The chunk size is no power of two.
    #[error("a chunk of {chunk_bytes} bytes is no power of two")]
    ChunkNotPowerOfTwo {
        /// The size asked for.
        chunk_bytes: u64,
    },
    /// The chunk size is too small or too large.
    #[error(
        "a chunk of {chunk_bytes} bytes is out of range: \
         give {chunk_bytes_min} (4 KiB) to {chunk_bytes_max} (1 GiB)"
    )]
    ChunkOutOfRange {
        /// The size asked for.
        chunk_bytes: u64,
        /// The smallest.
        chunk_bytes_min: u64,
        /// The largest.
        chunk_bytes_max: u64,
    },
    /// A chunk would be no whole number of a device's blocks.
    #[error(
        "a chunk of {chunk_bytes} bytes is smaller than a block of {device}, {block_bytes} bytes"
    )]
    ChunkBelowBlock {
        /// The chunk size asked for.
        chunk_bytes: u64,
        /// The device.
        device: String,
        /// Its logical block.
        block_bytes: u32,
    },
    /// A chunk would be no whole number of a device's blocks.
    #[error(
        "a chunk of {chunk_bytes} bytes is no whole number of blocks of {device}, {block_bytes} \
         bytes each"
    )]
    ChunkCutsBlock {
        /// The chunk size asked for.
        chunk_bytes: u64,
        /// The device.
        device: String,
        /// Its logical block.
        block_bytes: u32,
    },
    /// One of the array's blocks would lie on two members.
    #[error(
        "{device} would end within a block: it offers {used_bytes} bytes, and the array's blocks \
         have {block_bytes}"
    )]
    MemberCutsBlock {
        /// The device.
        device: String,
        /// What the array would use of it.
        used_bytes: u64,
        /// The largest of the members' logical blocks.
        block_bytes: u32,
    },
    /// A device does not hold a single chunk.
    #[error("{device} is too small: it has {device_bytes} bytes, and one chunk has {chunk_bytes}")]
    DeviceTooSmall {
        /// The device.
        device: String,
        /// Its size.
        device_bytes: u64,
        /// The chunk size asked for.
        chunk_bytes: u64,
    },
    /// A device does not hold a chunk for each of the far copies.
    #[error(
        "{device} is too small: it has {device_bytes} bytes, and a chunk of {chunk_bytes} bytes \
         for each of {far_copies} far copies has to fit"
    )]
    TooSmallForCopies {
        /// The device.
        device: String,
        /// Its size.
        device_bytes: u64,
        /// The chunk size asked for.
        chunk_bytes: u64,
        /// How many far copies there are.
        far_copies: u32,
    },
    /// A member's data would reach beyond the end of its device, or begin within a block.
    #[error(
        "sectors {data_start}+{data_length} of {device} cannot hold a member's data: it has \
         {device_size} sectors, in blocks of {block_bytes} bytes"
    )]
    DataOutOfPlace {
        /// The device.
        device: String,
        /// Where the member's data would start.
        data_start: Sector,
        /// How much there would be.
        data_length: Sectors,
        /// What the device has.
        device_size: Sectors,
        /// Its logical block.
        block_bytes: u32,
    },
    /// The members together exceed 64-bit addresses.
    #[error("{members} members of {member_size} sectors are more than 64-bit addresses reach")]
    TooLarge {
        /// How many there are.
        members: u32,
        /// What each offers.
        member_size: Sectors,
    },
}

impl CreateError {
    /// `how` says what is wrong with them, such as `missing`.
    pub(crate) fn members_missing(level: Level, missing: &[MemberIndex], how: &str) -> Self {
        let names: Vec<String> = missing.iter().map(MemberIndex::to_string).collect();
        let members = match &names[..] {
            [one] => format!("member {one}, which is {how}"),
            several => format!("members {}, which are {how}", several.join(", ")),
        };
        Self::MembersMissing { level: level.name(), members }
    }
}

/// Why the array did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArrayError {
    /// A request without length.
    #[error("the request at sector {at} is empty")]
    Empty {
        /// Where it was aimed.
        at: Sector,
    },
    /// A request that cuts a logical block.
    #[error(
        "{length_bytes} bytes at sector {at} are not whole logical blocks of \
         {logical_block_bytes} bytes"
    )]
    Misaligned {
        /// Its first sector.
        at: Sector,
        /// Its length.
        length_bytes: u64,
        /// The array's logical block.
        logical_block_bytes: u32,
    },
    /// A request that reaches beyond the end.
    #[error("sectors {at}+{length} lie beyond the array's {capacity}")]
    OutOfRange {
        /// Its first sector.
        at: Sector,
        /// Its length.
        length: Sectors,
        /// What the array has.
        capacity: Sectors,
    },
    /// No copy is left that can be read. The buffer's contents are undefined.
    #[error("no copy of sectors {at}+{length} can be read")]
    Unreadable {
        /// The first sector of the piece that was lost.
        at: Sector,
        /// Its length.
        length: Sectors,
        /// What the last member said.
        #[source]
        cause: IoError,
    },
    /// Members of a stripe do not give their part, more than parity can replace. Of a write nothing
    /// was written there.
    #[error(
        "sectors {at}+{length} cannot be put together: the members {} do not give their part",
        members.iter().map(MemberIndex::to_string).collect::<Vec<_>>().join(", ")
    )]
    BeyondRedundancy {
        /// The first sector that is concerned.
        at: Sector,
        /// How many.
        length: Sectors,
        /// Whose part is missing.
        members: Vec<MemberIndex>,
    },
    /// A member did not take a write, and the array would not survive losing it. The sectors hold
    /// old or new data, sector by sector.
    #[error("member {member} did not take sectors {at}+{length}, and it cannot be spared")]
    Unwritable {
        /// The first sector of the piece.
        at: Sector,
        /// Its length.
        length: Sectors,
        /// Who.
        member: MemberIndex,
        /// What it said.
        #[source]
        cause: IoError,
    },
    /// A member did not flush, and the array would not survive losing it.
    #[error("member {member} did not flush, and it cannot be spared")]
    Unflushed {
        /// Who.
        member: MemberIndex,
        /// What it said.
        #[source]
        cause: IoError,
    },
    /// One resync, check or recovery at a time.
    #[error("a resync, a check or a recovery is already running")]
    ResyncRunning,
    /// The array was opened to be read.
    #[error("the array is open read-only")]
    ReadOnly,
    /// A resync has to make progress, and may not raise the barrier higher than it goes.
    #[error(
        "a resync needs a window of at least one logical block and 1 to {windows_max} windows in \
         flight, not {window} sectors and {windows_in_flight}"
    )]
    ResyncWindows {
        /// The window asked for.
        window: Sectors,
        /// Windows in flight asked for.
        windows_in_flight: u32,
        /// The most.
        windows_max: u32,
    },
}
