//! Several requests to an array under way at once, their results in the order in which they were
//! started. Runs on a thread that is none of the machine's cores, which may wait for a slow file or
//! pipe meanwhile.

use backends::{RealCpu, RealMachine};
use raid::platform::{Label, Platform};
use raid::units::CpuId;
use std::collections::VecDeque;
use std::future::Future;
use std::sync::mpsc::{Receiver, sync_channel};

/// Requests under way, dealt out over the cores in turn.
pub struct Pipeline<'machine, Done> {
    machine: &'machine RealMachine,
    under_way: VecDeque<Receiver<Done>>,
    started: u64,
}

impl<'machine, Done: Send + 'static> Pipeline<'machine, Done> {
    /// Nothing is under way.
    pub fn new(machine: &'machine RealMachine) -> Self {
        Self { machine, under_way: VecDeque::new(), started: 0 }
    }

    /// How many are under way or not yet fetched.
    pub fn len(&self) -> usize {
        self.under_way.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Starts a request.
    pub fn start<F>(&mut self, label: Label, request: impl FnOnce(RealCpu) -> F + Send + 'static)
    where
        F: Future<Output = Done> + 'static,
    {
        let (sender, receiver) = sync_channel(1);
        let platform = self.machine.platform();
        let cpus = u64::from(platform.topology().cpu_count());
        platform.spawn_on(CpuId((self.started % cpus) as u32), label, move |cpu| {
            let request = request(cpu);
            async move {
                // Nobody may be left to hear of it: whoever waited has met an error meanwhile.
                let _ = sender.send(request.await);
            }
        });
        self.started += 1;
        self.under_way.push_back(receiver);
    }

    /// Waits for the oldest request; `None` if none is under way.
    ///
    /// # Panics
    /// If a task of the machine has panicked.
    pub fn fetch(&mut self) -> Option<Done> {
        let receiver = self.under_way.pop_front()?;
        Some(receiver.recv().unwrap_or_else(|_| {
            // The task went away unfinished, so the machine has failed, and says why.
            self.machine.block_on(CpuId(0), |_| async {});
            unreachable!("a machine that has failed runs no task")
        }))
    }
}
