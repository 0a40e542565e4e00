//! Small rings, written here a second time.

use super::*;

const UUID: [u8; 16] = *b"0123456789abcdef";

fn block(fill: u8) -> Vec<u8> {
    vec![fill; BLOCK_BYTES]
}

fn sum(bytes: &[u8]) -> u32 {
    crc32c_raw(crc32c_raw(!0, &UUID), bytes)
}

/// A payload's bytes in the meta block.
fn data(kind: u16, at: u64, blocks: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = kind.to_le_bytes().to_vec();
    bytes.extend([0, 0]);
    bytes.extend((blocks.len() as u32 * 8).to_le_bytes());
    bytes.extend(at.to_le_bytes());
    blocks.iter().for_each(|of| bytes.extend(sum(of).to_le_bytes()));
    bytes
}

fn meta(sequence: u64, position: u64, payloads: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK_BYTES];
    bytes[..4].copy_from_slice(&MAGIC.to_le_bytes());
    bytes[8] = 1;
    bytes[12..16].copy_from_slice(&(32 + payloads.len() as u32).to_le_bytes());
    bytes[16..24].copy_from_slice(&sequence.to_le_bytes());
    bytes[24..32].copy_from_slice(&position.to_le_bytes());
    bytes[32..32 + payloads.len()].copy_from_slice(payloads);
    let checksum = sum(&bytes);
    bytes[4..8].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// A ring of these blocks, scanned from a tail in sectors: the batches and how it ended.
fn scan(ring: &[Vec<u8>], tail: u64) -> (Vec<Batch>, String) {
    let mut scanner = Scanner::new(UUID, Sectors(ring.len() as u64 * 8), Sector(tail));
    let mut batches = Vec::new();
    while let Some(at) = scanner.wants() {
        batches.extend(scanner.give(&ring[(at.0 / 8) as usize]));
    }
    (batches, scanner.end().expect("it ended").to_string())
}

#[test]
fn a_log_wraps_around_the_ring_and_ends_where_it_is_old() {
    let payloads = [data(0, 64, &[block(1)]), data(1, 32, &[block(2), block(3)])].concat();
    let ring = [
        block(2),
        block(3),
        meta(8, 16, &[2, 0, 0, 0, 8, 0, 0, 0, 32, 0, 0, 0, 0, 0, 0, 0]),
        meta(5, 24, &[]),
        meta(7, 32, &payloads),
        block(1),
    ];
    let (batches, end) = scan(&ring, 32);
    let parity = Payload::Parity { stripe: Sector(32), p: block(2), q: Some(block(3)) };
    let data = Payload::Data { at: Sector(64), bytes: block(1), discarded: false };
    let flush = Payload::Flush { stripes: vec![Sector(32)] };
    assert_eq!(
        batches,
        [
            Batch { sequence: 7, payloads: vec![data, parity] },
            Batch { sequence: 8, payloads: vec![flush] }
        ]
    );
    assert_eq!(end, "journal block at sector 24: sequence is 0x5, not 0x9");
}

/// A ring of one meta block and blocks of zeros: nothing comes of it, and why.
fn check_end(first: &[u8], message: &str) {
    let (batches, end) = scan(&[first.to_vec(), block(0), block(0)], 0);
    assert_eq!((batches, end.as_str()), (vec![], message));
}

#[test]
fn a_log_ends_at_what_is_not_whole() {
    check_end(&block(0), "journal block at sector 0: magic is 0x0, not 0x6433c509");
    check_end(&meta(1, 8, &[]), "journal block at sector 0: position is 0x8, not 0x0");
    let found = u64::from(sum(&block(0)));
    let expected = u64::from(sum(&block(9)));
    let torn = format!("journal block at sector 8: checksum is {found:#x}, not {expected:#x}");
    check_end(&meta(1, 0, &data(0, 64, &[block(9)])), &torn);
    let cut_off = "journal block at sector 0: payload at byte 32 is malformed: it is cut off";
    check_end(&meta(1, 0, &[0, 0, 0, 0]), cut_off);
    check_end(&meta(1, 0, &[0, 0, 0, 0, 0xF8, 0xFF, 0xFF, 0xFF]), cut_off);
    check_end(
        &meta(1, 0, &[3, 0, 0, 0, 0, 0, 0, 0]),
        "journal block at sector 0: payload at byte 32 is malformed: its type is not known",
    );
    check_end(
        &meta(1, 0, &data(0, 0, &[block(0), block(0), block(0)])),
        "journal block at sector 0: payload at byte 32 is malformed: it announces more blocks than \
         the ring has",
    );
}

#[test]
fn a_tail_outside_the_ring_is_no_log() {
    let ring = [block(0), block(0)];
    let outside = "journal tail is sector 16, which is no block of a journal of 16 sectors";
    assert_eq!(scan(&ring, 16), (vec![], outside.to_owned()));
    assert!(scan(&ring, 4).1.starts_with("journal tail is sector 4"));
}
