//! What replaying a log would write to the members, worked out in memory: reads of members as they
//! are with what was replayed so far laid over, and the row of a stripe. Never writes a device.

use crate::layout::Location;
use crate::layout::parity::{Block, ParityLayout, StripeMap};
use crate::member::{MemberDevice, MemberOptions};
use crate::parity;
use crate::patches::Patches;
use crate::platform::Platform;
use crate::request::Extent;
use crate::sector_io;
use crate::units::{MemberIndex, Sector, Sectors};

/// The members of an array with parity while a log is replayed.
pub(super) struct Replay<'a, P: Platform> {
    members: &'a [MemberOptions<P>],
    pub(super) layout: ParityLayout,
    /// By role.
    patches: Vec<Patches>,
}

impl<'a, P: Platform> Replay<'a, P> {
    pub(super) fn new(members: &'a [MemberOptions<P>], layout: ParityLayout) -> Self {
        Self { members, layout, patches: vec![Patches::default(); members.len()] }
    }

    /// What has to lie over each member, by role.
    pub(super) fn finish(self) -> Vec<Patches> {
        self.patches
    }

    /// A device of the role that holds `extent` whole.
    fn holder(&self, role: MemberIndex, extent: Extent) -> Option<&MemberDevice<P>> {
        let member = &self.members[role.0 as usize];
        [&member.device, &member.replacement].into_iter().flatten().find(|device| {
            let filled = device.recovery_point.is_none_or(|point| extent.end() <= point);
            filled && !device.bad_blocks.as_ref().is_some_and(|bad| bad.overlaps(extent))
        })
    }

    /// Some sectors of a member's data; `None` where it is missing, not yet filled in or
    /// unreadable.
    pub(super) async fn read(
        &self,
        cpu: &P::Cpu,
        from: Location,
        length: Sectors,
    ) -> Option<Vec<u8>> {
        let device = self.holder(from.member, Extent { at: from.at, length })?;
        let at = from.at + Sectors(device.data_start.0);
        let read = sector_io::read::<P>(cpu, &device.device, Extent { at, length }).await;
        let mut bytes = read.ok()?;
        self.patches[from.member.0 as usize].apply(from.at, &mut bytes);
        Some(bytes)
    }

    /// What a member is to hold from now on.
    pub(super) fn write(&mut self, to: Location, bytes: &[u8]) {
        self.patches[to.member.0 as usize].put(to.at, bytes);
    }

    /// All data blocks of some rows of a stripe, put together from parity where members lack them;
    /// `None` if that cannot be done.
    pub(super) async fn data_of_rows(
        &self,
        cpu: &P::Cpu,
        map: StripeMap,
        at: Sector,
        length: Sectors,
    ) -> Option<Vec<Vec<u8>>> {
        let mut blocks: Vec<Option<Vec<u8>>> = Vec::new();
        for data in 0..map.data_count() {
            let member = map.member(Block::Data(data));
            blocks.push(self.read(cpu, Location { member, at }, length).await);
        }
        let lost: Vec<u32> =
            (0..map.data_count()).filter(|data| blocks[*data as usize].is_none()).collect();
        if !lost.is_empty() {
            let p = self.read(cpu, Location { member: map.member(Block::P), at }, length).await;
            let q = match map.has_q() {
                true => self.read(cpu, Location { member: map.member(Block::Q), at }, length).await,
                false => None,
            };
            put_together(map, &mut blocks, &lost, p.as_deref(), q.as_deref(), length)?;
        }
        blocks.into_iter().collect()
    }

    /// Writes P and Q of some rows.
    pub(super) fn write_parity(&mut self, map: StripeMap, at: Sector, data: &[Vec<u8>]) {
        let blocks = by_exponent(map, |data_index| Some(&data[data_index as usize][..]));
        let length = data.first().expect("a stripe has data").len();
        let (mut p, mut q) = (vec![0; length], vec![0; length]);
        parity::compute_p(&blocks, &mut p);
        self.write(Location { member: map.member(Block::P), at }, &p);
        if map.has_q() {
            parity::compute_q(&blocks, &mut q);
            self.write(Location { member: map.member(Block::Q), at }, &q);
        }
    }
}

/// Fills in the lost blocks; `None` if parity is not enough.
fn put_together(
    map: StripeMap,
    blocks: &mut [Option<Vec<u8>>],
    lost: &[u32],
    p: Option<&[u8]>,
    q: Option<&[u8]>,
    length: Sectors,
) -> Option<()> {
    let blank = || vec![0; length.bytes() as usize];
    let found = {
        let left = by_exponent(map, |data| blocks[data as usize].as_deref());
        match (lost, p, q) {
            ([_], Some(p), _) => {
                let mut one = blank();
                parity::recover_from_p(&left, p, &mut one);
                vec![one]
            }
            ([data], None, Some(q)) => {
                let mut one = blank();
                parity::recover_from_q(&left, map.exponent(*data), q, &mut one);
                vec![one]
            }
            ([first, second], Some(p), Some(q)) => {
                let (mut one, mut other) = (blank(), blank());
                let (first, second) = (map.exponent(*first), map.exponent(*second));
                parity::recover_two(&left, (p, q), (first, &mut one), (second, &mut other));
                vec![one, other]
            }
            _ => return None,
        }
    };
    for (data, content) in lost.iter().zip(found) {
        blocks[*data as usize] = Some(content);
    }
    Some(())
}

/// Data blocks indexed by their exponents.
fn by_exponent<'a>(map: StripeMap, of: impl Fn(u32) -> Option<&'a [u8]>) -> Vec<Option<&'a [u8]>> {
    let mut blocks = Vec::new();
    for data in 0..map.data_count() {
        let exponent = map.exponent(data) as usize;
        if blocks.len() <= exponent {
            blocks.resize(exponent + 1, None);
        }
        blocks[exponent] = of(data);
    }
    blocks
}
