//! One stripe: on which member each of its blocks lies, and which exponents the data has in Q.
//!
//! Never knows which layout it belongs to; that is worked out when the map is made.

use crate::units::MemberIndex;
use std::fmt;

/// A block of a stripe: what one member holds there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Block {
    /// Data, numbered in the order of the array's sectors.
    Data(u32),
    /// The sum of the data.
    P,
    /// The weighted sum.
    Q,
}

impl fmt::Display for Block {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Data(index) => write!(formatter, "D{index}"),
            Self::P => formatter.write_str("P"),
            Self::Q => formatter.write_str("Q"),
        }
    }
}

/// Where the blocks of one stripe lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StripeMap {
    pub(super) stripe: u64,
    pub(super) members: u32,
    pub(super) p: u32,
    pub(super) q: Option<u32>,
    pub(super) data: DataOrder,
    pub(super) exponents: ExponentOrder,
}

/// On which members the data blocks lie, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DataOrder {
    /// From this member on, around the end, until the parity.
    From(u32),
    /// From member 0 on, parity left out.
    Ascending,
}

/// Which exponents the data blocks have in Q.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExponentOrder {
    /// Counted from this member on, around the end, parity left out.
    From(u32),
    /// The member's own number.
    Ddf,
}

impl StripeMap {
    /// The stripe's number.
    pub fn stripe(&self) -> u64 {
        self.stripe
    }

    /// Data blocks.
    pub fn data_count(&self) -> u32 {
        self.members - 1 - u32::from(self.q.is_some())
    }

    /// Whether there is a Q.
    pub fn has_q(&self) -> bool {
        self.q.is_some()
    }

    /// All blocks: data in its order, then P, then Q.
    pub fn blocks(&self) -> impl Iterator<Item = Block> + use<> {
        let parity = [Some(Block::P), self.q.map(|_| Block::Q)];
        (0..self.data_count()).map(Block::Data).chain(parity.into_iter().flatten())
    }

    /// The member that holds a block.
    ///
    /// # Panics
    /// If the stripe has no such block.
    pub fn member(&self, block: Block) -> MemberIndex {
        MemberIndex(match block {
            Block::P => self.p,
            Block::Q => self.q.expect("a stripe with Q"),
            Block::Data(index) => {
                assert!(index < self.data_count(), "{block} of {}", self.data_count());
                let from = match self.data {
                    DataOrder::From(first) => first,
                    DataOrder::Ascending => 0,
                };
                self.nth_data_member(from, index)
            }
        })
    }

    /// What a member holds.
    ///
    /// # Panics
    /// If there is no such member.
    pub fn block(&self, member: MemberIndex) -> Block {
        assert!(member.0 < self.members, "member {member} of {}", self.members);
        if member.0 == self.p {
            return Block::P;
        }
        if Some(member.0) == self.q {
            return Block::Q;
        }
        let from = match self.data {
            DataOrder::From(first) => first,
            DataOrder::Ascending => 0,
        };
        Block::Data(self.data_members_between(from, member.0))
    }

    /// The exponent that a data block has in Q.
    pub fn exponent(&self, data: u32) -> u32 {
        let member = self.member(Block::Data(data)).0;
        match self.exponents {
            ExponentOrder::Ddf => member,
            ExponentOrder::From(first) => self.data_members_between(first, member),
        }
    }

    /// The member of the data block `index` places behind the first one from member `from` on.
    fn nth_data_member(&self, from: u32, index: u32) -> u32 {
        // At most two members are passed over, so it is near.
        let mut member = (from + index) % self.members;
        let mut short = index - self.data_members_between(from, member);
        while short > 0 || self.is_parity(member) {
            short -= u32::from(!self.is_parity(member));
            member = (member + 1) % self.members;
        }
        member
    }

    /// Members with data from `from` on, around the end, before `member`.
    fn data_members_between(&self, from: u32, member: u32) -> u32 {
        let distance = |to: u32| (to + self.members - from) % self.members;
        let all = distance(member);
        let parity = [Some(self.p), self.q].into_iter().flatten();
        all - parity.filter(|parity| distance(*parity) < all).count() as u32
    }

    fn is_parity(&self, member: u32) -> bool {
        member == self.p || Some(member) == self.q
    }
}
