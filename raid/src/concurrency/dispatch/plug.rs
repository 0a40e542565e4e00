//! What a core's application has submitted and not yet sent off. The first write in an empty plug opens
//! it; its submitter lets the others of its core go on that can, and then sends off what has gathered,
//! as an application that hands all its requests over in one system call. If one of them is about to
//! sleep meanwhile, as at a raised barrier, the plug is emptied into the list of the array's thread: so
//! the scheduler does when it takes the core from a thread with a plug.

use super::{LOCAL_LOCK, QueuedWrite, SECTION_INSTRUCTIONS};
use crate::lock::SpinLock;
use crate::platform::{Cpu, Label, Place, Platform, Work};
use crate::units::CpuId;

/// The plug of one core. Only its own core reaches it.
pub(crate) struct Plug<P: Platform> {
    writes: SpinLock<P, Vec<QueuedWrite<P>>>,
}

impl<P: Platform> Plug<P> {
    pub(super) fn new(platform: &P, cpu: CpuId) -> Self {
        let label = Label::indexed("plug", cpu.0);
        Self { writes: SpinLock::new(platform, label, LOCAL_LOCK, Place::Alone, Vec::new()) }
    }

    /// Adds a write; whether it is the first.
    pub(super) async fn put(&self, cpu: &P::Cpu, write: QueuedWrite<P>) -> bool {
        let put = async |list: &mut Vec<QueuedWrite<P>>| {
            cpu.spend(Work::Instructions(SECTION_INSTRUCTIONS)).await;
            list.push(write);
            list.len() == 1
        };
        self.writes.with(cpu, put).await
    }

    /// Takes all.
    pub(crate) async fn take(&self, cpu: &P::Cpu) -> Vec<QueuedWrite<P>> {
        self.writes.with(cpu, async |list: &mut Vec<QueuedWrite<P>>| std::mem::take(list)).await
    }
}
