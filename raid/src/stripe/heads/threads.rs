//! The threads that carry out what was added: one of each array (md's `raid5d`), and on each node as
//! many more as the tuning says. Each runs as long as there is something to do, and is then started
//! again by whoever leaves something on a list.
//!
//! Why nothing is left lying: a thread of a node stops under the device lock, under which its list
//! grows. The array's own thread says that it stops and then looks once more; whoever leaves
//! something for it does so first and looks whether it runs second.

use super::release::{Aftermath, Lists, Start};
use super::{HeadId, Heads};
use crate::array::{Array, Body};
use crate::platform::{Cpu, Label, Ordering, Platform, Word};
use crate::stripe::ParityArray;
use crate::units::{CpuId, NodeId};
use std::sync::Arc;

/// Heads that a thread takes at once: md's MAX_STRIPE_BATCH.
pub(super) const TAKEN_AT_ONCE: usize = 8;

#[derive(Clone, Copy)]
enum Thread {
    OfArray,
    OfNode(Start),
}

impl<P: Platform> ParityArray<P> {
    /// Lets a reference to a head go.
    pub(super) async fn let_head_go(&self, cpu: &P::Cpu, heads: &Heads<P>, id: HeadId) {
        if heads.release(cpu, id).await {
            self.wake_daemon(cpu, heads).await;
        }
    }

    /// Does what is left to do after the device lock was held.
    pub(super) async fn settle_heads(&self, cpu: &P::Cpu, heads: &Heads<P>, aftermath: Aftermath) {
        let (starts, daemon) = heads.settle(cpu, aftermath).await;
        for start in starts {
            self.start_thread(cpu, Thread::OfNode(start));
        }
        if daemon {
            self.wake_daemon(cpu, heads).await;
        }
    }

    async fn wake_daemon(&self, cpu: &P::Cpu, heads: &Heads<P>) {
        if heads.daemon.swap(cpu, 1, Ordering::SeqCst).await == 0 {
            self.start_thread(cpu, Thread::OfArray);
        }
    }

    fn start_thread(&self, cpu: &P::Cpu, thread: Thread) {
        let array = self.whole.upgrade().expect("whoever writes has the array");
        let topology = cpu.platform().topology();
        let (on, label) = match thread {
            Thread::OfArray => (CpuId(topology.cpu_count() - 1), Label::new("raid5d")),
            Thread::OfNode((node, index)) => {
                // Evenly over the node.
                let cpus: Vec<CpuId> = topology.cpus_of(NodeId(node)).collect();
                let threads = self.threads_per_node as usize;
                let on = cpus[index as usize * cpus.len() / threads.max(1) % cpus.len()];
                (on, Label::indexed("raid5 worker", node * self.threads_per_node + index))
            }
        };
        cpu.platform().spawn_on(on, label, move |cpu| async move {
            Self::of(&array).run_thread(&cpu, &array, thread).await;
        });
    }

    fn of(array: &Array<P>) -> &Self {
        match &array.body {
            Body::Parity(array) => array,
            Body::Copies(_) => unreachable!("only an array with parity has heads"),
        }
    }

    async fn run_thread(&self, cpu: &P::Cpu, array: &Arc<Array<P>>, thread: Thread) {
        let heads = self.heads.as_ref().expect("a thread of heads");
        loop {
            let mut aftermath = Aftermath::default();
            let look = async |lists: &mut Lists| {
                let drained = heads.drain(cpu, lists, &mut aftermath).await;
                let taken = heads.take_some(cpu, lists, thread).await;
                let goes_on = drained || !taken.is_empty();
                if let (false, Thread::OfNode((node, index))) = (goes_on, thread) {
                    lists.running[node as usize][index as usize] = false;
                }
                (taken, goes_on)
            };
            let (taken, goes_on) = heads.device_lock.with(cpu, look).await;
            self.settle_heads(cpu, heads, aftermath).await;
            for id in taken {
                let (array, task_cpu) = (array.clone(), cpu.clone());
                // It goes on until it waits for members; the thread does not wait with it.
                cpu.spawn(Label::new("stripe batch"), async move {
                    let array = Self::of(&array);
                    let heads = array.heads.as_ref().expect("a thread of heads");
                    Box::pin(array.handle(&task_cpu, heads, id)).await;
                });
                cpu.yield_now().await;
            }
            if !goes_on && (matches!(thread, Thread::OfNode(_)) || !heads.goes_on(cpu).await) {
                return;
            }
        }
    }
}

impl<P: Platform> Heads<P> {
    /// Takes heads off the lists, counted. Under the device lock.
    async fn take_some(&self, cpu: &P::Cpu, lists: &mut Lists, thread: Thread) -> Vec<HeadId> {
        let node = match thread {
            Thread::OfArray => None,
            Thread::OfNode((node, _)) => Some(node),
        };
        let mut taken = Vec::new();
        while taken.len() < TAKEN_AT_ONCE
            && let Some(id) = lists.take(node)
        {
            self.head(id).count.fetch_add(cpu, 1, Ordering::AcqRel).await;
            taken.push(id);
        }
        taken
    }

    /// Whether the array's own thread goes on after it has found nothing.
    async fn goes_on(&self, cpu: &P::Cpu) -> bool {
        self.daemon.swap(cpu, 0, Ordering::SeqCst).await;
        let waits = async |lists: &mut Lists| lists.is_waiting();
        let is_waiting = self.device_lock.with(cpu, waits).await
            || self.released.load(cpu, Ordering::SeqCst).await != 0;
        is_waiting && self.daemon.swap(cpu, 1, Ordering::SeqCst).await == 0
    }
}
