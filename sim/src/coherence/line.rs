//! One cache line: its holders, the transfer under way, and the queue for it.
//!
//! A request travels to where the line is (`snoop_point_percent` of the transfer) and until it gets
//! there the holders go on using the line. The first half of the way leads to the line's home, where
//! requests are put in order: they leave it one after the other, in the order of their arrival. Only
//! requests from the owner's own cluster take a shorter way and overtake. When a request gets to the
//! line, the line leaves, and nothing overtakes any more. If it moves to another cluster meanwhile,
//! the request is sent on from the home, which takes the second half of the way again.

use super::cpu_set::CpuSet;
use super::memory::Requester;
use super::transfers::{Class, Transfers};
use crate::executor::TaskId;
use raid::units::NodeId;

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

/// A request on its way to the line, and when it gets to the home, where requests are put in order.
#[derive(Clone, Copy)]
struct Travelling {
    request: Request,
    /// Where the request comes from.
    cluster: u32,
    ordered_ns: u64,
}

/// One line.
pub(crate) struct Line {
    /// Cores with a copy. Exactly one if `exclusive`; none if the line is in memory only.
    holders: CpuSet,
    exclusive: bool,
    /// The core that has the line, while `exclusive`.
    owner: u32,
    /// The node whose memory the line belongs to: that of the first core that touched it.
    home: Option<NodeId>,
    /// The cluster of the core that took the line alone last, and since when the line is there.
    owner_cluster: Option<u32>,
    settled_ns: u64,
    /// The line is on its way to a core that takes it alone: nobody has it.
    in_transit: bool,
    /// The directory is busy with a shared read until then.
    free_at_ns: u64,
    /// When the earliest `LineFree` event under way is.
    event_at_ns: Option<u64>,
    queue: Vec<Travelling>,
    /// Spinning tasks that have a copy and wait for its invalidation, and their cores.
    pub(crate) watchers: Vec<(TaskId, u32)>,
    pub(crate) counts: TransferCounts,
}

impl Line {
    pub(crate) fn new(cpu_count: u32) -> Self {
        Self {
            holders: CpuSet::new(cpu_count),
            exclusive: false,
            owner: 0,
            home: None,
            owner_cluster: None,
            settled_ns: 0,
            in_transit: false,
            free_at_ns: 0,
            event_at_ns: None,
            queue: Vec::new(),
            watchers: Vec::new(),
            counts: TransferCounts::default(),
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
    pub(crate) fn enqueue(&mut self, request: Request, transfers: &Transfers, now_ns: u64) {
        let ordered_ns = now_ns + self.travel_ns(&request, transfers) / 2;
        let cluster = transfers.cluster_of(request.cpu);
        self.queue.push(Travelling { request, cluster, ordered_ns });
    }

    /// The request that gets to the line first, by its place in the queue, and when: the nearest of
    /// those from the owner's cluster, or the foremost at the home.
    fn first(&self, transfers: &Transfers) -> Option<(usize, u64)> {
        let mut nearest: Option<(usize, u64)> = None;
        let mut foremost: Option<(usize, u64)> = None;
        for (index, travelling) in self.queue.iter().enumerate() {
            let Travelling { request, cluster, ordered_ns } = travelling;
            if self.owner_cluster == Some(*cluster) {
                let travel_ns = self.travel_ns(request, transfers);
                let reach_ns = (request.since_ns + travel_ns).max(self.settled_ns);
                if nearest.is_none_or(|(_, best_ns)| reach_ns < best_ns) {
                    nearest = Some((index, reach_ns));
                }
            } else if foremost.is_none_or(|(_, best_ns)| *ordered_ns < best_ns) {
                foremost = Some((index, *ordered_ns));
            }
        }
        let foremost = foremost.map(|(index, ordered_ns)| {
            let rest_ns = self.travel_ns(&self.queue[index].request, transfers).div_ceil(2);
            (index, ordered_ns.max(self.settled_ns) + rest_ns)
        });
        nearest.into_iter().chain(foremost).min_by_key(|(_, reach_ns)| *reach_ns)
    }

    /// What the line does next, as of now. A `LineFree` event that is due is over with this.
    pub(crate) fn next(&mut self, transfers: &Transfers, now_ns: u64) -> Next {
        if self.event_at_ns.is_some_and(|event_ns| event_ns <= now_ns) {
            self.event_at_ns = None;
        }
        if self.in_transit {
            return Next::Nothing; // The arrival goes on with the queue.
        }
        let Some((index, reach_ns)) = self.first(transfers) else { return Next::Nothing };
        let at_ns = reach_ns.max(self.free_at_ns).max(now_ns);
        if at_ns == now_ns {
            return Next::Serve(self.queue.remove(index).request);
        }
        if self.event_at_ns.is_some_and(|event_ns| event_ns <= at_ns) {
            return Next::Nothing;
        }
        self.event_at_ns = Some(at_ns);
        Next::LineFree { at_ns }
    }

    /// The line leaves for a core. How long until it is there.
    pub(crate) fn start(&mut self, request: &Request, transfers: &Transfers, now_ns: u64) -> u64 {
        debug_assert!(!self.in_transit && self.free_at_ns <= now_ns);
        let cpu = request.cpu;
        self.counts.wait_ns += now_ns - request.since_ns;
        let others = self.other_holders(cpu, transfers);
        match &others {
            Some(others) => self.counts.add(transfers.class(others.nearest, cpu)),
            None => self.counts.from_memory += u64::from(!self.holders.contains(cpu)),
        }
        let transfer_ns = self.cost_ns(request, others, transfers);
        let rest_ns = (transfer_ns - transfers.until_snooped_ns(transfer_ns)).max(1);
        self.home.get_or_insert(transfers.node_of(cpu));
        if request.exclusive {
            self.in_transit = true;
            return rest_ns;
        }
        // The first copy of an exclusive line has to come from the owner; the next request can be
        // served only then. Of a shared line the directory hands out copies one after the other.
        let busy_ns =
            if self.exclusive { rest_ns } else { transfers.shared_read_ns().min(rest_ns) };
        self.free_at_ns = now_ns + busy_ns;
        self.exclusive = self.holders.len() == 0;
        self.owner = cpu;
        self.holders.insert(cpu);
        rest_ns
    }

    /// The line has arrived at a core that has it alone now. The spinners whose copies are gone ask
    /// again; `spinners` is filled with them.
    pub(crate) fn arrive(
        &mut self,
        cpu: u32,
        transfers: &Transfers,
        now_ns: u64,
        spinners: &mut Vec<(TaskId, u32)>,
    ) {
        debug_assert!(self.in_transit);
        self.holders.reset_to(cpu);
        self.exclusive = true;
        self.owner = cpu;
        self.in_transit = false;
        let cluster = transfers.cluster_of(cpu);
        if self.owner_cluster.replace(cluster) != Some(cluster) {
            self.settled_ns = now_ns;
        }
        spinners.clear();
        std::mem::swap(spinners, &mut self.watchers);
        for (task, watcher) in spinners {
            self.enqueue(Request::of_read(*task, *watcher, now_ns), transfers, now_ns);
        }
    }

    fn travel_ns(&self, request: &Request, transfers: &Transfers) -> u64 {
        transfers.until_snooped_ns(self.transfer_ns(request, transfers))
    }

    /// What the whole transfer to a requester takes, as the line lies now.
    #[inline]
    fn transfer_ns(&self, request: &Request, transfers: &Transfers) -> u64 {
        self.cost_ns(request, self.other_holders(request.cpu, transfers), transfers)
    }

    /// The same, from the other cores that hold the line.
    fn cost_ns(&self, request: &Request, others: Option<Others>, transfers: &Transfers) -> u64 {
        match others {
            // The data comes from the nearest copy, the last word from the farthest.
            Some(others) if request.exclusive => others.farthest_ns,
            Some(others) => others.nearest_ns,
            None if self.holders.contains(request.cpu) => 0,
            None => {
                let home = self.home.unwrap_or_else(|| transfers.node_of(request.cpu));
                transfers.memory_ns(request.cpu, home)
            }
        }
    }

    /// The cores besides `cpu` that hold the line, if there are any.
    #[inline]
    fn other_holders(&self, cpu: u32, transfers: &Transfers) -> Option<Others> {
        let ways = transfers.ways_to(cpu, self.home?);
        if self.exclusive {
            let nanoseconds = ways.cpu_to_cpu_ns(self.owner);
            let others =
                Others { nearest: self.owner, nearest_ns: nanoseconds, farthest_ns: nanoseconds };
            return (self.owner != cpu).then_some(others);
        }
        let mut others = Others { nearest: cpu, nearest_ns: u64::MAX, farthest_ns: 0 };
        self.holders.for_each(|holder| {
            if holder == cpu {
                return;
            }
            let nanoseconds = ways.cpu_to_cpu_ns(holder);
            if nanoseconds < others.nearest_ns {
                (others.nearest, others.nearest_ns) = (holder, nanoseconds);
            }
            others.farthest_ns = others.farthest_ns.max(nanoseconds);
        });
        (others.nearest != cpu).then_some(others)
    }
}

/// What a line does next.
pub(crate) enum Next {
    /// It goes to this request, which has reached it.
    Serve(Request),
    /// It waits for a `LineFree` event that is not under way yet.
    LineFree { at_ns: u64 },
    /// It waits for what is under way, or for requests.
    Nothing,
}

/// The nearest and the farthest of the other cores that hold a line.
struct Others {
    nearest: u32,
    nearest_ns: u64,
    farthest_ns: u64,
}

/// How often a line moved, by how far.
#[derive(Clone, Debug, Default)]
pub(crate) struct TransferCounts {
    /// By class, as far as classes occurred.
    pub(crate) by_class: Vec<u64>,
    pub(crate) from_memory: u64,
    /// Time that requests stood in the queue before they were taken up.
    pub(crate) wait_ns: u64,
}

impl TransferCounts {
    fn add(&mut self, class: Class) {
        let index = usize::from(class.0);
        if self.by_class.len() <= index {
            self.by_class.resize(index + 1, 0);
        }
        self.by_class[index] += 1;
    }
}
