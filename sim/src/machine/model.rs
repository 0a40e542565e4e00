//! A machine with every number settled: what the simulator runs on.
//!
//! All times are nanoseconds, all shares are per cent, and all are integers, since they order
//! events. A machine file gives some numbers as ranges; this is one choice out of them.

use raid::units::{CpuId, NodeId};

/// One concrete machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// What the file calls it.
    pub name: String,
    /// Which core lies where.
    pub shape: Shape,
    /// What a core's own work costs.
    pub core: CoreCosts,
    /// What moving a cache line costs.
    pub line: LineCosts,
    /// What putting tasks to sleep and waking them costs.
    pub scheduler: SchedulerCosts,
    /// What the software around the engine costs for each request.
    pub software: SoftwareCosts,
    /// The kind of drive that the machine has.
    pub drive: DriveModel,
}

/// Sockets, nodes, clusters, cores; all numbered from 0 and dense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The cluster (cores that share the nearest common cache or bus) of each core.
    pub cluster_of_cpu: Vec<u32>,
    /// The node of each core.
    pub node_of_cpu: Vec<NodeId>,
    /// The socket of each node.
    pub socket_of_node: Vec<u32>,
    /// The distance from node to node as the firmware's SLIT gives it; 10 on the diagonal.
    pub distance: Vec<Vec<u32>>,
    /// The unit in which cores hand memory to each other.
    pub line_bytes: u32,
}

/// How a core changes a word in one go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Atomics {
    /// One instruction takes the line for itself, changes the word or not, and is done (x86, ARMv8.1
    /// with its large system extensions).
    SingleInstruction,
    /// A load that marks a copy, and a store that fails if the copy was lost in between (POWER, and
    /// programs built for ARMv8.0). A compare-exchange that finds another value never takes the
    /// line from others; one that is overtaken starts again.
    LoadLinked,
}

/// Work within one core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreCosts {
    /// How it changes words atomically.
    pub atomics: Atomics,
    /// One simple instruction in straight code, picoseconds.
    pub instruction_ps: u64,
    /// A load that finds its line in the core's own cache.
    pub load_hit_ns: u64,
    /// An atomic read-modify-write that finds its line in the core's own cache.
    pub rmw_hit_ns: u64,
    /// A store, until the core goes on; the line is fetched behind its back.
    pub store_ns: u64,
    /// Bytes copied in a microsecond from and to memory.
    pub copy_bytes_per_us: u64,
}

/// How far apart two cores are, for the cost of a line between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Distance {
    /// The core itself.
    Core,
    /// Another core of the same cluster.
    Cluster,
    /// Another cluster of the same node.
    Node,
    /// Another node, with the SLIT's number.
    Remote(u32),
}

/// Cache lines between cores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineCosts {
    /// From one core's cache to another's in the same cluster.
    pub cluster_ns: u64,
    /// From one cluster to another of the same node.
    pub node_ns: u64,
    /// From node to node, by the SLIT's distance, ascending.
    pub remote_ns: Vec<(u32, u64)>,
    /// From local memory, when no cache has the line.
    pub memory_ns: u64,
    /// How far into a transfer the old owner loses the line, in per cent of the transfer.
    pub snoop_point_percent: u64,
    /// How much of the detour through the line's home node is paid, in per cent: 0 if the caches
    /// find each other, 100 if every transfer goes by way of the home.
    pub home_detour_percent: u64,
    /// How long a read of a line that several cores share keeps the next request waiting.
    pub shared_read_ns: u64,
}

/// Tasks, wake-ups, interrupts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedulerCosts {
    /// The waker's part of waking a task: run-queue work and the inter-processor interrupt.
    pub wake_ns: u64,
    /// From the interrupt until the woken task runs on an idle core.
    pub wake_latency_ns: u64,
    /// From one task to another on a core.
    pub context_switch_ns: u64,
    /// Entering and leaving a device interrupt.
    pub interrupt_ns: u64,
}

/// The path of one request outside the engine's own shared memory, uncontended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SoftwareCosts {
    /// The application and the system call that submit a request.
    pub application_submit_ns: u64,
    /// The application's part of taking a completion.
    pub application_reap_ns: u64,
    /// The array's part of submission: allocate, map, clone.
    pub array_request_ns: u64,
    /// The array's part of completion.
    pub array_completion_ns: u64,
    /// Block layer and driver, submission to one drive.
    pub driver_submit_ns: u64,
    /// Driver and block layer, completion from one drive, in the interrupt.
    pub driver_complete_ns: u64,
}

/// One kind of drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriveModel {
    /// Commands that it works on at once; the rest wait inside.
    pub parallelism: u32,
    /// Reads of 4 KiB it takes in a second at most.
    pub read_iops_max: u64,
    /// Writes of 4 KiB it takes in a second at most, sustained.
    pub write_iops_max: u64,
    /// Bytes read in a microsecond at most.
    pub read_bytes_per_us: u64,
    /// Bytes written in a microsecond at most.
    pub write_bytes_per_us: u64,
    /// Time of a read of 4 KiB on an idle drive.
    pub read_latency: LatencyQuantiles,
    /// Time of a write of 4 KiB on an idle drive.
    pub write_latency: LatencyQuantiles,
    /// Time of a flush.
    pub flush_ns: u64,
    /// Its smallest unit.
    pub logical_block_bytes: u32,
}

/// A distribution of latencies, straight between its quantiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencyQuantiles {
    /// The fastest.
    pub minimum_ns: u64,
    /// Half are faster.
    pub median_ns: u64,
    /// 99 of 100 are faster.
    pub p99_ns: u64,
    /// The slowest.
    pub maximum_ns: u64,
}

impl Shape {
    /// How far apart two cores are.
    pub fn distance(&self, one: CpuId, other: CpuId) -> Distance {
        let (one_index, other_index) = (one.0 as usize, other.0 as usize);
        if one == other {
            return Distance::Core;
        }
        if self.cluster_of_cpu[one_index] == self.cluster_of_cpu[other_index] {
            return Distance::Cluster;
        }
        let (from, to) = (self.node_of_cpu[one_index], self.node_of_cpu[other_index]);
        if from == to {
            return Distance::Node;
        }
        Distance::Remote(self.distance[from.0 as usize][to.0 as usize])
    }

    /// How many cores there are.
    pub fn cpu_count(&self) -> u32 {
        self.node_of_cpu.len() as u32
    }
}

impl LineCosts {
    /// What a transfer over this distance takes, without a detour.
    ///
    /// # Panics
    /// If the machine names no cost for a SLIT distance that it has; a checked file names all.
    pub fn transfer_ns(&self, distance: Distance) -> u64 {
        match distance {
            Distance::Core => 0,
            Distance::Cluster => self.cluster_ns,
            Distance::Node => self.node_ns,
            Distance::Remote(slit) => {
                let found = self.remote_ns.iter().find(|(distance, _)| *distance == slit);
                found.expect("a machine names a transfer cost for each of its distances").1
            }
        }
    }
}
