//! RAID 4, 5 and 6: data with parity. The planner of an array: whether it can be made, what it can
//! lose, and, in `plan.rs`, how to read and write a stripe.

pub mod blocks;
pub mod plan;
pub mod segments;
#[cfg(test)]
mod tests;

use super::checks::{check_chunk_size, check_chunks_fit, check_count, check_equal_share};
use super::{DeviceFacts, Level};
use crate::error::CreateError;
use crate::layout::parity::{ParityKind, ParityLayout, Raid6Layout};
use crate::units::{MemberIndex, Sectors};

/// The planner of one array with parity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParityLevel {
    layout: ParityLayout,
}

impl ParityLevel {
    /// An array whose parity lies as `kind` says, in chunks of `chunk` sectors, on `devices` in the
    /// order of their roles, `None` where one is missing. Each member offers as much as the
    /// smallest.
    ///
    /// # Errors
    /// Any [`CreateError`]; the first that applies, from the count of members to their sizes.
    pub fn new(
        devices: &[Option<DeviceFacts>],
        kind: ParityKind,
        chunk: Sectors,
    ) -> Result<Self, CreateError> {
        let level = match kind {
            ParityKind::Raid4 => Level::Raid4,
            ParityKind::Raid5(layout) => Level::Raid5 { layout },
            ParityKind::Raid6(layout) => Level::Raid6 { layout },
        };
        let members = check_count(level, devices.len())?;
        let members_max = match kind {
            // DDF gives P and Q exponents too, so there even they count.
            ParityKind::Raid6(
                Raid6Layout::DdfZeroRestart | Raid6Layout::DdfNRestart | Raid6Layout::DdfNContinue,
            ) => crate::parity::POWERS,
            ParityKind::Raid6(_) => crate::parity::POWERS + 2,
            ParityKind::Raid4 | ParityKind::Raid5(_) => blocks::MEMBERS_MAX - 1,
        };
        if members > members_max {
            let level = level.name();
            return Err(CreateError::TooManyMembers { members, level, members_max });
        }
        check_chunk_size(chunk, true)?;
        let present: Vec<MemberIndex> = (0..)
            .map(MemberIndex)
            .zip(devices)
            .filter_map(|(index, device)| device.is_some().then_some(index))
            .collect();
        if members - present.len() as u32 > kind.parity_count() {
            let missing: Vec<MemberIndex> =
                (0..members).map(MemberIndex).filter(|index| !present.contains(index)).collect();
            return Err(CreateError::members_missing(level, &missing, "missing"));
        }
        check_chunks_fit(devices.iter().flatten(), chunk, 1)?;
        let member_size = check_equal_share(devices.iter().flatten(), members)?;
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
