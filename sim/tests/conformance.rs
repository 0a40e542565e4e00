//! Simulated machines pass the suite that every platform and device must pass.

use raid::conformance;
use raid::lock::{ReaderSpin, SpinKind};
use raid::platform::{Label, Platform};
use raid::units::{CpuId, Sectors};
use sim::device::Media;
use sim::machine::{Atomics, Machine, MachineFile};
use sim::{Options, Outcome, Perturbation, SimCpu, SimPlatform, Simulation};
use std::sync::Arc;

const SPIN_KINDS: [SpinKind; 4] =
    [SpinKind::TestAndSet, SpinKind::Ticket, SpinKind::Queued, SpinKind::NumaQueued];

/// Sections per task: enough for the cores to meet many times.
const ROUNDS: u64 = 100;

const PERTURBATIONS: [Perturbation; 3] = [
    Perturbation::None,
    Perturbation::RandomTies,
    Perturbation::Delays { steps_of_1000: 20, delay_ns_max: 5_000 },
];

fn machines() -> impl Iterator<Item = Machine> {
    ["kunpeng920", "xeon-2s", "desktop-4c"].into_iter().flat_map(|name| {
        let machine = MachineFile::preset(name).expect("a preset").nominal();
        [Atomics::SingleInstruction, Atomics::LoadLinked].map(|atomics| {
            let mut machine = machine.clone();
            machine.core.atomics = atomics;
            machine
        })
    })
}

fn check<F>(suite: impl Fn(SimCpu, Vec<sim::device::SimDevice>) -> F + Copy + Send + 'static)
where
    F: Future<Output = ()> + 'static,
{
    for machine in machines() {
        for perturbation in PERTURBATIONS {
            let options = Options { seed: 7, perturbation, ..Options::default() };
            let mut simulation = Simulation::new(&machine, options);
            let media = Media::zeroed(Sectors(4096));
            let drives = vec![simulation.drive("drive", &machine.drive, &media)];
            let label = Label::new("suite");
            simulation.platform().spawn_on(CpuId(0), label, move |cpu| suite(cpu, drives));
            let outcome = simulation.run();
            assert_eq!(outcome, Outcome::Done, "{} {perturbation:?}", machine.name);
        }
    }
}

#[test]
fn words_cores_and_parkers_keep_their_contracts() {
    check(|cpu, _| async move {
        conformance::words::<SimPlatform>(&cpu).await;
        conformance::cores::<SimPlatform>(&cpu).await;
        conformance::parkers::<SimPlatform>(&cpu).await;
    });
}

#[test]
fn spin_locks_exclude_each_other() {
    check(|cpu, _| async move {
        for kind in SPIN_KINDS {
            conformance::spin_lock::<SimPlatform>(&cpu, kind, ROUNDS).await;
        }
    });
}

#[test]
fn sequence_locks_show_no_torn_values() {
    check(|cpu, _| async move {
        for kind in SPIN_KINDS {
            conformance::sequence_lock::<SimPlatform>(&cpu, kind, ROUNDS).await;
        }
    });
}

#[test]
fn wait_queues_lose_no_wake_up() {
    check(|cpu, _| async move {
        for kind in SPIN_KINDS {
            conformance::wait_queue::<SimPlatform>(&cpu, kind, ROUNDS).await;
        }
    });
}

#[test]
fn reader_writer_semaphores_exclude_and_wake() {
    check(|cpu, _| async move {
        for reader_spin in [ReaderSpin::Off, ReaderSpin::On, ReaderSpin::Adaptive] {
            conformance::reader_writer::<SimPlatform>(&cpu, reader_spin, ROUNDS / 4).await;
        }
    });
}

#[test]
fn drives_keep_the_device_contract() {
    check(|cpu, mut drives| async move {
        let drive = Arc::new(drives.remove(0));
        conformance::device::<SimPlatform>(&cpu, &drive).await;
    });
}
