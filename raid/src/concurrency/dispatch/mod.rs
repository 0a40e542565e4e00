//! How writes get from the cores that submit them to whoever hands them to the members, and how their
//! ends come back: the forms that the thread "MD: improve raid1/10 write performance for fast storage"
//! discussed (linux-raid, June 2012), see [`Dispatch`].
//!
//! - `raid_thread.rs`: one list for all, and the one thread that empties it;
//! - `per_cpu.rs`: a list for each core, gathered by the thread, emptied by a worker of each core;
//! - `plug.rs`: what a submitter has gathered and not yet sent off;
//! - `desk.rs`: where a core finds the ends of its writes, whoever handed them over.
//!
//! Nothing here knows members, bitmaps or barriers: what is done with writes that were taken out of a
//! list, and the tasks that do it, are in `copies/dispatched.rs`.

mod desk;
mod per_cpu;
mod plug;
mod raid_thread;

pub use desk::DispatchCounts;
pub(crate) use desk::{Desk, Receipt};
pub(crate) use per_cpu::PerCpuLists;
pub(crate) use plug::Plug;
pub(crate) use raid_thread::{PendingList, RaidThread};

use crate::buffer::SharedBuffer;
use crate::device::Durability;
use crate::error::ArrayError;
use crate::lock::SpinKind;
use crate::plan::Locations;
use crate::platform::{Cpu, Label, Ordering, Parker, Place, Platform, Word};
use crate::request::Extent;
use crate::tuning::{Affinity, Dispatch, OfflineLists, Tuning};
use crate::units::CpuId;
use smallvec::SmallVec;

/// Instructions of a section in which a write is put on a list or taken off, counted from the shape of
/// the driver's code: the list's ends and the count (8), the interrupt flag (8), preemption (4).
const SECTION_INSTRUCTIONS: u32 = 20;

/// What guards the memory of one core: hardly anybody waits, and a lock that keeps a place for each
/// core that may would, on every core, take as much memory as there are cores, squared.
const LOCAL_LOCK: SpinKind = SpinKind::Ticket;

/// A write that is planned and has not been handed to any member.
pub(crate) struct QueuedWrite<P: Platform> {
    pub(crate) extent: Extent,
    /// Each piece with the places that take it.
    pub(crate) pieces: SmallVec<[(Extent, Locations); 1]>,
    pub(crate) data: SharedBuffer,
    pub(crate) durability: Durability,
    /// The sectors that its bits stand for.
    pub(crate) in_sync_space: Extent,
    /// Whether its bits may not be durable yet.
    pub(crate) needs_bits: bool,
    pub(crate) receipt: Receipt<P>,
}

/// The lists and the services of one array.
pub(crate) struct WriteDispatch<P: Platform> {
    pub(crate) form: Dispatch,
    /// Not zero while the services run.
    serving: P::Word,
    /// Where the services sleep, by core; each looks at `serving` when it is woken.
    pub(crate) desks: Vec<Desk<P>>,
    pub(crate) thread: RaidThread<P>,
    pub(crate) pending: PendingList<P>,
    pub(crate) lists: PerCpuLists<P>,
    pub(crate) plugs: Vec<Plug<P>>,
}

impl<P: Platform> WriteDispatch<P> {
    /// Empty lists; nobody serves yet.
    pub(crate) fn new(platform: &P, tuning: Tuning) -> Self {
        let kind = tuning.spin_kind;
        let cpus = platform.topology().cpu_count();
        let affinity = match tuning.dispatch {
            Dispatch::RaidThread(affinity) => affinity,
            _ => Affinity::Free,
        };
        let (lists, offline) = match tuning.dispatch {
            Dispatch::PerCpu(offline) => (cpus, offline),
            _ => (0, OfflineLists::Adopted),
        };
        let plugs = if tuning.dispatch == Dispatch::Plug { cpus } else { 0 };
        Self {
            form: tuning.dispatch,
            serving: platform.word(Label::new("dispatch_serving"), Place::Alone, 0),
            desks: (0..cpus).map(|cpu| Desk::new(platform, CpuId(cpu))).collect(),
            thread: RaidThread::new(platform, affinity),
            pending: PendingList::new(platform, kind),
            lists: PerCpuLists::new(platform, kind, lists, offline),
            plugs: (0..plugs).map(|cpu| Plug::new(platform, CpuId(cpu))).collect(),
        }
    }

    /// The desk of this core.
    pub(crate) fn desk(&self, cpu: &P::Cpu) -> &Desk<P> {
        &self.desks[cpu.id().0 as usize]
    }

    /// The plug of this core.
    pub(crate) fn plug(&self, cpu: &P::Cpu) -> &Plug<P> {
        &self.plugs[cpu.id().0 as usize]
    }

    /// Leaves a write with whoever hands it over. Whether that is the caller, who then takes what is
    /// in its core's plug.
    pub(crate) async fn queue(&self, cpu: &P::Cpu, write: QueuedWrite<P>) -> bool {
        match self.form {
            Dispatch::Plug => return self.plug(cpu).put(cpu, write).await,
            Dispatch::PerCpu(_) => self.lists.put(cpu, write).await,
            _ => self.pending.put(cpu, [write]).await,
        }
        self.thread.wake(cpu).await;
        false
    }

    /// Tells the core that submitted a write what came of it.
    pub(crate) async fn deliver(
        &self,
        cpu: &P::Cpu,
        receipt: Receipt<P>,
        result: Result<(), ArrayError>,
    ) {
        self.desks[receipt.origin.0 as usize].deliver(cpu, receipt, result).await;
    }

    /// Whether the services run.
    pub(crate) async fn is_serving(&self, cpu: &P::Cpu) -> bool {
        self.serving.load(cpu, Ordering::Acquire).await != 0
    }

    /// From now on there are services.
    pub(crate) async fn begin_service(&self, cpu: &P::Cpu) {
        self.serving.store(cpu, 1, Ordering::Release).await;
    }

    /// Ends the services. The caller sees to it that no write is under way.
    pub(crate) async fn end_service(&self, cpu: &P::Cpu) {
        self.serving.swap(cpu, 0, Ordering::AcqRel).await;
        let desks = self.desks.iter().map(|desk| &desk.bell);
        for bell in desks.chain(&self.thread.seats).chain(&self.lists.bells) {
            bell.unpark(cpu).await;
        }
    }

    /// What was counted on all cores.
    pub(crate) async fn counts(&self, cpu: &P::Cpu) -> DispatchCounts {
        let mut sum = DispatchCounts { list_bytes: self.lists.bytes(), ..Default::default() };
        for desk in &self.desks {
            desk.note(cpu, |counts| sum.add(counts)).await;
        }
        sum
    }
}
