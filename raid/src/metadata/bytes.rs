//! Numbers in byte order at fixed places: the reader and the writer under every format here.
//!
//! A reader never goes beyond the bytes that it was given: the formats check the length once and
//! then read at constant places, so a place outside is a programmer's error and panics.

/// Which end of a number comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteOrder {
    /// Lowest byte first: every format here, and version 0.90 as most machines wrote it.
    Little,
    /// Highest byte first: version 0.90 as big-endian machines wrote it.
    Big,
}

/// Reads numbers out of bytes.
#[derive(Clone, Copy)]
pub(super) struct Reader<'bytes> {
    bytes: &'bytes [u8],
    order: ByteOrder,
}

impl<'bytes> Reader<'bytes> {
    /// A little-endian reader.
    pub(super) fn little(bytes: &'bytes [u8]) -> Self {
        Self { bytes, order: ByteOrder::Little }
    }

    /// A reader of the given order.
    pub(super) fn new(bytes: &'bytes [u8], order: ByteOrder) -> Self {
        Self { bytes, order }
    }

    /// `N` bytes at `offset`.
    pub(super) fn array<const N: usize>(&self, offset: usize) -> [u8; N] {
        self.bytes[offset..offset + N].try_into().expect("a slice of N bytes")
    }

    pub(super) fn u16(&self, offset: usize) -> u16 {
        let bytes = self.array(offset);
        match self.order {
            ByteOrder::Little => u16::from_le_bytes(bytes),
            ByteOrder::Big => u16::from_be_bytes(bytes),
        }
    }

    pub(super) fn u32(&self, offset: usize) -> u32 {
        let bytes = self.array(offset);
        match self.order {
            ByteOrder::Little => u32::from_le_bytes(bytes),
            ByteOrder::Big => u32::from_be_bytes(bytes),
        }
    }

    pub(super) fn i32(&self, offset: usize) -> i32 {
        self.u32(offset).cast_signed()
    }

    pub(super) fn u64(&self, offset: usize) -> u64 {
        let bytes = self.array(offset);
        match self.order {
            ByteOrder::Little => u64::from_le_bytes(bytes),
            ByteOrder::Big => u64::from_be_bytes(bytes),
        }
    }
}

/// Writes numbers into zeroed bytes of a fixed length.
pub(super) struct Writer {
    bytes: Vec<u8>,
    order: ByteOrder,
}

impl Writer {
    /// A little-endian writer of `length` zero bytes.
    pub(super) fn little(length: usize) -> Self {
        Self::new(length, ByteOrder::Little)
    }

    /// A writer of the given order.
    pub(super) fn new(length: usize, order: ByteOrder) -> Self {
        Self { bytes: vec![0; length], order }
    }

    pub(super) fn put(&mut self, offset: usize, bytes: &[u8]) {
        self.bytes[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    pub(super) fn u16(&mut self, offset: usize, value: u16) {
        match self.order {
            ByteOrder::Little => self.put(offset, &value.to_le_bytes()),
            ByteOrder::Big => self.put(offset, &value.to_be_bytes()),
        }
    }

    pub(super) fn u32(&mut self, offset: usize, value: u32) {
        match self.order {
            ByteOrder::Little => self.put(offset, &value.to_le_bytes()),
            ByteOrder::Big => self.put(offset, &value.to_be_bytes()),
        }
    }

    pub(super) fn i32(&mut self, offset: usize, value: i32) {
        self.u32(offset, value.cast_unsigned());
    }

    pub(super) fn u64(&mut self, offset: usize, value: u64) {
        match self.order {
            ByteOrder::Little => self.put(offset, &value.to_le_bytes()),
            ByteOrder::Big => self.put(offset, &value.to_be_bytes()),
        }
    }

    /// What was written so far, for a checksum.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

/// The sum of 32-bit words that both superblock formats carry: added up in 64 bits, what exceeds
/// 32 bits added in once. A last half word counts as 16 bits.
pub(super) fn word_sum(bytes: &[u8], order: ByteOrder) -> u32 {
    let reader = Reader::new(bytes, order);
    let mut sum: u64 = (0..bytes.len() / 4).map(|word| u64::from(reader.u32(word * 4))).sum();
    if bytes.len() % 4 >= 2 {
        sum += u64::from(reader.u16(bytes.len() / 4 * 4));
    }
    ((sum & 0xFFFF_FFFF) as u32).wrapping_add((sum >> 32) as u32)
}

/// CRC-32C as md uses it: `seed` in, no inversion at either end.
pub(super) fn crc32c_raw(seed: u32, bytes: &[u8]) -> u32 {
    !crc32c::crc32c_append(!seed, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_sum_folds_its_carry_once_and_counts_a_half_word() {
        assert_eq!(word_sum(&[0xFF; 8], ByteOrder::Little), 0xFFFF_FFFF);
        assert_eq!(word_sum(&[1, 0, 0, 0, 2, 1], ByteOrder::Little), 0x103);
        assert_eq!(word_sum(&[0, 0, 0, 1, 1, 2], ByteOrder::Big), 0x103);
    }

    #[test]
    fn crc32c_has_its_published_check_value() {
        // The check value of CRC-32C over the nine digits (RFC 3720 names the polynomial).
        assert_eq!(!crc32c_raw(!0, b"123456789"), 0xE306_9283);
    }
}
