//! The compact NUMA-aware lock (CNA: Dice & Kogan, "Compact NUMA-aware Locks", EuroSys 2019).
//!
//! One word, the tail of a queue in which each core spins on a line of its own. Whoever releases the
//! lock looks along the queue for the first waiter on its own NUMA node, so that the lock and what
//! it guards stay there; those it skips move, in order, to a secondary queue. The secondary queue
//! comes to the front of the main queue when no waiter of the node is left, or after
//! [`LOCAL_HANDOVERS_MAX`] hand-overs past it, where the paper draws a random number.
//!
//! Only the holder of the lock touches the secondary queue, and it hands the queue over together
//! with the lock, in the word that its successor spins on.
//!
//! Unlike the paper, a waiter's NUMA node follows from its core's number and is not read from the
//! waiter's line.

use super::QUEUE_NODE;
use super::spin::Hold;
use crate::platform::{Cpu, Label, Ordering, Place, Platform, Word};
use crate::units::{CpuId, NodeId};

/// How often the lock may be handed over past the secondary queue before those in it get their
/// turn. It bounds how long they wait: 256 sections. The one transfer between NUMA nodes that it
/// costs is spread over as many; the paper goes further and draws with a mean of 2^16.
const LOCAL_HANDOVERS_MAX: u32 = 256;

pub(super) struct NumaQueued<P: Platform> {
    /// The last core in the main queue, [`encode`]d. None: the lock is free.
    tail: P::Word,
    /// One for each core: interrupts are off, so a core is in this lock at most once.
    nodes: Vec<Node<P>>,
}

/// A core's place in a queue, on a line of its own.
struct Node<P: Platform> {
    numa_node: NodeId,
    /// 0 while this core waits, then the [`Inheritance`] that comes with the lock.
    granted: P::Word,
    /// The core behind this one, encoded.
    next: P::Word,
    /// In the node of the first core of the secondary queue: the last core of it, encoded.
    secondary_tail: P::Word,
}

/// What comes with the lock when it is handed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Inheritance {
    /// The first core in the secondary queue.
    secondary_head: Option<CpuId>,
    /// Hand-overs past the secondary queue since it was last empty.
    local_handovers: u32,
}

/// Neighbours in the queue that were passed over.
#[derive(Clone, Copy)]
struct Skipped {
    first: CpuId,
    last: CpuId,
}

impl<P: Platform> NumaQueued<P> {
    /// `tail` is zero.
    pub(super) fn new(platform: &P, tail: P::Word) -> Self {
        let topology = platform.topology();
        let nodes = (0..topology.cpu_count()).map(|cpu| {
            let label = Label::indexed(QUEUE_NODE, cpu);
            let region = &platform.region(label, 0, 24);
            let word = |offset_bytes| {
                platform.word(label, Place::Within { region, offset_bytes }, encode(None))
            };
            Node {
                numa_node: topology.node_of(CpuId(cpu)),
                granted: word(0),
                next: word(8),
                secondary_tail: word(16),
            }
        });
        Self { tail, nodes: nodes.collect() }
    }

    pub(super) async fn acquire(&self, cpu: &P::Cpu) -> Hold {
        let id = cpu.id();
        let node = self.node(id);
        node.granted.store(cpu, 0, Ordering::Relaxed).await;
        node.next.store(cpu, encode(None), Ordering::Relaxed).await;
        // Release: the node is in order before the core that comes next reaches it. Acquire: the
        // same for the node that is now in front; and what the last holder did, if it left nobody.
        let previous = decode(self.tail.swap(cpu, encode(Some(id)), Ordering::AcqRel).await);
        let Some(previous) = previous else {
            return Hold { contended: false, memo: Inheritance::default().to_word() };
        };
        self.link(cpu, previous, Some(id)).await;
        let memo = node.granted.spin_until(cpu, Ordering::Acquire, |granted| granted != 0).await;
        Hold { contended: true, memo }
    }

    pub(super) async fn release(&self, cpu: &P::Cpu, hold: Hold) {
        let inherited = Inheritance::from_word(hold.memo);
        let id = cpu.id();
        let node = self.node(id);
        let next = match decode(node.next.load(cpu, Ordering::Acquire).await) {
            Some(next) => next,
            None if self.leave_main_queue_empty(cpu, inherited).await => return,
            // Somebody has put itself behind this core and is about to say so.
            None => decode(node.next.spin_until(cpu, Ordering::Acquire, |next| next != 0).await)
                .expect("not 0, so a core"),
        };
        let (successor, inheritance) = match self.successor_nearby(cpu, next, inherited).await {
            Some(nearby) => nearby,
            None => match inherited.secondary_head {
                Some(head) => {
                    let secondary_tail = self.secondary_tail(cpu, head).await;
                    self.link(cpu, secondary_tail, Some(next)).await;
                    (head, Inheritance::default())
                }
                None => (next, Inheritance::default()),
            },
        };
        self.grant(cpu, successor, inheritance).await;
    }

    /// Frees the lock, or makes the secondary queue the main one. Says no if a core has come.
    async fn leave_main_queue_empty(&self, cpu: &P::Cpu, inherited: Inheritance) -> bool {
        let left_behind = match inherited.secondary_head {
            Some(head) => Some(self.secondary_tail(cpu, head).await),
            None => None,
        };
        let (alone, left_behind) = (encode(Some(cpu.id())), encode(left_behind));
        // Release: also for the core that finds the lock free, or the tail of the secondary queue.
        if self.tail.compare_exchange(cpu, alone, left_behind, Ordering::Release).await.is_err() {
            return false;
        }
        if let Some(head) = inherited.secondary_head {
            self.grant(cpu, head, Inheritance::default()).await;
        }
        true
    }

    /// The first waiter of this core's NUMA node in the main queue, which begins with `first`, and
    /// what it inherits when those before it have moved to the secondary queue. None if there is
    /// no such waiter, or if the secondary queue has been passed over often enough.
    async fn successor_nearby(
        &self,
        cpu: &P::Cpu,
        first: CpuId,
        inherited: Inheritance,
    ) -> Option<(CpuId, Inheritance)> {
        if inherited.local_handovers >= LOCAL_HANDOVERS_MAX {
            return None;
        }
        let home = self.node(cpu.id()).numa_node;
        let mut candidate = first;
        let mut skipped: Option<Skipped> = None;
        while self.node(candidate).numa_node != home {
            let first = skipped.map_or(candidate, |skipped| skipped.first);
            skipped = Some(Skipped { first, last: candidate });
            candidate = decode(self.node(candidate).next.load(cpu, Ordering::Acquire).await)?;
        }
        let secondary_head = match skipped {
            Some(skipped) => Some(self.set_aside(cpu, skipped, inherited.secondary_head).await),
            None => inherited.secondary_head,
        };
        Some((candidate, inherited.past(secondary_head)))
    }

    /// Appends `skipped` to the secondary queue; the head of that queue.
    async fn set_aside(&self, cpu: &P::Cpu, skipped: Skipped, head: Option<CpuId>) -> CpuId {
        self.link(cpu, skipped.last, None).await;
        if let Some(head) = head {
            let tail = self.secondary_tail(cpu, head).await;
            self.link(cpu, tail, Some(skipped.first)).await;
        }
        let head = head.unwrap_or(skipped.first);
        let tail = encode(Some(skipped.last));
        self.node(head).secondary_tail.store(cpu, tail, Ordering::Relaxed).await;
        head
    }

    /// The last core of the secondary queue that begins with `head`.
    async fn secondary_tail(&self, cpu: &P::Cpu, head: CpuId) -> CpuId {
        decode(self.node(head).secondary_tail.load(cpu, Ordering::Relaxed).await)
            .expect("the head of a secondary queue knows its tail")
    }

    /// Puts `next` behind `core`.
    async fn link(&self, cpu: &P::Cpu, core: CpuId, next: Option<CpuId>) {
        self.node(core).next.store(cpu, encode(next), Ordering::Release).await;
    }

    async fn grant(&self, cpu: &P::Cpu, successor: CpuId, inheritance: Inheritance) {
        let granted = inheritance.to_word();
        self.node(successor).granted.store(cpu, granted, Ordering::Release).await;
    }

    fn node(&self, cpu: CpuId) -> &Node<P> {
        &self.nodes[cpu.0 as usize]
    }
}

impl Inheritance {
    /// Tells an inheritance from a core that still waits.
    const GRANTED: u64 = 1 << 63;

    fn to_word(self) -> u64 {
        Self::GRANTED | (u64::from(self.local_handovers) << 32) | encode(self.secondary_head)
    }

    fn from_word(word: u64) -> Self {
        assert!(word & Self::GRANTED != 0, "a lock that was not granted");
        let secondary_head = decode(u64::from(word as u32));
        Self { secondary_head, local_handovers: ((word & !Self::GRANTED) >> 32) as u32 }
    }

    /// What the next holder inherits if it is on this NUMA node.
    fn past(self, secondary_head: Option<CpuId>) -> Self {
        let local_handovers = match secondary_head {
            Some(_) => self.local_handovers + 1,
            None => 0,
        };
        Self { secondary_head, local_handovers }
    }
}

/// 0 for none, or the core's number plus one. Fits in 32 bits.
fn encode(cpu: Option<CpuId>) -> u64 {
    cpu.map_or(0, |cpu| u64::from(cpu.0) + 1)
}

fn decode(word: u64) -> Option<CpuId> {
    (word != 0).then(|| CpuId((word - 1) as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(inheritance: Inheritance) {
        assert_ne!(inheritance.to_word(), 0, "0 means that the core waits");
        assert_eq!(Inheritance::from_word(inheritance.to_word()), inheritance);
    }

    #[test]
    fn an_inheritance_survives_its_word() {
        check(Inheritance::default());
        check(Inheritance { secondary_head: Some(CpuId(0)), local_handovers: 1 });
        check(Inheritance {
            secondary_head: Some(CpuId(u32::MAX - 1)),
            local_handovers: LOCAL_HANDOVERS_MAX,
        });
    }

    #[test]
    fn only_hand_overs_past_somebody_count() {
        let aside = Inheritance { secondary_head: Some(CpuId(3)), local_handovers: 7 };
        assert_eq!(aside.past(Some(CpuId(3))).local_handovers, 8);
        assert_eq!(aside.past(None).local_handovers, 0);
    }
}
