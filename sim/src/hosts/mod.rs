//! Hosts that lose power and come back.
//!
//! madsim is the outer layer: each host is a madsim node whose only task drives one
//! [`Simulation`](crate::Simulation). `kill` is the power cut and `restart` the boot. What outlives a
//! host lies outside of it: the drives' media in a madsim plugin, the oracle in whatever the
//! [`Host::program`] captures.
//!
//! Model time is the truth. madsim decides only which host is polled first, and hosts share nothing
//! within a window of model time, so a run with another madsim seed is the same run.
//!
//! Architecture invariant: madsim is named nowhere else, and no model time comes from its clock.
//!
//! This needs the cfg `madsim`, which `.cargo/config.toml` sets. Without it [`Cluster::run`] says so.

mod plan;
#[cfg(madsim)]
mod power;
#[cfg(madsim)]
mod supervisor;
#[cfg(madsim)]
mod window;

pub use plan::{Boot, Cluster, Host, HostsError, PowerEvent, PowerSwitch, Report};

impl Cluster {
    /// Runs the hosts on a thread of its own, from time 0 with the power on.
    ///
    /// # Errors
    /// [`HostsError::Deadlock`]; [`HostsError::NotBuilt`] without the cfg `madsim`.
    ///
    /// # Panics
    /// If the plan cannot be, such as a host that is to lose power when it has none; and with any
    /// panic of a program.
    pub fn run(self) -> Result<Report, HostsError> {
        self.check();
        #[cfg(madsim)]
        return supervisor::run(self);
        #[cfg(not(madsim))]
        Err(HostsError::NotBuilt)
    }
}
