//! Whether the members that are there hold all of the array's data.

use super::roles::{Cast, Slot};
use super::{AssembleError, Options};
use crate::metadata::geometry::{Geometry, Level, Raid10Layout};

pub(super) fn check_members(
    cast: &Cast<'_>,
    geometry: Geometry,
    options: Options,
) -> Result<(), AssembleError> {
    let live: Vec<bool> = cast.slots.iter().map(|slot| slot.in_sync).collect();
    let raid_disks = geometry.raid_disks;
    if let Some(needs) = lacks(geometry.level, &live) {
        return Err(AssembleError::TooFewMembers {
            level: geometry.level.name(),
            raid_disks,
            missing: cast.unsynced_slots(),
            needs,
            left: cast.left_out_lines(),
            may_be_forced: !options.force && cast.left_out.iter().any(|of| of.reason.is_age()),
        });
    }
    let absent: Vec<u32> = cast
        .slots_where(Slot::is_empty)
        .into_iter()
        .filter(|role| cast.fresh.knows_a_member_of(*role))
        .collect();
    if !absent.is_empty() && !options.degraded {
        let left = cast.left_out_lines();
        return Err(AssembleError::MembersAbsent { raid_disks, missing: absent, left });
    }
    Ok(())
}

/// What the level needs, where the live slots are not enough.
pub(super) fn lacks(level: Level, live: &[bool]) -> Option<&'static str> {
    let gone = live.iter().filter(|live| !**live).count();
    let (enough, needs) = match level {
        Level::Linear | Level::Raid0(_) => (gone == 0, ", and has no redundancy"),
        Level::Raid1 => (gone < live.len(), ", and needs one whole member"),
        Level::Raid4 | Level::Raid5(_) => (gone <= 1, ", but can spare only one"),
        Level::Raid6(_) => (gone <= 2, ", but can spare only two"),
        Level::Raid10(layout) => (covers(layout, live), ", which hold all copies of some chunks"),
    };
    (!enough).then_some(needs)
}

/// Whether every chunk has a live copy. The copies of a chunk lie on as many consecutive members,
/// beginning at a multiple of the near copies.
fn covers(layout: Raid10Layout, live: &[bool]) -> bool {
    let (members, copies) = (live.len(), layout.copies() as usize);
    (0..members).all(|chunk| {
        let first = chunk * usize::from(layout.near) % members;
        (0..copies).any(|copy| live[(first + copy) % members])
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::geometry::Raid5Layout;

    /// `A` is there, `.` is not.
    fn check(level: Level, members: &str, enough: bool) {
        let live: Vec<bool> = members.bytes().map(|of| of == b'A').collect();
        assert_eq!(lacks(level, &live).is_none(), enough, "{level:?} {members}");
    }

    #[test]
    fn each_level_spares_what_it_can() {
        check(Level::Linear, "AA", true);
        check(Level::Linear, "A.", false);
        check(Level::Raid1, ".A.", true);
        check(Level::Raid1, "...", false);
        check(Level::Raid5(Raid5Layout::LeftSymmetric), "A.A", true);
        check(Level::Raid5(Raid5Layout::LeftSymmetric), "A..", false);
    }

    #[test]
    fn near_copies_are_neighbours() {
        let near = Level::Raid10(Raid10Layout::near(2));
        check(near, "A.A.", true);
        check(near, "A..A", true);
        check(near, "AA..", false);
        check(near, "AA.", true);
        check(near, "A..", false);
    }

    #[test]
    fn far_copies_are_neighbours_around_the_end() {
        let far = Level::Raid10(Raid10Layout { near: 1, far: 2, offset: false, far_sets: false });
        check(far, "A.A.", true);
        check(far, "A..A", false);
        check(far, ".AA.", false);
        check(far, ".AAA", true);
    }
}
