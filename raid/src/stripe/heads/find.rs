//! Finds the head of a row under the row's hash lock, and counts it; or takes an inactive one for it.

use super::release::{Lists, Resting};
use super::{HANDLE, HASH_LOCKS, HeadId, Heads};
use crate::platform::{Cpu, Ordering, Platform, Word, Work};
use std::collections::VecDeque;

/// Chains of the hash table: md's table is one page of pointers.
const CHAINS: u64 = 512;
/// Chains under each hash lock.
const CHAINS_EACH: u64 = CHAINS / HASH_LOCKS;

/// Instructions under the hash lock besides the shared words, counted from the shape of md's code:
/// the hash (10), the call and its registers (16), the flags (4).
const FIND_INSTRUCTIONS: u32 = 30;
/// To take an inactive head for a row: unlink (10), link (10), set its fields and those of five to
/// ten devices (70).
const INIT_INSTRUCTIONS: u32 = 90;

/// What one hash lock guards: the chains of its rows, and its inactive heads.
pub(super) struct Chains {
    /// The newest last.
    chains: Vec<Vec<HeadId>>,
    /// Of each head of this lock.
    slots: Vec<Slot>,
    inactive: VecDeque<Resting>,
}

#[derive(Clone, Default)]
struct Slot {
    row: Option<u64>,
    /// How often it was counted again after it had come to rest; as in [`Lists`], which has the same
    /// number under the device lock. Both are held when it changes.
    revivals: u64,
}

impl Chains {
    /// `heads` are inactive and stand for no row.
    pub(super) fn new(heads: impl Iterator<Item = HeadId>) -> Self {
        let inactive: VecDeque<Resting> = heads.map(|id| Resting { id, revivals: 0 }).collect();
        let chains = (0..CHAINS_EACH).map(|_| Vec::new()).collect();
        Self { chains, slots: vec![Slot::default(); inactive.len()], inactive }
    }

    fn slot(&mut self, id: HeadId) -> &mut Slot {
        &mut self.slots[(u64::from(id.0) / HASH_LOCKS) as usize]
    }

    fn chain(&mut self, row: u64) -> &mut Vec<HeadId> {
        &mut self.chains[(row / HASH_LOCKS % CHAINS_EACH) as usize]
    }

    /// Heads that have come to rest; those that were counted again meanwhile are left out.
    pub(super) fn put_inactive(&mut self, heads: impl Iterator<Item = Resting>) {
        for resting in heads {
            if self.slot(resting.id).revivals == resting.revivals {
                self.inactive.push_back(resting);
            }
        }
    }

    /// The head that has been inactive for longest.
    fn pop_inactive(&mut self) -> Option<HeadId> {
        loop {
            let Resting { id, revivals } = self.inactive.pop_front()?;
            if self.slot(id).revivals == revivals {
                return Some(id);
            }
        }
    }

    /// Has `id` stand for `row`, and for no other.
    fn rename(&mut self, id: HeadId, row: u64) {
        if let Some(before) = self.slot(id).row.replace(row) {
            self.chain(before).retain(|other| *other != id);
        }
        self.chain(row).push(id);
    }
}

impl<P: Platform> Heads<P> {
    /// The head of a row, counted; `None` if there is no inactive head to take for it.
    pub(super) async fn get(&self, cpu: &P::Cpu, row: u64) -> Option<HeadId> {
        let get = async |chains: &mut Chains| match self.walk(cpu, chains, row).await {
            Some(id) => {
                self.count(cpu, chains, id).await;
                Some(id)
            }
            None => self.take_inactive(cpu, chains, row).await,
        };
        self.hash_lock(row).with(cpu, get).await
    }

    /// The head of a row, counted, if there is one.
    pub(super) async fn find(&self, cpu: &P::Cpu, row: u64) -> Option<HeadId> {
        let find = async |chains: &mut Chains| {
            let id = self.walk(cpu, chains, row).await?;
            self.count(cpu, chains, id).await;
            Some(id)
        };
        self.hash_lock(row).with(cpu, find).await
    }

    pub(super) fn hash_lock(&self, row: u64) -> &crate::lock::SpinLock<P, Chains> {
        &self.hash_locks[(row % HASH_LOCKS) as usize]
    }

    /// Looks at one head after the other.
    async fn walk(&self, cpu: &P::Cpu, chains: &mut Chains, row: u64) -> Option<HeadId> {
        cpu.spend(Work::Instructions(FIND_INSTRUCTIONS)).await;
        let newest_last = chains.chain(row).clone();
        for id in newest_last.into_iter().rev() {
            self.head(id).link.load(cpu, Ordering::Relaxed).await;
            if chains.slot(id).row == Some(row) {
                return Some(id);
            }
        }
        None
    }

    /// Counts a head. One that nobody counted is taken off the list that it is on.
    async fn count(&self, cpu: &P::Cpu, chains: &mut Chains, id: HeadId) {
        let head = self.head(id);
        let mut seen = head.count.load(cpu, Ordering::Relaxed).await;
        while seen != 0 {
            match head.count.compare_exchange(cpu, seen, seen + 1, Ordering::AcqRel).await {
                Ok(_) => return,
                Err(other) => seen = other,
            }
        }
        let revive = async |lists: &mut Lists| {
            // Only under this lock does it leave zero or come to it.
            if head.count.fetch_add(cpu, 1, Ordering::AcqRel).await != 0 {
                return;
            }
            if head.state.load(cpu, Ordering::Relaxed).await & HANDLE == 0 {
                self.active.add(cpu, 1, Ordering::Relaxed).await;
            }
            chains.slot(id).revivals = lists.revive(id);
        };
        self.device_lock.with(cpu, revive).await;
    }

    /// Takes the head that has been inactive for longest, counted. As in md, once there was none
    /// nobody gets one until a quarter of all are inactive.
    async fn take_inactive(&self, cpu: &P::Cpu, chains: &mut Chains, row: u64) -> Option<HeadId> {
        let exhausted = self.exhausted.load(cpu, Ordering::Relaxed).await != 0;
        if exhausted {
            let active = self.active.load(cpu, Ordering::Relaxed).await;
            if active >= self.heads.len() as u64 * 3 / 4 {
                return None;
            }
        }
        let Some(id) = chains.pop_inactive() else {
            self.exhausted.store(cpu, 1, Ordering::Relaxed).await;
            return None;
        };
        if exhausted {
            self.exhausted.store(cpu, 0, Ordering::Relaxed).await;
        }
        cpu.spend(Work::Instructions(INIT_INSTRUCTIONS)).await;
        chains.rename(id, row);
        let head = self.head(id);
        head.link.store(cpu, 0, Ordering::Relaxed).await;
        head.count.store(cpu, 1, Ordering::Release).await;
        self.active.add(cpu, 1, Ordering::Relaxed).await;
        Some(id)
    }
}
