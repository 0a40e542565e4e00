//! The supervisor: creates the hosts as madsim nodes, opens windows, switches power off and on.

use super::plan::{Cluster, HostsError, PowerSwitch, Report};
use super::power::PowerSupply;
use super::window::Windows;
use crate::executor::Perturbation;
use crate::trace::TraceHash;
use madsim::plugin;
use madsim::runtime::{Handle, Runtime};
use madsim::task::NodeId;
use std::collections::BTreeSet;
use std::panic::resume_unwind;
use std::thread;

/// Runs a checked plan. On a thread of its own, since madsim keeps state in its thread.
pub(super) fn run(cluster: Cluster) -> Result<Report, HostsError> {
    let run = move || {
        let runtime = Runtime::with_seed_and_config(cluster.madsim_seed, madsim::Config::default());
        runtime.add_simulator::<Windows>();
        runtime.add_simulator::<PowerSupply>();
        runtime.block_on(supervise(cluster))
    };
    thread::spawn(run).join().unwrap_or_else(|panic| resume_unwind(panic))
}

async fn supervise(cluster: Cluster) -> Result<Report, HostsError> {
    let (windows, supply) = (plugin::simulator::<Windows>(), plugin::simulator::<PowerSupply>());
    let outcome = conduct(cluster, &windows, &supply).await;
    let mut hash = TraceHash::new();
    let mut report = Report { trace_hash: 0, events: 0, boots: Vec::new() };
    for host in supply.shut_down() {
        hash.fold(u64::from(host.boots), host.hash);
        report.events += host.events;
        report.boots.push(host.boots);
    }
    windows.close();
    outcome.map(|()| Report { trace_hash: hash.value(), ..report })
}

/// Creates the hosts and carries the plan out, to its end.
async fn conduct(
    cluster: Cluster,
    windows: &Windows,
    supply: &PowerSupply,
) -> Result<(), HostsError> {
    let Cluster { hosts, power, end_ns, window_ns, perturbation, model_seed, .. } = cluster;
    let madsim = Handle::current();
    let mut nodes = Vec::new();
    let mut on = BTreeSet::new();
    for (index, host) in hosts.into_iter().enumerate() {
        let node = madsim.create_node().name(&host.name);
        let node = node.init(move || drive_host(model_seed, perturbation)).build().id();
        // Its task has not run yet: nothing runs until this one waits.
        supply.connect(node, index, host);
        windows.enter(node);
        nodes.push(node);
        on.insert(node);
    }
    for event in power {
        advance(windows, supply, &on, event.at_ns, window_ns).await?;
        let node = nodes[event.host];
        match event.switch {
            PowerSwitch::Off => {
                on.remove(&node);
                madsim.kill(node);
            }
            PowerSwitch::On => {
                on.insert(node);
                windows.enter(node);
                madsim.restart(node);
            }
        }
    }
    advance(windows, supply, &on, end_ns, window_ns).await
}

/// Lets the hosts that are on advance to `target_ns`, window by window.
async fn advance(
    windows: &Windows,
    supply: &PowerSupply,
    on: &BTreeSet<NodeId>,
    target_ns: u64,
    window_ns: u64,
) -> Result<(), HostsError> {
    windows.settled().await;
    while windows.end_ns() < target_ns {
        let end_ns = windows.end_ns().saturating_add(window_ns).min(target_ns);
        windows.advance(on, end_ns).await;
        if let Some(error) = supply.take_error() {
            return Err(error);
        }
    }
    Ok(())
}

/// The task of a host: boots it, and lets it run, window by window.
async fn drive_host(model_seed: u64, perturbation: Perturbation) {
    let node = plugin::node();
    let (windows, supply) = (plugin::simulator::<Windows>(), plugin::simulator::<PowerSupply>());
    supply.boot(node, windows.end_ns(), model_seed, perturbation);
    while let Some(end_ns) = windows.arrive(node).await {
        supply.run(node, end_ns);
    }
}
