//! Lets heads go: a last reference goes onto a list without a lock, and from there, under the device
//! lock, the head goes to those to be handled or comes to rest.

use super::find::Chains;
use super::{FULL, HANDLE, HASH_LOCKS, HeadId, Heads, PLUGGED};
use crate::platform::{Cpu, Ordering, Platform, Word};
use std::collections::VecDeque;

const MINUS_ONE: u64 = u64::MAX;

/// A head on a list; no longer, if it was revived since.
#[derive(Clone, Copy)]
pub(super) struct Resting {
    pub(super) id: HeadId,
    pub(super) revivals: u64,
}

/// What the device lock guards.
pub(super) struct Lists {
    /// Heads to be handled, by node.
    handle: Vec<VecDeque<Resting>>,
    /// How many of those count, by node.
    handle_counts: Vec<u64>,
    /// Heads that are not full.
    delayed: VecDeque<Resting>,
    /// Of each head: how often it was revived, and the node whose list it is on.
    revivals: Vec<u64>,
    listed: Vec<Option<u32>>,
    /// By node, of each thread beside the one that every array has: whether it runs.
    pub(super) running: Vec<Vec<bool>>,
}

/// A thread that is to be started: the node, and which of its threads.
pub(super) type Start = (u32, u32);

/// A thread beyond the first is started for each so many heads that wait, as in md.
const HEADS_EACH_THREAD: u64 = super::threads::TAKEN_AT_ONCE as u64;

impl Lists {
    pub(super) fn new(heads: u64, nodes: u32, threads_per_node: u32) -> Self {
        let nodes = nodes as usize;
        Self {
            handle: (0..nodes).map(|_| VecDeque::new()).collect(),
            handle_counts: vec![0; nodes],
            delayed: VecDeque::new(),
            revivals: vec![0; heads as usize],
            listed: vec![None; heads as usize],
            running: vec![vec![false; threads_per_node as usize]; nodes],
        }
    }

    /// A head is counted again. How often it has been.
    pub(super) fn revive(&mut self, id: HeadId) -> u64 {
        self.unlist(id);
        self.revivals[id.0 as usize] += 1;
        self.revivals[id.0 as usize]
    }

    fn unlist(&mut self, id: HeadId) {
        if let Some(node) = self.listed[id.0 as usize].take() {
            self.handle_counts[node as usize] -= 1;
        }
    }

    fn resting(&self, id: HeadId) -> Resting {
        Resting { id, revivals: self.revivals[id.0 as usize] }
    }

    fn counts(&self, resting: &Resting) -> bool {
        self.revivals[resting.id.0 as usize] == resting.revivals
    }

    fn put(&mut self, id: HeadId, node: u32, full: bool) {
        let resting = self.resting(id);
        if full {
            self.listed[id.0 as usize] = Some(node);
            self.handle_counts[node as usize] += 1;
            self.handle[node as usize].push_back(resting);
        } else {
            self.delayed.push_back(resting);
        }
    }

    /// The next head to be handled: of `node`, or of any. A head that is not full only when there is
    /// no full one anywhere.
    pub(super) fn take(&mut self, node: Option<u32>) -> Option<HeadId> {
        let nodes = match node {
            Some(node) => node as usize..node as usize + 1,
            None => 0..self.handle.len(),
        };
        for node in nodes {
            while let Some(resting) = self.handle[node].pop_front() {
                if self.counts(&resting) {
                    self.unlist(resting.id);
                    return Some(resting.id);
                }
            }
        }
        if self.handle_counts.iter().any(|count| *count > 0) {
            return None;
        }
        while let Some(resting) = self.delayed.pop_front() {
            if self.counts(&resting) {
                return Some(resting.id);
            }
        }
        None
    }

    /// Whether some head waits to be handled.
    pub(super) fn is_waiting(&self) -> bool {
        self.handle.iter().chain([&self.delayed]).flatten().any(|resting| self.counts(resting))
    }

    /// The threads of a node that its list now calls for; they count as running from now on.
    fn start(&mut self, node: u32) -> impl Iterator<Item = Start> + use<> {
        let waiting = self.handle_counts[node as usize];
        let wanted = (waiting / HEADS_EACH_THREAD).max(1) as usize;
        let threads = self.running[node as usize].iter_mut().zip(0..);
        let idle = threads.take(wanted).filter(|(running, _)| !**running);
        let started: Vec<Start> = idle
            .map(|(running, thread)| {
                *running = true;
                (node, thread)
            })
            .collect();
        started.into_iter()
    }
}

/// What is left to do once the device lock is free.
#[derive(Default)]
pub(super) struct Aftermath {
    inactive: Vec<Resting>,
    start: Vec<Start>,
    /// Without threads of nodes, the one that every array has is to look.
    daemon: bool,
}

impl<P: Platform> Heads<P> {
    /// Lets a reference go. The last one goes onto the list of released heads; true if the list was
    /// empty, and somebody has to look at it.
    pub(super) async fn release(&self, cpu: &P::Cpu, id: HeadId) -> bool {
        let head = self.head(id);
        let mut seen = head.count.load(cpu, Ordering::Relaxed).await;
        while seen > 1 {
            match head.count.compare_exchange(cpu, seen, seen - 1, Ordering::AcqRel).await {
                Ok(_) => return false,
                Err(other) => seen = other,
            }
        }
        assert_eq!(seen, 1, "only what was counted is let go");
        let mut first = self.released.load(cpu, Ordering::Relaxed).await;
        loop {
            head.link.store(cpu, first, Ordering::Relaxed).await;
            let new = u64::from(id.0) + 1;
            match self.released.compare_exchange(cpu, first, new, Ordering::AcqRel).await {
                Ok(_) => return first == 0,
                Err(other) => first = other,
            }
        }
    }

    /// Drops the references of heads that were released. Under the device lock. Whether there were
    /// any.
    pub(super) async fn drain(
        &self,
        cpu: &P::Cpu,
        lists: &mut Lists,
        aftermath: &mut Aftermath,
    ) -> bool {
        let mut next = self.released.swap(cpu, 0, Ordering::AcqRel).await;
        let mut latest_first = Vec::new();
        while next != 0 {
            let id = HeadId(next as u32 - 1);
            latest_first.push(id);
            next = self.head(id).link.load(cpu, Ordering::Relaxed).await;
        }
        for id in latest_first.iter().rev() {
            self.drop_reference(cpu, lists, *id, aftermath).await;
        }
        !latest_first.is_empty()
    }

    /// Drops the references of a plug.
    pub(super) async fn unplug(&self, cpu: &P::Cpu, plug: &mut Vec<HeadId>) -> Aftermath {
        let mut aftermath = Aftermath::default();
        if plug.is_empty() {
            return aftermath;
        }
        let unplug = async |lists: &mut Lists| {
            for id in plug.drain(..) {
                self.head(id).state.swap_bits(cpu, PLUGGED, 0, Ordering::Relaxed).await;
                self.drop_reference(cpu, lists, id, &mut aftermath).await;
            }
        };
        self.device_lock.with(cpu, unplug).await;
        aftermath
    }

    /// Under the device lock: if it was the last, the head goes onto a list.
    async fn drop_reference(
        &self,
        cpu: &P::Cpu,
        lists: &mut Lists,
        id: HeadId,
        aftermath: &mut Aftermath,
    ) {
        let head = self.head(id);
        if head.count.fetch_add(cpu, MINUS_ONE, Ordering::AcqRel).await != 1 {
            return;
        }
        let state = head.state.load(cpu, Ordering::Relaxed).await;
        if state & HANDLE == 0 {
            self.active.add(cpu, MINUS_ONE, Ordering::Relaxed).await;
            aftermath.inactive.push(lists.resting(id));
            return;
        }
        let node = cpu.platform().topology().node_of(cpu.id()).0;
        lists.put(id, node, state & FULL != 0);
        if lists.running[node as usize].is_empty() {
            aftermath.daemon = true;
        } else {
            aftermath.start.extend(lists.start(node));
        }
    }

    /// Lets others have what has come to rest. Then the threads to start, and whether the one that
    /// every array has is among them.
    pub(super) async fn settle(&self, cpu: &P::Cpu, aftermath: Aftermath) -> (Vec<Start>, bool) {
        let Aftermath { inactive, start, daemon } = aftermath;
        if !inactive.is_empty() {
            for hash in 0..HASH_LOCKS {
                let is_of = |resting: &&Resting| u64::from(resting.id.0) % HASH_LOCKS == hash;
                let of_hash: Vec<Resting> = inactive.iter().filter(is_of).copied().collect();
                if of_hash.is_empty() {
                    continue;
                }
                let put = async |chains: &mut Chains| chains.put_inactive(of_hash.into_iter());
                self.hash_locks[hash as usize].with(cpu, put).await;
            }
            if self.wait_for_stripe.has_waiters(cpu).await {
                self.wait_for_stripe.wake_all(cpu).await;
            }
        }
        (start, daemon)
    }
}
