//! Bitmaps and bad-block logs of real arrays.

use crate::support_fixtures::{Fixture, names};
use raid::metadata::bad_blocks::BadBlocks;
use raid::metadata::bitmap::Bitmap;
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
            bitmap.check_belongs_to(superblock.memory_uuid()).expect(name);
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
    for name in names() {
        let fixture = Fixture::load(&name);
        for (member, image) in fixture.expected.members.iter().zip(&fixture.images) {
            let superblock = find(image).expect("a superblock");
            let Some((at, length)) = superblock.bad_block_log() else { continue };
            if !superblock.has(Features::BAD_BLOCKS) {
                // Nobody wrote there, or what was there is gone.
                continue;
            }
            let Details::V1(details) = &superblock.details else { panic!("version 1") };
            let bytes = sectors(image, at, length);
            let log = BadBlocks::decode(bytes, length, details.bad_block_shift).expect("sound");
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
