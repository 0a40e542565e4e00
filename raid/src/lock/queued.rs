//! The queued spin lock, with the structure of Linux's qspinlock.
//!
//! The word holds three fields: `locked`, `pending`, and the tail of a queue.
//!
//! - The first core exchanges 0 for `locked`: one access.
//! - The second sets `pending` and spins on the word.
//! - From the third on, cores queue up, each spinning on a line of its own (an MCS queue:
//!   Mellor-Crummey & Scott, ACM TOCS 9(1), 1991). The head of the queue spins on the word until
//!   `locked` and `pending` are clear, takes the lock, and makes its successor the head; so
//!   releasing the lock touches the word alone.
//!
//! Unlike in Linux, a core that finds a bare `pending` bit queues at once instead of waiting for the
//! hand-over to finish.

use super::QUEUE_NODE;
use super::spin::Hold;
use crate::platform::{Cpu, Label, Ordering, Place, Platform, Word};
use crate::units::CpuId;

const LOCKED: u64 = 1;
const PENDING: u64 = 1 << 8;
/// From this bit on: 0 for an empty queue, or the number of the last core in it plus one.
const TAIL_SHIFT: u32 = 16;
const TAIL_MASK: u64 = u64::MAX << TAIL_SHIFT;

pub(super) struct Queued<P: Platform> {
    word: P::Word,
    /// One for each core: interrupts are off, so a core is in this lock at most once.
    nodes: Vec<Node<P>>,
}

/// A core's place in the queue, on a line of its own.
struct Node<P: Platform> {
    /// Not 0: this core is the head of the queue.
    is_head: P::Word,
    /// 0, or the tail value of the core behind this one.
    next: P::Word,
}

impl<P: Platform> Queued<P> {
    /// `word` is zero.
    pub(super) fn new(platform: &P, word: P::Word) -> Self {
        let nodes = (0..platform.topology().cpu_count()).map(|cpu| {
            let label = Label::indexed(QUEUE_NODE, cpu);
            let region = &platform.region(label, 0, 16);
            let place = |offset_bytes| Place::Within { region, offset_bytes };
            Node {
                is_head: platform.word(label, place(0), 0),
                next: platform.word(label, place(8), 0),
            }
        });
        Self { word, nodes: nodes.collect() }
    }

    pub(super) async fn acquire(&self, cpu: &P::Cpu) -> Hold {
        match self.word.compare_exchange(cpu, 0, LOCKED, Ordering::Acquire).await {
            Ok(_) => Hold { contended: false, memo: 0 },
            Err(found) => {
                if !self.acquire_as_pending(cpu, found).await {
                    self.acquire_through_queue(cpu).await;
                }
                Hold { contended: true, memo: 0 }
            }
        }
    }

    /// The second contender's way. Gives up, and says no, if somebody else waits already.
    async fn acquire_as_pending(&self, cpu: &P::Cpu, found: u64) -> bool {
        if found & !LOCKED != 0 {
            return false;
        }
        let found = self.word.fetch_or(cpu, PENDING, Ordering::Acquire).await;
        if found & !LOCKED != 0 {
            if found & PENDING == 0 {
                self.word.add(cpu, PENDING.wrapping_neg(), Ordering::Relaxed).await;
            }
            return false;
        }
        if found & LOCKED != 0 {
            self.word.spin_until(cpu, Ordering::Acquire, |word| word & LOCKED == 0).await;
        }
        self.word.add(cpu, LOCKED.wrapping_sub(PENDING), Ordering::Relaxed).await;
        true
    }

    async fn acquire_through_queue(&self, cpu: &P::Cpu) {
        let tail = tail_of(cpu.id());
        let node = &self.nodes[cpu.id().0 as usize];
        node.is_head.store(cpu, 0, Ordering::Relaxed).await;
        node.next.store(cpu, 0, Ordering::Relaxed).await;

        // Release: the node is in order before the core that comes next reaches it. Acquire: the
        // same for the node that is now in front of this one.
        let previous = self.word.swap_bits(cpu, TAIL_MASK, tail, Ordering::AcqRel).await;
        if let Some(previous) = self.node_of(previous) {
            previous.next.store(cpu, tail, Ordering::Release).await;
            node.is_head.spin_until(cpu, Ordering::Acquire, |is_head| is_head != 0).await;
        }

        let held = LOCKED | PENDING;
        let free = self.word.spin_until(cpu, Ordering::Acquire, |word| word & held == 0).await;
        if free == tail
            && self.word.compare_exchange(cpu, tail, LOCKED, Ordering::Relaxed).await.is_ok()
        {
            return;
        }
        // Only the head of the queue sets `locked` while there is a queue. If the exchange failed,
        // it was over a core that queued up behind, or one that set `pending`, saw the tail and
        // will queue up behind: either way a successor comes.
        self.word.add(cpu, LOCKED, Ordering::Relaxed).await;
        let next = node.next.spin_until(cpu, Ordering::Acquire, |next| next != 0).await;
        let successor = self.node_of(next).expect("a successor has a node");
        successor.is_head.store(cpu, 1, Ordering::Release).await;
    }

    /// The node that the tail in `word` names.
    fn node_of(&self, word: u64) -> Option<&Node<P>> {
        let number = word >> TAIL_SHIFT;
        (number != 0).then(|| &self.nodes[number as usize - 1])
    }

    pub(super) async fn release(&self, cpu: &P::Cpu) {
        self.word.add(cpu, LOCKED.wrapping_neg(), Ordering::Release).await;
    }
}

fn tail_of(cpu: CpuId) -> u64 {
    (u64::from(cpu.0) + 1) << TAIL_SHIFT
}
