//! A list of writes for each core. A core adds to its own; the array's thread looks through all of them
//! before it makes bits durable (*pending* → *gathered*) and again afterwards (*gathered* → *running*),
//! and then has the worker of each core hand over what is on its list.
//!
//! One lock guards all lists, as in the patches. Each list has its memory on its own core, so looking
//! through them moves a line of every core that has added anything; the driver's structure for it is
//!
//! ```text
//! 0 pending (16) | 16 running (16) | 32 gathered (16) | 48 work item (32) | 80 array (8) | 88
//! ```
//!
//! of which each list here has its first word of the first three.
//!
//! A core may go offline with writes on its list. They are gathered all the same, and a worker of
//! another core hands them over ([`OfflineLists::Adopted`]). An earlier version of the patches lost
//! them; `Forgotten` is that fault: only the lists of cores that are online are looked at.

use super::{QueuedWrite, SECTION_INSTRUCTIONS};
use crate::lock::{SpinKind, SpinLock};
use crate::platform::{Cpu, Label, Ordering, Parker, Place, Platform, Word, Work};
use crate::request::Extent;
use crate::tuning::OfflineLists;
use crate::units::CpuId;
use std::collections::VecDeque;

/// The driver's `struct write_list`.
const LIST_BYTES: u32 = 88;
const RUNNING_OFFSET_BYTES: u32 = 16;
const GATHERED_OFFSET_BYTES: u32 = 32;

/// Instructions for each list that is looked at: the next bit of the mask of cores (6), the address of
/// the core's own memory (4), a comparison and a branch (2).
const STEP_INSTRUCTIONS: u32 = 12;

/// The lists of all cores.
pub(crate) struct PerCpuLists<P: Platform> {
    offline: OfflineLists,
    heads: Vec<Heads<P>>,
    lists: SpinLock<P, Lists<P>>,
    /// By core: where its worker sleeps.
    pub(super) bells: Vec<P::Parker>,
}

/// Not zero where something is on a list.
struct Heads<P: Platform> {
    pending: P::Word,
    gathered: P::Word,
    running: P::Word,
}

/// What the lock guards.
struct Lists<P: Platform> {
    of_core: Vec<List<P>>,
    workers: Vec<Worker>,
}

struct List<P: Platform> {
    pending: Vec<QueuedWrite<P>>,
    gathered: Vec<QueuedWrite<P>>,
    running: Vec<QueuedWrite<P>>,
    /// Some worker has it on its errands.
    is_scheduled: bool,
}

struct Worker {
    is_online: bool,
    /// Lists to hand over, by core.
    errands: VecDeque<usize>,
}

/// What came of looking through the lists.
#[derive(Default)]
pub(crate) struct Walk {
    /// Sectors whose bits may not be durable.
    pub(crate) need_bits: Vec<Extent>,
    /// Whether anything was found.
    pub(crate) found: bool,
    /// How long it took, with the lock held.
    pub(crate) took_ns: u64,
}

impl<P: Platform> PerCpuLists<P> {
    pub(super) fn new(platform: &P, kind: SpinKind, cpus: u32, offline: OfflineLists) -> Self {
        let heads = |cpu| {
            let label = Label::indexed("write_list", cpu);
            let region = platform.region(label, 0, LIST_BYTES);
            let word = |offset_bytes| {
                platform.word(label, Place::Within { region: &region, offset_bytes }, 0)
            };
            Heads {
                pending: word(0),
                gathered: word(GATHERED_OFFSET_BYTES),
                running: word(RUNNING_OFFSET_BYTES),
            }
        };
        let list = |_| List {
            pending: Vec::new(),
            gathered: Vec::new(),
            running: Vec::new(),
            is_scheduled: false,
        };
        let worker = |_| Worker { is_online: true, errands: VecDeque::new() };
        let lists = Lists {
            of_core: (0..cpus).map(list).collect(),
            workers: (0..cpus).map(worker).collect(),
        };
        let label = Label::new("write_lists");
        Self {
            offline,
            heads: (0..cpus).map(heads).collect(),
            lists: SpinLock::new(platform, label, kind, Place::Alone, lists),
            bells: (0..cpus).map(|cpu| platform.parker(Label::indexed("worker", cpu))).collect(),
        }
    }

    /// Memory of the driver's structures for these lists.
    pub(super) fn bytes(&self) -> u64 {
        self.heads.len() as u64 * u64::from(LIST_BYTES)
    }

    /// Adds a write to the list of this core.
    pub(super) async fn put(&self, cpu: &P::Cpu, write: QueuedWrite<P>) {
        let core = cpu.id().0 as usize;
        let put = async |lists: &mut Lists<P>| {
            cpu.spend(Work::Instructions(SECTION_INSTRUCTIONS)).await;
            self.heads[core].pending.store(cpu, 1, Ordering::Relaxed).await;
            lists.of_core[core].pending.push(write);
        };
        self.lists.with(cpu, put).await;
    }

    /// Moves what is pending to what is gathered, on all cores.
    pub(crate) async fn gather(&self, cpu: &P::Cpu) -> Walk {
        let gather = async |lists: &mut Lists<P>| {
            let begun_ns = cpu.now_ns();
            let mut walk = Walk::default();
            for core in 0..self.heads.len() {
                if self.is_passed_over(lists, core) {
                    continue;
                }
                cpu.spend(Work::Instructions(STEP_INSTRUCTIONS)).await;
                let heads = &self.heads[core];
                if heads.pending.load(cpu, Ordering::Relaxed).await == 0 {
                    continue;
                }
                heads.pending.store(cpu, 0, Ordering::Relaxed).await;
                heads.gathered.store(cpu, 1, Ordering::Relaxed).await;
                let list = &mut lists.of_core[core];
                let in_need = list.pending.iter().filter(|write| write.needs_bits);
                walk.need_bits.extend(in_need.map(|write| write.in_sync_space));
                list.gathered.append(&mut list.pending);
                walk.found = true;
            }
            walk.took_ns = cpu.now_ns() - begun_ns;
            walk
        };
        self.lists.with(cpu, gather).await
    }

    /// Has workers hand over what is gathered. How long the look took, with the lock held.
    pub(crate) async fn schedule(&self, cpu: &P::Cpu) -> u64 {
        let schedule = async |lists: &mut Lists<P>| {
            let begun_ns = cpu.now_ns();
            for core in 0..self.heads.len() {
                if self.is_passed_over(lists, core) {
                    continue;
                }
                cpu.spend(Work::Instructions(STEP_INSTRUCTIONS)).await;
                let heads = &self.heads[core];
                if heads.gathered.load(cpu, Ordering::Relaxed).await == 0 {
                    continue;
                }
                heads.gathered.store(cpu, 0, Ordering::Relaxed).await;
                heads.running.store(cpu, 1, Ordering::Relaxed).await;
                let list = &mut lists.of_core[core];
                list.running.append(&mut list.gathered);
                if !std::mem::replace(&mut list.is_scheduled, true) {
                    self.give(cpu, lists, core).await;
                }
            }
            cpu.now_ns() - begun_ns
        };
        self.lists.with(cpu, schedule).await
    }

    /// Takes what is gathered, on all cores.
    pub(crate) async fn take_gathered(&self, cpu: &P::Cpu) -> Vec<QueuedWrite<P>> {
        let take = async |lists: &mut Lists<P>| {
            let mut writes = Vec::new();
            for (list, heads) in lists.of_core.iter_mut().zip(&self.heads) {
                heads.gathered.store(cpu, 0, Ordering::Relaxed).await;
                writes.append(&mut list.gathered);
            }
            writes
        };
        self.lists.with(cpu, take).await
    }

    /// Gives the list of a core to the worker of that core or, if that is offline, of the first that
    /// is not.
    async fn give(&self, cpu: &P::Cpu, lists: &mut Lists<P>, core: usize) {
        let online = |worker: &Worker| worker.is_online;
        let worker = match online(&lists.workers[core]) {
            true => core,
            false => lists.workers.iter().position(online).expect("some core is online"),
        };
        lists.workers[worker].errands.push_back(core);
        self.bells[worker].unpark(cpu).await;
    }

    fn is_passed_over(&self, lists: &Lists<P>, core: usize) -> bool {
        self.offline == OfflineLists::Forgotten && !lists.workers[core].is_online
    }

    /// Sleeps until the worker of this core has something to do.
    pub(crate) async fn sleep(&self, cpu: &P::Cpu) {
        self.bells[cpu.id().0 as usize].park(cpu).await;
    }

    /// What the worker of this core is to hand over now; nothing if it may sleep.
    pub(crate) async fn take(&self, cpu: &P::Cpu) -> Vec<QueuedWrite<P>> {
        let worker = cpu.id().0 as usize;
        let take = async |lists: &mut Lists<P>| {
            while lists.workers[worker].is_online
                && let Some(core) = lists.workers[worker].errands.front().copied()
            {
                cpu.spend(Work::Instructions(SECTION_INSTRUCTIONS)).await;
                let running = &self.heads[core].running;
                if running.load(cpu, Ordering::Relaxed).await != 0 {
                    running.store(cpu, 0, Ordering::Relaxed).await;
                    return std::mem::take(&mut lists.of_core[core].running);
                }
                lists.of_core[core].is_scheduled = false;
                lists.workers[worker].errands.pop_front();
            }
            Vec::new()
        };
        self.lists.with(cpu, take).await
    }

    /// A core goes offline, or comes back.
    pub(crate) async fn set_online(&self, cpu: &P::Cpu, core: CpuId, is_online: bool) {
        let core = core.0 as usize;
        let change = async |lists: &mut Lists<P>| {
            lists.workers[core].is_online = is_online;
            if is_online {
                self.bells[core].unpark(cpu).await;
            } else if self.offline == OfflineLists::Adopted {
                for errand in std::mem::take(&mut lists.workers[core].errands) {
                    self.give(cpu, lists, errand).await;
                }
            }
        };
        self.lists.with(cpu, change).await;
    }
}
