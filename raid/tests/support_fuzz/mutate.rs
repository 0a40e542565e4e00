//! Bends bytes: bits, numbers at the edges of their range, pieces moved about, ends cut off. Half of
//! the time checksums are made right again, or nothing would get past them.

use super::corpus::{Corpus, Seed};
use super::readers::Reader;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

const MUTATIONS_MAX: u32 = 12;
const EDGES: [u64; 14] = [
    0,
    1,
    2,
    7,
    8,
    0x7F,
    0xFF,
    0x1000,
    0x7FFF,
    0xFFFF,
    0x7FFF_FFFF,
    0xFFFF_FFFF,
    0x7FFF_FFFF_FFFF_FFFF,
    0xFFFF_FFFF_FFFF_FFFF,
];

/// One case's input.
pub(super) fn case(reader: Reader, corpus: &Corpus, random: &mut ChaCha8Rng) -> Seed {
    let seeds = corpus.of(reader);
    let mut seed = seeds[random.random_range(0..seeds.len())].clone();
    reader.seal(&mut seed);
    for _ in 0..random.random_range(0..MUTATIONS_MAX) {
        bend(&mut seed.bytes, random);
    }
    if random.random_range(0..8) == 0 {
        let length = random.random_range(0..=seed.bytes.len());
        seed.bytes.truncate(length);
    }
    if random.random_range(0..2) == 0 {
        reader.seal(&mut seed);
    }
    if random.random_range(0..8) == 0 {
        seed.size.0 = random.random_range(0..=seed.size.0 * 2);
    }
    seed
}

fn bend(bytes: &mut [u8], random: &mut ChaCha8Rng) {
    if bytes.is_empty() {
        return;
    }
    // Fields lie at the start of what they belong to.
    let reach = if random.random_range(0..4) == 0 { bytes.len() } else { bytes.len().min(640) };
    let at = random.random_range(0..reach);
    match random.random_range(0..5) {
        0 => bytes[at] ^= 1 << random.random_range(0..8),
        1 => bytes[at] = random.random(),
        2 => {
            let edge = EDGES[random.random_range(0..EDGES.len())];
            let length = [2, 4, 8][random.random_range(0..3usize)];
            let at = at / length * length;
            if let Some(field) = bytes.get_mut(at..at + length) {
                let value = edge.wrapping_add_signed(random.random_range(-1..=1));
                field.copy_from_slice(&value.to_le_bytes()[..length]);
            }
        }
        3 => {
            let length = random.random_range(0..=64.min(bytes.len() - at));
            let from = random.random_range(0..=bytes.len() - length);
            bytes.copy_within(from..from + length, at);
        }
        _ => {
            let length = random.random_range(0..=64.min(bytes.len() - at));
            let fill = [0x00, 0xFF][random.random_range(0..2usize)];
            bytes[at..at + length].fill(fill);
        }
    }
}
