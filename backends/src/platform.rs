//! This machine as the engine's platform: a handle on its cores and its memory.

use crate::cpu::RealCpu;
use crate::device::RealDevice;
use crate::guarded::RealGuarded;
use crate::inbox::{Lease, Message};
use crate::parker::RealParker;
use crate::probe::{LockCounts, LockRegistry, RealLockProbe};
use crate::words::{RealRegion, RealWord};
use raid::platform::{Label, LockKind, Place, Platform, Topology};
use raid::units::CpuId;
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// What all cores of a machine share.
pub(crate) struct Shared {
    topology: Topology,
    start: Instant,
    inboxes: Vec<Lease>,
    locks: Arc<LockRegistry>,
    /// What the first core that failed said. Then all stop.
    failure: OnceLock<String>,
}

/// A handle on a running machine.
#[derive(Clone)]
pub struct RealPlatform(Arc<Shared>);

impl RealPlatform {
    pub(crate) fn new(topology: Topology, inboxes: Vec<Lease>) -> Self {
        assert_eq!(topology.cpu_count() as usize, inboxes.len(), "an inbox for each core");
        let locks = Arc::default();
        let start = Instant::now();
        Self(Arc::new(Shared { topology, start, inboxes, locks, failure: OnceLock::new() }))
    }

    #[inline]
    pub(crate) fn now_ns(&self) -> u64 {
        self.0.start.elapsed().as_nanos() as u64
    }

    /// The inbox of a core.
    pub(crate) fn lease(&self, cpu: CpuId) -> &Lease {
        &self.0.inboxes[cpu.0 as usize]
    }

    /// How often each lock was taken so far, summed up under its label.
    pub fn lock_counts(&self) -> BTreeMap<Label, LockCounts> {
        self.0.locks.counts()
    }

    /// Tells every core to drop its tasks and end.
    pub(crate) fn stop(&self) {
        for lease in &self.0.inboxes {
            lease.inbox().post(Message::Stop);
        }
    }

    /// Takes note that a core has failed, and stops the others: they may wait for it for ever.
    pub(crate) fn fail(&self, message: String) {
        // The first failure is the cause; later ones follow from it.
        let _ = self.0.failure.set(message);
        self.stop();
    }

    /// What the first core that failed said. Waits until one has failed.
    pub(crate) fn wait_for_failure(&self) -> &str {
        self.0.failure.wait()
    }

    /// For who spins: the lock's holder may be on a core that has failed.
    pub(crate) fn assert_running(&self) {
        if let Some(failure) = self.0.failure.get() {
            panic!("gives up, as another core has failed: {failure}");
        }
    }
}

impl Platform for RealPlatform {
    type Cpu = RealCpu;
    type Device = RealDevice;
    type Word = RealWord;
    type Region = RealRegion;
    type Guarded<T: Send + 'static> = RealGuarded<T>;
    type Parker = RealParker;
    type LockProbe = RealLockProbe;

    fn topology(&self) -> &Topology {
        &self.0.topology
    }

    fn region(&self, _label: Label, start_bytes: u32, length_bytes: u32) -> RealRegion {
        RealRegion::new(start_bytes, length_bytes)
    }

    fn word(&self, _label: Label, place: Place<'_, Self>, value: u64) -> RealWord {
        match place {
            Place::Alone => RealRegion::new(0, 8).word(0, value),
            Place::Within { region, offset_bytes } => region.word(offset_bytes, value),
        }
    }

    fn guarded<T: Send + 'static>(&self, value: T) -> RealGuarded<T> {
        RealGuarded::new(value)
    }

    fn parker(&self, _label: Label) -> RealParker {
        RealParker::default()
    }

    fn lock_probe(&self, label: Label, _kind: LockKind) -> RealLockProbe {
        self.0.locks.probe(label, self.0.topology.cpu_count())
    }

    fn spawn_on<F>(
        &self,
        cpu: CpuId,
        label: Label,
        task: impl FnOnce(RealCpu) -> F + Send + 'static,
    ) where
        F: Future<Output = ()> + 'static,
    {
        let start = move |cpu: &RealCpu| cpu.core().spawn(label, task(cpu.clone()));
        self.lease(cpu).inbox().post(Message::Start(Box::new(start)));
    }
}
