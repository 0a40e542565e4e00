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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hosts::{Boot, Host, PowerEvent};
    use crate::machine::MachineFile;
    use raid::platform::{Cpu, Label, Parker, Platform};
    use raid::units::CpuId;
    use std::sync::{Arc, Mutex};

    /// Two hosts with one program: the second loses power at 25 us for 10 us.
    fn cluster(program: impl Fn(Boot<'_>) + Send + Sync + 'static) -> Cluster {
        let program: Arc<dyn Fn(Boot<'_>) + Send + Sync> = Arc::new(program);
        let host = |name: &str| Host {
            name: name.to_owned(),
            machine: MachineFile::preset("desktop-4c").expect("a preset").nominal(),
            drives: Vec::new(),
            program: program.clone(),
        };
        let event = |at_ns, switch| PowerEvent { at_ns, host: 1, switch };
        Cluster {
            hosts: vec![host("first"), host("second")],
            power: vec![event(25_000, PowerSwitch::Off), event(35_000, PowerSwitch::On)],
            end_ns: 50_000,
            window_ns: 3_000,
            perturbation: Perturbation::default(),
            model_seed: 1,
            madsim_seed: 1,
        }
    }

    /// Notes the model time every 10 us, for ever.
    fn note_time(boot: Boot<'_>, notes: Arc<Mutex<Vec<u64>>>) {
        let task = move |cpu: crate::SimCpu| async move {
            loop {
                notes.lock().expect("no panic").push(cpu.now_ns());
                cpu.sleep_ns(10_000).await;
            }
        };
        boot.simulation.platform().spawn_on(CpuId(0), Label::new("clock"), task);
    }

    #[test]
    fn hosts_run_while_their_power_is_on() {
        let notes = Arc::new(Mutex::new(Vec::new()));
        let noted = notes.clone();
        let report = cluster(move |boot| note_time(boot, noted.clone())).run().expect("it runs");
        assert_eq!(report.boots, [1, 2]);
        let notes = notes.lock().expect("no panic");
        let between = |from_ns: u64, to_ns: u64| {
            notes.iter().filter(|time_ns| (from_ns..to_ns).contains(time_ns)).count()
        };
        // Both at 0, 10 and 20 us; the first at 30; the first at 40, the second at 35 and 45. Each a
        // little later, for what waking up costs.
        assert_eq!((between(0, 25_000), between(25_000, 35_000)), (6, 1), "{notes:?}");
        assert_eq!(between(35_000, 50_000), 3, "{notes:?}");
        assert_eq!(between(35_000, 36_500), 1, "{notes:?}");
    }

    #[test]
    fn neither_madsim_nor_windows_change_anything() {
        let run = |madsim_seed, window_ns| {
            let cluster = cluster(|boot| note_time(boot, Arc::default()));
            Cluster { madsim_seed, window_ns, ..cluster }.run().expect("it runs")
        };
        let report = run(1, 3_000);
        for madsim_seed in 2..20 {
            assert_eq!(run(madsim_seed, 1 + madsim_seed * 1_000), report);
        }
    }

    #[test]
    fn a_deadlock_names_its_host() {
        let stuck = cluster(|boot| {
            let platform = boot.simulation.platform();
            let parker = platform.parker(Label::new("nobody"));
            let sleeper = move |cpu| async move { parker.park(&cpu).await };
            platform.spawn_on(CpuId(0), Label::new("sleeper"), sleeper);
        });
        let error = stuck.run().expect_err("it is stuck").to_string();
        assert!(error.starts_with("host first: ") && error.contains("sleeper"), "{error}");
    }

    #[test]
    #[should_panic(expected = "a program's own panic")]
    fn a_programs_panic_ends_the_run() {
        let _ = cluster(|_| panic!("a program's own panic")).run();
    }
}
