//! The simulated machine as the engine sees it: one thin file per primitive over `coherence` and
//! `cpu`.

mod cpu;
mod parker;
mod probe;
mod word;

pub use cpu::SimCpu;
pub use parker::SimParker;
pub(crate) use probe::HeldLock;
pub use probe::SimLockProbe;
pub use word::{SimRegion, SimWord};

use crate::device::SimDevice;
use crate::executor::{Confined, SimGuarded};
use crate::world::World;
use raid::platform::{Label, LockKind, Place, Platform, Topology};
use raid::units::CpuId;
use std::future::Future;
use std::sync::Arc;

/// A handle on a simulated machine. All its cores live on the host thread that made it.
#[derive(Clone)]
pub struct SimPlatform(Arc<Confined<World>>);

impl SimPlatform {
    pub(crate) fn new(world: World) -> Self {
        Self(Arc::new(Confined::new(world)))
    }

    #[inline]
    pub(crate) fn world(&self) -> &World {
        &self.0
    }

    /// When and where the task that is running now is, if one is.
    pub(crate) fn moment(&self) -> Option<Moment> {
        let state = self.world().state.borrow();
        let task = &state.tasks[state.current?];
        Some(Moment { time_ns: state.now_ns, cpu: CpuId(task.cpu), task: task.label })
    }
}

/// A moment in the life of a task.
pub(crate) struct Moment {
    pub(crate) time_ns: u64,
    pub(crate) cpu: CpuId,
    pub(crate) task: Label,
}

impl Platform for SimPlatform {
    type Cpu = SimCpu;
    type Device = SimDevice;
    type Word = SimWord;
    type Region = SimRegion;
    type Guarded<T: Send + 'static> = SimGuarded<T>;
    type Parker = SimParker;
    type LockProbe = SimLockProbe;

    fn topology(&self) -> &Topology {
        &self.world().topology
    }

    fn region(&self, _: Label, start_bytes: u32, length_bytes: u32) -> SimRegion {
        SimRegion::new(self, start_bytes, length_bytes)
    }

    fn word(&self, label: Label, place: Place<'_, Self>, value: u64) -> SimWord {
        let memory = &mut self.world().state.borrow_mut().memory;
        let line = match place {
            Place::Alone => memory.add_line(),
            Place::Within { region, offset_bytes } => region.line_at(offset_bytes),
        };
        SimWord::new(self.clone(), memory.add_word(label, line, value))
    }

    fn guarded<T: Send + 'static>(&self, value: T) -> SimGuarded<T> {
        SimGuarded::new(value)
    }

    fn parker(&self, label: Label) -> SimParker {
        SimParker::new(self.clone(), label)
    }

    fn lock_probe(&self, label: Label, _: LockKind) -> SimLockProbe {
        SimLockProbe::new(self.clone(), label)
    }

    fn spawn_on<F>(&self, cpu: CpuId, label: Label, task: impl FnOnce(SimCpu) -> F + Send + 'static)
    where
        F: Future<Output = ()> + 'static,
    {
        let future = Box::pin(task(SimCpu::new(self.clone())));
        let world = self.world();
        world.state.borrow_mut().spawn(&world.machine, future, label, None, cpu.0);
    }

    fn core_for_wakeup(&self, waker: CpuId, last: CpuId) -> CpuId {
        let world = self.world();
        CpuId(world.state.borrow().cores.for_wakeup(&world.machine.shape, waker.0, last.0))
    }
}
