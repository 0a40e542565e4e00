//! Why members make no array. One line for a person each: who, what was found, what would be right.

use crate::metadata::geometry::GeometryError;
use crate::metadata::identity::Uuid;
use crate::metadata::superblock::SuperblockError;
use crate::units::{Sector, Sectors};

/// Why the devices cannot be assembled. Nothing was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AssembleError {
    /// No device was given.
    #[error("no member was given")]
    NoMembers,
    /// A device has no superblock that may be used.
    #[error("{device}: {cause}")]
    Unusable {
        /// Which one.
        device: String,
        /// What is wrong with it.
        cause: SuperblockError,
    },
    /// The devices belong to several arrays.
    #[error(
        "members of two arrays: {first} belongs to {first_uuid}, {second} to {second_uuid}; give \
         those of one"
    )]
    TwoArrays {
        /// A device of the one.
        first: String,
        /// Its array.
        first_uuid: Uuid,
        /// A device of the other.
        second: String,
        /// Its array.
        second_uuid: Uuid,
    },
    /// Superblocks of one age tell different things of the array.
    #[error("{field} is {found} on {device}, but {expected} on {reference}, which is as fresh")]
    Disagreement {
        /// What they tell.
        field: &'static str,
        /// The device that differs.
        device: String,
        /// What it tells.
        found: String,
        /// The freshest device.
        reference: String,
        /// What that one tells.
        expected: String,
    },
    /// Two devices fill one slot.
    #[error("{first} and {second} both claim role {role}: leave out the wrong one")]
    TwoOfOneRole {
        /// The slot.
        role: u32,
        /// One of them.
        first: String,
        /// The other.
        second: String,
    },
    /// Two devices hold the write journal.
    #[error("{first} and {second} both claim to hold the write journal: leave out the wrong one")]
    TwoJournals {
        /// One of them.
        first: String,
        /// The other.
        second: String,
    },
    /// A member that the array counts on was not written to for too long.
    #[error(
        "event counts are too far apart: {device} is at {events}, but {freshest} at \
         {freshest_events}, and a lag of one is the most; --degraded leaves the older out"
    )]
    Stale {
        /// The member that lags.
        device: String,
        /// Its event count.
        events: u64,
        /// The freshest member.
        freshest: String,
        /// Its event count.
        freshest_events: u64,
    },
    /// Not even a degraded array.
    #[error(
        "too few members: {level} of {raid_disks} devices has nobody for {}{needs}{}{}",
        roles(missing),
        left_out(left),
        if *may_be_forced {
            "; --force takes stale members back if that makes it enough, and gives up what they lack"
        } else {
            ""
        }
    )]
    TooFewMembers {
        /// The level's name.
        level: &'static str,
        /// How many slots the array has.
        raid_disks: u32,
        /// The slots that are empty or not yet rebuilt.
        missing: Vec<u32>,
        /// What the level needs.
        needs: &'static str,
        /// The devices left out, and why.
        left: Vec<String>,
        /// Whether some were left out for their age only.
        may_be_forced: bool,
    },
    /// A degraded array that the members did not know to be degraded.
    #[error(
        "{} of {raid_disks} devices should be there, but is not given{}: \
         --degraded goes on without",
        roles(missing),
        left_out(left)
    )]
    MembersAbsent {
        /// How many slots the array has.
        raid_disks: u32,
        /// The slots that are empty.
        missing: Vec<u32>,
        /// The devices left out, and why.
        left: Vec<String>,
    },
    /// Parity may be wrong, and is needed.
    #[error(
        "the array was not shut down cleanly and lacks {}: what parity says of a stripe that was \
         being written may be wrong. --force serves it all the same and gives up that guarantee: \
         chunks of the missing member may then hold wrong data (the write hole)",
        roles(missing)
    )]
    DirtyAndDegraded {
        /// The slots that are empty or not yet rebuilt.
        missing: Vec<u32>,
    },
    /// The write journal is not there.
    #[error(
        "the array has a write journal, but its device is missing or out of date: data that only \
         the journal holds would be lost. --force serves the array read-only without it"
    )]
    JournalMissing,
    /// RAID 0 of unequal members, laid out in one of two ways.
    #[error(
        "members differ in size, and the superblock does not say how chunks are dealt out beyond \
         the smallest: say --layout=original if the array was filled under Linux before 3.14, \
         --layout=alternate otherwise (mdadm --assemble --update=layout-original or \
         layout-alternate writes it down)"
    )]
    Raid0LayoutUnstated,
    /// The array uses more of a member than there is.
    #[error(
        "{device}: the array uses {component_size} sectors of each member, but this one has only \
         {data_size}"
    )]
    ComponentBeyondData {
        /// The member.
        device: String,
        /// What the array uses.
        component_size: Sectors,
        /// What the member has.
        data_size: Sectors,
    },
    /// The geometry that a reshape leads to.
    #[error("the reshape leads to no array: {0}")]
    NewGeometry(GeometryError),
    /// A reshape that takes place outside the array's addresses.
    #[error("reshape position {position} does not lie in an array of this kind: {reason}")]
    ReshapePosition {
        /// Where it says it stands.
        position: Sector,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The array needs something that is not there.
    #[error("the array is {feature}, which is not supported: {reason}")]
    Unsupported {
        /// What it is.
        feature: &'static str,
        /// Why it is not.
        reason: &'static str,
    },
}

// Not as a source: the message holds it already.
impl From<GeometryError> for AssembleError {
    fn from(error: GeometryError) -> Self {
        Self::NewGeometry(error)
    }
}

fn roles(missing: &[u32]) -> String {
    let numbers: Vec<_> = missing.iter().map(u32::to_string).collect();
    let word = if numbers.len() == 1 { "role" } else { "roles" };
    format!("{word} {}", numbers.join(", "))
}

fn left_out(left: &[String]) -> String {
    if left.is_empty() { String::new() } else { format!(" (left out: {})", left.join("; ")) }
}
