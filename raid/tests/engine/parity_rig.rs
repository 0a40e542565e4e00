//! Arrays with parity on drives of the small world.

use crate::rig::{Rig, Setup, TestArray};
use crate::support::{Drive, TestPlatform, World};
use proptest::prelude::*;
use raid::levels::{Raid5Layout, Raid6Layout};
use raid::tuning::{HeadLookup, StripeLookup};
use raid::units::Sectors;
use raid::{Array, ArrayOptions, Level, MemberDevice, MemberOptions, ResyncOptions, Tuning};
use std::sync::Arc;

/// What array to make.
#[derive(Clone, Debug)]
pub(crate) struct Geometry {
    pub(crate) level: Level,
    pub(crate) members: usize,
    pub(crate) chunk: u64,
    pub(crate) member_size: u64,
    /// How large the stripe cache is.
    pub(crate) heads_max: u32,
    /// How writes get hold of heads.
    pub(crate) lookup: StripeLookup,
    /// Threads that carry out what is left at heads, beside the one of the array.
    pub(crate) threads: u32,
}

/// Every way in which writes get hold of heads.
pub(crate) const LOOKUPS: [StripeLookup; 5] = [
    StripeLookup::Claims,
    StripeLookup::Heads(HeadLookup::PerPage),
    StripeLookup::Heads(HeadLookup::BatchReference),
    StripeLookup::Heads(HeadLookup::Pivot),
    StripeLookup::Heads(HeadLookup::Both),
];

impl Geometry {
    /// Five members in chunks of two heads each.
    pub(crate) fn of(level: Level) -> Self {
        let lookup = StripeLookup::Claims;
        let (chunk, member_size, heads_max) = (16, 80, 1024);
        Self { level, members: 5, chunk, member_size, heads_max, lookup, threads: 0 }
    }

    /// How many members it can lose.
    pub(crate) fn parity_count(&self) -> usize {
        if matches!(self.level, Level::Raid6 { .. }) { 2 } else { 1 }
    }

    fn options(&self) -> ArrayOptions {
        let tuning = Tuning {
            stripe_heads_max: self.heads_max,
            stripe_lookup: self.lookup,
            stripe_threads_per_node: self.threads,
            ..Tuning::default()
        };
        ArrayOptions { level: self.level, chunk: Sectors(self.chunk), tuning }
    }

    /// Fresh drives, all in sync: zeros, whose parity is zero.
    pub(crate) fn rig(&self, seed: u64) -> Rig {
        let world = World::new(4, seed);
        let drive = |index| world.drive(&format!("disk{index}"), self.member_size);
        let drives: Vec<Drive> = (0..self.members).map(drive).collect();
        let array = Array::create(world.platform(), drives.clone(), self.options());
        Rig { array: array.expect("a fit array"), world, drives }
    }

    /// Members in the given health; `None` if they are too few.
    pub(crate) fn open(&self, setups: &[Setup], seed: u64) -> Option<Rig> {
        Rig::try_open(setups, self.options(), seed).ok()
    }

    /// An array of the same drives again, whose members are as `member` says.
    pub(crate) fn reopen(
        &self,
        rig: &Rig,
        member: impl Fn(usize, MemberDevice<TestPlatform>) -> MemberOptions<TestPlatform>,
    ) -> TestArray {
        let whole = |drive: &Drive| MemberDevice::whole(Arc::new(drive.clone()));
        let members = rig.drives[..self.members].iter().enumerate();
        let members = members.map(|(index, drive)| member(index, whole(drive))).collect();
        Array::open(rig.world.platform(), members, self.options()).expect("a fit array")
    }
}

/// A member as it is.
pub(crate) fn present(device: MemberDevice<TestPlatform>) -> MemberOptions<TestPlatform> {
    MemberOptions { device: Some(device), replacement: None }
}

pub(crate) fn raid5() -> Level {
    Level::Raid5 { layout: Raid5Layout::LeftSymmetric }
}

pub(crate) fn raid6() -> Level {
    Level::Raid6 { layout: Raid6Layout::Rotating(Raid5Layout::LeftSymmetric) }
}

/// Every level and layout.
pub(crate) fn levels() -> Vec<Level> {
    let raid5 = (0..6).filter_map(Raid5Layout::from_number);
    let raid6 = (0..21).filter_map(Raid6Layout::from_number);
    let raid5 = raid5.map(|layout| Level::Raid5 { layout });
    let raid6 = raid6.map(|layout| Level::Raid6 { layout });
    [Level::Raid4].into_iter().chain(raid5).chain(raid6).collect()
}

/// Arrays that differ in all that matters; small caches are the usual case.
pub(crate) fn geometries() -> impl Strategy<Value = Geometry> {
    let level = prop::sample::select(levels());
    let chunk = prop::sample::select(vec![8u64, 16, 32]);
    let heads_max = prop::sample::select(vec![1u32, 4, 9, 16, 1024]);
    let lookup = prop::sample::select(&LOOKUPS[..]);
    (level, 0usize..4, chunk, 1u64..5, heads_max, (lookup, 0u32..4)).prop_map(
        |(level, more, chunk, stripes, heads_max, (lookup, threads))| {
            let members_min = if matches!(level, Level::Raid6 { .. }) { 4 } else { 2 };
            let (members, member_size) = (members_min + more, chunk * stripes + 3);
            Geometry { level, members, chunk, member_size, heads_max, lookup, threads }
        },
    )
}

impl Rig {
    /// Sectors in which parity does not fit.
    pub(crate) fn mismatches(&mut self) -> u64 {
        let check = async |cpu, array: TestArray| array.check(&cpu, ResyncOptions::default()).await;
        self.run(check).expect("a check runs").mismatches.0
    }
}
