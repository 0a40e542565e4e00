//! From the level of the metadata to that of the engine.

use crate::layout::parity::{ParityKind, Raid5Layout, Raid6Layout};
use crate::levels::{FarPlacement, Level, Raid0Layout, Raid10Layout};
use crate::metadata::geometry::{self, Geometry};
use crate::units::Sectors;

/// The engine's level and chunk.
pub(super) fn engine_level(geometry: Geometry) -> (Level, Sectors) {
    let level = match geometry.level {
        geometry::Level::Linear => Level::Linear,
        geometry::Level::Raid0(layout) => Level::Raid0 {
            layout: match layout {
                geometry::Raid0Layout::Original => Raid0Layout::Original,
                // With a single zone the two are the same.
                geometry::Raid0Layout::Alternate | geometry::Raid0Layout::Unstated => {
                    Raid0Layout::Alternate
                }
            },
        },
        geometry::Level::Raid1 => Level::Raid1,
        geometry::Level::Raid10(layout) => Level::Raid10 {
            layout: Raid10Layout {
                near_copies: u32::from(layout.near),
                far_copies: u32::from(layout.far),
                placement: if layout.offset { FarPlacement::Offset } else { FarPlacement::Far },
                far_sets: layout.far_sets,
            },
        },
        geometry::Level::Raid4 => Level::Raid4,
        geometry::Level::Raid5(layout) => Level::Raid5 { layout: raid5_layout(layout) },
        geometry::Level::Raid6(layout) => Level::Raid6 { layout: raid6_layout(layout) },
    };
    (level, geometry.chunk)
}

/// How the parity of a level lies.
pub(super) fn parity_kind(level: geometry::Level) -> Option<ParityKind> {
    Some(match level {
        geometry::Level::Raid4 => ParityKind::Raid4,
        geometry::Level::Raid5(layout) => ParityKind::Raid5(raid5_layout(layout)),
        geometry::Level::Raid6(layout) => ParityKind::Raid6(raid6_layout(layout)),
        _ => return None,
    })
}

fn raid6_layout(layout: geometry::Raid6Layout) -> Raid6Layout {
    match layout {
        geometry::Raid6Layout::Rotating(layout) => Raid6Layout::Rotating(raid5_layout(layout)),
        geometry::Raid6Layout::DdfZeroRestart => Raid6Layout::DdfZeroRestart,
        geometry::Raid6Layout::DdfNRestart => Raid6Layout::DdfNRestart,
        geometry::Raid6Layout::DdfNContinue => Raid6Layout::DdfNContinue,
        geometry::Raid6Layout::QLast(layout) => Raid6Layout::QLast(raid5_layout(layout)),
    }
}

fn raid5_layout(layout: geometry::Raid5Layout) -> Raid5Layout {
    Raid5Layout::from_number(layout as u32).expect("both are numbered as md numbers them")
}
