//! Jobs beside the requests. All of them keep requests out by the barrier, and keep out of each
//! other's way by claiming their sectors before they raise it.

mod reconcile;
pub(crate) mod resync;

use crate::request::Extent;
use crate::units::{Sector, Sectors};

/// The claim of a job that needs the whole array.
pub(crate) fn claimed_whole(capacity: Sectors) -> Extent {
    Extent { at: Sector(0), length: capacity }
}
