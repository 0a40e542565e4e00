//! The power supply: which host is on, and what its drives hold while it is off.
//!
//! `kill` calls `reset_node` under a lock of madsim: nothing here calls madsim's handle.

use super::plan::{Boot, Host, HostsError};
use crate::device::Media;
use crate::executor::Perturbation;
use crate::simulation::{Options, Outcome, Simulation};
use crate::trace::TraceHash;
use madsim::Config;
use madsim::plugin::Simulator;
use madsim::rand::GlobalRng;
use madsim::task::NodeId;
use madsim::time::TimeHandle;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

/// Every host's drives, and its machine while it is on.
pub(super) struct PowerSupply(Mutex<BTreeMap<NodeId, Slot>>);

struct Slot {
    host: Host,
    index: u32,
    media: Vec<Media>,
    boots: u32,
    /// The machine; not there while the host is off, and while its task lets it run.
    machine: Option<Simulation>,
    hash: TraceHash,
    events: u64,
    error: Option<HostsError>,
}

/// What became of one host.
pub(super) struct HostReport {
    pub(super) hash: u64,
    pub(super) events: u64,
    pub(super) boots: u32,
}

impl Simulator for PowerSupply {
    fn new(_: &GlobalRng, _: &TimeHandle, _: &Config) -> Self {
        Self(Mutex::default())
    }

    fn reset_node(&self, node: NodeId) {
        // A node that ends by itself is reset too, after its machine was switched off.
        let machine = self.lock().get_mut(&node).and_then(Slot::switch_off);
        if let Some(machine) = machine {
            machine.cut_power();
        }
    }
}

impl PowerSupply {
    /// Gives a host its drives.
    pub(super) fn connect(&self, node: NodeId, index: usize, host: Host) {
        let media = host.drives.iter().map(|size| Media::zeroed(*size)).collect();
        let slot = Slot {
            host,
            index: index as u32,
            media,
            boots: 0,
            machine: None,
            hash: TraceHash::new(),
            events: 0,
            error: None,
        };
        self.lock().insert(node, slot);
    }

    /// Builds a host's machine around its drives and starts its program.
    pub(super) fn boot(
        &self,
        node: NodeId,
        start_ns: u64,
        model_seed: u64,
        perturbation: Perturbation,
    ) {
        let mut slots = self.lock();
        let slot = slots.get_mut(&node).expect("a host is connected before it boots");
        let seed = boot_seed(model_seed, slot.index, slot.boots);
        let machine = &slot.host.machine;
        let mut simulation = Simulation::new(machine, Options { seed, perturbation, start_ns });
        let drives = slot.media.iter().enumerate().map(|(index, media)| {
            simulation.drive(&format!("{}/drive{index}", slot.host.name), &machine.drive, media)
        });
        let drives = drives.collect();
        let boot = Boot {
            boots_before: slot.boots,
            simulation: &mut simulation,
            drives,
            media: slot.media.clone(),
        };
        (slot.host.program)(boot);
        slot.boots += 1;
        slot.machine = Some(simulation);
    }

    /// Lets a host's machine run up to and including `until_ns`.
    pub(super) fn run(&self, node: NodeId, until_ns: u64) {
        let taken = self.lock().get_mut(&node).and_then(|slot| slot.machine.take());
        let mut machine = taken.expect("a host that runs is on");
        let outcome = machine.run_until(until_ns);
        let mut slots = self.lock();
        let slot = slots.get_mut(&node).expect("a host stays connected");
        if let Outcome::Deadlock(deadlock) = outcome {
            let host = slot.host.name.clone();
            slot.error = Some(HostsError::Deadlock { host, deadlock });
        }
        slot.machine = Some(machine);
    }

    /// The error of the first host that has one.
    pub(super) fn take_error(&self) -> Option<HostsError> {
        self.lock().values_mut().find_map(|slot| slot.error.take())
    }

    /// Switches every host off, in order and without losing anything, and reports.
    pub(super) fn shut_down(&self) -> Vec<HostReport> {
        let mut slots = self.lock();
        let report = |slot: &mut Slot| {
            drop(slot.switch_off());
            HostReport { hash: slot.hash.value(), events: slot.events, boots: slot.boots }
        };
        slots.values_mut().map(report).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<NodeId, Slot>> {
        self.0.lock().expect("a program that panics ends the run")
    }
}

impl Slot {
    /// Takes the machine out and what it did into account.
    fn switch_off(&mut self) -> Option<Simulation> {
        let machine = self.machine.take()?;
        self.hash.fold(machine.now_ns(), machine.trace_hash());
        self.events += machine.events();
        Some(machine)
    }
}

/// The seed of one boot: a stream of its own for each host and boot, so that no draw depends on
/// which host ran first.
fn boot_seed(model_seed: u64, host: u32, boots_before: u32) -> u64 {
    let mut stream = ChaCha8Rng::seed_from_u64(model_seed);
    stream.set_stream(u64::from(host) << 32 | u64::from(boots_before));
    stream.next_u64()
}
