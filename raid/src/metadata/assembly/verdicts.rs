//! What md makes of bent pairs of superblocks: the verdicts of mdadm 4.2 and Linux 6.1, and where
//! this engine is stricter than they are.

use super::{AssembleError, Assembly, Candidate, Options, assemble};
use crate::metadata::Uuid;
use crate::metadata::geometry::Raid0Layout;
use crate::metadata::scratch::{DEVICE_SIZE, LOCATION, member, v1};
use crate::metadata::superblock::{Features, Superblock};
use crate::units::Sectors;

fn candidates(pair: &[Superblock]) -> Vec<Candidate> {
    let candidate = |(index, of): (usize, &Superblock)| Candidate {
        name: format!("m{index}"),
        size: DEVICE_SIZE,
        superblock: Superblock::decode(LOCATION, DEVICE_SIZE, &of.encode()),
    };
    pair.iter().enumerate().map(candidate).collect()
}

/// The pair, bent, assembled in both orders.
fn outcome(
    bend: impl Fn(&mut Superblock, u32),
    options: Options,
) -> Result<Assembly, AssembleError> {
    let mut pair = [member(0), member(1)];
    for (of, index) in pair.iter_mut().zip(0..) {
        bend(of, index);
    }
    let devices = candidates(&pair);
    let reversed: Vec<_> = devices.iter().rev().cloned().collect();
    let (found, other) = (assemble(&devices, options), assemble(&reversed, options));
    assert_eq!(found.is_ok(), other.is_ok(), "the order of devices does not matter");
    found
}

/// As md prints it: `A` for a member, `R` for one that is rebuilt, `.` for none; `+` a spare.
fn picture(of: &Assembly) -> String {
    let slot = |slot: &super::Slot| match (slot.is_empty(), slot.in_sync) {
        (true, _) => '.',
        (false, true) => 'A',
        (false, false) => 'R',
    };
    of.slots.iter().map(slot).chain(of.spares.iter().map(|_| '+')).collect()
}

const STRICT: Options = Options { degraded: false, force: false, raid0_layout: None };
const DEGRADED: Options = Options { degraded: true, ..STRICT };
const FORCED: Options = Options { degraded: true, force: true, raid0_layout: None };

/// A bent pair that assembles.
fn check(bend: impl Fn(&mut Superblock, u32), options: Options, expected: &str) {
    let found = outcome(bend, options).map(|of| picture(&of));
    assert_eq!(found.as_deref(), Ok(expected));
}

/// A bent pair that is refused, and how the message begins.
fn check_refused(bend: impl Fn(&mut Superblock, u32), options: Options, message: &str) {
    let found = outcome(bend, options).expect_err("it is refused").to_string();
    assert!(found.starts_with(message), "{found}");
}

#[test]
fn pairs_that_md_starts_are_started() {
    check(|_, _| {}, STRICT, "AA");
    check(|of, index| v1(of).name = [index as u8; 32], STRICT, "AA");
    check(|of, _| v1(of).device_uuid = Uuid([0x77; 16]), STRICT, "AA");
    check(|of, index| of.events = 10 - u64::from(index), STRICT, "AA");
    check(|of, _| of.component_size = Sectors(0), STRICT, "AA");
    check(|of, _| (of.level, of.chunk, of.layout) = (5, Sectors(128), 2), STRICT, "AA");
    check(|of, _| of.chunk = Sectors(3), STRICT, "AA");
    check(|of, _| of.raid_disks = 3, STRICT, "AA.");
    check(|of, _| v1(of).roles[1] = 0xFFFF, STRICT, "A.+");
    check(|of, _| v1(of).roles[1] = 0xFFFE, STRICT, "A.");
    check(|of, _| v1(of).roles.swap(0, 1), STRICT, "AA");
    check(|of, _| v1(of).roles[1] = 7, STRICT, "A.+");
    check(|of, index| of.dev_number = if index == 0 { 0 } else { 200 }, DEGRADED, "A.+");
    let renumber = |of: &mut Superblock, index| {
        v1(of).roles.swap(1, 5);
        of.dev_number = [0, 5][index as usize];
    };
    check(renumber, STRICT, "AA");
    check(|of, _| v1(of).resync_offset = 4096, STRICT, "AA");
    let rebuilding = |of: &mut Superblock, index| {
        if index == 1 {
            (v1(of).features, v1(of).recovery_offset) = (Features::RECOVERY_OFFSET, 4096);
        }
    };
    check(rebuilding, STRICT, "AR");
}

#[test]
fn pairs_that_md_refuses_are_refused() {
    check_refused(
        |of, index| of.array_uuid = Uuid([index as u8 + 1; 16]),
        STRICT,
        "members of two arrays: m0",
    );
    let later = |of: &mut Superblock, index: u32| of.created.seconds += u64::from(index);
    check_refused(later, STRICT, "creation time is 1767225601.000000 on m1, but 1767225600.000000");
    check_refused(|of, _| v1(of).roles.clear(), STRICT, "too few members: raid1 of 2 devices");
}

#[test]
fn what_md_starts_with_a_member_less_needs_leave() {
    let lag = |of: &mut Superblock, index: u32| of.events -= 2 * u64::from(index);
    check_refused(lag, STRICT, "event counts are too far apart: m1 is at 8, but m0 at 10");
    check(lag, DEGRADED, "A.");
    let feature = |of: &mut Superblock, index| v1(of).features = Features(index << 20);
    check_refused(
        feature,
        STRICT,
        "m1: feature map 0x100000 has bits that are not supported: bit 20",
    );
    check(feature, DEGRADED, "A.");
}

#[test]
fn where_md_takes_whichever_came_first_nothing_is_started() {
    let both = |of: &mut Superblock, _| v1(of).roles[1] = 0;
    check_refused(both, FORCED, "m0 and m1 both claim role 0");
    check_refused(|of, _| of.dev_number = 0, FORCED, "m0 and m1 both claim role 0");
    let swapped_on_one = |of: &mut Superblock, index| {
        if index == 1 {
            v1(of).roles.swap(0, 1);
        }
    };
    check_refused(swapped_on_one, FORCED, "the role is");
}

#[test]
fn an_array_never_reads_beyond_its_members() {
    let beyond = |of: &mut Superblock, _| of.component_size = DEVICE_SIZE;
    check_refused(beyond, FORCED, "m0: the array uses 16384 sectors of each member");
}

#[test]
fn a_failed_member_is_disowned_by_the_fresher_one_alone() {
    let failed = |of: &mut Superblock, index| {
        if index == 0 {
            v1(of).roles[1] = 0xFFFE;
        } else {
            of.events = 9;
        }
    };
    check(failed, STRICT, "A.");
    let found = outcome(failed, STRICT).expect("md starts it");
    assert_eq!(found.left_out[0].reason.to_string(), "had role 1, but was thrown out since");
}

#[test]
fn dirty_parity_makes_up_for_nobody() {
    let alone = |force| {
        let mut of = member(0);
        (of.level, of.chunk, of.layout) = (5, Sectors(128), 2);
        v1(&mut of).resync_offset = 0;
        assemble(&candidates(&[of]), Options { degraded: true, force, raid0_layout: None })
    };
    let error = alone(false).expect_err("md refuses it").to_string();
    assert!(error.starts_with("the array was not shut down cleanly and lacks role 1"), "{error}");
    assert_eq!(alone(true).expect("forced").concessions, [super::Concession::WriteHole]);
}

#[test]
fn an_absent_member_needs_leave() {
    let alone = |degraded| {
        let options = Options { degraded, ..STRICT };
        assemble(&candidates(&[member(1)]), options).map(|of| picture(&of))
    };
    assert_eq!(alone(true).as_deref(), Ok(".A"));
    let error = alone(false).expect_err("m0 is missing").to_string();
    assert_eq!(
        error,
        "role 0 of 2 devices should be there, but is not given: --degraded goes on without"
    );
}

#[test]
fn raid0_of_unequal_members_has_to_say_how() {
    let unequal = |of: &mut Superblock, index: u32| {
        (of.level, of.chunk, of.component_size) = (0, Sectors(128), Sectors(0));
        v1(of).data_size -= u64::from(index) * 128;
    };
    check_refused(unequal, STRICT, "members differ in size");
    let stated = Options { raid0_layout: Some(Raid0Layout::Original), ..STRICT };
    check(unequal, stated, "AA");
    let feature = |of: &mut Superblock, index| {
        unequal(of, index);
        (of.layout, v1(of).features) = (2, Features::RAID0_LAYOUT);
    };
    check(feature, STRICT, "AA");
    let less_than_a_chunk = |of: &mut Superblock, index: u32| {
        (of.level, of.chunk, of.component_size) = (0, Sectors(128), Sectors(0));
        v1(of).data_size -= 1 + u64::from(index) * 100;
    };
    check(less_than_a_chunk, STRICT, "AA");
}

#[test]
fn no_member_is_no_array() {
    assert_eq!(assemble(&[], FORCED), Err(AssembleError::NoMembers));
}
