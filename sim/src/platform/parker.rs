//! Sleeping until another task wakes one up.

use super::{SimCpu, SimPlatform};
use crate::executor::{Confined, TaskId};
use raid::platform::{Label, Parker};
use std::cell::Cell;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

/// A place to sleep in a simulated machine.
#[derive(Clone)]
pub struct SimParker {
    platform: SimPlatform,
    label: Label,
    permit: Arc<Confined<Permit>>,
}

#[derive(Default)]
struct Permit {
    given: Cell<bool>,
    sleeper: Cell<Option<TaskId>>,
}

impl SimParker {
    pub(super) fn new(platform: SimPlatform, label: Label) -> Self {
        Self { platform, label, permit: Arc::new(Confined::new(Permit::default())) }
    }
}

impl Parker<SimPlatform> for SimParker {
    async fn park(&self, _: &SimCpu) {
        poll_fn(|_| {
            let state = &mut *self.platform.world().state.borrow_mut();
            let current = state.current.expect("only a running task parks");
            if self.permit.given.take() {
                self.permit.sleeper.set(None);
                return Poll::Ready(());
            }
            let other = self.permit.sleeper.replace(Some(current));
            assert!(other.is_none_or(|other| other == current), "one task parks at a place");
            state.tasks[current].waits_for = Some(self.label);
            Poll::Pending
        })
        .await;
    }

    async fn unpark(&self, cpu: &SimCpu) {
        let world = self.platform.world();
        cpu.work(world.machine.scheduler.wake_ns).await;
        self.permit.given.set(true);
        if let Some(sleeper) = self.permit.sleeper.get() {
            world.state.borrow_mut().wake(&world.machine, sleeper);
        }
    }

    async fn unpark_here(&self, _: &SimCpu) {
        let world = self.platform.world();
        self.permit.given.set(true);
        if let Some(sleeper) = self.permit.sleeper.get() {
            let state = &mut *world.state.borrow_mut();
            let (here, there) = (state.tasks[state.running()].cpu, state.tasks[sleeper].cpu);
            assert_eq!(here, there, "{} is woken as if it were on this core", self.label);
            state.wake(&world.machine, sleeper);
        }
    }
}
