//! The kinds of arrays that keep promises, each a variant of the scenario.

use raid::metadata::geometry::{Level, Raid0Layout, Raid5Layout, Raid6Layout, Raid10Layout};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use std::ops::Range;

/// Arrays of one level and layout.
pub(super) struct Family {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// How many members they have.
    pub(super) members: Range<u32>,
    level: Choice,
}

/// What is left to chance.
#[derive(Clone, Copy)]
enum Choice {
    Fixed(Level),
    /// How many copies.
    Near,
    /// How many near copies; two far ones.
    Far,
    /// As far, in the rows that follow.
    Offset,
}

/// All of them.
pub(super) const FAMILIES: &[Family] = &[
    fixed("linear", "members one after the other", 1..5, Level::Linear),
    raid0("raid0-original", "chunks dealt out by their number in the array", Raid0Layout::Original),
    raid0(
        "raid0-alternate",
        "chunks dealt out by their number in the zone",
        Raid0Layout::Alternate,
    ),
    fixed("raid1", "the same on every member", 2..5, Level::Raid1),
    raid10("raid10-near", "copies side by side", Choice::Near),
    raid10("raid10-far", "copies in sections further down", Choice::Far),
    raid10("raid10-offset", "copies in the rows that follow", Choice::Offset),
    fixed("raid4", "parity on the last member", 3..7, Level::Raid4),
    raid5("raid5-la", "left-asymmetric", Raid5Layout::LeftAsymmetric),
    raid5("raid5-ra", "right-asymmetric", Raid5Layout::RightAsymmetric),
    raid5("raid5-ls", "left-symmetric", Raid5Layout::LeftSymmetric),
    raid5("raid5-rs", "right-symmetric", Raid5Layout::RightSymmetric),
    raid5("raid5-pf", "parity-first", Raid5Layout::ParityFirst),
    raid5("raid5-pl", "parity-last", Raid5Layout::ParityLast),
    rotating("raid6-la", "left-asymmetric", Raid5Layout::LeftAsymmetric),
    rotating("raid6-ra", "right-asymmetric", Raid5Layout::RightAsymmetric),
    rotating("raid6-ls", "left-symmetric", Raid5Layout::LeftSymmetric),
    rotating("raid6-rs", "right-symmetric", Raid5Layout::RightSymmetric),
    rotating("raid6-pf", "parity-first", Raid5Layout::ParityFirst),
    rotating("raid6-pl", "parity-last", Raid5Layout::ParityLast),
    raid6("raid6-ddf-zr", "ddf-zero-restart", Raid6Layout::DdfZeroRestart),
    raid6("raid6-ddf-nr", "ddf-N-restart", Raid6Layout::DdfNRestart),
    raid6("raid6-ddf-nc", "ddf-N-continue", Raid6Layout::DdfNContinue),
    q_last("raid6-la6", "left-asymmetric-6", Raid5Layout::LeftAsymmetric),
    q_last("raid6-ra6", "right-asymmetric-6", Raid5Layout::RightAsymmetric),
    q_last("raid6-ls6", "left-symmetric-6", Raid5Layout::LeftSymmetric),
    q_last("raid6-rs6", "right-symmetric-6", Raid5Layout::RightSymmetric),
    q_last("raid6-pf6", "parity-first-6", Raid5Layout::ParityFirst),
];

impl Family {
    /// One of them, on so many members.
    pub(super) fn level(&self, members: u32, random: &mut ChaCha8Rng) -> Level {
        match self.level {
            Choice::Fixed(level) => level,
            Choice::Near => raid10_level(random.random_range(2..=members.min(3)) as u8, 1, false),
            Choice::Far => raid10_level(near_beside_far(members, random), 2, false),
            Choice::Offset => raid10_level(near_beside_far(members, random), 2, true),
        }
    }
}

const fn raid10_level(near: u8, far: u8, offset: bool) -> Level {
    Level::Raid10(Raid10Layout { near, far, offset, far_sets: false })
}

/// Copies side by side that wrap around the last member would meet far copies.
fn near_beside_far(members: u32, random: &mut ChaCha8Rng) -> u8 {
    if members >= 4 && members.is_multiple_of(2) { random.random_range(1..=2) } else { 1 }
}

/// How many members it can lose, whichever they are.
pub(super) fn tolerance(level: Level, members: u32) -> u32 {
    match level {
        Level::Linear | Level::Raid0(_) => 0,
        Level::Raid1 => members - 1,
        Level::Raid10(layout) => u32::from(layout.near) * u32::from(layout.far) - 1,
        Level::Raid4 | Level::Raid5(_) => 1,
        Level::Raid6(_) => 2,
    }
}

const fn fixed(
    name: &'static str,
    about: &'static str,
    members: Range<u32>,
    level: Level,
) -> Family {
    Family { name, about, members, level: Choice::Fixed(level) }
}

const fn raid0(name: &'static str, about: &'static str, layout: Raid0Layout) -> Family {
    fixed(name, about, 1..6, Level::Raid0(layout))
}

const fn raid10(name: &'static str, about: &'static str, level: Choice) -> Family {
    Family { name, about, members: 2..7, level }
}

const fn raid5(name: &'static str, about: &'static str, layout: Raid5Layout) -> Family {
    fixed(name, about, 3..7, Level::Raid5(layout))
}

const fn raid6(name: &'static str, about: &'static str, layout: Raid6Layout) -> Family {
    fixed(name, about, 4..8, Level::Raid6(layout))
}

const fn rotating(name: &'static str, about: &'static str, layout: Raid5Layout) -> Family {
    raid6(name, about, Raid6Layout::Rotating(layout))
}

const fn q_last(name: &'static str, about: &'static str, layout: Raid5Layout) -> Family {
    raid6(name, about, Raid6Layout::QLast(layout))
}
