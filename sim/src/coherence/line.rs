//! One cache line: its holders, the transfer under way, and the queue for it.

use super::cpu_set::CpuSet;
use super::memory::Requester;
use crate::contention::LineCounts;
use crate::executor::TaskId;
use crate::machine::{Distance, Machine};
use raid::units::{CpuId, NodeId};
use std::collections::VecDeque;

/// A request that waits for its turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) requester: Requester,
    pub(crate) cpu: u32,
    pub(crate) exclusive: bool,
    pub(crate) since_ns: u64,
}

/// One line.
pub(crate) struct Line {
    /// Cores with a copy. Exactly one if `exclusive`; none if the line is in memory only.
    holders: CpuSet,
    exclusive: bool,
    /// The node whose memory the line belongs to: that of the first core that touched it.
    home: Option<NodeId>,
    /// While the line is being taken exclusively: when the holders lose it.
    lost_at_ns: Option<u64>,
    /// An exclusive transfer is under way.
    in_transit: bool,
    /// The directory is busy with a shared read until then.
    free_at_ns: u64,
    /// A `LineFree` event is under way.
    pub(crate) free_event: bool,
    pub(crate) queue: VecDeque<Request>,
    /// Spinning tasks that have a copy and wait for its invalidation.
    pub(crate) watchers: Vec<(TaskId, u32)>,
    pub(crate) counts: LineCounts,
}

/// What starting a request leads to.
pub(crate) struct Started {
    /// From now until the data is there.
    pub(crate) transfer_ns: u64,
    /// The line serves the next request from then on; for an exclusive request, from its arrival.
    pub(crate) next_at_ns: Option<u64>,
}

impl Line {
    pub(crate) fn new(cpu_count: u32) -> Self {
        Self {
            holders: CpuSet::new(cpu_count),
            exclusive: false,
            home: None,
            lost_at_ns: None,
            in_transit: false,
            free_at_ns: 0,
            free_event: false,
            queue: VecDeque::new(),
            watchers: Vec::new(),
            counts: LineCounts::default(),
        }
    }

    /// Whether this core may use the copy that it has.
    #[inline]
    pub(crate) fn hits(&self, cpu: u32, exclusive: bool, now_ns: u64) -> bool {
        self.holders.contains(cpu)
            && (!exclusive || self.exclusive || (self.holders.len() == 1 && !self.in_transit))
            && self.lost_at_ns.is_none_or(|lost_at_ns| now_ns < lost_at_ns)
    }

    /// Whether a request can start now.
    #[inline]
    pub(crate) fn is_free(&self, now_ns: u64) -> bool {
        !self.in_transit && self.free_at_ns <= now_ns
    }

    /// Whether a request has to wait although no exclusive transfer is under way, and until when.
    pub(crate) fn busy_reading_until_ns(&self) -> Option<u64> {
        (!self.in_transit).then_some(self.free_at_ns)
    }

    /// Takes up a request on a free line.
    pub(crate) fn start(&mut self, request: Request, machine: &Machine, now_ns: u64) -> Started {
        debug_assert!(self.is_free(now_ns));
        let cpu = request.cpu;
        let node = machine.shape.node_of_cpu[cpu as usize];
        let home = *self.home.get_or_insert(node);
        self.counts.wait_ns += now_ns - request.since_ns;
        let source = self.nearest_holder(cpu, machine);
        let data_ns = match source {
            None if self.holders.contains(cpu) => 0,
            None => {
                self.counts.from_memory += 1;
                machine.line.memory_ns + between_nodes_ns(machine, node, home)
            }
            Some(source) => self.transfer_ns(source, cpu, home, machine),
        };
        if request.exclusive {
            let has_copy = self.holders.contains(cpu);
            let fetch_ns = if has_copy { 0 } else { data_ns };
            let invalidate_ns = self
                .holders
                .iter()
                .filter(|holder| *holder != cpu)
                .map(|holder| self.transfer_ns(holder, cpu, home, machine))
                .max();
            let transfer_ns = fetch_ns.max(invalidate_ns.unwrap_or(0)).max(1);
            if let Some(source) = source {
                self.counts.add(machine.shape.distance(CpuId(source), CpuId(cpu)));
            }
            self.in_transit = true;
            self.lost_at_ns = Some(now_ns + transfer_ns * machine.line.snoop_point_percent / 100);
            return Started { transfer_ns, next_at_ns: None };
        }
        if let Some(source) = source {
            self.counts.add(machine.shape.distance(CpuId(source), CpuId(cpu)));
        }
        // The first copy of an exclusive line has to come from the owner; the next request can be
        // served only then. Of a shared line the directory hands out copies one after the other.
        let busy_ns = if self.exclusive { data_ns } else { machine.line.shared_read_ns };
        self.free_at_ns = now_ns + busy_ns.min(data_ns).max(1);
        self.exclusive = self.holders.len() == 0;
        self.holders.insert(cpu);
        Started { transfer_ns: data_ns.max(1), next_at_ns: Some(self.free_at_ns) }
    }

    /// An exclusive transfer has arrived: the core has the line alone. The spinners whose copies
    /// are gone, nearest first.
    pub(crate) fn arrive_exclusive(&mut self, cpu: u32, machine: &Machine) -> Vec<(TaskId, u32)> {
        debug_assert!(self.in_transit);
        self.holders.reset_to(cpu);
        self.exclusive = true;
        self.in_transit = false;
        self.lost_at_ns = None;
        let mut invalidated = std::mem::take(&mut self.watchers);
        invalidated.sort_by_key(|(_, watcher)| {
            machine.line.transfer_ns(machine.shape.distance(CpuId(cpu), CpuId(*watcher)))
        });
        invalidated
    }

    fn nearest_holder(&self, cpu: u32, machine: &Machine) -> Option<u32> {
        self.holders.iter().filter(|holder| *holder != cpu).min_by_key(|holder| {
            machine.line.transfer_ns(machine.shape.distance(CpuId(*holder), CpuId(cpu)))
        })
    }

    /// From one core's cache to another's: straight, plus its share of the way through the home.
    fn transfer_ns(&self, source: u32, target: u32, home: NodeId, machine: &Machine) -> u64 {
        let straight =
            machine.line.transfer_ns(machine.shape.distance(CpuId(source), CpuId(target)));
        let source_node = machine.shape.node_of_cpu[source as usize];
        let target_node = machine.shape.node_of_cpu[target as usize];
        if source_node == target_node || home == source_node || home == target_node {
            return straight;
        }
        let by_home_ns = between_nodes_ns(machine, target_node, home)
            + between_nodes_ns(machine, home, source_node);
        let detour_ns = by_home_ns.saturating_sub(straight);
        straight + detour_ns * machine.line.home_detour_percent / 100
    }
}

fn between_nodes_ns(machine: &Machine, one: NodeId, other: NodeId) -> u64 {
    if one == other {
        return 0;
    }
    let slit = machine.shape.distance[one.0 as usize][other.0 as usize];
    machine.line.transfer_ns(Distance::Remote(slit))
}
