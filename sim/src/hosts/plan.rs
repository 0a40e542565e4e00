//! What a run of hosts is made of: plain data, but for the programs that the hosts boot.

use crate::deadlock::Deadlock;
use crate::device::{Media, SimDevice};
use crate::executor::Perturbation;
use crate::machine::Machine;
use crate::simulation::Simulation;
use raid::units::Sectors;
use std::sync::Arc;

/// Hosts and what happens to them.
#[derive(Clone)]
pub struct Cluster {
    /// The hosts. Their numbers are their places here.
    pub hosts: Vec<Host>,
    /// What happens to their power, ascending by time.
    pub power: Vec<PowerEvent>,
    /// Model time at which the run ends.
    pub end_ns: u64,
    /// How far hosts advance between two meetings: no longer than the smallest latency of any link
    /// between them. Hosts without links may take any, and it changes nothing.
    pub window_ns: u64,
    /// How the schedule of each host is disturbed.
    pub perturbation: Perturbation,
    /// Everything random in the model follows from it.
    pub model_seed: u64,
    /// Everything random in madsim follows from it. It changes nothing.
    pub madsim_seed: u64,
}

/// One host.
#[derive(Clone)]
pub struct Host {
    /// What messages call it.
    pub name: String,
    /// What it is made of.
    pub machine: Machine,
    /// The size of each of its drives. They are zeroed at first, and outlive the power.
    pub drives: Vec<Sectors>,
    /// What it does when it boots: it starts tasks, and returns. What the closure captures outlives
    /// the host: so an oracle can compare what was promised with what is found.
    pub program: Arc<dyn Fn(Boot<'_>) + Send + Sync>,
}

/// A host that has just been switched on.
pub struct Boot<'a> {
    /// How often it booted before.
    pub boots_before: u32,
    /// The machine, at the model time of the boot, with nothing running.
    pub simulation: &'a mut Simulation,
    /// Its drives.
    pub drives: Vec<SimDevice>,
    /// What the drives hold, to look at without a request.
    pub media: Vec<Media>,
}

/// A change of one host's power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PowerEvent {
    /// When, in model time. Everything that happens at that time still happens before it.
    pub at_ns: u64,
    /// To which host.
    pub host: usize,
    /// What.
    pub switch: PowerSwitch,
}

/// Off or on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerSwitch {
    /// Every task vanishes; the drives keep or lose what they had not made durable.
    Off,
    /// The host boots.
    On,
}

/// A run of hosts that came to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// One number for everything that happened on every host, and when.
    pub trace_hash: u64,
    /// Events on all hosts together.
    pub events: u64,
    /// How often each host booted.
    pub boots: Vec<u32>,
}

/// Why a run of hosts did not come to its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostsError {
    /// The program was built without madsim.
    #[error(
        "hosts need madsim, and this program was built without `--cfg madsim`: build it without \
         the variable RUSTFLAGS, so that .cargo/config.toml applies"
    )]
    NotBuilt,
    /// Tasks of a host wait for what will never come.
    #[error("host {host}: {deadlock}")]
    Deadlock {
        /// The host's name.
        host: String,
        /// Who waits for what.
        deadlock: Deadlock,
    },
}

impl Cluster {
    /// # Panics
    /// If this is no possible plan.
    pub(super) fn check(&self) {
        assert!(self.window_ns > 0, "hosts advance by windows");
        assert!(self.power.is_sorted_by_key(|event| event.at_ns), "power events in time's order");
        let mut on = vec![true; self.hosts.len()];
        for PowerEvent { at_ns, host, switch } in &self.power {
            assert!(*host < self.hosts.len(), "there is no host {host}");
            assert!(*at_ns <= self.end_ns, "a power event at {at_ns} ns, after the end");
            let turns_on = *switch == PowerSwitch::On;
            assert_ne!(on[*host], turns_on, "host {host} is already {switch:?} at {at_ns} ns");
            on[*host] = turns_on;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(events: &[(u64, PowerSwitch)]) {
        let host = Host {
            name: "host".to_owned(),
            machine: crate::machine::MachineFile::preset("desktop-4c").expect("a preset").nominal(),
            drives: Vec::new(),
            program: Arc::new(|_| ()),
        };
        let power = events.iter().map(|(at_ns, switch)| PowerEvent {
            at_ns: *at_ns,
            host: 0,
            switch: *switch,
        });
        let cluster = Cluster {
            hosts: vec![host],
            power: power.collect(),
            end_ns: 100,
            window_ns: 1,
            perturbation: Perturbation::default(),
            model_seed: 0,
            madsim_seed: 0,
        };
        cluster.check();
    }

    #[test]
    fn power_goes_off_and_on_in_turn() {
        check(&[(10, PowerSwitch::Off), (20, PowerSwitch::On), (20, PowerSwitch::Off)]);
    }

    #[test]
    #[should_panic(expected = "already On")]
    fn a_host_does_not_boot_twice() {
        check(&[(10, PowerSwitch::On)]);
    }

    #[test]
    #[should_panic(expected = "in time's order")]
    fn power_events_are_in_order() {
        check(&[(20, PowerSwitch::Off), (10, PowerSwitch::On)]);
    }
}
