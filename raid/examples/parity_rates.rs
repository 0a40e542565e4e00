//! How fast this machine computes parity: GB/s of data for XOR, P+Q, and recovery, on one core.
//!
//! `cargo run --release -p raid --example parity_rates`

#![expect(clippy::disallowed_types, reason = "a measurement reads the clock; the engine does not")]

use raid::parity;
use std::hint::black_box;
use std::time::{Duration, Instant};

const DATA_BLOCKS: usize = 8;
const BLOCK_BYTES: usize = 64 << 10;
const TIME_MIN: Duration = Duration::from_millis(500);

fn main() {
    let block = |seed: usize| (0..BLOCK_BYTES).map(|at| (at * 31 + seed * 17) as u8).collect();
    let data: Vec<Vec<u8>> = (0..DATA_BLOCKS).map(block).collect();
    let all: Vec<Option<&[u8]>> = data.iter().map(|block| Some(&block[..])).collect();
    let (mut p, mut q) = (vec![0; BLOCK_BYTES], vec![0; BLOCK_BYTES]);
    println!("{DATA_BLOCKS} data blocks of {} KiB, one core", BLOCK_BYTES >> 10);
    report("P (XOR)", || parity::compute_p(black_box(&all), &mut p));
    report("P and Q", || parity::compute_p_and_q(black_box(&all), &mut p, &mut q));
    let (p, q) = (p, q);
    let (mut first, mut second) = (vec![0; BLOCK_BYTES], vec![0; BLOCK_BYTES]);
    let mut left = all.clone();
    left[2] = None;
    report("one block from P", || parity::recover_from_p(black_box(&left), &p, &mut first));
    assert_eq!(first, data[2]);
    report("one block from Q", || parity::recover_from_q(black_box(&left), 2, &q, &mut first));
    assert_eq!(first, data[2]);
    left[5] = None;
    report("two blocks", || {
        parity::recover_two(black_box(&left), (&p, &q), (2, &mut first), (5, &mut second));
    });
    assert_eq!((first, second), (data[2].clone(), data[5].clone()));
}

/// Runs `work`, which goes once over the data of a stripe, until the time is long enough.
fn report(name: &str, mut work: impl FnMut()) {
    let begin = Instant::now();
    let mut rounds = 0u32;
    while begin.elapsed() < TIME_MIN {
        for _ in 0..16 {
            work();
        }
        rounds += 16;
    }
    let bytes = f64::from(rounds) * (DATA_BLOCKS * BLOCK_BYTES) as f64;
    println!("{name:18} {:6.1} GB/s", bytes / begin.elapsed().as_secs_f64() / 1e9);
}
