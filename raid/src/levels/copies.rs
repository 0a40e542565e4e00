//! Levels that store each sector once or several times, as it is: linear, RAID 0, RAID 1 and RAID
//! 10. A read needs one copy, a write goes to all.

use super::checks::{
    block_bytes_of, check_chunk_size, check_chunks_fit, check_count, check_equal_share,
    check_none_missing,
};
use super::{DeviceFacts, Level, Raid0Layout, Raid10Layout};
use crate::error::CreateError;
use crate::layout::CopyLayout;
use crate::layout::far::FarLayout;
use crate::layout::linear::LinearLayout;
use crate::layout::mirror::MirrorLayout;
use crate::layout::near::NearLayout;
use crate::layout::striped::StripedLayout;
use crate::plan::{ReadPlan, WritePlan};
use crate::request::Extent;
use crate::units::{MemberIndex, SECTOR_BYTES, Sectors};

/// The planner of one array of copies. In the constructors, `devices` are the members in the order
/// of their roles, `None` where one is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyLevel {
    layout: CopyLayout,
}

impl CopyLevel {
    /// A linear array, whose members count in multiples of `rounding`; zero for whole members.
    ///
    /// # Errors
    /// Any [`CreateError`]; the first that applies, from the count of members to their sizes. So
    /// for the other levels.
    pub fn linear(devices: &[Option<DeviceFacts>], rounding: Sectors) -> Result<Self, CreateError> {
        check_count(Level::Linear, devices.len())?;
        let devices = check_none_missing(Level::Linear, devices)?;
        let sizes = check_sum(&devices)?;
        let unit = Sectors(rounding.0.max(1));
        // The largest block is the array's: no member may end within one.
        let blocks = devices.iter().map(|device| block_bytes_of(device));
        let block_bytes = blocks.max().expect("there are members");
        for device in &devices {
            let used = Sectors(device.size.0 - device.size.0 % unit.0);
            let (name, device_bytes) = (device.name.clone(), device.size.bytes());
            if used.0 == 0 {
                let chunk_bytes = unit.0.saturating_mul(SECTOR_BYTES);
                return Err(CreateError::DeviceTooSmall {
                    device: name,
                    device_bytes,
                    chunk_bytes,
                });
            }
            if !used.bytes().is_multiple_of(u64::from(block_bytes)) {
                let (device, used_bytes) = (name, used.bytes());
                return Err(CreateError::MemberCutsBlock { device, used_bytes, block_bytes });
            }
        }
        Ok(Self { layout: CopyLayout::Linear(LinearLayout::new(&sizes, rounding)) })
    }

    /// A RAID 0 of chunks of `chunk` sectors, which need not be a power of two.
    ///
    /// # Errors
    /// Any [`CreateError`].
    pub fn raid0(
        devices: &[Option<DeviceFacts>],
        layout: Raid0Layout,
        chunk: Sectors,
    ) -> Result<Self, CreateError> {
        let level = Level::Raid0 { layout };
        check_count(level, devices.len())?;
        check_chunk_size(chunk, false)?;
        let devices = check_none_missing(level, devices)?;
        check_chunks_fit(devices.iter().copied(), chunk, 1)?;
        let sizes = check_sum(&devices)?;
        Ok(Self { layout: CopyLayout::Striped(StripedLayout::new(&sizes, chunk, layout)) })
    }

    /// A RAID 1. Each member offers as much as the smallest, in whole blocks of the array.
    ///
    /// # Errors
    /// Any [`CreateError`].
    pub fn raid1(devices: &[Option<DeviceFacts>]) -> Result<Self, CreateError> {
        let members = check_count(Level::Raid1, devices.len())?;
        check_some_present(Level::Raid1, devices)?;
        let blocks = devices.iter().flatten().map(block_bytes_of);
        let block = Sectors(u64::from(blocks.max().unwrap_or_default()) / SECTOR_BYTES);
        check_chunks_fit(devices.iter().flatten(), block, 1)?;
        let smallest = check_equal_share(devices.iter().flatten(), 1)?;
        let size = Sectors(smallest.0 - smallest.0 % block.0);
        Ok(Self { layout: CopyLayout::Mirror(MirrorLayout::new(members, size)) })
    }

    /// A RAID 10 of chunks of `chunk` sectors. Each member offers as much as the smallest.
    ///
    /// # Errors
    /// Any [`CreateError`].
    pub fn raid10(
        devices: &[Option<DeviceFacts>],
        copies: Raid10Layout,
        chunk: Sectors,
    ) -> Result<Self, CreateError> {
        let level = Level::Raid10 { layout: copies };
        let members = check_count(level, devices.len())?;
        let Raid10Layout { near_copies, far_copies, .. } = copies;
        if near_copies == 0 || far_copies == 0 {
            return Err(CreateError::NoCopies { members });
        }
        if copies.copies() > members {
            return Err(match far_copies {
                1 => CreateError::MoreCopiesThanMembers { near_copies, members },
                _ => CreateError::MoreFarCopiesThanMembers { near_copies, far_copies, members },
            });
        }
        check_chunk_size(chunk, true)?;
        check_some_present(level, devices)?;
        check_chunks_fit(devices.iter().flatten(), chunk, far_copies)?;
        let member_size = check_equal_share(devices.iter().flatten(), members)?;
        if far_copies == 1 {
            let layout = NearLayout::new(members, near_copies, chunk, member_size);
            return Ok(Self { layout: CopyLayout::Near(layout) });
        }
        match FarLayout::new(members, copies, chunk, member_size) {
            Some(layout) => Ok(Self { layout: CopyLayout::Far(layout) }),
            None => Err(CreateError::LayoutCollides { members }),
        }
    }

    /// The address map.
    pub fn layout(&self) -> &CopyLayout {
        &self.layout
    }

    /// How to read `piece`.
    pub fn plan_read(&self, piece: Extent) -> ReadPlan {
        self.check_piece(piece);
        ReadPlan::OneOf { candidates: self.layout.locations(piece.at) }
    }

    /// How to write `piece`.
    pub fn plan_write(&self, piece: Extent) -> WritePlan {
        self.check_piece(piece);
        WritePlan::AllOf { targets: self.layout.locations(piece.at) }
    }

    /// Whether all data is still there if just the members for which `live` says yes work.
    pub fn survives_on(&self, live: impl Fn(MemberIndex) -> bool) -> bool {
        self.layout.covers(live)
    }

    fn check_piece(&self, piece: Extent) {
        let end = self.layout.piece_end(piece.at);
        assert!(piece.end() <= end, "a piece lies within one chunk");
    }
}

/// The sizes, whose sum in bytes has to fit 64 bits.
fn check_sum(devices: &[&DeviceFacts]) -> Result<Vec<Sectors>, CreateError> {
    let sizes: Vec<Sectors> = devices.iter().map(|device| device.size).collect();
    let sum: u128 = sizes.iter().map(|size| u128::from(size.0)).sum();
    if sum * u128::from(SECTOR_BYTES) > u128::from(u64::MAX) {
        let member_size = sizes.iter().copied().max().unwrap_or_default();
        return Err(CreateError::TooLarge { members: sizes.len() as u32, member_size });
    }
    Ok(sizes)
}

/// Without any device nobody knows how large the array is.
fn check_some_present(level: Level, devices: &[Option<DeviceFacts>]) -> Result<(), CreateError> {
    if devices.iter().all(Option::is_none) {
        let all: Vec<MemberIndex> = (0..devices.len() as u32).map(MemberIndex).collect();
        return Err(CreateError::members_missing(level, &all, "missing"));
    }
    Ok(())
}

#[cfg(test)]
#[path = "copies_tests.rs"]
mod tests;
