//! A stripe head: what the cache knows of one row of a stripe, 4 KiB of each member.
//!
//! Pure memory: never knows who owns it or whether a member agrees.

use crate::layout::parity::Block;
use crate::levels::parity::blocks::Rows;
use crate::units::SECTOR_BYTES;

/// Sectors of each member in a head, as in md: 4 KiB.
pub(super) const HEAD_SECTORS: u64 = 8;

/// What is known of a row.
#[derive(Default)]
pub(super) struct Head {
    pages: Vec<Page>,
}

/// What is known of a block in that row.
struct Page {
    block: Block,
    /// One bit for each sector that is up to date.
    valid: u8,
    bytes: Box<[u8]>,
}

impl Head {
    /// Whether nothing is known.
    pub(super) fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// The longest runs of sectors that are known, in a head that begins at sector `start` of the
    /// chunk.
    pub(super) fn known(&self, start: u64) -> impl Iterator<Item = (Block, Rows)> {
        self.pages.iter().flat_map(move |page| {
            let mut at = 0;
            std::iter::from_fn(move || {
                at += u64::from((page.valid >> at.min(7)).trailing_zeros().min(8));
                let length = u64::from((page.valid.checked_shr(at as u32)?).trailing_ones());
                let run = (length > 0).then(|| Rows::new(start + at, start + at + length));
                at += length;
                run.map(|rows| (page.block, rows))
            })
        })
    }

    /// The bytes of some sectors, if all of them are known.
    pub(super) fn find(&self, block: Block, start: u64, rows: Rows) -> Option<&[u8]> {
        let page = self.pages.iter().find(|page| page.block == block)?;
        let mask = mask_of(start, rows);
        (page.valid & mask == mask).then(|| &page.bytes[rows.bytes_within(whole(start))])
    }

    /// Takes note of the contents of some sectors.
    pub(super) fn put(&mut self, block: Block, start: u64, rows: Rows, bytes: &[u8]) {
        let index = self.pages.iter().position(|page| page.block == block).unwrap_or_else(|| {
            let bytes = vec![0; (HEAD_SECTORS * SECTOR_BYTES) as usize].into_boxed_slice();
            self.pages.push(Page { block, valid: 0, bytes });
            self.pages.len() - 1
        });
        let page = &mut self.pages[index];
        page.bytes[rows.bytes_within(whole(start))].copy_from_slice(bytes);
        page.valid |= mask_of(start, rows);
    }

    /// Forgets some sectors.
    pub(super) fn forget(&mut self, block: Block, start: u64, rows: Rows) {
        for page in &mut self.pages {
            if page.block == block {
                page.valid &= !mask_of(start, rows);
            }
        }
        self.pages.retain(|page| page.valid != 0);
    }
}

fn whole(start: u64) -> Rows {
    Rows::new(start, start + HEAD_SECTORS)
}

fn mask_of(start: u64, rows: Rows) -> u8 {
    let of = |count: u64| ((1u32 << count) - 1) as u8;
    of(rows.end.0 - start) & !of(rows.start.0 - start)
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 16;

    /// Puts the runs `known` of one block, forgets `forgotten`, and lists what is known then.
    fn check(known: &[(u64, u64)], forgotten: Option<(u64, u64)>, expected: &[&str]) {
        let mut head = Head::default();
        let rows = |(start, end)| Rows::new(START + start, START + end);
        for run in known {
            let bytes = vec![run.0 as u8; rows(*run).length().bytes() as usize];
            head.put(Block::P, START, rows(*run), &bytes);
        }
        if let Some(run) = forgotten {
            head.forget(Block::P, START, rows(run));
        }
        let found: Vec<String> = head.known(START).map(|(_, rows)| rows.to_string()).collect();
        assert_eq!(found, expected);
        assert_eq!(head.is_empty(), expected.is_empty());
    }

    #[test]
    fn known_sectors_come_back_as_runs() {
        check(&[], None, &[]);
        check(&[(0, 8)], None, &["16+8"]);
        check(&[(0, 1), (2, 5), (7, 8)], None, &["16+1", "18+3", "23+1"]);
        check(&[(0, 4), (4, 8)], None, &["16+8"]);
        check(&[(0, 8)], Some((3, 4)), &["16+3", "20+4"]);
        check(&[(2, 4)], Some((0, 8)), &[]);
    }

    #[test]
    fn only_what_is_known_is_found() {
        let mut head = Head::default();
        head.put(Block::Data(1), START, Rows::new(18, 20), &[7; 1024]);
        assert_eq!(head.find(Block::Data(1), START, Rows::new(19, 20)), Some(&[7; 512][..]));
        assert_eq!(head.find(Block::Data(1), START, Rows::new(19, 21)), None);
        assert_eq!(head.find(Block::P, START, Rows::new(19, 20)), None);
    }
}
