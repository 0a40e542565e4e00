//! Arithmetic in GF(2^8) with the polynomial x^8 + x^4 + x^3 + x^2 + 1 (0x11d) and the generator 2:
//! the field in which Q is computed by Linux md, by SNIA's DDF, and in H. P. Anvin's paper "The
//! mathematics of RAID-6".
//!
//! Single elements only; what works on blocks of bytes is in the other files.

/// What is added when a product leaves eight bits: 0x11d without the bit that leaves.
pub(super) const REDUCTION: u8 = 0x1d;

/// How many powers of the generator differ: it generates all elements but zero.
pub const POWERS: u32 = 255;

/// The powers of the generator.
const EXPONENTIALS: [u8; 255] = {
    let mut table = [0; 255];
    let mut value = 1;
    let mut exponent = 0;
    while exponent < 255 {
        table[exponent] = value;
        value = double(value);
        exponent += 1;
    }
    table
};

/// The logarithms to the generator; the entry of zero means nothing.
const LOGARITHMS: [u8; 256] = {
    let mut table = [0; 256];
    let mut exponent = 0;
    while exponent < 255 {
        table[EXPONENTIALS[exponent] as usize] = exponent as u8;
        exponent += 1;
    }
    table
};

/// Twice `value`.
pub(super) const fn double(value: u8) -> u8 {
    (value << 1) ^ (if value & 0x80 != 0 { REDUCTION } else { 0 })
}

/// The generator to the power of `exponent`.
pub(super) fn power(exponent: u32) -> u8 {
    EXPONENTIALS[(exponent % POWERS) as usize]
}

/// A product.
pub(super) fn multiply(left: u8, right: u8) -> u8 {
    if left == 0 || right == 0 {
        return 0;
    }
    let [left, right] = [left, right].map(|factor| u32::from(LOGARITHMS[usize::from(factor)]));
    power(left + right)
}

/// What gives 1 when multiplied by `value`.
///
/// # Panics
/// If `value` is zero.
pub(super) fn inverse(value: u8) -> u8 {
    assert!(value != 0, "zero has no inverse");
    power(POWERS - u32::from(LOGARITHMS[usize::from(value)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The product by its definition: of polynomials over bits, reduced.
    pub(crate) fn by_definition(left: u8, right: u8) -> u8 {
        let mut product = 0u16;
        for bit in 0..8 {
            if right >> bit & 1 == 1 {
                product ^= u16::from(left) << bit;
            }
        }
        for bit in (8..16).rev() {
            if product >> bit & 1 == 1 {
                product ^= 0x11d << (bit - 8);
            }
        }
        product as u8
    }

    #[test]
    fn products_are_those_of_reduced_polynomials() {
        for left in 0..=255 {
            for right in 0..=255 {
                assert_eq!(multiply(left, right), by_definition(left, right), "{left} {right}");
            }
        }
    }

    #[test]
    fn powers_are_repeated_doubling_and_all_differ() {
        let mut value = 1;
        let mut seen = [false; 256];
        for exponent in 0..POWERS {
            assert_eq!(power(exponent), value);
            assert!(!std::mem::replace(&mut seen[usize::from(value)], true));
            value = by_definition(value, 2);
        }
        assert_eq!(value, 1);
    }

    #[test]
    fn an_inverse_undoes_its_element() {
        for value in 1..=255 {
            assert_eq!(multiply(value, inverse(value)), 1);
        }
    }
}
