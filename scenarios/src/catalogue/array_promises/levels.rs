//! The kinds of arrays that keep promises, each a variant of the scenario.

use raid::Level;
use raid::levels::{FarPlacement, Raid0Layout, Raid10Layout};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use std::ops::Range;

/// Arrays of one level and layout.
pub(super) struct Family {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// How many members they have.
    pub(super) members: Range<u32>,
    /// Whether redundancy is parity, which may be stale after a power cut.
    pub(super) parity: bool,
    /// One of them, on so many members.
    pub(super) level: fn(u32, &mut ChaCha8Rng) -> Level,
    /// How many members it can lose, whichever they are.
    pub(super) tolerance: fn(&Level, u32) -> u32,
}

/// All of them.
pub(super) const FAMILIES: &[Family] = &[
    Family {
        name: "linear",
        about: "members one after the other",
        members: 1..5,
        parity: false,
        level: |_, _| Level::Linear,
        tolerance: none,
    },
    Family {
        name: "raid0-original",
        about: "chunks dealt out by their number in the array",
        members: 1..6,
        parity: false,
        level: |_, _| Level::Raid0 { layout: Raid0Layout::Original },
        tolerance: none,
    },
    Family {
        name: "raid0-alternate",
        about: "chunks dealt out by their number in the zone",
        members: 1..6,
        parity: false,
        level: |_, _| Level::Raid0 { layout: Raid0Layout::Alternate },
        tolerance: none,
    },
    Family {
        name: "raid1",
        about: "the same on every member",
        members: 2..5,
        parity: false,
        level: |_, _| Level::Raid1,
        tolerance: all_but_one,
    },
    Family {
        name: "raid10-near",
        about: "copies side by side",
        members: 2..7,
        parity: false,
        level: |members, random| Level::raid10_near(random.random_range(1..=members.min(3))),
        tolerance: copies_but_one,
    },
    Family {
        name: "raid10-far",
        about: "copies in sections further down, with near copies or without",
        members: 2..7,
        parity: false,
        level: |members, random| far(FarPlacement::Far, members, random),
        tolerance: copies_but_one,
    },
    Family {
        name: "raid10-offset",
        about: "copies in the rows that follow, with near copies or without",
        members: 2..7,
        parity: false,
        level: |members, random| far(FarPlacement::Offset, members, random),
        tolerance: copies_but_one,
    },
];

fn none(_: &Level, _: u32) -> u32 {
    0
}

fn all_but_one(_: &Level, members: u32) -> u32 {
    members - 1
}

fn copies_but_one(level: &Level, _: u32) -> u32 {
    let Level::Raid10 { layout } = level else { panic!("{level:?} has no number of copies") };
    layout.near_copies * layout.far_copies - 1
}

fn far(placement: FarPlacement, members: u32, random: &mut ChaCha8Rng) -> Level {
    let far_copies = 2;
    let near_copies = random.random_range(1..=(members / far_copies).min(2));
    Level::Raid10 { layout: Raid10Layout { near_copies, far_copies, placement, far_sets: false } }
}
