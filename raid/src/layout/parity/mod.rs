//! The layouts of RAID 4, 5 and 6: in each stripe one chunk of each member, one or two of them
//! parity, at places that depend on the stripe's number.
//!
//! ```text
//! RAID 5, left-symmetric      RAID 6, left-symmetric
//! stripe m0  m1  m2  m3       stripe m0  m1  m2  m3
//!  0     0   1   2   P         0     Q   0   1   P
//!  1     4   5   P   3         1     2   3   P   Q
//!  2     8   P   6   7         2     5   P   Q   4
//!  3     P   9   10  11        3     P   Q   6   7
//! ```
//!
//! *Left*: P moves from the last member to the first; *right*: the other way. *Symmetric*: data goes
//! on behind the parity, around the end; *asymmetric*: data begins at member 0 and leaves parity
//! out. The maps and their numbers are those of Linux md, so an array made by the one is readable by
//! the other. So are the exponents that data blocks have in Q: they count members from the one
//! behind Q on, and the layouts of DDF count from member 0, with a place for P and Q too.
//!
//! Never knows which members work.

mod kinds;
mod stripe;

use super::Location;
use crate::units::{Sector, Sectors};
pub use kinds::{ParityKind, Raid5Layout, Raid6Layout};
pub use stripe::{Block, StripeMap};
use stripe::{DataOrder, ExponentOrder};

/// The map of one array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParityLayout {
    kind: ParityKind,
    members: u32,
    chunk: Sectors,
    stripes: u64,
}

/// What a sector of a member holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// This sector of the array.
    Data(Sector),
    /// P of the stripe.
    P,
    /// Q of the stripe.
    Q,
}

impl ParityLayout {
    /// The map of `members` members in chunks of `chunk` sectors, each of which offers
    /// `member_size`; what does not fill a chunk is left over, as in md.
    ///
    /// # Panics
    /// If no member is left for data, if the chunk is empty, or if the array would have more than
    /// 2^64 sectors. [`crate::levels`] refuses such arrays with a message.
    pub fn new(kind: ParityKind, members: u32, chunk: Sectors, member_size: Sectors) -> Self {
        assert!(members > kind.parity_count(), "{members} members leave none for data");
        assert!(chunk.0 > 0, "a chunk has sectors");
        let stripes = member_size.0 / chunk.0;
        let layout = Self { kind, members, chunk, stripes };
        let data = u64::from(layout.data_count());
        (stripes * chunk.0).checked_mul(data).expect("sectors fit 64 bits");
        layout
    }

    /// Where parity lies.
    pub fn kind(&self) -> ParityKind {
        self.kind
    }

    /// How many members there are.
    pub fn members(&self) -> u32 {
        self.members
    }

    /// The chunk size.
    pub fn chunk(&self) -> Sectors {
        self.chunk
    }

    /// How many stripes there are.
    pub fn stripes(&self) -> u64 {
        self.stripes
    }

    /// Data blocks in a stripe.
    pub fn data_count(&self) -> u32 {
        self.members - self.kind.parity_count()
    }

    /// Sectors of the array in a stripe.
    pub fn stripe_data(&self) -> Sectors {
        Sectors(self.chunk.0 * u64::from(self.data_count()))
    }

    /// How many sectors the array has.
    pub fn capacity(&self) -> Sectors {
        Sectors(self.stripes * self.stripe_data().0)
    }

    /// How many sectors of each member the array uses.
    pub fn used_of_member(&self) -> Sectors {
        Sectors(self.stripes * self.chunk.0)
    }

    /// Where the blocks of a stripe lie. Also for stripes beyond the end: the map goes on.
    pub fn stripe(&self, stripe: u64) -> StripeMap {
        let members = self.members;
        let wrap = |member: u32| member % members;
        let (p, q, data, exponents) = match self.kind {
            ParityKind::Raid4 => (members - 1, None, DataOrder::Ascending, ExponentOrder::Ddf),
            ParityKind::Raid5(layout) => {
                let p = layout.p(stripe, members);
                (p, None, data_order(layout, p, members), ExponentOrder::Ddf)
            }
            ParityKind::Raid6(Raid6Layout::Rotating(layout)) => {
                let p = match layout {
                    Raid5Layout::ParityLast => members - 2,
                    _ => layout.p(stripe, members),
                };
                let q = wrap(p + 1);
                (p, Some(q), data_order(layout, q, members), ExponentOrder::From(wrap(q + 1)))
            }
            ParityKind::Raid6(Raid6Layout::DdfZeroRestart) => {
                let p = Raid5Layout::RightAsymmetric.p(stripe, members);
                (p, Some(wrap(p + 1)), DataOrder::Ascending, ExponentOrder::Ddf)
            }
            ParityKind::Raid6(Raid6Layout::DdfNRestart) => {
                let p = Raid5Layout::LeftAsymmetric.p(stripe.wrapping_add(1), members);
                (p, Some(wrap(p + 1)), DataOrder::Ascending, ExponentOrder::Ddf)
            }
            ParityKind::Raid6(Raid6Layout::DdfNContinue) => {
                let p = Raid5Layout::LeftSymmetric.p(stripe, members);
                let data = DataOrder::From(wrap(p + 1));
                (p, Some(wrap(p + members - 1)), data, ExponentOrder::Ddf)
            }
            ParityKind::Raid6(Raid6Layout::QLast(layout)) => {
                let q = members - 1;
                let p = layout.p(stripe, q);
                let data = match layout.is_symmetric() {
                    // Around the end of the RAID 5, which Q is not part of.
                    true => DataOrder::From((p + 1) % q),
                    false => DataOrder::Ascending,
                };
                (p, Some(q), data, ExponentOrder::From(0))
            }
        };
        StripeMap { stripe, members, p, q, data, exponents }
    }

    /// The block of a sector of the array, its stripe, and the sector within the chunk.
    ///
    /// # Panics
    /// If the array has no such sector.
    pub fn locate(&self, at: Sector) -> (u64, Block, Sectors) {
        assert!(at.0 < self.capacity().0, "sector {at} of an array of {}", self.capacity());
        let (chunk, within) = (at.0 / self.chunk.0, at.0 % self.chunk.0);
        let data = u64::from(self.data_count());
        (chunk / data, Block::Data((chunk % data) as u32), Sectors(within))
    }

    /// Where a sector of the array lies.
    ///
    /// # Panics
    /// If the array has no such sector.
    pub fn location(&self, at: Sector) -> Location {
        let (stripe, block, within) = self.locate(at);
        let member = self.stripe(stripe).member(block);
        Location { member, at: self.member_sector(stripe, within) }
    }

    /// Where on each member a sector of a stripe lies, given within the chunk.
    pub fn member_sector(&self, stripe: u64, within: Sectors) -> Sector {
        Sector(stripe * self.chunk.0 + within.0)
    }

    /// The sector of the array that is `within` the chunk of a data block.
    pub fn array_sector(&self, stripe: u64, data: u32, within: Sectors) -> Sector {
        Sector(stripe * self.stripe_data().0 + u64::from(data) * self.chunk.0 + within.0)
    }

    /// What is stored at `location`; `None` where the array stores nothing.
    pub fn content(&self, location: Location) -> Option<Content> {
        let (stripe, within) =
            (location.at.0 / self.chunk.0, Sectors(location.at.0 % self.chunk.0));
        if location.member.0 >= self.members || stripe >= self.stripes {
            return None;
        }
        Some(match self.stripe(stripe).block(location.member) {
            Block::Data(data) => Content::Data(self.array_sector(stripe, data, within)),
            Block::P => Content::P,
            Block::Q => Content::Q,
        })
    }
}

/// Where data begins, given the last of the parity blocks that lie side by side.
fn data_order(layout: Raid5Layout, parity_last: u32, members: u32) -> DataOrder {
    match layout.is_symmetric() {
        true => DataOrder::From((parity_last + 1) % members),
        false => DataOrder::Ascending,
    }
}

#[cfg(test)]
mod tests;
