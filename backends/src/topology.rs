//! Which cores this process may use and in which NUMA nodes they lie.

use raid::platform::Topology;
use raid::units::NodeId;
use rustix::thread::{CpuSet, sched_getaffinity};
use std::fs;

/// A core as the operating system numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostCpu(pub u32);

/// The cores that the process may run on, ascending.
///
/// # Errors
/// If the system does not tell.
pub fn allowed_cpus() -> std::io::Result<Vec<HostCpu>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).map(|cpu| HostCpu(cpu as u32)).collect())
}

/// The shape of a machine made of these cores, in this order.
///
/// Nodes keep the system's numbers. A core of which the system says nothing is in node 0.
pub(crate) fn topology_of(cpus: &[HostCpu]) -> Topology {
    let nodes = nodes();
    let node_of = |cpu: &HostCpu| {
        let found = nodes.iter().find(|(_, cpus)| cpus.contains(cpu));
        found.map_or(NodeId(0), |(node, _)| *node)
    };
    Topology::new(cpus.iter().map(node_of).collect())
}

/// The NUMA nodes and their cores, as `/sys` lists them; none if it does not.
fn nodes() -> Vec<(NodeId, Vec<HostCpu>)> {
    let Ok(entries) = fs::read_dir("/sys/devices/system/node") else { return Vec::new() };
    let node_of = |entry: fs::DirEntry| {
        let number = entry.file_name().to_str()?.strip_prefix("node")?.parse().ok()?;
        let list = fs::read_to_string(entry.path().join("cpulist")).ok()?;
        Some((NodeId(number), parse_cpu_list(&list)))
    };
    entries.filter_map(|entry| node_of(entry.ok()?)).collect()
}

/// Reads the kernel's notation of a set of cores, such as `0-3,8,10-11`. Skips what it does not
/// understand.
fn parse_cpu_list(list: &str) -> Vec<HostCpu> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<u32>().ok()?..=last.parse::<u32>().ok()?)
    };
    list.trim().split(',').filter_map(range).flatten().map(HostCpu).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(list: &str, expected: &[u32]) {
        let found: Vec<u32> = parse_cpu_list(list).iter().map(|cpu| cpu.0).collect();
        assert_eq!(found, expected, "{list:?}");
    }

    #[test]
    fn lists_of_cores_are_read() {
        check("0\n", &[0]);
        check("0-3,8,10-11\n", &[0, 1, 2, 3, 8, 10, 11]);
        check("\n", &[]);
    }

    #[test]
    fn the_process_may_run_somewhere() {
        let cpus = allowed_cpus().expect("the system tells");
        assert_eq!(topology_of(&cpus).cpu_count() as usize, cpus.len());
    }
}
