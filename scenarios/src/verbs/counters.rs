//! `raidbed bench --counters`: the ways to count requests under way, on this machine's cores. The
//! code that is measured is the one that the scenario `inflight-counter` simulates.

use super::bench::counted;
use super::{Finished, Verdict, finish};
use crate::cli::BenchArguments;
use crate::inflight::CounterKind;
use crate::inflight_load::request_rate;
use crate::quantity::three_digits;
use crate::report::progress::Progress;
use crate::report::table::Table;
use anyhow::{Result, ensure};
use backends::{Cpus, Options, RealMachine, RealPlatform, allowed_cpus};
use raid::units::CpuId;
use serde::Serialize;

#[derive(Serialize)]
struct Report {
    cores: u32,
    nodes: u32,
    measured_ns: u64,
    rows: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    threads: u32,
    rates: Vec<Rate>,
}

#[derive(Serialize)]
struct Rate {
    counter: &'static str,
    million_requests_per_s: f64,
}

/// Shorter ones say more about the scheduler than about the counter.
const MEASURED_NS_MIN: u64 = 1_000_000;

pub(super) fn counters(arguments: &BenchArguments, json: bool) -> Result<Finished> {
    let cores = allowed_cpus()?.len() as u32;
    let threads = thread_counts(cores);
    let cells = (threads.len() * CounterKind::ALL.len()) as u64;
    let measured_ns = arguments.runtime.ns / cells;
    ensure!(
        measured_ns >= MEASURED_NS_MIN,
        "--runtime is shared by {cells} measurements of at least 1 ms each"
    );
    let machine = RealMachine::start(Cpus::Count(cores), Options::from_environment())?;
    let progress = Progress::new("measuring", cells);
    let rate = |kind: CounterKind, threads: u32| {
        let million_requests_per_s = machine.block_on(CpuId(0), async move |cpu| {
            request_rate::<RealPlatform>(&cpu, kind, threads, measured_ns).await
        });
        progress.advance(1);
        Rate { counter: kind.name(), million_requests_per_s }
    };
    let row = |threads: u32| {
        let rates = CounterKind::ALL.into_iter().map(|kind| rate(kind, threads)).collect();
        Row { threads, rates }
    };
    let rows = threads.into_iter().map(row).collect();
    drop(progress);
    let nodes = raid::platform::Platform::topology(&machine.platform()).node_count();
    let report = Report { cores, nodes, measured_ns, rows };
    finish(json, &report, Verdict::Held, render)
}

/// 1, doubled again and again, and all.
fn thread_counts(cores: u32) -> Vec<u32> {
    let below = std::iter::successors(Some(1), |count| Some(count * 2));
    below.take_while(|count| *count < cores).chain([cores]).collect()
}

fn render(report: &Report) -> String {
    let headings = ["threads"].into_iter().chain(CounterKind::ALL.map(CounterKind::name));
    let mut table = Table::new_of(headings.map(str::to_owned));
    for Row { threads, rates } in &report.rows {
        let rates = rates.iter().map(|rate| three_digits(rate.million_requests_per_s));
        table.row([threads.to_string()].into_iter().chain(rates));
    }
    let Report { cores, nodes, measured_ns, .. } = report;
    let of_each = *measured_ns as f64 / 1e6;
    format!(
        "requests counted while under way, M requests/s, {} of {}, {of_each:.0} ms each\n\n{}",
        counted(*cores, "core"),
        counted(*nodes, "NUMA node"),
        table.render()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_double_up_to_the_number_of_cores() {
        assert_eq!(thread_counts(1), [1]);
        assert_eq!(thread_counts(2), [1, 2]);
        assert_eq!(thread_counts(6), [1, 2, 4, 6]);
    }
}
