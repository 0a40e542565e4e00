//! Multiplication of a block by a constant with AVX2: the products of a byte's two nibbles are
//! looked up in two tables of 16 bytes that stay in registers, and added.
//!
//! Never called on a processor without AVX2: [`super::kernels`] asks first.

use super::galois::multiply;
use std::arch::x86_64::{
    __m256i, _mm_loadu_si128, _mm256_and_si256, _mm256_broadcastsi128_si256, _mm256_loadu_si256,
    _mm256_set1_epi8, _mm256_shuffle_epi8, _mm256_srli_epi64, _mm256_storeu_si256,
    _mm256_xor_si256,
};

const LANE_BYTES: usize = 32;

/// `target ^= factor × source`.
#[target_feature(enable = "avx2")]
pub(super) fn multiply_into(target: &mut [u8], factor: u8, source: &[u8]) {
    let low = table(|nibble| multiply(factor, nibble));
    let high = table(|nibble| multiply(factor, nibble << 4));
    let nibbles = _mm256_set1_epi8(0x0f);
    let (target_lanes, target_rest) = target.as_chunks_mut::<LANE_BYTES>();
    let (source_lanes, source_rest) = source.as_chunks::<LANE_BYTES>();
    for (target, source) in target_lanes.iter_mut().zip(source_lanes) {
        let bytes = load(source);
        let low = _mm256_shuffle_epi8(low, _mm256_and_si256(bytes, nibbles));
        let bytes = _mm256_srli_epi64::<4>(bytes);
        let high = _mm256_shuffle_epi8(high, _mm256_and_si256(bytes, nibbles));
        let sum = _mm256_xor_si256(load(target), _mm256_xor_si256(low, high));
        // SAFETY: `target` is 32 bytes that may be written; the store needs no alignment.
        unsafe { _mm256_storeu_si256(target.as_mut_ptr().cast(), sum) };
    }
    for (target, source) in target_rest.iter_mut().zip(source_rest) {
        *target ^= multiply(factor, *source);
    }
}

#[target_feature(enable = "avx2")]
fn load(lane: &[u8; LANE_BYTES]) -> __m256i {
    // SAFETY: `lane` is 32 bytes that may be read; the load needs no alignment.
    unsafe { _mm256_loadu_si256(lane.as_ptr().cast()) }
}

/// The values of `of` for all nibbles, in both halves of a register.
#[target_feature(enable = "avx2")]
fn table(of: impl Fn(u8) -> u8) -> __m256i {
    let values: [u8; 16] = std::array::from_fn(|nibble| of(nibble as u8));
    // SAFETY: `values` is 16 bytes that may be read; the load needs no alignment.
    _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(values.as_ptr().cast()) })
}
