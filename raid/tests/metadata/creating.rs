//! A fresh array has the same shape as md's: every real array is made again from its level, layout,
//! sizes and wishes, and what mdadm placed where comes out.

use crate::support_fixtures::{Fixture, names};
use raid::metadata::assembly::{Candidate, Options, assemble};
use raid::metadata::create::{Made, NewArray, NewArrayError, NewConsistency, NewMember};
use raid::metadata::geometry::{Geometry, Level, Raid5Layout};
use raid::metadata::superblock::{Details, Features, Superblock, Version, find};
use raid::metadata::{Time, Uuid};
use raid::units::{Sector, Sectors};

/// What was asked of mdadm for this array.
fn wish(fixture: &Fixture) -> NewArray {
    let superblocks: Vec<_> =
        fixture.images.iter().map(|image| find(image).expect("a superblock")).collect();
    let first = &superblocks[0];
    let member = |index: usize| NewMember {
        name: fixture.expected.members[index].file.clone(),
        size: Sectors::from_bytes_rounded_down(fixture.images[index].len() as u64),
        uuid: superblocks[index].device_uuid().unwrap_or_default(),
        write_mostly: superblocks[index].is_write_mostly(),
    };
    let raid_disks = fixture.expected.raid_disks as usize;
    NewArray {
        version: first.version,
        geometry: Geometry {
            // The layout of RAID 0 is written down even where it is not stated to mean something.
            level: Level::from_numbers(first.level, first.layout, true).expect("md's level"),
            ..first.geometry().expect("md's geometry")
        },
        name: first.name().unwrap_or_default(),
        uuid: first.array_uuid,
        created: first.created,
        members: (0..raid_disks).map(|index| Some(member(index))).collect(),
        spares: (raid_disks..fixture.images.len()).map(member).collect(),
        component_size: None,
        data_offset: Some(first.data_offset()),
        consistency: match fixture.expected.consistency_policy.as_str() {
            "bitmap" => NewConsistency::Bitmap { chunk_bytes: Some(65536) },
            "ppl" => NewConsistency::PartialParityLog,
            _ => NewConsistency::Resync,
        },
        assume_clean: true,
        bad_block_log: true,
    }
}

/// What mdadm decides when an array is made, and md leaves alone.
fn shape(of: &Superblock) -> String {
    let common = (of.at, of.level, of.layout, of.chunk, of.component_size, of.raid_disks);
    match &of.details {
        Details::V0(of) => format!("{common:?} {} {}", of.disks_total, of.state),
        Details::V1(details) => {
            let lasting = Features::BITMAP | Features::MULTIPLE_PPLS | Features::RAID0_LAYOUT;
            let features = details.features.0 & lasting.0;
            let places = (details.data_offset, details.data_size, details.bitmap_or_ppl);
            let log = (details.bad_block_log_offset, details.bad_block_log_size);
            let roles = details.roles.len();
            format!("{common:?} {features:#x} {places:?} {log:?} {roles} {:?}", of.name())
        }
    }
}

#[test]
fn every_array_made_anew_has_the_shape_of_mds() {
    let mut made_arrays = 0;
    for name in names() {
        let fixture = Fixture::load(&name);
        // A journal comes from elsewhere, and a reshape has changed the shape.
        if name.contains("journal") || name.contains("reshape") {
            continue;
        }
        let made = wish(&fixture).make().unwrap_or_else(|error| panic!("{name}: {error}"));
        for (of, image) in made.iter().zip(&fixture.images) {
            let expected = shape(&find(image).expect("a superblock"));
            assert_eq!(shape(&of.superblock), expected, "{name} {}", of.device);
        }
        made_arrays += 1;
    }
    assert_eq!(made_arrays, 57);
}

/// A RAID 5 of three devices of 64 MiB.
fn raid5(version: Version) -> NewArray {
    let member = |index: u8| {
        Some(NewMember {
            name: format!("m{index}"),
            size: Sectors(131_072),
            uuid: Uuid([index; 16]),
            write_mostly: false,
        })
    };
    NewArray {
        version,
        geometry: Geometry {
            level: Level::Raid5(Raid5Layout::LeftSymmetric),
            chunk: Sectors(128),
            raid_disks: 3,
        },
        name: "host:new".to_owned(),
        uuid: Uuid([9; 16]),
        created: Time { seconds: 1_767_225_600, microseconds: 5 },
        members: (0..3).map(member).collect(),
        spares: Vec::new(),
        component_size: None,
        data_offset: None,
        consistency: NewConsistency::Bitmap { chunk_bytes: None },
        assume_clean: false,
        bad_block_log: true,
    }
}

/// The devices as they are after the writes.
fn written(made: &[Made], size: Sectors) -> Vec<Candidate> {
    let candidate = |of: &Made| {
        let mut image = vec![0; size.bytes() as usize];
        for (at, bytes) in &of.writes {
            let start = at.byte_offset() as usize;
            image[start..start + bytes.len()].copy_from_slice(bytes);
        }
        Candidate { name: of.device.clone(), size, superblock: find(&image) }
    };
    made.iter().map(candidate).collect()
}

#[test]
fn a_fresh_array_assembles_in_every_version() {
    for version in Version::ALL {
        let mut array = raid5(version);
        if version == Version::V0_90 {
            array.created.microseconds = 0;
        }
        let made = array.make().expect("it fits");
        let found = assemble(&written(&made, Sectors(131_072)), Options::default());
        let found = found.unwrap_or_else(|error| panic!("{version}: {error}"));
        assert_eq!(found.geometry, array.geometry);
        assert_eq!(found.resync_offset, Some(Sector(0)), "not assumed to be clean");
        let bitmap = made[0].bitmap.as_ref().expect("it was wished for");
        assert_eq!(bitmap.dirty_ranges().next(), Some((Sector(0), found.component_size)));
    }
}

#[test]
fn a_fresh_array_has_each_thing_in_a_place_of_its_own() {
    let bitmap = NewConsistency::Bitmap { chunk_bytes: None };
    for version in Version::ALL {
        for consistency in [NewConsistency::Resync, bitmap, NewConsistency::PartialParityLog] {
            let at_start = matches!(version, Version::V1_1 | Version::V1_2);
            if consistency == NewConsistency::PartialParityLog && !at_start {
                continue;
            }
            // From 8 MiB to 8 TiB, not all a multiple of anything.
            for (shift, odd) in (14..34).flat_map(|shift| [(shift, 0), (shift, 1), (shift, 77)]) {
                let mut array = raid5(version);
                (array.consistency, array.created.microseconds) = (consistency, 0);
                let size = Sectors((1 << shift) + odd);
                array.members.iter_mut().flatten().for_each(|of| of.size = size);
                if version == Version::V0_90 {
                    // What 32 bits of KiB hold.
                    array.component_size = Some(Sectors(size.0.min(1 << 30) / 2));
                }
                let made = array.make().unwrap_or_else(|error| panic!("{version} {size}: {error}"));
                assert_eq!(made[0].superblock.check(size), Ok(()), "{version} {size}");
                let mut areas: Vec<(u64, u64)> = made[0]
                    .writes
                    .iter()
                    .map(|(at, bytes)| (at.0, at.0 + bytes.len() as u64 / 512))
                    .collect();
                let log = made[0].superblock.bad_block_log();
                areas.extend(log.map(|(at, length)| (at.0, at.0 + length.0)));
                areas.sort_unstable();
                let apart = |pair: &[(u64, u64)]| pair[0].1 <= pair[1].0;
                assert!(areas.windows(2).all(apart), "{version} {size}: {areas:?}");
            }
        }
    }
}

/// A bent wish, and why it cannot be granted.
fn check_refused(bend: impl Fn(&mut NewArray), message: &str) {
    let mut array = raid5(Version::V1_2);
    bend(&mut array);
    let error: NewArrayError = array.make().expect_err("it cannot be granted");
    assert!(error.to_string().starts_with(message), "{error}");
}

#[test]
fn what_cannot_be_granted_is_told() {
    check_refused(|of| of.geometry.chunk = Sectors(6), "a chunk of 3072 bytes is none of raid5");
    check_refused(|of| of.geometry.raid_disks = 4, "3 members are given for an array of 4");
    check_refused(|of| of.geometry.raid_disks = 2000, "raid5 of 2000 devices");
    check_refused(
        |of| (of.version, of.spares) = (Version::V0_90, vec![of.members[0].clone().unwrap(); 25]),
        "28 devices are more than metadata 0.90 holds: 27",
    );
    check_refused(
        |of| of.members[1].as_mut().unwrap().size = Sectors(2100),
        "m1 is too small: 2100",
    );
    check_refused(|of| of.component_size = Some(Sectors(131_072)), "131072 sectors of each member");
    check_refused(
        |of| {
            of.members.iter_mut().flatten().for_each(|of| of.size = Sectors(1 << 30));
            of.consistency = NewConsistency::Bitmap { chunk_bytes: Some(4096) };
        },
        "a bitmap of 134184704 chunks of 4096 bytes is larger than its space",
    );
    check_refused(
        |of| of.consistency = NewConsistency::Bitmap { chunk_bytes: Some(100_000) },
        "bitmap chunk is 100000",
    );
    check_refused(|of| of.data_offset = Some(Sector(8)), "data cannot start at sector 8");
    check_refused(
        |of| (of.version, of.consistency) = (Version::V1_0, NewConsistency::PartialParityLog),
        "a partial parity log needs metadata 1.1 or 1.2",
    );
    check_refused(|of| of.name = "n".repeat(33), "the name 'nnn");
    check_refused(|of| of.members = vec![None; 3], "all members are missing");
    check_refused(
        |of| (of.geometry.level, of.members[0]) = (Level::Linear, None),
        "linear has no redundancy",
    );
}
