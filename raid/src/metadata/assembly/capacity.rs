//! How large the assembled array is, by md's arithmetic. Says nothing of where its sectors lie.

use super::{Assembly, Candidate, Slot};
use crate::metadata::geometry::{Geometry, Level};
use crate::units::Sectors;

impl Assembly {
    /// How many sectors the array has. `devices` are those that it was assembled of. A reshape that
    /// adds room gives it only at its end, and one that takes room away has taken it before.
    pub fn array_size(&self, devices: &[Candidate]) -> Sectors {
        let data_sizes: Vec<Sectors> = self
            .slots
            .iter()
            .filter_map(|slot| Slot::devices(slot).next())
            .filter_map(|device| devices[device].superblock.as_ref().ok())
            .map(|superblock| superblock.data_size())
            .collect();
        let size = |geometry| array_size(geometry, self.component_size, &data_sizes);
        match self.reshaping {
            None => size(self.geometry),
            Some(of) => size(of.before).min(size(of.after)),
        }
    }
}

/// How many sectors of redundancy can disagree, which is what a write-intent bitmap covers: those of
/// a member, but those of the array on RAID 10.
pub fn sync_space(geometry: Geometry, component_size: Sectors) -> Sectors {
    match geometry.level {
        Level::Raid10(_) => array_size(geometry, component_size, &[]),
        _ => component_size,
    }
}

/// How many sectors an array has whose members give `component_size` each, or on RAID 0 and linear
/// each what it has of `data_sizes`.
pub fn array_size(geometry: Geometry, component_size: Sectors, data_sizes: &[Sectors]) -> Sectors {
    let Geometry { level, chunk, raid_disks } = geometry;
    let chunk = u128::from(chunk.0.max(1));
    let (disks, chunks) = (u128::from(raid_disks), u128::from(component_size.0) / chunk);
    let size = match level {
        Level::Linear | Level::Raid0(_) => {
            data_sizes.iter().map(|size| u128::from(size.0) / chunk * chunk).sum()
        }
        Level::Raid1 => u128::from(component_size.0),
        Level::Raid4 | Level::Raid5(_) => chunks * chunk * disks.saturating_sub(1),
        Level::Raid6(_) => chunks * chunk * disks.saturating_sub(2),
        Level::Raid10(layout) => {
            let sections = chunks / u128::from(layout.far.max(1));
            sections * disks / u128::from(layout.near.max(1)) * chunk
        }
    };
    Sectors(u64::try_from(size).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::geometry::Raid10Layout;

    /// Members of 112 chunks of 64 KiB and a rest.
    fn check(level: Level, raid_disks: u32, chunks: u64) {
        let geometry = Geometry { level, chunk: Sectors(128), raid_disks };
        let data = vec![Sectors(14399); raid_disks as usize];
        assert_eq!(array_size(geometry, Sectors(14399), &data).0 / 128, chunks);
    }

    #[test]
    fn copies_divide_and_odd_slots_stay_empty() {
        let raid10 =
            |near, far| Level::Raid10(Raid10Layout { near, far, offset: false, far_sets: false });
        check(raid10(2, 1), 3, 168);
        check(raid10(3, 1), 5, 186);
        check(raid10(1, 2), 3, 168);
        check(Level::Raid4, 4, 336);
        check(Level::Linear, 2, 224);
    }
}
