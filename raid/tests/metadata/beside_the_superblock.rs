//! Bitmaps and bad-block logs of real arrays.

use crate::support_fixtures::{Fixture, names};
use raid::metadata::bad_blocks::BadBlockLog;
use raid::metadata::bitmap::Bitmap;
use raid::metadata::journal::{Payload, Scanner};
use raid::metadata::ppl;
use raid::metadata::superblock::{Details, Features, find};
use raid::units::{Sector, Sectors};

/// `length` sectors of an image.
fn sectors(image: &[u8], at: Sector, length: Sectors) -> &[u8] {
    let start = at.byte_offset() as usize;
    &image[start..start + length.bytes() as usize]
}

fn size(image: &[u8]) -> Sectors {
    Sectors::from_bytes_rounded_down(image.len() as u64)
}

#[test]
fn every_bitmap_belongs_to_its_array_and_encodes_to_its_bytes() {
    let mut bitmaps = 0;
    for name in names().iter().filter(|name| name.contains("bitmap")) {
        for image in &Fixture::load(name).images {
            let superblock = find(image).expect("a superblock");
            let at = superblock.bitmap_at().expect("a bitmap");
            let room = superblock.bitmap_room(size(image)).expect("room for it");
            assert!([8, 120].contains(&room.0), "{name}: {room} sectors");
            let bitmap = Bitmap::decode(sectors(image, at, room), room)
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            bitmap.header.check_belongs_to(superblock.memory_uuid()).expect(name);
            assert!(bitmap.header.is_current(superblock.events), "{name}");
            assert_eq!(bitmap.header.chunk_bytes, 65536, "{name}");
            let encoded = bitmap.encode();
            assert!(encoded == sectors(image, at, bitmap.header.length()), "{name}: bytes differ");
            let dirty = bitmap.dirty_chunks();
            assert_eq!(dirty > 0, name.contains("crash") || name.contains("degraded"), "{name}");
            bitmaps += 1;
        }
    }
    assert_eq!(bitmaps, 26, "as many as there are");
}

#[test]
fn a_bitmap_counts_sectors_of_a_member_but_of_the_array_on_raid10() {
    let sync_size = |name| {
        let image = Fixture::load(name).images.swap_remove(0);
        let superblock = find(&image).expect("a superblock");
        let (at, room) = (superblock.bitmap_at().expect("one"), Sectors(8));
        Bitmap::decode(sectors(&image, at, room), room).expect("sound").header.sync_size
    };
    assert_eq!(sync_size("raid5-3-ls-bitmap"), Sectors(14336));
    assert_eq!(sync_size("raid10-4-n2-bitmap"), Sectors(28672));
}

#[test]
fn every_bad_block_log_encodes_to_its_bytes() {
    let mut with_entries = Vec::new();
    let worn = |name: &&String| name.contains("badblocks") || name.contains("degraded");
    for name in names().iter().filter(worn) {
        let fixture = Fixture::load(name);
        for (member, image) in fixture.expected.members.iter().zip(&fixture.images) {
            let superblock = find(image).expect("a superblock");
            let Some((at, length)) = superblock.bad_block_log() else { continue };
            if !superblock.has(Features::BAD_BLOCKS) {
                // Nobody wrote there, or what was there is gone.
                continue;
            }
            let Details::V1(details) = &superblock.details else { panic!("version 1") };
            let bytes = sectors(image, at, length);
            let log = BadBlockLog::decode(bytes, length, details.bad_block_shift).expect("sound");
            assert!(!log.is_empty(), "{name}: the feature bit says that there are some");
            assert!(log.encode() == bytes, "{name} {}: bytes differ", member.file);
            let first = log.ranges().next().expect("one at least");
            with_entries.push(format!("{name} {} {}+{}", member.file, first.0, first.1));
        }
    }
    // As `mdadm --examine-badblocks` printed them.
    assert_eq!(
        with_entries,
        ["raid1-2-badblocks m1.img 4096+24", "raid5-4-badblocks m1.img 4096+24"]
    );
}

#[test]
fn every_partial_parity_log_is_sound_up_to_its_newest_header() {
    let mut newest_generation = 0;
    for name in ["raid5-4-ppl-clean", "raid5-4-crash-ppl"] {
        for image in &Fixture::load(name).images {
            let superblock = find(image).expect("a superblock");
            let (at, length) = superblock.ppl().expect("a log");
            let log = sectors(image, at, length);
            let signature = ppl::signature(superblock.memory_uuid());
            let found = ppl::newest(log, signature, true).expect("a header");
            let first = found.at.byte_offset() as usize;
            assert!(found.header.encode() == log[first..first + 4096], "{name}: bytes differ");
            for entry in found.partial_parity(log) {
                let (entry, _) = entry.unwrap_or_else(|error| panic!("{name}: {error}"));
                assert!(entry.data.0 > 0);
            }
            newest_generation = newest_generation.max(found.header.generation);
        }
    }
    assert_eq!(newest_generation, 76, "member 3 of the crashed one wrote last");
}

/// How many batches a journal holds, and what of which kind: data, parity, flushed stripes.
fn journal(name: &str) -> (usize, [usize; 3]) {
    let image = Fixture::load(name).images.pop().expect("the journal comes last");
    let superblock = find(&image).expect("a superblock");
    let tail = superblock.journal_tail().expect("it is the journal");
    let mut scanner = Scanner::new(superblock.memory_uuid(), superblock.data_size(), tail);
    let (mut batches, mut kinds) = (0, [0; 3]);
    while let Some(at) = scanner.wants() {
        let at = superblock.data_offset() + Sectors(at.0);
        let Some(batch) = scanner.give(sectors(&image, at, Sectors(8))) else { continue };
        batches += 1;
        for payload in batch.payloads {
            match payload {
                Payload::Data { .. } => kinds[0] += 1,
                Payload::Parity { .. } => kinds[1] += 1,
                Payload::Flush { stripes } => kinds[2] += stripes.len(),
            }
        }
    }
    (batches, kinds)
}

#[test]
fn a_journal_is_read_to_its_end() {
    assert_eq!(journal("raid5-4-journal-clean"), (1, [4, 2, 0]));
    assert_eq!(journal("raid5-4-crash-journal"), (35, [548, 248, 0]), "around the ring");
}
