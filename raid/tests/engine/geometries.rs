//! Random arrays of every level and layout of copies, of members in every health.

use crate::rig::{CHUNK_SECTORS, Health, Setup};
use proptest::prelude::*;
use raid::levels::{CopyLevel, DeviceFacts, FarPlacement, Level, Raid0Layout, Raid10Layout};
use raid::units::Sectors;

/// What array to open.
#[derive(Clone, Debug)]
pub(crate) struct Geometry {
    pub(crate) level: Level,
    pub(crate) chunk: u64,
    pub(crate) setups: Vec<Setup>,
}

impl Geometry {
    /// Copies of each sector.
    pub(crate) fn copies(&self) -> u32 {
        match self.level {
            Level::Linear | Level::Raid0 { .. } => 1,
            Level::Raid1 => self.setups.len() as u32,
            Level::Raid10 { layout } => layout.copies(),
            parity => panic!("{} stores no copies", parity.name()),
        }
    }
}

/// Any level on healthy members.
pub(crate) fn any_level() -> impl Strategy<Value = Geometry> {
    prop_oneof![linear(), raid0(), raid1(1), raid10(1), raid10(1)]
}

/// A level that survives the loss of any one member, on healthy members.
pub(crate) fn redundant_level() -> impl Strategy<Value = Geometry> {
    prop_oneof![1 => raid1(2), 2 => raid10(2)]
}

/// The same with lists of bad blocks and write-mostly members here and there.
pub(crate) fn with_options(
    geometries: impl Strategy<Value = Geometry>,
) -> impl Strategy<Value = Geometry> {
    let log = prop_oneof![Just(None), Just(Some(2)), Just(Some(100))];
    let options = prop::collection::vec((log, any::<bool>(), any::<bool>()), 8);
    (geometries, options, any::<bool>()).prop_map(|(mut geometry, options, write_mostly)| {
        for (setup, (log, first, second)) in geometry.setups.iter_mut().zip(options) {
            setup.log = log;
            setup.write_mostly = write_mostly && first && second;
        }
        geometry
    })
}

/// The same with one member that is not in sync, has bad blocks, or is being replaced.
pub(crate) fn with_one_unhealthy(
    geometries: impl Strategy<Value = Geometry>,
) -> impl Strategy<Value = Geometry> {
    (geometries, any::<usize>(), healths()).prop_map(|(mut geometry, index, unhealthy)| {
        let count = geometry.setups.len();
        unhealthy.apply(&mut geometry.setups[index % count]);
        geometry
    })
}

/// What is wrong with a member.
#[derive(Clone, Debug)]
pub(crate) enum Unhealthy {
    Health(Health),
    Bad(Vec<(u64, u64)>),
}

impl Unhealthy {
    pub(crate) fn apply(self, setup: &mut Setup) {
        match self {
            Self::Health(Health::Recovering(point)) => {
                setup.health = Health::Recovering(point % (setup.size + 1));
            }
            Self::Health(Health::Replaced(point)) => {
                setup.health = Health::Replaced(point % (setup.size + 1));
            }
            Self::Health(health) => setup.health = health,
            Self::Bad(bad) => {
                let fits = |(at, length): &(u64, u64)| at + length <= setup.size;
                setup.bad = bad.into_iter().filter(fits).collect();
                setup.log = Some(100);
            }
        }
    }
}

pub(crate) fn healths() -> impl Strategy<Value = Unhealthy> {
    let bad = prop::collection::vec((0u64..80, 1u64..12), 1..5);
    prop_oneof![
        Just(Unhealthy::Health(Health::Missing)),
        (0u64..100).prop_map(|point| Unhealthy::Health(Health::Recovering(point))),
        (0u64..100).prop_map(|point| Unhealthy::Health(Health::Replaced(point))),
        bad.prop_map(Unhealthy::Bad),
    ]
}

fn sizes(members: std::ops::Range<usize>) -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(40u64..80, members)
}

fn healthy(sizes: Vec<u64>) -> Vec<Setup> {
    sizes.into_iter().map(Setup::healthy).collect()
}

fn linear() -> impl Strategy<Value = Geometry> {
    (sizes(1..5), 0u64..12).prop_map(|(sizes, chunk)| Geometry {
        level: Level::Linear,
        chunk,
        setups: healthy(sizes),
    })
}

fn raid0() -> impl Strategy<Value = Geometry> {
    (sizes(1..5), CHUNK_SECTORS..14, any::<bool>()).prop_map(|(sizes, chunk, original)| {
        let layout = if original { Raid0Layout::Original } else { Raid0Layout::Alternate };
        Geometry { level: Level::Raid0 { layout }, chunk, setups: healthy(sizes) }
    })
}

fn raid1(members_min: usize) -> impl Strategy<Value = Geometry> {
    sizes(members_min..4).prop_map(|sizes| Geometry {
        level: Level::Raid1,
        chunk: 0,
        setups: healthy(sizes),
    })
}

/// Every layout that is sound on so many members.
fn raid10(copies_min: u32) -> impl Strategy<Value = Geometry> {
    let layout = (1u32..4, 1u32..4, any::<bool>(), any::<bool>());
    (sizes(2..7), layout).prop_filter_map("no such layout", move |(sizes, layout)| {
        let (near_copies, far_copies, offset, far_sets) = layout;
        let placement = if offset { FarPlacement::Offset } else { FarPlacement::Far };
        let layout = Raid10Layout { near_copies, far_copies, placement, far_sets };
        let fact = |size: &u64| {
            let (name, size) = ("disk".to_owned(), Sectors(*size));
            Some(DeviceFacts { name, size, logical_block_bytes: 512 })
        };
        let facts: Vec<_> = sizes.iter().map(fact).collect();
        let fits = CopyLevel::raid10(&facts, layout, Sectors(CHUNK_SECTORS)).is_ok();
        let level = Level::Raid10 { layout };
        let chunk = CHUNK_SECTORS;
        (fits && layout.copies() >= copies_min).then(|| Geometry {
            level,
            chunk,
            setups: healthy(sizes),
        })
    })
}
