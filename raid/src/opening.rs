//! Opens an array: looks at what the members are, has the level say whether it can be, and builds it.
//! Reads nothing from a device and writes nothing.

use crate::array::{Array, ArrayOptions, Body};
use crate::common::Common;
use crate::concurrency::barrier::{Barrier, CountingBarrier};
use crate::copies::CopyArray;
use crate::device::Device;
use crate::error::CreateError;
use crate::layout::parity::ParityKind;
use crate::levels::{CopyLevel, DeviceFacts, Level, ParityLevel};
use crate::member::{MemberDevice, MemberOptions};
use crate::platform::Platform;
use crate::records::{Records, RecordsSeed};
use crate::stripe::ParityArray;
use crate::units::{MemberIndex, SECTOR_BYTES, Sectors};
use std::sync::{Arc, Weak};

/// What an array is opened for.
pub(crate) enum Use<P: Platform> {
    /// To be read; nothing is written to any member.
    ReadOnly,
    /// To be read and written; nobody keeps metadata.
    Bare,
    /// To be read and written, with its metadata kept.
    Recorded(Box<RecordsSeed<P>>),
}

pub(crate) fn open<P: Platform>(
    platform: &P,
    members: Vec<MemberOptions<P>>,
    options: ArrayOptions,
    barrier: Barrier<P>,
    purpose: Use<P>,
) -> Result<Arc<Array<P>>, CreateError> {
    for device in members.iter().flat_map(devices_of) {
        check_place(device)?;
    }
    let facts: Vec<Option<DeviceFacts>> = members.iter().map(facts_of).collect();
    let planner = plan(&facts, options.level, options.chunk)?;
    let in_sync = |role: MemberIndex| is_in_sync(&members[role.0 as usize]);
    if !planner.survives_on(in_sync) {
        let roles = (0..members.len() as u32).map(MemberIndex);
        let lacking: Vec<MemberIndex> = roles.filter(|role| !in_sync(*role)).collect();
        let how = "missing or not yet filled in";
        return Err(CreateError::members_missing(options.level, &lacking, how));
    }
    let block_bytes = block_bytes_of(&members).expect("a level has members");
    let (kind, read_only) = (options.tuning.spin_kind, matches!(purpose, Use::ReadOnly));
    let mut common = Common::new(platform, members, block_bytes, kind, read_only);
    if let Use::Recorded(seed) = purpose {
        let planner = planner.clone();
        let survives =
            Box::new(move |live: &dyn Fn(MemberIndex) -> bool| planner.survives_on(live));
        common.records = Some(Records::new(platform, kind, *seed, survives));
    }
    let body = |whole: &Weak<Array<P>>| match planner {
        Planner::Copies(level) => {
            Body::Copies(CopyArray::new(platform, common, level, barrier, options.tuning))
        }
        Planner::Parity(level) => {
            Body::Parity(ParityArray::new(platform, common, level, options.tuning, whole.clone()))
        }
    };
    Ok(Arc::new_cyclic(|whole| Array { body: body(whole) }))
}

/// Opens an array with the barrier that its tuning names.
pub(crate) fn open_assembled<P: Platform>(
    platform: &P,
    members: Vec<MemberOptions<P>>,
    options: ArrayOptions,
    purpose: Use<P>,
) -> Result<Arc<Array<P>>, CreateError> {
    let barrier = Barrier::Counting(CountingBarrier::new(platform, options.tuning));
    open(platform, members, options, barrier, purpose)
}

/// What decides for a kind of array.
#[derive(Clone)]
enum Planner {
    Copies(CopyLevel),
    Parity(ParityLevel),
}

impl Planner {
    fn survives_on(&self, live: impl Fn(MemberIndex) -> bool) -> bool {
        match self {
            Self::Copies(level) => level.survives_on(live),
            Self::Parity(level) => level.survives_on(live),
        }
    }
}

/// Whether members of these sizes make an array.
pub(crate) fn check(
    facts: &[Option<DeviceFacts>],
    level: Level,
    chunk: Sectors,
) -> Result<(), CreateError> {
    plan(facts, level, chunk).map(drop)
}

fn plan(
    facts: &[Option<DeviceFacts>],
    level: Level,
    chunk: Sectors,
) -> Result<Planner, CreateError> {
    let parity = |kind| ParityLevel::new(facts, kind, chunk).map(Planner::Parity);
    Ok(match level {
        Level::Linear => Planner::Copies(CopyLevel::linear(facts, chunk)?),
        Level::Raid0 { layout } => Planner::Copies(CopyLevel::raid0(facts, layout, chunk)?),
        Level::Raid1 => Planner::Copies(CopyLevel::raid1(facts)?),
        Level::Raid10 { layout } => Planner::Copies(CopyLevel::raid10(facts, layout, chunk)?),
        Level::Raid4 => parity(ParityKind::Raid4)?,
        Level::Raid5 { layout } => parity(ParityKind::Raid5(layout))?,
        Level::Raid6 { layout } => parity(ParityKind::Raid6(layout))?,
    })
}

fn devices_of<P: Platform>(member: &MemberOptions<P>) -> impl Iterator<Item = &MemberDevice<P>> {
    [&member.device, &member.replacement].into_iter().flatten()
}

fn is_in_sync<P: Platform>(member: &MemberOptions<P>) -> bool {
    devices_of(member).any(|device| device.recovery_point.is_none())
}

/// What a role offers: as much as the smaller of its devices.
fn facts_of<P: Platform>(member: &MemberOptions<P>) -> Option<DeviceFacts> {
    let smallest = devices_of(member).min_by_key(|device| device.data_length)?;
    let blocks = devices_of(member).map(|device| device.device.logical_block_bytes());
    Some(DeviceFacts {
        name: smallest.device.name().to_owned(),
        size: smallest.data_length,
        logical_block_bytes: blocks.max()?,
    })
}

fn block_bytes_of<P: Platform>(members: &[MemberOptions<P>]) -> Option<u32> {
    members.iter().flat_map(devices_of).map(|device| device.device.logical_block_bytes()).max()
}

/// The data lies within the device and starts with a block.
fn check_place<P: Platform>(member: &MemberDevice<P>) -> Result<(), CreateError> {
    let (device, block_bytes) = (&member.device, member.device.logical_block_bytes());
    let (data_start, data_length) = (member.data_start, member.data_length);
    let block = u64::from(block_bytes) / SECTOR_BYTES;
    let end = data_start.0.checked_add(data_length.0);
    let inside = end.is_some_and(|end| end <= device.size().0);
    if inside && data_start.0.is_multiple_of(block) {
        return Ok(());
    }
    Err(CreateError::DataOutOfPlace {
        device: device.name().to_owned(),
        data_start,
        data_length,
        device_size: device.size(),
        block_bytes,
    })
}
