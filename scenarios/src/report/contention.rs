//! The contention table of one run: who waited for which lock, which cache line moved how far how
//! often. As values for JSON, and as text.

use super::table::Table;
use crate::quantity::{count, nanoseconds, three_digits};
use serde::Serialize;
use sim::contention::ContentionTable;
use std::collections::{BTreeMap, BTreeSet};

/// Locks and lines of one run, those that cost most first.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ContentionReport {
    /// Locks by name.
    pub locks: Vec<LockReport>,
    /// Cache lines by the names of the words on them.
    pub lines: Vec<LineReport>,
}

/// What happened to one lock, or to all of one name.
#[derive(Clone, Debug, Serialize)]
pub struct LockReport {
    /// Its name.
    pub name: String,
    /// How often it was taken.
    pub acquisitions: u64,
    /// How often it was found taken.
    pub contended: u64,
    /// How often it was taken for each MiB of requests, where locks are told of so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acquisitions_per_mib: Option<f64>,
    /// How often it was found taken for each MiB; likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contended_per_mib: Option<f64>,
    /// From the attempt until it was had, on average; not measured on real cores.
    pub wait_ns_mean: Option<u64>,
    /// How long it was held, on average; likewise.
    pub hold_ns_mean: Option<u64>,
}

/// How often one line, or all of one name, moved.
#[derive(Clone, Debug, Serialize)]
pub struct LineReport {
    /// The words on it.
    pub name: String,
    /// Between cores of one cluster.
    pub within_cluster: u64,
    /// Between clusters of one node.
    pub within_node: u64,
    /// Between nodes, by the distance that the firmware states.
    pub between_nodes: BTreeMap<u32, u64>,
    /// From memory.
    pub from_memory: u64,
    /// All of these.
    pub transfers: u64,
    /// Time that requests stood in line for it, on average over the transfers.
    pub wait_ns_mean: u64,
}

impl ContentionReport {
    /// The report on what the simulator counted, during so many MiB of requests if the locks are to be
    /// told by the MiB.
    pub fn of(table: &ContentionTable, counted_mib: Option<f64>) -> Self {
        let each_mib = |count: u64| counted_mib.map(|mib| count as f64 / mib);
        let mut by_wait: Vec<_> = table.locks.iter().collect();
        by_wait.sort_by_key(|(_, counts)| std::cmp::Reverse(counts.wait_ns));
        let locks = by_wait
            .into_iter()
            .map(|(name, counts)| LockReport {
                name: name.clone(),
                acquisitions: counts.acquisitions,
                contended: counts.contended,
                acquisitions_per_mib: each_mib(counts.acquisitions),
                contended_per_mib: each_mib(counts.contended),
                wait_ns_mean: Some(counts.wait_ns_mean()),
                hold_ns_mean: Some(counts.hold_ns_mean()),
            })
            .collect();
        let mut lines: Vec<LineReport> = table
            .lines
            .iter()
            .map(|(name, counts)| LineReport {
                name: name.clone(),
                within_cluster: counts.within_cluster,
                within_node: counts.within_node,
                between_nodes: counts.between_nodes.clone(),
                from_memory: counts.from_memory,
                transfers: counts.transfers(),
                wait_ns_mean: counts.wait_ns.checked_div(counts.transfers()).unwrap_or(0),
            })
            .collect();
        lines.sort_by_key(|line| std::cmp::Reverse(line.transfers));
        Self { locks, lines }
    }
}

/// Lines that the text shows of each run; JSON has all.
const LINES_SHOWN: usize = 5;

/// The contention tables of several runs as text, each run under its name.
pub fn render(runs: &[(&str, &ContentionReport)]) -> String {
    let (locks, lines) = (render_locks(runs), render_lines(runs));
    match (locks.is_empty(), lines.is_empty()) {
        (true, true) => String::new(),
        (true, false) => lines.render(),
        (false, true) => locks.render(),
        (false, false) => format!("{}\n{}", locks.render(), lines.render()),
    }
}

fn mean(ns: Option<u64>) -> String {
    ns.map_or("-".to_owned(), |ns| nanoseconds(ns as f64))
}

fn render_locks(runs: &[(&str, &ContentionReport)]) -> Table {
    let by_mib = runs
        .iter()
        .any(|(_, report)| report.locks.iter().any(|lock| lock.acquisitions_per_mib.is_some()));
    let each_mib: &[&str] = if by_mib { &["taken a MiB", "contended a MiB"] } else { &[] };
    let headings = ["variant", "lock", "acquisitions", "contended", "mean wait", "mean hold"];
    let headings = headings.iter().chain(each_mib).map(|heading| (*heading).to_owned());
    let mut table = Table::new_of(headings).with_left_columns(2);
    let number = |number: Option<f64>| number.map_or("-".to_owned(), three_digits);
    for (variant, report) in runs {
        for lock in &report.locks {
            let share = 100.0 * lock.contended as f64 / lock.acquisitions.max(1) as f64;
            let cells = [
                (*variant).to_owned(),
                lock.name.clone(),
                count(lock.acquisitions as f64),
                format!("{share:.1} %"),
                mean(lock.wait_ns_mean),
                mean(lock.hold_ns_mean),
            ];
            let each_mib = [lock.acquisitions_per_mib, lock.contended_per_mib].map(number);
            table.row(cells.into_iter().chain(each_mib.into_iter().filter(|_| by_mib)));
        }
    }
    table
}

fn render_lines(runs: &[(&str, &ContentionReport)]) -> Table {
    let shown = || {
        runs.iter().flat_map(|(variant, report)| {
            report.lines.iter().take(LINES_SHOWN).map(move |line| (*variant, line))
        })
    };
    let distances: BTreeSet<u32> =
        shown().flat_map(|(_, line)| line.between_nodes.keys().copied()).collect();
    let remote = distances.iter().map(|distance| format!("node at {distance}"));
    let headings = ["variant", "line with", "transfers", "cluster", "node"]
        .map(str::to_owned)
        .into_iter()
        .chain(remote)
        .chain(["memory", "mean wait"].map(str::to_owned));
    let mut table = Table::new_of(headings).with_left_columns(2);
    for (variant, line) in shown() {
        let between = |distance| line.between_nodes.get(distance).copied().unwrap_or(0);
        let counts = [line.transfers, line.within_cluster, line.within_node]
            .into_iter()
            .chain(distances.iter().map(between))
            .chain([line.from_memory])
            .map(|transfers| count(transfers as f64));
        let names = [variant.to_owned(), line.name.clone()].into_iter();
        table.row(names.chain(counts).chain([nanoseconds(line.wait_ns_mean as f64)]));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::contention::{LineCounts, LockCounts};

    fn report() -> ContentionReport {
        let mut table = ContentionTable::default();
        let lock =
            |acquisitions, wait_ns| LockCounts { acquisitions, contended: 1, wait_ns, hold_ns: 40 };
        table.locks.insert("idle".to_owned(), lock(2, 10));
        table.locks.insert("busy".to_owned(), lock(4, 4_000));
        let between_nodes = BTreeMap::from([(20, 7)]);
        let line = LineCounts {
            within_cluster: 1,
            within_node: 2,
            between_nodes,
            from_memory: 0,
            wait_ns: 100,
        };
        table.lines.insert("busy + count".to_owned(), line);
        ContentionReport::of(&table, None)
    }

    #[test]
    fn locks_are_told_by_the_mib_where_that_was_counted() {
        let mut table = ContentionTable::default();
        let counts = LockCounts { acquisitions: 100, contended: 25, wait_ns: 0, hold_ns: 0 };
        table.locks.insert("hash_lock".to_owned(), counts);
        let report = ContentionReport::of(&table, Some(10.0));
        let text = render(&[("per-page", &report)]);
        let row: Vec<&str> = text.lines().nth(1).expect("a row").split_whitespace().collect();
        assert_eq!(row[row.len() - 2..], ["10.0", "2.50"], "{text}");
        assert!(!render(&[("before", &self::report())]).contains("a MiB"));
    }

    #[test]
    fn the_costliest_lock_comes_first() {
        let names: Vec<String> = report().locks.into_iter().map(|lock| lock.name).collect();
        assert_eq!(names, ["busy", "idle"]);
    }

    #[test]
    fn distances_that_occur_have_a_column() {
        let text = render(&[("before", &report())]);
        assert!(text.contains("node at 20"), "{text}");
        assert!(text.contains("busy + count"), "{text}");
        assert!(text.contains("25.0 %"), "{text}");
    }

    #[test]
    fn nothing_to_tell_is_no_text() {
        assert_eq!(render(&[("before", &ContentionReport::default())]), "");
    }
}
