//! Every real array comes together as md put it together: whole, and without each of its members.

use crate::support_fixtures::{Fixture, names};
use raid::metadata::assembly::{
    AssembleError, Assembly, Candidate, Concession, Consistency, Options, assemble,
};
use raid::metadata::superblock::find;
use raid::units::Sectors;

fn candidates(fixture: &Fixture, without: &[&str]) -> Vec<Candidate> {
    let members = fixture.expected.members.iter().zip(&fixture.images);
    members
        .filter(|(member, _)| !without.contains(&member.file.as_str()))
        .map(|(member, image)| Candidate {
            name: member.file.clone(),
            size: Sectors::from_bytes_rounded_down(image.len() as u64),
            superblock: find(image),
        })
        .collect()
}

/// An array with all of its images: roles and missing roles as md had them.
fn check(fixture: &Fixture, found: &Assembly, devices: &[Candidate]) {
    let expected = &fixture.expected;
    let name = &expected.name;
    assert_eq!(found.events, expected.events, "{name}");
    assert_eq!(found.array_size(devices).bytes(), expected.array_size, "{name}");
    for (role, slot) in found.slots.iter().enumerate() {
        let file = slot.original.map(|device| devices[device].name.clone());
        let expected_file = expected.roles.get(&role.to_string()).cloned().flatten();
        assert_eq!(file, expected_file, "{name} role {role}");
    }
    let empty = found.slots.iter().zip(0..).filter(|(slot, _)| slot.is_empty());
    let missing: Vec<u32> = empty.map(|(_, role)| role).collect();
    assert_eq!(missing, expected.missing_roles, "{name}");
    let consistency = match expected.consistency_policy.as_str() {
        "none" => Consistency::None,
        "resync" => Consistency::Resync,
        "bitmap" => Consistency::Bitmap,
        "ppl" => Consistency::PartialParityLog,
        "journal" => Consistency::Journal,
        other => panic!("{name}: {other}"),
    };
    assert_eq!(found.consistency, consistency, "{name}");
    let position = found.reshaping.map_or("none".to_owned(), |of| of.position.to_string());
    assert_eq!(position, expected.reshape_position, "{name}");
}

#[test]
fn every_array_comes_together_without_asking_for_leave() {
    for name in names() {
        let fixture = Fixture::load(&name);
        let mut devices = candidates(&fixture, &[]);
        for _ in 0..2 {
            let found = assemble(&devices, Options::default());
            let found = found.unwrap_or_else(|error| panic!("{name}: {error}"));
            check(&fixture, &found, &devices);
            devices.reverse();
        }
    }
}

/// The array without some members, and what comes of it.
fn without(name: &str, files: &[&str], options: Options) -> Result<Assembly, AssembleError> {
    assemble(&candidates(&Fixture::load(name), files), options)
}

const DEGRADED: Options = Options { degraded: true, force: false, raid0_layout: None };
const FORCED: Options = Options { degraded: true, force: true, raid0_layout: None };

#[test]
fn cut_off_arrays_start_without_a_member_where_md_starts_them() {
    let mut tried = 0;
    for name in names().iter().filter(|name| name.contains("crash")) {
        let fixture = Fixture::load(name);
        for (label, after) in &fixture.expected.after {
            let Some(label) = label.strip_prefix("without-") else { continue };
            let (label, options) = match label.strip_suffix("-force") {
                Some(label) => (label, FORCED),
                None => (label, DEGRADED),
            };
            let last = fixture.expected.members.len() - 1;
            let file =
                if label == "journal" { format!("m{last}.img") } else { format!("{label}.img") };
            let found = assemble(&candidates(&fixture, &[&file]), options);
            assert_eq!(found.is_ok(), after.started, "{name} without {file}: {:?}", found.err());
            tried += 1;
        }
    }
    assert_eq!(tried, 24, "as many as md was asked for");
}

#[test]
fn a_reshape_knows_both_of_its_sides() {
    let found = without("raid5-reshape-3to4", &[], Options::default()).expect("whole");
    let of = found.reshaping.expect("a reshape");
    assert_eq!((of.before.raid_disks, of.after.raid_disks), (3, 4));
    assert_eq!((of.before.chunk, of.after.chunk), (Sectors(128), Sectors(128)));
    assert!(!of.backwards);
}

#[test]
fn a_replacement_stands_beside_its_original() {
    let found = without("raid5-3-replace-mid", &[], Options::default()).expect("whole");
    assert_eq!((found.slots[1].original, found.slots[1].replacement), (Some(1), Some(3)));
    assert!(found.slots[1].in_sync);
    let found = without("raid5-3-replace-mid", &["m1.img"], DEGRADED).expect("one less");
    assert!(!found.slots[1].in_sync, "the replacement has only a part");
}

#[test]
fn a_lost_journal_is_told() {
    let found = without("raid5-4-crash-journal", &["m4.img"], FORCED).expect("forced");
    assert_eq!(found.concessions, [Concession::JournalLost]);
    let error = without("raid5-4-journal-clean", &["m4.img"], DEGRADED);
    assert_eq!(error, Err(AssembleError::JournalMissing));
}

#[test]
fn too_few_members_are_refused_whatever_is_allowed() {
    for (name, files) in [
        ("linear-3", &["m1.img"][..]),
        ("raid0-3", &["m0.img"]),
        ("raid5-4-ls", &["m0.img", "m3.img"]),
        ("raid6-5-ls", &["m0.img", "m1.img", "m2.img"]),
        ("raid10-4-n2", &["m0.img", "m1.img"]),
        ("raid10-4-f2", &["m1.img", "m2.img"]),
        ("raid1-2-rebuild-mid", &["m0.img"]),
    ] {
        let error = without(name, files, FORCED).expect_err(name);
        assert!(matches!(error, AssembleError::TooFewMembers { .. }), "{name}: {error}");
    }
    let error = without("raid5-4-degraded", &["m0.img"], DEGRADED).expect_err("one is stale");
    assert!(matches!(error, AssembleError::TooFewMembers { may_be_forced: true, .. }), "{error}");
    let forced = without("raid5-4-degraded", &["m0.img"], FORCED).expect("it is taken back");
    assert!(matches!(forced.concessions[..], [Concession::StaleMember { .. }]), "{forced:?}");
}

#[test]
fn members_of_two_arrays_are_told_apart() {
    let mut devices = candidates(&Fixture::load("raid1-2"), &["m1.img"]);
    devices.extend(candidates(&Fixture::load("raid1-3-bitmap"), &["m0.img"]));
    let error = assemble(&devices, FORCED).expect_err("two arrays");
    assert!(matches!(error, AssembleError::TwoArrays { .. }), "{error}");
}

#[test]
fn an_image_cut_short_is_told() {
    let mut fixture = Fixture::load("raid5-4-ls");
    fixture.images[2].truncate(4 << 20);
    let error = assemble(&candidates(&fixture, &[]), Options::default()).expect_err("cut short");
    assert_eq!(
        error.to_string(),
        "m2.img: the data is 14336 sectors at sector 2048, but the device has only 8192: it was \
         cut short"
    );
}
