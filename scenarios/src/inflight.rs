//! The number of requests that a block device has under way, kept in one of several ways. Readers of
//! statistics ask for the sum; every request pays for it when it starts and when it ends.
//!
//! It is no part of RAID, but stands on the same platform, so that it runs in both worlds.

use raid::platform::{Cpu, Label, Ordering, Place, Platform, Word};
use raid::units::{CpuId, NodeId};

/// How the number is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterKind {
    /// Not at all.
    None,
    /// In one pair of atomic words, reads and writes side by side.
    Atomic,
    /// In a pair for each core; a request may end on another core than it began on.
    PerCpu,
    /// In a pair for each NUMA node.
    PerNode,
    /// Nowhere: a reader counts the tags that are taken.
    Tags,
}

impl CounterKind {
    /// All of them, that which costs most first.
    pub const ALL: [Self; 5] = [Self::Atomic, Self::PerCpu, Self::PerNode, Self::Tags, Self::None];

    /// What people type.
    pub fn name(self) -> &'static str {
        match self {
            CounterKind::None => "none",
            CounterKind::Atomic => "atomic",
            CounterKind::PerCpu => "per-cpu",
            CounterKind::PerNode => "per-node",
            CounterKind::Tags => "tags",
        }
    }
}

/// Counts what is under way on one device with a queue for each core.
pub struct Inflight<P: Platform> {
    kind: CounterKind,
    /// For each core its queue's tags, a bit each. Every kind of device has them.
    tags: Vec<P::Word>,
    /// One pair, one for each core that there may ever be or one for each node: reads, writes.
    pairs: Vec<[P::Word; 2]>,
}

/// Has the number read once in each tick of the clock, by whichever request comes first in it, as
/// the block layer's `part_round_stats` did in 2017.
pub struct TickReader<P: Platform> {
    /// The last tick in which it was read.
    stamp: P::Word,
}

/// A request that has started.
#[derive(Debug)]
pub struct Started {
    queue: CpuId,
    tag: u64,
    is_write: bool,
}

/// Minus one, for words that wrap.
const MINUS_ONE: u64 = u64::MAX;
/// A pair: two words side by side.
const PAIR_BYTES: u32 = 16;

impl<P: Platform> Inflight<P> {
    /// A device without requests. A pair for each core is kept for `possible_cpus`, those that the
    /// machine has and those that may be plugged in: who asks for the sum walks them all.
    ///
    /// # Panics
    /// If the machine has more cores than are possible.
    pub fn new(platform: &P, kind: CounterKind, possible_cpus: u32) -> Self {
        let topology = platform.topology();
        let cpus = topology.cpu_count();
        assert!(
            cpus <= possible_cpus,
            "the machine has {cpus} cores, {possible_cpus} are possible"
        );
        let pairs = match kind {
            CounterKind::None | CounterKind::Tags => 0,
            CounterKind::Atomic => 1,
            CounterKind::PerCpu => possible_cpus,
            CounterKind::PerNode => topology.node_count(),
        };
        let pair = |index| {
            let label = Label::indexed("in_flight", index);
            let region = platform.region(label, 0, PAIR_BYTES);
            [0, 8].map(|offset_bytes| {
                platform.word(label, Place::Within { region: &region, offset_bytes }, 0)
            })
        };
        let tags = |cpu| platform.word(Label::indexed("tags", cpu), Place::Alone, 0);
        Self { kind, tags: (0..cpus).map(tags).collect(), pairs: (0..pairs).map(pair).collect() }
    }

    /// A request takes a tag of this core's queue and counts as under way; `None` if the queue is
    /// full.
    pub async fn start(&self, cpu: &P::Cpu, is_write: bool) -> Option<Started> {
        let queue = cpu.id();
        let word = &self.tags[queue.0 as usize];
        let mut taken = word.load(cpu, Ordering::Relaxed).await;
        let tag = loop {
            if taken == u64::MAX {
                return None;
            }
            let tag = 1 << taken.trailing_ones();
            match word.compare_exchange(cpu, taken, taken | tag, Ordering::Acquire).await {
                Ok(_) => break tag,
                Err(found) => taken = found,
            }
        };
        self.count(cpu, is_write, 1).await;
        Some(Started { queue, tag, is_write })
    }

    /// The request ends, on whichever core.
    pub async fn end(&self, cpu: &P::Cpu, request: Started) {
        let Started { queue, tag, is_write } = request;
        self.count(cpu, is_write, MINUS_ONE).await;
        // Its bit is set, so that taking it off clears it and no other.
        let word = &self.tags[queue.0 as usize];
        word.fetch_add(cpu, tag.wrapping_neg(), Ordering::Release).await;
    }

    async fn count(&self, cpu: &P::Cpu, is_write: bool, change: u64) {
        let NodeId(node) = cpu.node();
        let pair = match self.kind {
            CounterKind::None | CounterKind::Tags => return,
            CounterKind::Atomic => 0,
            CounterKind::PerCpu => cpu.id().0,
            CounterKind::PerNode => node,
        };
        let word = &self.pairs[pair as usize][usize::from(is_write)];
        word.fetch_add(cpu, change, Ordering::Relaxed).await;
    }

    /// How many requests are under way; 0 if nobody counts. While requests come and go, it may be
    /// what never was: words are read one after the other. It is never below zero.
    pub async fn sum(&self, cpu: &P::Cpu) -> u64 {
        let mut sum = 0_u64;
        if self.kind == CounterKind::Tags {
            for word in &self.tags {
                sum += u64::from(word.load(cpu, Ordering::Relaxed).await.count_ones());
            }
            return sum;
        }
        for word in self.pairs.iter().flatten() {
            sum = sum.wrapping_add(word.load(cpu, Ordering::Relaxed).await);
        }
        // A request that ended on a core already read, and began on one not yet read.
        (sum as i64).max(0) as u64
    }
}

impl<P: Platform> TickReader<P> {
    /// One that has not read yet.
    pub fn new(platform: &P) -> Self {
        Self { stamp: platform.word(Label::new("stamp"), Place::Alone, 0) }
    }

    /// Reads the number if nobody has in tick number `tick`. Ticks are counted from 1.
    pub async fn pass(&self, cpu: &P::Cpu, device: &Inflight<P>, tick: u64) {
        let stamp = self.stamp.load(cpu, Ordering::Relaxed).await;
        if stamp < tick
            && self.stamp.compare_exchange(cpu, stamp, tick, Ordering::Relaxed).await.is_ok()
        {
            device.sum(cpu).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::machine::MachineFile;
    use sim::{Options, Outcome, SimCpu, Simulation};
    use std::sync::Arc;

    const COUNTING: [CounterKind; 4] =
        [CounterKind::Atomic, CounterKind::PerCpu, CounterKind::PerNode, CounterKind::Tags];

    fn on_a_machine<F: Future<Output = ()> + 'static>(
        kind: CounterKind,
        run: impl FnOnce(SimCpu, Arc<Inflight<sim::SimPlatform>>) -> F + Send + 'static,
    ) {
        let machine = MachineFile::preset("kunpeng920").expect("a preset").nominal();
        let mut world = Simulation::new(&machine, Options::default());
        let platform = world.platform();
        let possible = 2 * platform.topology().cpu_count();
        let device = Arc::new(Inflight::new(&platform, kind, possible));
        platform.spawn_on(CpuId(0), Label::new("test"), |cpu| run(cpu, device));
        assert_eq!(world.run(), Outcome::Done);
    }

    #[test]
    fn every_kind_counts_what_is_under_way() {
        for kind in COUNTING {
            on_a_machine(kind, async |cpu, device| {
                assert_eq!(device.sum(&cpu).await, 0);
                let read = device.start(&cpu, false).await.expect("a tag");
                let write = device.start(&cpu, true).await.expect("a tag");
                assert_eq!(device.sum(&cpu).await, 2);
                device.end(&cpu, read).await;
                assert_eq!(device.sum(&cpu).await, 1);
                device.end(&cpu, write).await;
                assert_eq!(device.sum(&cpu).await, 0);
            });
        }
    }

    #[test]
    fn a_request_may_end_on_another_core_and_node() {
        for kind in COUNTING {
            on_a_machine(kind, async move |cpu, device| {
                let request = device.start(&cpu, true).await.expect("a tag");
                let platform = cpu.platform().clone();
                let far = CpuId(platform.topology().cpu_count() - 1);
                let ended = platform.parker(Label::new("ended"));
                let (elsewhere, at_home) = (ended.clone(), device.clone());
                platform.spawn_on(far, Label::new("interrupt"), async move |cpu| {
                    at_home.end(&cpu, request).await;
                    assert_eq!(at_home.sum(&cpu).await, 0, "{kind:?}");
                    raid::platform::Parker::unpark(&elsewhere, &cpu).await;
                });
                raid::platform::Parker::park(&ended, &cpu).await;
                assert_eq!(device.sum(&cpu).await, 0, "{kind:?}");
            });
        }
    }

    #[test]
    fn one_request_in_each_tick_reads() {
        on_a_machine(CounterKind::Atomic, async |cpu, device| {
            let reader = TickReader::new(cpu.platform());
            for (tick, reads) in [(1, true), (1, false), (2, true), (1, false)] {
                let before = reader.stamp.load(&cpu, Ordering::Relaxed).await;
                reader.pass(&cpu, &device, tick).await;
                let after = reader.stamp.load(&cpu, Ordering::Relaxed).await;
                assert_eq!(after != before, reads, "tick {tick} after {before}");
            }
        });
    }

    #[test]
    fn a_queue_has_as_many_requests_as_tags() {
        on_a_machine(CounterKind::Tags, async |cpu, device| {
            let mut requests = Vec::new();
            for _ in 0..u64::BITS {
                requests.push(device.start(&cpu, false).await.expect("a tag"));
            }
            assert!(device.start(&cpu, false).await.is_none());
            assert_eq!(device.sum(&cpu).await, u64::from(u64::BITS));
            device.end(&cpu, requests.remove(7)).await;
            assert!(device.start(&cpu, false).await.is_some());
        });
    }
}
