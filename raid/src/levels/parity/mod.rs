//! RAID 4, 5 and 6: data with parity. The planner of an array: whether it can be made, what it can
//! lose, and, in `plan.rs`, how to read and write a stripe.

pub mod blocks;
pub mod plan;
pub mod segments;
#[cfg(test)]
mod tests;

use super::{DeviceFacts, check_chunk};
use crate::error::CreateError;
use crate::layout::parity::{ParityKind, ParityLayout, Raid6Layout};
use crate::units::{MemberIndex, SECTOR_BYTES, Sectors};

/// The planner of one array with parity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParityLevel {
    layout: ParityLayout,
}

impl ParityLevel {
    /// An array of `devices` in chunks of `chunk` sectors. Each member offers as much as the
    /// smallest.
    ///
    /// # Errors
    /// Any [`CreateError`]; the first that applies, from the count of members to their sizes.
    pub fn new(
        devices: &[DeviceFacts],
        kind: ParityKind,
        chunk: Sectors,
    ) -> Result<Self, CreateError> {
        let members = devices.len() as u32;
        let (level, members_min) = match kind {
            ParityKind::Raid4 => ("RAID 4", 2),
            ParityKind::Raid5(_) => ("RAID 5", 2),
            ParityKind::Raid6(_) => ("RAID 6", 4),
        };
        if members < members_min {
            return Err(CreateError::TooFewMembers { members, level, members_min });
        }
        let members_max = match kind {
            // DDF gives P and Q exponents too, so there even they count.
            ParityKind::Raid6(
                Raid6Layout::DdfZeroRestart | Raid6Layout::DdfNRestart | Raid6Layout::DdfNContinue,
            ) => crate::parity::POWERS,
            ParityKind::Raid6(_) => crate::parity::POWERS + 2,
            ParityKind::Raid4 | ParityKind::Raid5(_) => blocks::MEMBERS_MAX - 1,
        };
        if members > members_max {
            return Err(CreateError::TooManyMembers { members, level, members_max });
        }
        let member_size = check_chunk(devices, chunk)?;
        let bytes_max = u128::from(member_size.0) * u128::from(members) * u128::from(SECTOR_BYTES);
        if bytes_max > u128::from(u64::MAX) {
            return Err(CreateError::TooLarge { members, member_size });
        }
        Ok(Self { layout: ParityLayout::new(kind, members, chunk, member_size) })
    }

    /// The address map.
    pub fn layout(&self) -> &ParityLayout {
        &self.layout
    }

    /// Whether all data is still there if just the members for which `live` says yes work.
    pub fn survives_on(&self, live: impl Fn(MemberIndex) -> bool) -> bool {
        let lost = (0..self.layout.members()).filter(|member| !live(MemberIndex(*member)));
        lost.count() as u32 <= self.layout.kind().parity_count()
    }
}
