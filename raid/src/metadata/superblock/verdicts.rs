//! What md says of bent superblocks, one by one: the verdicts of mdadm 4.2 and Linux 6.1 on
//! hand-written variants of one member, as far as they concern a member alone.

use super::{Features, Location, Superblock, SuperblockError, Version, Version1};
use crate::metadata::Uuid;
use crate::metadata::scratch::{DEVICE_SIZE, LOCATION, member, seal, v1};
use crate::units::{Sector, Sectors};

/// The bytes of the pair's first member, 4 KiB of them.
fn bytes() -> Vec<u8> {
    let mut bytes = member(0).encode();
    bytes.resize(4096, 0);
    bytes
}

fn verdict(bytes: &[u8]) -> Result<Superblock, SuperblockError> {
    Superblock::decode(LOCATION, DEVICE_SIZE, bytes)
}

/// A variant made by bending the value.
fn check(bend: impl Fn(&mut Superblock), accepted: bool) {
    let mut bent = member(0);
    bend(&mut bent);
    let found = verdict(&bent.encode());
    assert_eq!(found.is_ok(), accepted, "{found:?}");
    if accepted {
        assert_eq!(found, Ok(bent));
    }
}

/// A variant made by bending the bytes under a right checksum, and the error's message.
fn check_bytes(at: usize, value: &[u8], message: &str) {
    let mut bytes = bytes();
    bytes[at..at + value.len()].copy_from_slice(value);
    seal(&mut bytes);
    let error = verdict(&bytes).expect_err("md refuses it");
    assert_eq!(error.to_string(), message);
}

#[test]
fn what_md_takes_is_taken() {
    check(|_| {}, true);
    check(|of| v1(of).name = [0; 32], true);
    check(|of| of.created.seconds = 0, true);
    check(|of| of.updated.seconds = 0, true);
    check(|of| v1(of).device_uuid = Uuid([0; 16]), true);
    check(|of| of.events = 0, true);
    check(|of| of.component_size = Sectors(0), true);
    check(|of| of.component_size = Sectors(8192), true);
    check(|of| of.component_size.0 -= 1, true);
    check(|of| (v1(of).data_offset, v1(of).data_size) = (16, DEVICE_SIZE.0 - 16), true);
    check(|of| v1(of).data_offset = 2047, true);
    check(|of| (of.level, of.layout, of.chunk) = (5, 2, Sectors(128)), true);
    check(|of| of.layout = 7, true);
    check(|of| of.chunk = Sectors(128), true);
    check(|of| of.chunk = Sectors(3), true);
    check(|of| of.raid_disks = 1, true);
    check(|of| of.raid_disks = 3, true);
    check(|of| v1(of).roles[1] = 7, true);
    check(|of| of.dev_number = 200, true);
    for max_dev in [0, 2, 3, 384, 1920] {
        check(|of| v1(of).roles.resize(max_dev, 0xFFFF), true);
    }
    check(|of| v1(of).resync_offset = 4096, true);
    check(|of| v1(of).device_flags = 3, true);
    check(|of| v1(of).corrected_reads = 5, true);
    check(|of| (v1(of).bad_block_log_offset, v1(of).bad_block_log_size) = (16, 8), true);
    check(
        |of| {
            let of = v1(of);
            (of.features, of.recovery_offset) = (Features::RECOVERY_OFFSET, 4096);
        },
        true,
    );
    check(|of| v1(of).bitmap_or_ppl = 8, true);
}

#[test]
fn bytes_behind_the_roles_do_not_matter() {
    let mut bytes = bytes();
    bytes[4096 - 512..].fill(0xAA);
    assert_eq!(verdict(&bytes), Ok(member(0)));
}

#[test]
fn what_md_refuses_is_refused() {
    check(|of| of.array_uuid = Uuid([0; 16]), false);
    check(|of| v1(of).data_size = 0, false);
    check(|of| v1(of).data_size = DEVICE_SIZE.0, false);
    check(|of| v1(of).data_size = DEVICE_SIZE.0 * 2, false);
    check(|of| v1(of).data_size = u64::MAX, false);
    check(|of| (v1(of).data_offset, v1(of).data_size) = (8, DEVICE_SIZE.0 - 8), false);
    check(|of| (v1(of).data_offset, v1(of).data_size) = (0, DEVICE_SIZE.0), false);
    check(|of| of.level = 99, false);
    check(|of| of.raid_disks = 0, false);
    check(|of| (of.level, of.layout, of.chunk) = (5, 2, Sectors(6)), false);
    let both = Features::BITMAP | Features::PPL;
    check(|of| (v1(of).features, v1(of).bitmap_or_ppl) = (both, 8), false);
    check(|of| (v1(of).features, v1(of).bad_block_log_size) = (Features::BAD_BLOCKS, 8), false);
    check(
        |of| (v1(of).features, v1(of).bitmap_or_ppl) = (Features::BITMAP, (-9i32).cast_unsigned()),
        false,
    );
}

#[test]
fn a_message_says_field_and_finding() {
    check_bytes(
        0,
        &0x1234_5678u32.to_le_bytes(),
        "version 1.2: magic is 0x12345678, not 0xa92b4efc",
    );
    check_bytes(4, &[2], "version 1.2: the superblock says major version 2, minor 0");
    check_bytes(
        8,
        &(1u32 << 20 | 1 << 13).to_le_bytes(),
        "feature map 0x102000 has bits that are not supported: bit 13, bit 20",
    );
    check_bytes(12, &[1], "pad0 is 0x1 at byte 12, but has to be zero");
    check_bytes(226, &[1; 30], "pad3 is 0x1 at byte 226, but has to be zero");
    check_bytes(
        144,
        &[0],
        "version 1.2: super offset is 0, but it was found at sector 8: it belongs to another device \
         or partition, or the device was cut short",
    );
    check_bytes(220, &1921u32.to_le_bytes(), "max_dev is 1921, but the format holds 1920 devices");
    check_bytes(
        220,
        &u32::MAX.to_le_bytes(),
        "max_dev is 4294967295, but the format holds 1920 devices",
    );
    check_bytes(
        72,
        &7u32.to_le_bytes(),
        "level 7 is not known: linear (-1), 0, 1, 4, 5, 6 and 10 are; multipath (-4), faulty (-5) \
         and containers hold no data of their own",
    );
    check_bytes(
        136,
        &DEVICE_SIZE.0.to_le_bytes(),
        "the data is 16384 sectors at sector 2048, but the device has only 16384: it was cut short",
    );
}

#[test]
fn a_wrong_checksum_is_refused_but_may_be_looked_at() {
    let mut bytes = bytes();
    bytes[216..220].fill(0);
    let error = verdict(&bytes).expect_err("md refuses it");
    assert!(matches!(error, SuperblockError::Checksum { found: 0, .. }), "{error}");
    let (looked_at, fault) = Superblock::inspect(LOCATION, &bytes).expect("its fields are there");
    assert_eq!((looked_at, fault), (member(0), Some(error)));
}

#[test]
fn a_superblock_that_ends_too_soon_is_refused() {
    let bytes = bytes();
    for length in [0, 255, 256, 511] {
        let error = verdict(&bytes[..length]).expect_err("not all of it is there");
        assert!(matches!(error, SuperblockError::CutShort { .. }), "{length}: {error}");
    }
    assert!(verdict(&bytes[..512]).is_ok());
}

#[test]
fn data_before_a_superblock_at_the_end_must_end_there() {
    let location = Location { version: Version::V1_0, at: Sector(16368) };
    let at_end = |data_size| {
        let mut of = member(0);
        (of.version, of.at) = (location.version, location.at);
        (v1(&mut of).data_offset, v1(&mut of).data_size) = (0, data_size);
        Superblock::decode(location, DEVICE_SIZE, &of.encode())
    };
    assert!(at_end(16368).is_ok());
    assert!(at_end(16369).is_err());
}

/// A variant that is refused, and the error's message.
fn check_refused(bend: impl Fn(&mut Superblock), message: &str) {
    let mut bent = member(0);
    bend(&mut bent);
    let error = verdict(&bent.encode()).expect_err("two areas share sectors").to_string();
    assert_eq!(error, message);
}

/// Puts bitmap or partial parity log, and bad-block log, so many sectors from the superblock.
fn areas(of: &mut Superblock, features: Features, word: i32, log: i32) {
    let of = v1(of);
    (of.features, of.bitmap_or_ppl) = (features, word.cast_unsigned());
    (of.bad_block_log_offset, of.bad_block_log_size) = (log, 8);
}

fn ppl(of: &mut Superblock, offset: i16, log: i32) {
    let word = Version1::ppl_word(offset, 1024);
    areas(of, Features::PPL, word.cast_signed(), log);
}

#[test]
fn no_two_areas_share_a_sector() {
    // The superblock lies in sectors 8..9, the data in 2048..16384.
    check(|of| areas(of, Features::BITMAP, 1, 2), true);
    check(|of| areas(of, Features::BITMAP, 2032, 2031 - 8), true);
    check(|of| ppl(of, 1, 1025), true);
    check_refused(
        |of| (v1(of).data_offset, v1(of).data_size) = (8, DEVICE_SIZE.0 - 8),
        "the superblock in sectors 8..9 of the device and the data in 8..16384 overlap",
    );
    check_refused(
        |of| areas(of, Features::BITMAP, 0, 16),
        "the superblock in sectors 8..9 of the device and the write-intent bitmap in 8..9 overlap",
    );
    check_refused(
        |of| areas(of, Features::BITMAP, 2040, 16),
        "the data in sectors 2048..16384 of the device and the write-intent bitmap in 2048..2049 \
         overlap",
    );
    check_refused(
        |of| areas(of, Features::BITMAP, 20, 16),
        "the write-intent bitmap in sectors 28..29 of the device and the bad-block log in 24..32 \
         overlap",
    );
    // Also without the feature bit: the next bad block is written there.
    check_refused(
        |of| areas(of, Features::default(), 0, 2033),
        "the data in sectors 2048..16384 of the device and the bad-block log in 2041..2049 overlap",
    );
    check_refused(
        |of| areas(of, Features::BAD_BLOCKS, 0, -7),
        "the superblock in sectors 8..9 of the device and the bad-block log in 1..9 overlap",
    );
    check_refused(
        |of| ppl(of, 1017, 2000),
        "the data in sectors 2048..16384 of the device and the partial parity log in 1025..2049 \
         overlap",
    );
    check_refused(
        |of| ppl(of, 0, 2000),
        "the superblock in sectors 8..9 of the device and the partial parity log in 8..1032 overlap",
    );
    check_refused(
        |of| ppl(of, 1, 1024),
        "the partial parity log in sectors 9..1033 of the device and the bad-block log in \
         1032..1040 overlap",
    );
    check_refused(
        |of| {
            areas(of, Features::NEW_OFFSET, 0, 16);
            v1(of).new_offset = 31 - 2048;
        },
        "the data that a reshape moves in sectors 31..14367 of the device and the bad-block log in \
         24..32 overlap",
    );
}

#[test]
fn an_offset_of_zero_keeps_no_room_for_a_bad_block_log() {
    let mut of = member(0);
    areas(&mut of, Features::default(), 0, 0);
    assert_eq!(verdict(&of.encode()).map(|of| of.bad_block_log()), Ok(None));
}

#[test]
fn every_area_ends_within_the_device() {
    let behind = |of: &mut Superblock| {
        v1(of).data_size = 1024;
        areas(of, Features::default(), 0, DEVICE_SIZE.0 as i32 - 15);
    };
    check_refused(
        behind,
        "the bad-block log is 8 sectors at sector 16377, but the device has only 16384: it was cut \
         short",
    );
}
