//! Small bitmaps, and how large mdadm makes them.

use super::*;

const ROOM: Sectors = Sectors(8);

fn header() -> Header {
    Header {
        version: VERSION,
        array_uuid: [7; 16],
        events: 18,
        events_cleared: 17,
        sync_size: Sectors(1000),
        state: 0,
        chunk_bytes: 65536,
        daemon_sleep_seconds: 5,
        write_behind: 0,
        sectors_reserved: 0,
        nodes: 0,
        cluster_name: [0; 64],
    }
}

/// Marked sectors, and what is to be looked at then.
fn check(marked: &[(u64, u64)], expected: &[(u64, u64)]) {
    let mut bitmap = Bitmap::new(header(), false, ROOM).expect("it fits");
    for (at, length) in marked {
        for chunk in bitmap.chunks_of(Sector(*at), Sectors(*length)) {
            bitmap.set(chunk, true);
        }
    }
    let ranges: Vec<_> = bitmap.dirty_ranges().map(|(at, length)| (at.0, length.0)).collect();
    assert_eq!(ranges, expected);
    assert_eq!(Bitmap::decode(&bitmap.encode(), ROOM), Ok(bitmap));
}

#[test]
fn whole_chunks_are_marked_and_neighbours_joined() {
    check(&[], &[]);
    check(&[(0, 1)], &[(0, 128)]);
    check(&[(127, 2), (900, 1)], &[(0, 256), (896, 104)]);
    check(&[(999, 500)], &[(896, 104)]);
    check(&[(1000, 5), (3, 0)], &[]);
    check(&[(0, 1000)], &[(0, 1000)]);
}

#[test]
fn a_fresh_bitmap_marks_all_or_nothing() {
    let dirty = Bitmap::new(header(), true, ROOM).expect("it fits");
    assert_eq!(dirty.dirty_ranges().next(), Some((Sector(0), Sectors(1000))));
    assert_eq!(dirty.dirty_chunks(), 8);
}

/// A bent header, and the message it is refused with.
fn check_refused(bend: impl Fn(&mut Header), message: &str) {
    let mut bent = header();
    bend(&mut bent);
    let mut to = Writer::little(512);
    bent.encode(&mut to);
    let error = Bitmap::decode(&to.finish(), ROOM).expect_err("md refuses it");
    assert_eq!(error.to_string(), message);
}

#[test]
fn damaged_headers_are_refused() {
    check_refused(
        |of| of.version = 5,
        "bitmap version is 5: 3 and 4 are supported, and 5 is that of a cluster",
    );
    check_refused(
        |of| of.chunk_bytes = 5000,
        "bitmap chunk is 5000: md takes a power of two of 512 and more bytes",
    );
    check_refused(
        |of| of.daemon_sleep_seconds = 0,
        "bitmap daemon sleep is 0: it is at least a second",
    );
    check_refused(
        |of| of.write_behind = 99999,
        "bitmap write-behind is 99999: md takes at most 16383",
    );
    check_refused(
        |of| (of.sync_size, of.chunk_bytes) = (Sectors(1 << 20), 4096),
        "a bitmap of 131072 chunks of 4096 bytes is larger than its space: it needs 33 sectors, and \
         there are 8; chunks of 32768 bytes would fit",
    );
    check_refused(
        |of| of.sync_size = Sectors(u64::MAX),
        "a bitmap of 144115188075855872 chunks of 65536 bytes is larger than its space: it needs \
         35184372088833 sectors, and there are 8; chunks of 576460752303423488 bytes would fit",
    );
    assert_eq!(Bitmap::decode(&[0; 4096], ROOM), Err(BitmapError::Magic(0)));
    assert!(matches!(Bitmap::decode(&[0; 255], ROOM), Err(BitmapError::CutShort { .. })));
}

#[test]
fn reserved_sectors_bound_the_bitmap() {
    let mut of = header();
    (of.sync_size, of.chunk_bytes, of.sectors_reserved) = (Sectors(1 << 20), 131_072, 1);
    assert!(Bitmap::new(of.clone(), false, ROOM).is_err());
    of.sectors_reserved = 8;
    assert!(Bitmap::new(of, false, ROOM).is_ok());
}

#[test]
fn an_old_or_stale_bitmap_is_not_relied_on() {
    let mut of = header();
    assert!(of.is_current(18));
    assert!(!of.is_current(19));
    of.state = STATE_STALE;
    assert!(!of.is_current(18));
    of = Header { version: VERSION_HOST_ENDIAN, ..header() };
    assert!(!of.is_current(18));
}

#[test]
fn mdadm_prefers_chunks_of_64_mib() {
    assert_eq!(default_chunk_bytes(Sectors(14336), Sectors(8)), 64 << 20);
    // 1 TiB in 64 KiB of room: half a million bits of at most 4 MiB would do.
    assert_eq!(default_chunk_bytes(Sectors(1 << 31), Sectors(128)), 64 << 20);
    // 16 TiB in 4 KiB of room: 30720 bits are too few for chunks below 1 GiB.
    assert_eq!(default_chunk_bytes(Sectors(1 << 35), Sectors(8)), 1 << 30);
    assert_eq!(smallest_chunk_bytes(Sectors(u64::MAX), Sectors(0)), u64::MAX, "none would fit");
}
