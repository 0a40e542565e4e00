//! The kinds of arrays that keep promises, each a variant of the scenario.

use raid::Level;
use raid::levels::{FarPlacement, Raid0Layout, Raid5Layout, Raid6Layout, Raid10Layout};
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
    Far(FarPlacement),
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
    raid10("raid10-far", "copies in sections further down", Choice::Far(FarPlacement::Far)),
    raid10("raid10-offset", "copies in the rows that follow", Choice::Far(FarPlacement::Offset)),
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
            Choice::Near => Level::raid10_near(random.random_range(1..=members.min(3))),
            Choice::Far(placement) => {
                let far_copies = 2;
                // Copies side by side that wrap around the last member would meet far copies.
                let near_copies = if members >= 4 && members.is_multiple_of(2) {
                    random.random_range(1..=2)
                } else {
                    1
                };
                let layout = Raid10Layout { near_copies, far_copies, placement, far_sets: false };
                Level::Raid10 { layout }
            }
        }
    }
}

/// How many members it can lose, whichever they are.
pub(super) fn tolerance(level: Level, members: u32) -> u32 {
    match level {
        Level::Linear | Level::Raid0 { .. } => 0,
        Level::Raid1 => members - 1,
        Level::Raid10 { layout } => layout.near_copies * layout.far_copies - 1,
        Level::Raid4 | Level::Raid5 { .. } => 1,
        Level::Raid6 { .. } => 2,
    }
}

/// Whether redundancy is parity, which may be stale after a power cut.
pub(super) fn has_parity(level: Level) -> bool {
    matches!(level, Level::Raid4 | Level::Raid5 { .. } | Level::Raid6 { .. })
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
    fixed(name, about, 1..6, Level::Raid0 { layout })
}

const fn raid10(name: &'static str, about: &'static str, level: Choice) -> Family {
    Family { name, about, members: 2..7, level }
}

const fn raid5(name: &'static str, about: &'static str, layout: Raid5Layout) -> Family {
    fixed(name, about, 3..7, Level::Raid5 { layout })
}

const fn raid6(name: &'static str, about: &'static str, layout: Raid6Layout) -> Family {
    fixed(name, about, 4..8, Level::Raid6 { layout })
}

const fn rotating(name: &'static str, about: &'static str, layout: Raid5Layout) -> Family {
    raid6(name, about, Raid6Layout::Rotating(layout))
}

const fn q_last(name: &'static str, about: &'static str, layout: Raid5Layout) -> Family {
    raid6(name, about, Raid6Layout::QLast(layout))
}
