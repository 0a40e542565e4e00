//! The superblock of every image.

use crate::support_fixtures::{ExpectedMember, Fixture, names, sha256_hex};
use raid::metadata::superblock::{ByteOrder, Details, Location, Reshape, Role, Superblock, find};
use raid::units::{Sector, Sectors};

fn check(fixture: &Fixture, member: &ExpectedMember, image: &[u8]) {
    let expected = &fixture.expected;
    let context = format!("{} {}", expected.name, member.file);
    let found = find(image).unwrap_or_else(|error| panic!("{context}: {error}"));
    assert_eq!(found.version.to_string(), expected.metadata, "{context}");
    assert_eq!(found.array_uuid.to_string().replace(':', ""), expected.uuid, "{context}");
    assert_eq!(found.level, expected.level, "{context}");
    assert_eq!(found.layout, expected.layout, "{context}");
    assert_eq!(found.chunk.bytes(), expected.chunk_bytes, "{context}");
    assert_eq!(found.raid_disks, expected.raid_disks, "{context}");
    assert_eq!(found.component_size.0, expected.component_sectors, "{context}");
    assert_eq!(Some(found.at.0), member.sb_sector, "{context}");
    assert_eq!(Some(found.events), member.events, "{context}");
    assert_eq!(Some(found.dev_number), member.dev_number, "{context}");
    assert_eq!(Some(found.data_offset().0), member.data_offset, "{context}");
    assert_eq!(Some(role_number(&found)), member.role, "{context}");
    if let Some(data_size) = member.data_size {
        assert_eq!(found.data_size().0, data_size, "{context}");
    }
    if let Some(uuid) = &member.dev_uuid {
        let device_uuid = found.device_uuid().expect("version 1 has one").to_string();
        assert_eq!(&device_uuid.replace(':', ""), uuid, "{context}");
    }
    if let Some(resync_offset) = member.resync_offset {
        let offset = found.resync_offset().map_or(u64::MAX, |of| of.0);
        assert_eq!(offset, resync_offset, "{context}");
    }
    let encoded = found.encode();
    let start = found.at.byte_offset() as usize;
    assert!(encoded == image[start..start + encoded.len()], "{context}: encoded bytes differ");
}

fn role_number(of: &Superblock) -> u32 {
    match of.role() {
        Role::Active(slot) => slot,
        Role::Spare => 0xFFFF,
        Role::Faulty => 0xFFFE,
        Role::Journal => 0xFFFD,
    }
}

#[test]
fn every_superblock_means_what_mdadm_says_and_encodes_to_its_bytes() {
    let mut images = 0;
    for name in names() {
        let fixture = Fixture::load(&name);
        for (member, image) in fixture.expected.members.iter().zip(&fixture.images) {
            check(&fixture, member, image);
            images += 1;
        }
    }
    assert_eq!(images, 227, "as many images as there are");
}

#[test]
fn images_unpack_to_what_md_left() {
    let fixture = Fixture::load("raid1-2");
    for (member, image) in fixture.expected.members.iter().zip(&fixture.images) {
        assert_eq!(sha256_hex(image), member.sha256);
    }
}

#[test]
fn a_big_endian_machine_wrote_version_0_90_highest_byte_first() {
    let fixture = Fixture::load("raid5-4-meta0.90");
    let mut of = find(&fixture.images[1]).expect("a superblock");
    let little = of.encode();
    let Details::V0(details) = &mut of.details else { panic!("version 0.90") };
    details.byte_order = ByteOrder::Big;
    let big = of.encode();
    assert_eq!(big[..4], [0xA9, 0x2B, 0x4E, 0xFC]);
    assert_eq!(big[156..164], of.events.to_be_bytes(), "64 bits, highest first");
    for (word, (big, little)) in big.chunks(4).zip(little.chunks(4)).enumerate() {
        // The halves of 64-bit numbers change places too, and the sum is over other words.
        if !matches!(word, 38..=42 | 44 | 45) {
            let swapped: Vec<_> = little.iter().rev().copied().collect();
            assert_eq!(big, swapped, "word {word}");
        }
    }
    let mut image = fixture.images[1].clone();
    let start = of.at.byte_offset() as usize;
    image[start..start + big.len()].copy_from_slice(&big);
    let read = find(&image).expect("a superblock");
    assert_eq!(read, of);
    assert_eq!(read.memory_uuid(), read.array_uuid.0);
}

#[test]
fn minor_version_91_says_that_version_0_90_is_reshaping() {
    let fixture = Fixture::load("raid5-4-meta0.90");
    let mut of = find(&fixture.images[0]).expect("a superblock");
    assert_eq!(of.reshape(), None);
    (of.reshape_position, of.delta_disks, of.new_level) = (8064, 1, 5);
    (of.new_layout, of.new_chunk) = (2, Sectors(128));
    let Details::V0(details) = &mut of.details else { panic!("version 0.90") };
    details.minor_version = 91;
    let place = Location { version: of.version, at: of.at };
    let read = Superblock::decode(place, Sectors(16384), &of.encode()).expect("a superblock");
    let expected = Reshape {
        position: Sector(8064),
        backwards: false,
        delta_disks: 1,
        new_level: 5,
        new_layout: 2,
        new_chunk: Sectors(128),
    };
    assert_eq!(read.reshape(), Some(expected));
}
