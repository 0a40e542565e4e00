//! P and Q of blocks of bytes: computing them, keeping them up to date, and putting lost blocks
//! together again, in the arithmetic of Linux md.
//!
//! With data blocks `D_e`, each of which has its own exponent `e` below 255:
//!
//! ```text
//! P = sum of D_e             addition is exclusive or
//! Q = sum of 2^e × D_e       in GF(2^8) with the polynomial 0x11d
//! ```
//!
//! `blocks` everywhere is indexed by exponent; exponents that no data block has, and blocks that are
//! lost, are `None` and count as zeros. Which exponent a block has is a matter of the layout.
//!
//! All blocks of a call have one length; anything else is a mistake of the caller's and panics.
//!
//! Source of the formulae: H. P. Anvin, "The mathematics of RAID-6".

#[cfg(target_arch = "x86_64")]
mod avx2;
mod galois;
mod kernels;

pub use galois::POWERS;

/// `target ^= source`.
pub fn xor_into(target: &mut [u8], source: &[u8]) {
    kernels::xor_into(target, source);
}

/// Computes P.
pub fn compute_p(blocks: &[Option<&[u8]>], p: &mut [u8]) {
    kernels::p_alone(blocks, p);
}

/// Computes Q.
pub fn compute_q(blocks: &[Option<&[u8]>], q: &mut [u8]) {
    check_exponents(blocks);
    kernels::q_alone(blocks, q);
}

/// Computes P and Q in one pass over the data.
pub fn compute_p_and_q(blocks: &[Option<&[u8]>], p: &mut [u8], q: &mut [u8]) {
    check_exponents(blocks);
    kernels::p_and_q(blocks, p, q);
}

/// Adds to Q what block `exponent` contributes when it changes by `delta`, which is its old content
/// plus its new one. For P, that is [`xor_into`].
pub fn update_q(q: &mut [u8], exponent: u32, delta: &[u8]) {
    assert!(exponent < POWERS, "exponents repeat from {POWERS} on");
    kernels::multiply_into(q, galois::power(exponent), delta);
}

/// The one lost data block, from P and all others.
pub fn recover_from_p(blocks: &[Option<&[u8]>], p: &[u8], lost: &mut [u8]) {
    kernels::p_alone(blocks, lost);
    kernels::xor_into(lost, p);
}

/// The one lost data block, whose exponent is `exponent`, from Q and all others.
pub fn recover_from_q(blocks: &[Option<&[u8]>], exponent: u32, q: &[u8], lost: &mut [u8]) {
    check_lost(blocks, exponent);
    let mut sum = vec![0; lost.len()];
    kernels::q_alone(blocks, &mut sum);
    kernels::xor_into(&mut sum, q);
    lost.fill(0);
    kernels::multiply_into(lost, galois::inverse(galois::power(exponent)), &sum);
}

/// Two lost data blocks, each given as its exponent and where to put it, from P, Q and all others.
pub fn recover_two(
    blocks: &[Option<&[u8]>],
    (p, q): (&[u8], &[u8]),
    (first_exponent, first): (u32, &mut [u8]),
    (second_exponent, second): (u32, &mut [u8]),
) {
    check_lost(blocks, first_exponent);
    check_lost(blocks, second_exponent);
    assert_ne!(first_exponent, second_exponent, "two blocks have two exponents");
    // With x and y for what is lost: x + y = p_sum and 2^a x + 2^b y = q_sum, so
    // x = (q_sum + 2^b p_sum) / (2^a + 2^b).
    let mut q_sum = vec![0; q.len()];
    kernels::p_and_q(blocks, second, &mut q_sum);
    kernels::xor_into(second, p);
    kernels::xor_into(&mut q_sum, q);
    let [a, b] = [first_exponent, second_exponent].map(galois::power);
    let divisor = galois::inverse(a ^ b);
    first.fill(0);
    kernels::multiply_into(first, divisor, &q_sum);
    kernels::multiply_into(first, galois::multiply(divisor, b), second);
    kernels::xor_into(second, first);
}

fn check_exponents(blocks: &[Option<&[u8]>]) {
    assert!(blocks.len() <= POWERS as usize, "Q tells no more than {POWERS} blocks apart");
}

fn check_lost(blocks: &[Option<&[u8]>], exponent: u32) {
    check_exponents(blocks);
    let block = blocks.get(exponent as usize).expect("a lost block has a place");
    assert!(block.is_none(), "block {exponent} is not lost");
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// P and Q byte by byte, as they are defined.
    fn by_definition(blocks: &[Option<Vec<u8>>], length_bytes: usize) -> (Vec<u8>, Vec<u8>) {
        let (mut p, mut q) = (vec![0; length_bytes], vec![0; length_bytes]);
        for (exponent, block) in (0..).zip(blocks) {
            for (at, byte) in block.iter().flatten().enumerate() {
                p[at] ^= byte;
                q[at] ^= galois::multiply(galois::power(exponent), *byte);
            }
        }
        (p, q)
    }

    fn slices(blocks: &[Option<Vec<u8>>]) -> Vec<Option<&[u8]>> {
        blocks.iter().map(Option::as_deref).collect()
    }

    /// Blocks of one odd length, some of them missing.
    fn blocks() -> impl Strategy<Value = (Vec<Option<Vec<u8>>>, usize)> {
        (1usize..200, 2usize..12).prop_flat_map(|(length, count)| {
            let block = prop::option::weighted(0.9, prop::collection::vec(any::<u8>(), length));
            (prop::collection::vec(block, count), Just(length))
        })
    }

    proptest! {
        #[test]
        fn parity_is_what_it_is_defined_to_be((blocks, length) in blocks()) {
            let expected = by_definition(&blocks, length);
            let blocks = slices(&blocks);
            let (mut p, mut q) = (vec![1; length], vec![2; length]);
            compute_p_and_q(&blocks, &mut p, &mut q);
            prop_assert_eq!((&p, &q), (&expected.0, &expected.1));
            let (mut p_alone, mut q_alone) = (vec![3; length], vec![4; length]);
            compute_p(&blocks, &mut p_alone);
            compute_q(&blocks, &mut q_alone);
            prop_assert_eq!((p_alone, q_alone), (p, q));
        }

        #[test]
        fn an_update_is_as_good_as_computing_anew(
            (mut blocks, length) in blocks(), which in any::<prop::sample::Index>(), change: u8
        ) {
            let (mut p, mut q) = by_definition(&blocks, length);
            let exponent = which.index(blocks.len());
            let old = blocks[exponent].clone().unwrap_or_else(|| vec![0; length]);
            let delta: Vec<u8> =
                (0..length).map(|at| change.wrapping_mul(at as u8).wrapping_add(1)).collect();
            blocks[exponent] = Some(old.iter().zip(&delta).map(|(old, new)| old ^ new).collect());
            xor_into(&mut p, &delta);
            update_q(&mut q, exponent as u32, &delta);
            prop_assert_eq!((p, q), by_definition(&blocks, length));
        }

        #[test]
        fn any_one_or_two_lost_blocks_come_back(
            (blocks, length) in blocks(), one in any::<prop::sample::Index>(), other: prop::sample::Index
        ) {
            let (p, q) = by_definition(&blocks, length);
            let (one, other) = (one.index(blocks.len()), other.index(blocks.len()));
            let expected = |at: usize| blocks[at].clone().unwrap_or_else(|| vec![0; length]);
            let mut left = slices(&blocks);
            left[one] = None;
            let mut lost = vec![7; length];
            recover_from_p(&left, &p, &mut lost);
            prop_assert_eq!(&lost, &expected(one));
            lost.fill(9);
            recover_from_q(&left, one as u32, &q, &mut lost);
            prop_assert_eq!(&lost, &expected(one));
            if one != other {
                left[other] = None;
                let mut second = vec![5; length];
                recover_two(
                    &left, (&p, &q), (one as u32, &mut lost), (other as u32, &mut second)
                );
                prop_assert_eq!(lost, expected(one));
                prop_assert_eq!(second, expected(other));
            }
        }

        #[test]
        fn every_form_of_multiplication_agrees(
            factor: u8, source in prop::collection::vec(any::<u8>(), 0..200)
        ) {
            let expected: Vec<u8> =
                source.iter().map(|byte| galois::multiply(factor, *byte) ^ 0x55).collect();
            let mut plain = vec![0x55; source.len()];
            kernels::multiply_into_by_doubling(&mut plain, factor, &source);
            prop_assert_eq!(&plain, &expected);
            let mut fastest = vec![0x55; source.len()];
            kernels::multiply_into(&mut fastest, factor, &source);
            prop_assert_eq!(&fastest, &expected);
        }
    }

    #[test]
    #[should_panic(expected = "blocks of one length")]
    fn blocks_of_two_lengths_are_a_mistake() {
        compute_p(&[Some(&[1, 2])], &mut [0]);
    }
}
