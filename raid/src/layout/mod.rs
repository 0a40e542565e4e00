//! Address maps: where on the members the copies of an array's sector lie.
//!
//! Pure: nothing here knows a platform, a member's state or its contents.

pub mod near;
pub mod parity;

use crate::units::{MemberIndex, Sector};

/// A sector of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location {
    /// The member.
    pub member: MemberIndex,
    /// The sector on it.
    pub at: Sector,
}
