//! Where the writes of one core come to their end. A write that was handed over on its own core ends
//! there, as a request does whose interrupt goes to its submitter; one that was handed over elsewhere
//! is carried here: the desk's line moves to the other core and back, and if this core has not yet been
//! told of earlier ones it is woken.

use super::{LOCAL_LOCK, SECTION_INSTRUCTIONS};
use crate::error::ArrayError;
use crate::lock::SpinLock;
use crate::platform::{Cpu, Label, Parker, Place, Platform, Work};
use crate::units::CpuId;
use std::collections::BTreeMap;

/// What was counted of the writes of an array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DispatchCounts {
    /// Writes that have ended.
    pub writes: u64,
    /// Times that the bitmap was written for them.
    pub bitmap_flushes: u64,
    /// Times that a submitter sent off what was in its plug, or left it to the thread.
    pub unplugs: u64,
    /// Those among them at which the submitter was about to sleep.
    pub unplugs_from_scheduler: u64,
    /// Writes that ended on another core than their submitter's.
    pub ends_elsewhere: u64,
    /// From there until their submitters went on, in all, nanoseconds.
    pub ends_elsewhere_ns: u64,
    /// From the end until the submitter went on, of the writes that ended on its own core,
    /// nanoseconds in all.
    pub ends_here_ns: u64,
    /// Times that the lists of all cores were looked through, before and after a flush.
    pub walks: u64,
    /// How long that took, with the lists' lock held, nanoseconds in all.
    pub walks_ns: u64,
    /// Memory of the lists of all cores, as the driver's structure has it.
    pub list_bytes: u64,
}

impl DispatchCounts {
    /// Adds what another core counted.
    pub(super) fn add(&mut self, other: &Self) {
        self.writes += other.writes;
        self.bitmap_flushes += other.bitmap_flushes;
        self.unplugs += other.unplugs;
        self.unplugs_from_scheduler += other.unplugs_from_scheduler;
        self.ends_elsewhere += other.ends_elsewhere;
        self.ends_elsewhere_ns += other.ends_elsewhere_ns;
        self.ends_here_ns += other.ends_here_ns;
        self.walks += other.walks;
        self.walks_ns += other.walks_ns;
    }
}

/// What a write needs to come back to its submitter.
pub(crate) struct Receipt<P: Platform> {
    pub(super) origin: CpuId,
    ticket: u64,
    parker: P::Parker,
}

/// How a write ended.
struct Ended {
    result: Result<(), ArrayError>,
    at_ns: u64,
    elsewhere: bool,
}

struct State<P: Platform> {
    next_ticket: u64,
    ended: BTreeMap<u64, Ended>,
    /// Submitters of this core that other cores want woken.
    to_wake: Vec<P::Parker>,
    counts: DispatchCounts,
}

/// The desk of one core.
pub(crate) struct Desk<P: Platform> {
    state: SpinLock<P, State<P>>,
    /// Where the one sleeps who wakes submitters for other cores.
    pub(super) bell: P::Parker,
}

impl<P: Platform> Desk<P> {
    pub(super) fn new(platform: &P, cpu: CpuId) -> Self {
        let label = Label::indexed("write_ends", cpu.0);
        let state = State {
            next_ticket: 0,
            ended: BTreeMap::new(),
            to_wake: Vec::new(),
            counts: DispatchCounts::default(),
        };
        Self {
            state: SpinLock::new(platform, label, LOCAL_LOCK, Place::Alone, state),
            bell: platform.parker(label),
        }
    }

    /// Two halves of what a write of this core needs: one goes with it, with the other its submitter
    /// [waits](Self::collect).
    pub(crate) async fn receipt(&self, cpu: &P::Cpu) -> (Receipt<P>, Receipt<P>) {
        let parker = cpu.platform().parker(Label::new("the end of a write"));
        let draw = async |state: &mut State<P>| {
            state.next_ticket += 1;
            state.next_ticket
        };
        let ticket = self.state.with(cpu, draw).await;
        let origin = cpu.id();
        let copy = Receipt { origin, ticket, parker: parker.clone() };
        (copy, Receipt { origin, ticket, parker })
    }

    /// Takes the end of a write of this core, from any core.
    pub(super) async fn deliver(
        &self,
        cpu: &P::Cpu,
        receipt: Receipt<P>,
        result: Result<(), ArrayError>,
    ) {
        let elsewhere = cpu.id() != receipt.origin;
        let put = async |state: &mut State<P>| {
            cpu.spend(Work::Instructions(SECTION_INSTRUCTIONS)).await;
            let ended = Ended { result, at_ns: cpu.now_ns(), elsewhere };
            state.ended.insert(receipt.ticket, ended);
            if elsewhere {
                state.to_wake.push(receipt.parker.clone());
            }
            state.to_wake.len() == 1
        };
        let is_first = self.state.with(cpu, put).await;
        if !elsewhere {
            receipt.parker.unpark_here(cpu).await;
        } else if is_first {
            self.bell.unpark(cpu).await;
        }
    }

    /// Waits for the end of a write that this core submitted.
    pub(crate) async fn collect(
        &self,
        cpu: &P::Cpu,
        receipt: Receipt<P>,
    ) -> Result<(), ArrayError> {
        receipt.parker.park(cpu).await;
        let take = async |state: &mut State<P>| {
            let ended = state.ended.remove(&receipt.ticket).expect("who is woken has its result");
            let waited_ns = cpu.now_ns() - ended.at_ns;
            state.counts.writes += 1;
            if ended.elsewhere {
                state.counts.ends_elsewhere += 1;
                state.counts.ends_elsewhere_ns += waited_ns;
            } else {
                state.counts.ends_here_ns += waited_ns;
            }
            ended.result
        };
        self.state.with(cpu, take).await
    }

    /// Sleeps until other cores want submitters of this one woken, and wakes them.
    pub(crate) async fn serve(&self, cpu: &P::Cpu) {
        self.bell.park(cpu).await;
        let take = async |state: &mut State<P>| std::mem::take(&mut state.to_wake);
        for parker in self.state.with(cpu, take).await {
            parker.unpark_here(cpu).await;
        }
    }

    /// Looks at what was counted here, or counts.
    pub(crate) async fn note<R>(
        &self,
        cpu: &P::Cpu,
        note: impl FnOnce(&mut DispatchCounts) -> R,
    ) -> R {
        self.state.with(cpu, async |state: &mut State<P>| note(&mut state.counts)).await
    }
}
