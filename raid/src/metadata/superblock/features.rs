//! The feature map of a version 1 superblock: which of its fields mean something.

/// A set of feature bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features(pub u32);

impl Features {
    /// `bitmap_offset` places a write-intent bitmap.
    pub const BITMAP: Self = Self(1);
    /// `recovery_offset` says how far this member is rebuilt.
    pub const RECOVERY_OFFSET: Self = Self(1 << 1);
    /// The reshape fields mean something.
    pub const RESHAPE_ACTIVE: Self = Self(1 << 2);
    /// The bad-block log has entries.
    pub const BAD_BLOCKS: Self = Self(1 << 3);
    /// This member replaces another one of the same role.
    pub const REPLACEMENT: Self = Self(1 << 4);
    /// The reshape moves from the end to the start.
    pub const RESHAPE_BACKWARDS: Self = Self(1 << 5);
    /// `new_offset` says by how much the reshape moves the data.
    pub const NEW_OFFSET: Self = Self(1 << 6);
    /// The recovery is of what the bitmap says.
    pub const RECOVERY_BITMAP: Self = Self(1 << 7);
    /// Several machines share the array.
    pub const CLUSTERED: Self = Self(1 << 8);
    /// The array has a write journal.
    pub const JOURNAL: Self = Self(1 << 9);
    /// A partial parity log, of one header.
    pub const PPL: Self = Self(1 << 10);
    /// A partial parity log, of several headers one after the other.
    pub const MULTIPLE_PPLS: Self = Self(1 << 11);
    /// `layout` means something on RAID 0.
    pub const RAID0_LAYOUT: Self = Self(1 << 12);
    /// All that are known.
    pub const KNOWN: Self = Self(0x1FFF);

    /// Whether any bit of `other` is set.
    pub fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// With the bits of `other` set, or cleared where `on` is false.
    #[must_use]
    pub fn with(self, other: Self, on: bool) -> Self {
        Self(if on { self.0 | other.0 } else { self.0 & !other.0 })
    }

    /// The bits that are not known.
    pub fn unknown(self) -> u32 {
        self.0 & !Self::KNOWN.0
    }

    /// The names of the bits that are set, as this project calls them.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        const NAMES: [&str; 13] = [
            "bitmap",
            "recovery_offset",
            "reshape_active",
            "bad_blocks",
            "replacement",
            "reshape_backwards",
            "new_offset",
            "recovery_bitmap",
            "clustered",
            "journal",
            "ppl",
            "multiple_ppls",
            "raid0_layout",
        ];
        NAMES.iter().enumerate().filter(move |(bit, _)| self.0 & 1 << bit != 0).map(|of| *of.1)
    }
}

impl std::ops::BitOr for Features {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}
