//! Which layouts of parity there are, their names, and md's numbers for them.

use std::fmt;

/// Where a RAID 5 has its parity. The numbers are md's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Raid5Layout {
    /// 0.
    LeftAsymmetric,
    /// 1.
    RightAsymmetric,
    /// 2: what is made if nothing else is asked for.
    LeftSymmetric,
    /// 3.
    RightSymmetric,
    /// 4: P always on member 0.
    ParityFirst,
    /// 5: P always on the last member, as in RAID 4.
    ParityLast,
}

/// Where a RAID 6 has P and Q. The numbers are md's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Raid6Layout {
    /// 0 to 5: Q follows P.
    Rotating(Raid5Layout),
    /// 8: as right-asymmetric, Q computed as DDF does.
    DdfZeroRestart,
    /// 9: as left-asymmetric, one stripe on, Q computed as DDF does.
    DdfNRestart,
    /// 10: as left-symmetric, Q before P, computed as DDF does.
    DdfNContinue,
    /// 16 to 20: a RAID 5 whose last member is followed by one that holds Q.
    QLast(Raid5Layout),
}

/// How the parity of an array lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ParityKind {
    /// P on the last member.
    Raid4,
    /// P.
    Raid5(Raid5Layout),
    /// P and Q.
    Raid6(Raid6Layout),
}

impl Raid5Layout {
    const ALL: [Raid5Layout; 6] = [
        Self::LeftAsymmetric,
        Self::RightAsymmetric,
        Self::LeftSymmetric,
        Self::RightSymmetric,
        Self::ParityFirst,
        Self::ParityLast,
    ];

    /// Of md's number.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.get(number as usize).copied()
    }

    /// md's number.
    pub fn number(self) -> u32 {
        self as u32
    }

    /// P's member among `members`.
    pub(super) fn p(self, stripe: u64, members: u32) -> u32 {
        let turn = (stripe % u64::from(members)) as u32;
        match self {
            Self::LeftAsymmetric | Self::LeftSymmetric => members - 1 - turn,
            Self::RightAsymmetric | Self::RightSymmetric => turn,
            Self::ParityFirst => 0,
            Self::ParityLast => members - 1,
        }
    }

    pub(super) fn is_symmetric(self) -> bool {
        matches!(self, Self::LeftSymmetric | Self::RightSymmetric)
    }

    fn name(self) -> &'static str {
        match self {
            Self::LeftAsymmetric => "left-asymmetric",
            Self::RightAsymmetric => "right-asymmetric",
            Self::LeftSymmetric => "left-symmetric",
            Self::RightSymmetric => "right-symmetric",
            Self::ParityFirst => "parity-first",
            Self::ParityLast => "parity-last",
        }
    }
}

impl Raid6Layout {
    /// Of md's number.
    pub fn from_number(number: u32) -> Option<Self> {
        match number {
            8 => Some(Self::DdfZeroRestart),
            9 => Some(Self::DdfNRestart),
            10 => Some(Self::DdfNContinue),
            16..=20 => Raid5Layout::from_number(number - 16).map(Self::QLast),
            _ => Raid5Layout::from_number(number).map(Self::Rotating),
        }
    }

    /// md's number.
    ///
    /// Q behind a RAID 5 whose parity is last is what `Rotating(ParityLast)` is too, and md has no
    /// second number for it.
    pub fn number(self) -> u32 {
        match self {
            Self::Rotating(layout) | Self::QLast(layout @ Raid5Layout::ParityLast) => {
                layout.number()
            }
            Self::DdfZeroRestart => 8,
            Self::DdfNRestart => 9,
            Self::DdfNContinue => 10,
            Self::QLast(layout) => 16 + layout.number(),
        }
    }
}

impl fmt::Display for Raid5Layout {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl fmt::Display for Raid6Layout {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rotating(layout) => write!(formatter, "{layout}"),
            Self::DdfZeroRestart => formatter.write_str("ddf-zero-restart"),
            Self::DdfNRestart => formatter.write_str("ddf-N-restart"),
            Self::DdfNContinue => formatter.write_str("ddf-N-continue"),
            Self::QLast(layout) => write!(formatter, "{layout}-6"),
        }
    }
}

impl ParityKind {
    /// How many members of a stripe hold no data.
    pub fn parity_count(self) -> u32 {
        match self {
            Self::Raid4 | Self::Raid5(_) => 1,
            Self::Raid6(_) => 2,
        }
    }
}
