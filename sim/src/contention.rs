//! Who waited for what: the contention table of locks and cache lines.

use crate::machine::Distance;
use std::collections::BTreeMap;

/// What happened to one line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineCounts {
    /// Transfers between cores of one cluster.
    pub within_cluster: u64,
    /// Transfers between clusters of one node.
    pub within_node: u64,
    /// Transfers from node to node, by the SLIT's distance.
    pub between_nodes: BTreeMap<u32, u64>,
    /// Fetches from memory.
    pub from_memory: u64,
    /// Time that requests stood in the line's queue before they were taken up.
    pub wait_ns: u64,
}

impl LineCounts {
    pub(crate) fn add(&mut self, distance: Distance, count: u64) {
        match distance {
            Distance::Core => {}
            Distance::Cluster => self.within_cluster += count,
            Distance::Node => self.within_node += count,
            Distance::Remote(_) if count == 0 => {}
            Distance::Remote(slit) => *self.between_nodes.entry(slit).or_default() += count,
        }
    }

    /// All transfers and fetches.
    pub fn transfers(&self) -> u64 {
        self.within_cluster
            + self.within_node
            + self.between_nodes.values().sum::<u64>()
            + self.from_memory
    }

    /// Adds another line's counts to these.
    pub fn merge(&mut self, other: &LineCounts) {
        self.within_cluster += other.within_cluster;
        self.within_node += other.within_node;
        self.from_memory += other.from_memory;
        self.wait_ns += other.wait_ns;
        for (slit, count) in &other.between_nodes {
            *self.between_nodes.entry(*slit).or_default() += count;
        }
    }
}

/// What happened to one lock, or to all locks of one name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockCounts {
    /// How often it was taken.
    pub acquisitions: u64,
    /// How often it was found taken.
    pub contended: u64,
    /// Time from the attempt until it was had, over all acquisitions.
    pub wait_ns: u64,
    /// Time that it was held.
    pub hold_ns: u64,
}

impl LockCounts {
    /// From the attempt until it was had, on average.
    pub fn wait_ns_mean(&self) -> u64 {
        self.wait_ns.checked_div(self.acquisitions).unwrap_or(0)
    }

    /// How long it was held, on average.
    pub fn hold_ns_mean(&self) -> u64 {
        self.hold_ns.checked_div(self.acquisitions).unwrap_or(0)
    }
}

/// All locks and lines of a run that were used, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContentionTable {
    /// By the lock's name; the like summed up.
    pub locks: BTreeMap<String, LockCounts>,
    /// By the names of the words on the line, joined by ` + `; the like summed up.
    pub lines: BTreeMap<String, LineCounts>,
}
