//! The inner loops: the same source compiled for the processor at large and, on x86-64, once more
//! for AVX2, which is chosen at run time. They are written over fixed lanes of bytes so that the
//! compiler turns them into vector instructions; only multiplication by a constant has a form of
//! its own where the processor can look nibbles up in a register.
//!
//! Never allocates, never knows what a block means.

use super::galois::{REDUCTION, double, multiply};

/// Bytes that a loop takes at a time: as much as fits registers several times over.
const LANE_BYTES: usize = 64;

type Lane = [u8; LANE_BYTES];

/// Calls the AVX2 form of a loop where there is one, otherwise the plain form.
macro_rules! dispatch {
    ($name:ident($($argument:expr),*)) => {{
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has AVX2, which is all that the function asks for.
            return unsafe { wide::$name($($argument),*) };
        }
        $name($($argument),*)
    }};
}

/// `target ^= source`.
pub(super) fn xor_into(target: &mut [u8], source: &[u8]) {
    assert_eq!(target.len(), source.len(), "blocks of one length");
    dispatch!(xor_into_with(target, source));
}

/// P, the sum of all blocks, and Q, the sum of each block times the generator to the power of its
/// place. A missing block is zero. Both are overwritten.
pub(super) fn p_and_q(blocks: &[Option<&[u8]>], p: &mut [u8], q: &mut [u8]) {
    check_lengths(blocks, p.len());
    assert_eq!(p.len(), q.len(), "blocks of one length");
    dispatch!(p_and_q_with(blocks, p, q));
}

/// Q alone.
pub(super) fn q_alone(blocks: &[Option<&[u8]>], q: &mut [u8]) {
    check_lengths(blocks, q.len());
    dispatch!(q_alone_with(blocks, q));
}

/// P alone.
pub(super) fn p_alone(blocks: &[Option<&[u8]>], p: &mut [u8]) {
    check_lengths(blocks, p.len());
    dispatch!(p_alone_with(blocks, p));
}

/// `target ^= factor × source`.
pub(super) fn multiply_into(target: &mut [u8], factor: u8, source: &[u8]) {
    assert_eq!(target.len(), source.len(), "blocks of one length");
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2, which is all that the function asks for.
        return unsafe { super::avx2::multiply_into(target, factor, source) };
    }
    multiply_into_by_doubling(target, factor, source);
}

/// The loops compiled for AVX2.
#[cfg(target_arch = "x86_64")]
mod wide {
    #[target_feature(enable = "avx2")]
    pub(super) fn xor_into_with(target: &mut [u8], source: &[u8]) {
        super::xor_into_with(target, source);
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn p_and_q_with(blocks: &[Option<&[u8]>], p: &mut [u8], q: &mut [u8]) {
        super::p_and_q_with(blocks, p, q);
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn q_alone_with(blocks: &[Option<&[u8]>], q: &mut [u8]) {
        super::q_alone_with(blocks, q);
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn p_alone_with(blocks: &[Option<&[u8]>], p: &mut [u8]) {
        super::p_alone_with(blocks, p);
    }
}

fn check_lengths(blocks: &[Option<&[u8]>], length_bytes: usize) {
    for block in blocks.iter().flatten() {
        assert_eq!(block.len(), length_bytes, "blocks of one length");
    }
}

#[inline(always)]
fn xor_into_with(target: &mut [u8], source: &[u8]) {
    for (target, source) in target.iter_mut().zip(source) {
        *target ^= source;
    }
}

#[inline(always)]
fn p_and_q_with(blocks: &[Option<&[u8]>], p: &mut [u8], q: &mut [u8]) {
    let (p_lanes, p_rest) = p.as_chunks_mut::<LANE_BYTES>();
    let (q_lanes, q_rest) = q.as_chunks_mut::<LANE_BYTES>();
    let rest_at = p_lanes.len() * LANE_BYTES;
    for (index, (p, q)) in p_lanes.iter_mut().zip(q_lanes).enumerate() {
        let (mut sum, mut weighted) = ([0; LANE_BYTES], [0; LANE_BYTES]);
        for block in blocks.iter().rev() {
            double_lane(&mut weighted);
            if let Some(lane) = block.and_then(|block| lane_of(block, index)) {
                xor_lane(&mut sum, lane);
                xor_lane(&mut weighted, lane);
            }
        }
        (*p, *q) = (sum, weighted);
    }
    for (index, (p, q)) in p_rest.iter_mut().zip(q_rest).enumerate() {
        (*p, *q) = bytewise(blocks, rest_at + index);
    }
}

#[inline(always)]
fn q_alone_with(blocks: &[Option<&[u8]>], q: &mut [u8]) {
    let (lanes, rest) = q.as_chunks_mut::<LANE_BYTES>();
    let rest_at = lanes.len() * LANE_BYTES;
    for (index, q) in lanes.iter_mut().enumerate() {
        let mut weighted = [0; LANE_BYTES];
        for block in blocks.iter().rev() {
            double_lane(&mut weighted);
            if let Some(lane) = block.and_then(|block| lane_of(block, index)) {
                xor_lane(&mut weighted, lane);
            }
        }
        *q = weighted;
    }
    for (index, q) in rest.iter_mut().enumerate() {
        *q = bytewise(blocks, rest_at + index).1;
    }
}

#[inline(always)]
fn p_alone_with(blocks: &[Option<&[u8]>], p: &mut [u8]) {
    let (lanes, rest) = p.as_chunks_mut::<LANE_BYTES>();
    let rest_at = lanes.len() * LANE_BYTES;
    for (index, p) in lanes.iter_mut().enumerate() {
        let mut sum = [0; LANE_BYTES];
        for lane in blocks.iter().flatten().filter_map(|block| lane_of(block, index)) {
            xor_lane(&mut sum, lane);
        }
        *p = sum;
    }
    for (index, p) in rest.iter_mut().enumerate() {
        *p = bytewise(blocks, rest_at + index).0;
    }
}

/// P and Q of one byte of each block, where no whole lane is left.
fn bytewise(blocks: &[Option<&[u8]>], at: usize) -> (u8, u8) {
    blocks.iter().rev().fold((0, 0), |(p, q), block| {
        let byte = block.map_or(0, |block| block[at]);
        (p ^ byte, double(q) ^ byte)
    })
}

#[inline(always)]
fn lane_of(block: &[u8], index: usize) -> Option<&Lane> {
    block.get(index * LANE_BYTES..)?.first_chunk()
}

#[inline(always)]
fn xor_lane(target: &mut Lane, source: &Lane) {
    for (target, source) in target.iter_mut().zip(source) {
        *target ^= source;
    }
}

#[inline(always)]
fn double_lane(lane: &mut Lane) {
    for byte in lane {
        let carry = if (*byte as i8) < 0 { REDUCTION } else { 0 };
        *byte = byte.wrapping_add(*byte) ^ carry;
    }
}

/// `target ^= factor × source`, bit by bit of the factor: no table, so it becomes vector code
/// everywhere.
pub(super) fn multiply_into_by_doubling(target: &mut [u8], factor: u8, source: &[u8]) {
    let (target_lanes, target_rest) = target.as_chunks_mut::<LANE_BYTES>();
    let (source_lanes, source_rest) = source.as_chunks::<LANE_BYTES>();
    for (target, source) in target_lanes.iter_mut().zip(source_lanes) {
        let mut multiple = *source;
        let mut bits = factor;
        while bits != 0 {
            if bits & 1 == 1 {
                xor_lane(target, &multiple);
            }
            double_lane(&mut multiple);
            bits >>= 1;
        }
    }
    for (target, source) in target_rest.iter_mut().zip(source_rest) {
        *target ^= multiply(factor, *source);
    }
}
