//! What `force` takes back: members that the array went on without, where it holds too little
//! without them. As mdadm --assemble --force the freshest come first, and no more than are needed;
//! stricter than mdadm where a stale copy could be read beside a fresh one.

use super::redundancy::lacks;
use super::roles::{Cast, LeftOutReason};
use super::{AssembleError, Concession};
use crate::metadata::geometry::{Geometry, Level};
use crate::metadata::superblock::Role;
use std::cmp::Reverse;

/// Puts stale members back into their roles until the level has enough, if it comes to that; else
/// none. What that gives up, for each of them.
pub(super) fn take_back(
    cast: &mut Cast<'_>,
    geometry: Geometry,
) -> Result<Vec<Concession>, AssembleError> {
    let mut live: Vec<bool> = cast.slots.iter().map(|slot| slot.in_sync).collect();
    let mut taken: Vec<(usize, u32)> = Vec::new();
    for (device, role) in stale_members(cast) {
        if lacks(geometry.level, &live).is_none() {
            break;
        }
        if !live[role as usize] && stands_alone(geometry.level, role, &live) {
            live[role as usize] = true;
            taken.push((device, role));
        }
    }
    if lacks(geometry.level, &live).is_some() {
        // Taking some would help nobody.
        return Ok(Vec::new());
    }
    let mut concessions = Vec::new();
    for (device, role) in taken {
        cast.put_back(device, role)?;
        concessions.push(Concession::StaleMember {
            device,
            events: cast.superblock(device).events,
            freshest_events: cast.fresh.events,
        });
    }
    Ok(concessions)
}

/// Whole members that were left out for their age, with the role they had: the freshest first.
fn stale_members(cast: &Cast<'_>) -> Vec<(usize, u32)> {
    let mut stale: Vec<(usize, u32)> = Vec::new();
    for of in &cast.left_out {
        if !of.reason.is_age() {
            continue;
        }
        let superblock = cast.superblock(of.device);
        if let Role::Active(role) = superblock.role()
            && cast.slots.get(role as usize).is_some_and(|slot| slot.is_empty())
            && superblock.recovery_offset().is_none()
            && !superblock.is_replacement()
        {
            stale.push((of.device, role));
        }
    }
    stale.sort_by_key(|(device, _)| {
        let superblock = cast.superblock(*device);
        (Reverse(superblock.events), superblock.dev_number)
    });
    stale
}

/// Whether nobody who is in sync holds a copy of what a role holds: only then is what a stale member
/// says better than nothing. Parity is no copy: with just enough members none is left over to
/// disagree with.
fn stands_alone(level: Level, role: u32, live: &[bool]) -> bool {
    let Level::Raid10(layout) = level else { return true };
    let (members, copies) = (live.len(), layout.copies() as usize);
    (0..members).all(|chunk| {
        let first = chunk * usize::from(layout.near) % members;
        let mut holders = (0..copies).map(|copy| (first + copy) % members);
        let holds = holders.clone().any(|holder| holder == role as usize);
        !holds || holders.all(|holder| !live[holder])
    })
}

impl LeftOutReason {
    /// Whether a device was left out for nothing but its age.
    pub(super) fn is_age(&self) -> bool {
        matches!(self, Self::Disowned { .. } | Self::Stale { .. })
    }
}

#[cfg(test)]
mod tests {
    use crate::metadata::assembly::{Assembly, Candidate, Concession, Options, assemble};
    use crate::metadata::scratch::{DEVICE_SIZE, LOCATION, member, v1};
    use crate::metadata::superblock::Superblock;
    use crate::units::Sectors;

    const LEFT_SYMMETRIC: u32 = 2;

    /// Members of an array with these event counts; none where it is zero.
    fn candidates(level: i32, layout: u32, events: &[u64]) -> Vec<Candidate> {
        let disks = events.len() as u32;
        let candidate = |(index, events): (u32, u64)| {
            let mut of = member(index);
            (of.level, of.chunk, of.layout, of.events) = (level, Sectors(128), layout, events);
            of.raid_disks = disks;
            v1(&mut of).roles = (0..16).collect();
            Candidate {
                name: format!("m{index}"),
                size: DEVICE_SIZE,
                superblock: Superblock::decode(LOCATION, DEVICE_SIZE, &of.encode()),
            }
        };
        let numbered = (0..).zip(events.iter().copied());
        numbered.filter(|(_, events)| *events > 0).map(candidate).collect()
    }

    fn forced(devices: &[Candidate]) -> Result<Assembly, String> {
        let options = Options { degraded: true, force: true, raid0_layout: None };
        assemble(devices, options).map_err(|error| error.to_string())
    }

    /// Which roles are filled with force, and the event counts of those who were taken back.
    fn check(level: i32, layout: u32, events: &[u64], filled: &str, taken: &[u64]) {
        let found = forced(&candidates(level, layout, events)).expect("it has enough");
        let slot = |slot: &super::super::Slot| if slot.in_sync { 'A' } else { '.' };
        assert_eq!(found.slots.iter().map(slot).collect::<String>(), filled, "{events:?}");
        let age = |of: &Concession| match of {
            Concession::StaleMember { events, .. } => *events,
            other => panic!("{other:?}"),
        };
        assert_eq!(found.concessions.iter().map(age).collect::<Vec<_>>(), taken, "{events:?}");
    }

    fn check_refused(level: i32, layout: u32, events: &[u64]) {
        let error = forced(&candidates(level, layout, events)).expect_err("too few");
        assert!(error.starts_with("too few members"), "{error}");
    }

    #[test]
    fn the_freshest_are_taken_back_and_no_more_than_needed() {
        check(5, LEFT_SYMMETRIC, &[90, 90, 80, 70], "AAA.", &[80]);
        check(5, LEFT_SYMMETRIC, &[90, 90, 90, 70], "AAA.", &[]);
        check(5, LEFT_SYMMETRIC, &[90, 70, 80, 0], "AAA.", &[80, 70]);
        check(6, LEFT_SYMMETRIC, &[90, 50, 60, 70, 0], "A.AA.", &[70, 60]);
        check_refused(5, LEFT_SYMMETRIC, &[90, 80, 0, 0]);
    }

    #[test]
    fn a_stale_copy_is_never_taken_beside_a_fresh_one() {
        const NEAR_2: u32 = 0x102;
        const FAR_2: u32 = 0x201;
        check(10, NEAR_2, &[90, 90, 70, 80], "AA.A", &[80]);
        check(10, NEAR_2, &[90, 70, 90, 80], "A.A.", &[]);
        check_refused(10, FAR_2, &[90, 90, 70, 80]);
    }

    #[test]
    fn without_force_the_message_tells_of_it() {
        let devices = candidates(5, LEFT_SYMMETRIC, &[90, 90, 80, 70]);
        let options = Options { degraded: true, ..Options::default() };
        let error = assemble(&devices, options).expect_err("too few").to_string();
        assert!(error.contains("--force takes stale members back"), "{error}");
    }
}
