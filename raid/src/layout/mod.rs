//! Address maps: where on the members the copies or the parity of an array's sectors lie.
//!
//! Pure: nothing here knows a platform, a member's state or its contents.

pub mod copies;
pub mod far;
pub mod linear;
pub mod mirror;
pub mod near;
pub mod parity;
pub mod striped;

pub use copies::{CopyLayout, MemberRun};

use crate::units::{MemberIndex, Sector};
use smallvec::SmallVec;
use std::fmt;

/// A sector of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location {
    /// The member.
    pub member: MemberIndex,
    /// The sector on it.
    pub at: Sector,
}

/// Such as `m0@8`: the member and its sector.
impl fmt::Display for Location {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "m{}@{}", self.member, self.at)
    }
}

/// Places on the members that hold the same sectors, in the order of preference. Up to four of
/// them need no allocation.
pub type Locations = SmallVec<[Location; 4]>;
