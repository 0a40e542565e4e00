//! Starts this machine's cores and ends them.

use crate::cpu::RealCpu;
use crate::executor::{on_a_core, run_core};
use crate::inbox::{CORES_MAX, Lease};
use crate::notice::notice;
use crate::platform::RealPlatform;
use crate::queue::Driver;
use crate::ring::Ring;
use crate::topology::{HostCpu, allowed_cpus, topology_of};
use crate::workers::Workers;
use raid::platform::{Label, Platform};
use raid::units::CpuId;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::future::Future;
use std::sync::{Arc, Once, OnceLock, mpsc};
use std::thread::JoinHandle;

/// Which cores a machine is made of. They become `CpuId` 0, 1, … in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cpus {
    /// All that the process may use.
    All,
    /// The first so many of those.
    Count(u32),
    /// These.
    These(Vec<HostCpu>),
}

/// How the machine does its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whether files are reached through io_uring where the kernel allows it, or always by threads
    /// that wait.
    pub io_uring: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { io_uring: true }
    }
}

impl Options {
    /// The default, changed by the environment: `RAIDBED_NO_IO_URING=1` does without io_uring.
    pub fn from_environment() -> Self {
        let without = std::env::var_os("RAIDBED_NO_IO_URING").is_some_and(|value| value == "1");
        Self { io_uring: !without }
    }
}

/// Why a machine did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Without a core nothing runs.
    #[error("a machine needs at least one core")]
    NoCpu,
    /// More cores than there are.
    #[error("{asked} cores were asked for, but this process may use {allowed}")]
    TooFewCpus {
        /// How many were asked for.
        asked: u32,
        /// How many there are.
        allowed: u32,
    },
    /// A core that does not exist or that the process may not use.
    #[error("core {} does not exist here or may not be used", cpu.0)]
    CpuNotAllowed {
        /// The first such core.
        cpu: HostCpu,
    },
    /// One core twice: it would wait for itself.
    #[error("core {} was named twice", cpu.0)]
    CpuTwice {
        /// The first such core.
        cpu: HostCpu,
    },
    /// The system refused what every machine needs: threads, event counters.
    #[error("cannot start the cores' threads")]
    System(#[from] std::io::Error),
}

/// A running machine: one thread on each of its cores. Ends them when dropped.
pub struct RealMachine {
    platform: RealPlatform,
    threads: Vec<JoinHandle<()>>,
}

impl RealMachine {
    /// Starts an executor on each of the cores.
    ///
    /// Goes on, with one line on standard error, where the system does not let it pin threads or
    /// use io_uring.
    ///
    /// # Errors
    /// If the cores do not exist, or the system gives no threads.
    pub fn start(cpus: Cpus, options: Options) -> Result<Self, StartError> {
        let cpus = choose(cpus, &allowed_cpus()?)?;
        let leases = cpus.iter().map(|_| Lease::new()).collect::<Result<Vec<_>, _>>()?;
        let platform = RealPlatform::new(topology_of(&cpus), leases);
        let mut machine = Self { platform, threads: Vec::new() };
        let drivers = Arc::new(Drivers { options, workers: OnceLock::new(), said: Once::new() });
        let pinning = Arc::new(Once::new());
        for (id, host) in (0..).map(CpuId).zip(cpus) {
            let (platform, drivers) = (machine.platform.clone(), drivers.clone());
            let pinning = pinning.clone();
            let core = move || {
                pin(host, &pinning);
                match drivers.driver_for(platform.lease(id)) {
                    Ok(driver) => run_core(id, platform.clone(), driver),
                    Err(error) => {
                        platform.fail(format!("core {} has no way to do I/O: {error}", id.0));
                    }
                }
                platform.lease(id).inbox().close();
            };
            let builder = std::thread::Builder::new().name(format!("raidbed-cpu-{}", id.0));
            // On failure, dropping the machine ends the cores that run already.
            machine.threads.push(builder.spawn(core)?);
        }
        Ok(machine)
    }

    /// A handle for the engine.
    pub fn platform(&self) -> RealPlatform {
        self.platform.clone()
    }

    /// Runs a task on a core and waits for it, from a thread that is none of the machine's.
    ///
    /// # Panics
    /// If the task, or any other task of the machine, panics.
    pub fn block_on<T, F>(&self, cpu: CpuId, task: impl FnOnce(RealCpu) -> F + Send + 'static) -> T
    where
        T: Send + 'static,
        F: Future<Output = T> + 'static,
    {
        assert!(!on_a_core(), "a core cannot wait for a core: it would not run its tasks");
        let (sender, receiver) = mpsc::channel();
        self.platform.spawn_on(cpu, Label::new("block_on"), move |cpu| {
            let future = task(cpu);
            async move {
                // The receiver waits below.
                let _ = sender.send(future.await);
            }
        });
        receiver.recv().unwrap_or_else(|_| {
            // The sender went away with the task, and tasks go away early only after a failure.
            panic!("{}", self.platform.wait_for_failure())
        })
    }

    /// Drops the tasks that still run, waits until the kernel has nothing of the machine's left,
    /// and ends the threads. Dropping the machine does the same.
    pub fn shutdown(self) {}
}

impl Drop for RealMachine {
    fn drop(&mut self) {
        assert!(!on_a_core(), "a core cannot wait for its own end");
        self.platform.stop();
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so on standard error.
            let _ = thread.join();
        }
    }
}

/// Checks the choice of cores against those that the process may use.
fn choose(cpus: Cpus, allowed: &[HostCpu]) -> Result<Vec<HostCpu>, StartError> {
    let chosen = match cpus {
        Cpus::All => allowed.to_vec(),
        Cpus::Count(count) => allowed
            .get(..count as usize)
            .ok_or(StartError::TooFewCpus { asked: count, allowed: allowed.len() as u32 })?
            .to_vec(),
        Cpus::These(cpus) => cpus,
    };
    for (index, cpu) in chosen.iter().enumerate() {
        if !allowed.contains(cpu) {
            return Err(StartError::CpuNotAllowed { cpu: *cpu });
        }
        if chosen[..index].contains(cpu) {
            return Err(StartError::CpuTwice { cpu: *cpu });
        }
    }
    assert!(chosen.len() <= CORES_MAX, "a machine of more than {CORES_MAX} cores");
    if chosen.is_empty() { Err(StartError::NoCpu) } else { Ok(chosen) }
}

/// Ties the calling thread to a core.
fn pin(cpu: HostCpu, said: &Once) {
    let mut set = CpuSet::new();
    set.set(cpu.0 as usize);
    if let Err(errno) = sched_setaffinity(None, &set) {
        said.call_once(|| notice(format_args!("threads are not tied to their cores: {errno}")));
    }
}

/// How the cores of one machine reach files.
struct Drivers {
    options: Options,
    /// Started for the first core that has no ring.
    workers: OnceLock<Arc<Workers>>,
    said: Once,
}

impl Drivers {
    fn driver_for(&self, lease: &Lease) -> std::io::Result<Driver> {
        let refused = match self.options.io_uring {
            true => match Ring::new(lease.inbox().bell()) {
                Ok(ring) => return Ok(Driver::Ring(Box::new(ring))),
                Err(error) => format!("not available here ({error})"),
            },
            false => "switched off".to_owned(),
        };
        self.said.call_once(|| {
            notice(format_args!("io_uring is {refused}; threads that wait do the file I/O"));
        });
        if let Some(workers) = self.workers.get() {
            return Ok(Driver::Workers(workers.clone()));
        }
        let started = Arc::new(Workers::start()?);
        Ok(Driver::Workers(self.workers.get_or_init(|| started).clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(cpus: Cpus, expected: Result<&[u32], &str>) {
        let allowed = [HostCpu(2), HostCpu(5), HostCpu(7)];
        let found = choose(cpus, &allowed).map_err(|error| error.to_string());
        let found = found.map(|cpus| cpus.iter().map(|cpu| cpu.0).collect::<Vec<_>>());
        assert_eq!(found.as_deref().map_err(String::as_str), expected);
    }

    #[test]
    fn only_cores_that_may_be_used_are_chosen() {
        check(Cpus::All, Ok(&[2, 5, 7]));
        check(Cpus::Count(2), Ok(&[2, 5]));
        check(Cpus::These(vec![HostCpu(7), HostCpu(2)]), Ok(&[7, 2]));
        check(Cpus::Count(0), Err("a machine needs at least one core"));
        let few = "4 cores were asked for, but this process may use 3";
        check(Cpus::Count(4), Err(few));
        let missing = "core 3 does not exist here or may not be used";
        check(Cpus::These(vec![HostCpu(3)]), Err(missing));
        check(Cpus::These(vec![HostCpu(2), HostCpu(2)]), Err("core 2 was named twice"));
    }
}
