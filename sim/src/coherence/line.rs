//! One cache line: its holders, the transfer under way, and the queue for it.
//!
//! A request first travels to where the line is (`snoop_point_percent` of the transfer); until it
//! gets there the holders go on using the line, and requests from nearer cores overtake it. When it
//! gets there the line leaves, and nothing overtakes any more. A request that finds the line under
//! way or moved is sent on to the new holder, which takes the second half of the way; if that one is
//! in the same cluster, no time is lost.

use super::cpu_set::CpuSet;
use super::memory::Requester;
use crate::contention::LineCounts;
use crate::executor::TaskId;
use crate::machine::{Distance, Machine};
use raid::units::{CpuId, NodeId};

/// A request that waits for its turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) requester: Requester,
    pub(crate) cpu: u32,
    pub(crate) exclusive: bool,
    /// The store of a load-linked pair: if the core's copy is gone it fails, and a new load is due.
    pub(crate) linked: bool,
    pub(crate) since_ns: u64,
}

impl Request {
    pub(crate) fn of_read(task: TaskId, cpu: u32, since_ns: u64) -> Self {
        let requester = Requester::Task(task);
        Self { requester, cpu, exclusive: false, linked: false, since_ns }
    }

    pub(crate) fn of_store(cpu: u32, since_ns: u64) -> Self {
        let requester = Requester::StoreBuffer;
        Self { requester, cpu, exclusive: true, linked: false, since_ns }
    }
}

/// A request and when it reaches the line.
#[derive(Clone, Copy)]
struct Travelling {
    request: Request,
    reach_ns: u64,
}

/// One line.
pub(crate) struct Line {
    /// Cores with a copy. Exactly one if `exclusive`; none if the line is in memory only.
    holders: CpuSet,
    exclusive: bool,
    /// The node whose memory the line belongs to: that of the first core that touched it.
    home: Option<NodeId>,
    /// The cluster of the core that took the line alone last.
    owner_cluster: Option<u32>,
    /// The line is on its way to a core that takes it alone: nobody has it.
    in_transit: bool,
    /// The directory is busy with a shared read until then.
    free_at_ns: u64,
    /// When the earliest `LineFree` event under way is.
    event_at_ns: Option<u64>,
    queue: Vec<Travelling>,
    /// Spinning tasks that have a copy and wait for its invalidation, and their cores.
    pub(crate) watchers: Vec<(TaskId, u32)>,
    pub(crate) counts: LineCounts,
}

impl Line {
    pub(crate) fn new(cpu_count: u32) -> Self {
        Self {
            holders: CpuSet::new(cpu_count),
            exclusive: false,
            home: None,
            owner_cluster: None,
            in_transit: false,
            free_at_ns: 0,
            event_at_ns: None,
            queue: Vec::new(),
            watchers: Vec::new(),
            counts: LineCounts::default(),
        }
    }

    /// Whether this core may use the copy that it has.
    #[inline]
    pub(crate) fn hits(&self, cpu: u32, exclusive: bool) -> bool {
        !self.in_transit
            && self.holders.contains(cpu)
            && (!exclusive || self.exclusive || self.holders.len() == 1)
    }

    /// A core asks for the line.
    pub(crate) fn enqueue(&mut self, request: Request, machine: &Machine, now_ns: u64) {
        let reach_ns = now_ns + self.travel_ns(&request, machine);
        self.queue.push(Travelling { request, reach_ns });
    }

    /// When a `LineFree` event has to come that is not under way yet.
    pub(crate) fn event_needed(&mut self, now_ns: u64) -> Option<u64> {
        if self.in_transit {
            return None; // The arrival goes on with the queue.
        }
        let first_ns = self.queue.iter().map(|travelling| travelling.reach_ns).min()?;
        let at_ns = first_ns.max(self.free_at_ns).max(now_ns);
        if self.event_at_ns.is_some_and(|event_ns| event_ns <= at_ns) {
            return None;
        }
        self.event_at_ns = Some(at_ns);
        Some(at_ns)
    }

    /// A `LineFree` event: the request that has reached the line, if one has.
    pub(crate) fn take_reached(&mut self, now_ns: u64) -> Option<Request> {
        if self.event_at_ns.is_some_and(|event_ns| event_ns <= now_ns) {
            self.event_at_ns = None;
        }
        if self.in_transit || self.free_at_ns > now_ns {
            return None;
        }
        let (index, first) =
            self.queue.iter().enumerate().min_by_key(|(_, travelling)| travelling.reach_ns)?;
        if first.reach_ns > now_ns {
            return None;
        }
        Some(self.queue.remove(index).request)
    }

    /// The line leaves for a core. How long until it is there.
    pub(crate) fn start(&mut self, request: &Request, machine: &Machine, now_ns: u64) -> u64 {
        debug_assert!(!self.in_transit && self.free_at_ns <= now_ns);
        let cpu = request.cpu;
        self.counts.wait_ns += now_ns - request.since_ns;
        match self.nearest_holder(cpu, machine) {
            Some(source) => self.counts.add(machine.shape.distance(CpuId(source), CpuId(cpu))),
            None => self.counts.from_memory += u64::from(!self.holders.contains(cpu)),
        }
        let rest_percent = 100 - machine.line.snoop_point_percent;
        let rest_ns = (self.transfer_ns(request, machine) * rest_percent / 100).max(1);
        self.home.get_or_insert(machine.shape.node_of_cpu[cpu as usize]);
        if request.exclusive {
            self.in_transit = true;
            return rest_ns;
        }
        // The first copy of an exclusive line has to come from the owner; the next request can be
        // served only then. Of a shared line the directory hands out copies one after the other.
        let busy_ns =
            if self.exclusive { rest_ns } else { machine.line.shared_read_ns.min(rest_ns) };
        self.free_at_ns = now_ns + busy_ns;
        self.exclusive = self.holders.len() == 0;
        self.holders.insert(cpu);
        rest_ns
    }

    /// The line has arrived at a core that has it alone now. The spinners whose copies are gone.
    pub(crate) fn arrive(
        &mut self,
        cpu: u32,
        machine: &Machine,
        now_ns: u64,
    ) -> Vec<(TaskId, u32)> {
        debug_assert!(self.in_transit);
        self.holders.reset_to(cpu);
        self.exclusive = true;
        self.in_transit = false;
        let cluster = machine.shape.cluster_of_cpu[cpu as usize];
        if self.owner_cluster.replace(cluster) != Some(cluster) {
            for index in 0..self.queue.len() {
                // The first half of the way leads to where requests for the line are put in order;
                // whoever is there already is sent straight on to the new owner.
                let Travelling { request, .. } = self.queue[index];
                let half_way_ns = self.travel_ns(&request, machine) / 2;
                let ordered_ns = (request.since_ns + half_way_ns).max(now_ns);
                self.queue[index].reach_ns = ordered_ns + half_way_ns;
            }
        }
        let spinners = std::mem::take(&mut self.watchers);
        for (task, watcher) in &spinners {
            self.enqueue(Request::of_read(*task, *watcher, now_ns), machine, now_ns);
        }
        spinners
    }

    fn travel_ns(&self, request: &Request, machine: &Machine) -> u64 {
        self.transfer_ns(request, machine) * machine.line.snoop_point_percent / 100
    }

    /// What the whole transfer to a requester takes, as the line lies now.
    fn transfer_ns(&self, request: &Request, machine: &Machine) -> u64 {
        let cpu = request.cpu;
        let node = machine.shape.node_of_cpu[cpu as usize];
        let home = self.home.unwrap_or(node);
        let others = self.holders.iter().filter(|holder| *holder != cpu);
        let distances_ns = others.map(|holder| between_cpus_ns(holder, cpu, home, machine));
        if request.exclusive {
            // The data comes from the nearest copy, the last word from the farthest.
            if let Some(farthest_ns) = distances_ns.max() {
                return farthest_ns;
            }
        } else if let Some(nearest_ns) = distances_ns.min() {
            return nearest_ns;
        }
        if self.holders.contains(cpu) {
            return 0;
        }
        machine.line.memory_ns + between_nodes_ns(machine, node, home)
    }

    fn nearest_holder(&self, cpu: u32, machine: &Machine) -> Option<u32> {
        self.holders.iter().filter(|holder| *holder != cpu).min_by_key(|holder| {
            machine.line.transfer_ns(machine.shape.distance(CpuId(*holder), CpuId(cpu)))
        })
    }
}

/// From one core's cache to another's: straight, plus its share of the way through the home.
fn between_cpus_ns(source: u32, target: u32, home: NodeId, machine: &Machine) -> u64 {
    let straight_ns =
        machine.line.transfer_ns(machine.shape.distance(CpuId(source), CpuId(target)));
    let source_node = machine.shape.node_of_cpu[source as usize];
    let target_node = machine.shape.node_of_cpu[target as usize];
    if source_node == target_node || home == source_node || home == target_node {
        return straight_ns;
    }
    let by_home_ns =
        between_nodes_ns(machine, target_node, home) + between_nodes_ns(machine, home, source_node);
    let detour_ns = by_home_ns.saturating_sub(straight_ns);
    straight_ns + detour_ns * machine.line.home_detour_percent / 100
}

fn between_nodes_ns(machine: &Machine, one: NodeId, other: NodeId) -> u64 {
    if one == other {
        return 0;
    }
    let slit = machine.shape.distance[one.0 as usize][other.0 as usize];
    machine.line.transfer_ns(Distance::Remote(slit))
}
