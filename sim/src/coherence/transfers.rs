//! What a transfer between two cores costs, looked up instead of worked out.

use crate::machine::{Distance, LineCosts, Machine};
use raid::units::NodeId;

/// The costs of a machine's lines, by where source, target and home lie.
pub(crate) struct Transfers {
    /// Cluster and node of each core.
    places: Vec<(u32, NodeId)>,
    node_count: usize,
    line: LineCosts,
    /// By target core and source core.
    routes: Vec<Route>,
    /// Nanoseconds, by home node and route.
    route_ns: Vec<u64>,
    /// Place in `distances`, by route.
    classes: Vec<Class>,
    /// What the classes of transfers mean.
    distances: Vec<Distance>,
}

/// How two cores lie to each other: all that a transfer between them costs depends on, but the home.
/// A place in tables: 0 within a cluster, 1 within a node, then by source node and target node.
#[derive(Clone, Copy)]
struct Route(u16);

impl Route {
    const CLUSTER: Self = Self(0);
    const NODE: Self = Self(1);

    fn between_nodes(source: NodeId, target: NodeId, node_count: usize) -> Self {
        Self(2 + (source.0 as usize * node_count + target.0 as usize) as u16)
    }

    fn count(node_count: usize) -> usize {
        2 + node_count.pow(2)
    }
}

/// How far a transfer went: the place of its distance in a table of counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Class(pub(crate) u8);

const CLUSTER: Class = Class(0);
const NODE: Class = Class(1);

/// The ways to one core, for a line of one home.
#[derive(Clone, Copy)]
pub(crate) struct WaysTo<'a> {
    routes: &'a [Route],
    route_ns: &'a [u64],
}

impl WaysTo<'_> {
    /// From another core's cache.
    #[inline(always)]
    pub(crate) fn cpu_to_cpu_ns(self, source: u32) -> u64 {
        self.route_ns[usize::from(self.routes[source as usize].0)]
    }
}

impl Transfers {
    pub(crate) fn new(machine: &Machine) -> Self {
        let shape = &machine.shape;
        let node_count = shape.distance.len();
        let remote = machine.line.remote_ns.iter().map(|(slit, _)| Distance::Remote(*slit));
        let distances: Vec<_> =
            [Distance::Cluster, Distance::Node].into_iter().chain(remote).collect();
        let mut classes = vec![CLUSTER, NODE];
        for source in 0..node_count {
            for target in 0..node_count {
                let distance = Distance::Remote(shape.distance[source][target]);
                let class = distances.iter().position(|known| *known == distance);
                classes.push(class.map_or(NODE, |class| Class(class as u8)));
            }
        }
        let mut route_ns = Vec::with_capacity(node_count * Route::count(node_count));
        for home in 0..node_count {
            route_ns.extend([machine.line.cluster_ns, machine.line.node_ns]);
            for source in 0..node_count {
                for target in 0..node_count {
                    route_ns.push(by_way_of(machine, source, target, home));
                }
            }
        }
        let places: Vec<_> =
            shape.cluster_of_cpu.iter().copied().zip(shape.node_of_cpu.clone()).collect();
        let route = |(source_cluster, source), (target_cluster, target)| match () {
            () if source_cluster == target_cluster => Route::CLUSTER,
            () if source == target => Route::NODE,
            () => Route::between_nodes(source, target, node_count),
        };
        let routes = places
            .iter()
            .flat_map(|target| places.iter().map(|source| route(*source, *target)))
            .collect();
        let line = machine.line.clone();
        Self { places, node_count, line, routes, route_ns, classes, distances }
    }

    /// From other cores' caches to `target`'s, for a line whose memory is at `home`.
    #[inline(always)]
    pub(crate) fn ways_to(&self, target: u32, home: NodeId) -> WaysTo<'_> {
        let (cpu_count, route_count) = (self.places.len(), Route::count(self.node_count));
        let (target, home) = (target as usize, home.0 as usize);
        WaysTo {
            routes: &self.routes[target * cpu_count..][..cpu_count],
            route_ns: &self.route_ns[home * route_count..][..route_count],
        }
    }

    /// From memory at `home`, when no cache has the line.
    pub(crate) fn memory_ns(&self, target: u32, home: NodeId) -> u64 {
        let target = self.node_of(target);
        if target == home {
            return self.line.memory_ns;
        }
        let Route(route) = Route::between_nodes(home, target, self.node_count);
        let between_ns =
            self.route_ns[home.0 as usize * Route::count(self.node_count) + usize::from(route)];
        self.line.memory_ns + between_ns
    }

    /// How far apart two different cores are.
    pub(crate) fn class(&self, source: u32, target: u32) -> Class {
        let Route(route) = self.routes[target as usize * self.places.len() + source as usize];
        self.classes[usize::from(route)]
    }

    /// What each class means, in the order of their numbers.
    pub(crate) fn distances(&self) -> &[Distance] {
        &self.distances
    }

    pub(crate) fn cluster_of(&self, cpu: u32) -> u32 {
        self.places[cpu as usize].0
    }

    pub(crate) fn node_of(&self, cpu: u32) -> NodeId {
        self.places[cpu as usize].1
    }

    /// The part of a transfer until the old holders lose the line.
    #[inline]
    pub(crate) fn until_snooped_ns(&self, transfer_ns: u64) -> u64 {
        transfer_ns * self.line.snoop_point_percent / 100
    }

    pub(crate) fn shared_read_ns(&self) -> u64 {
        self.line.shared_read_ns
    }
}

/// Straight from node to node, plus the machine's share of the detour by the home.
fn by_way_of(machine: &Machine, source: usize, target: usize, home: usize) -> u64 {
    let leg_ns = |from: usize, to: usize| match from == to {
        true => 0,
        false => machine.line.transfer_ns(Distance::Remote(machine.shape.distance[from][to])),
    };
    let straight_ns = leg_ns(source, target);
    let by_home_ns = leg_ns(target, home) + leg_ns(home, source);
    let detour_ns = by_home_ns.saturating_sub(straight_ns);
    straight_ns + detour_ns * machine.line.home_detour_percent / 100
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::MachineFile;
    use raid::units::CpuId;

    /// A core's number as the machine's shape has it.
    fn cpu(node: u32, cluster: u32, core: u32) -> u32 {
        node * 32 + cluster * 4 + core
    }

    fn check(source: u32, target: u32, home: u32, expected_ns: u64) {
        let (_, transfers) = kunpeng();
        let found_ns = transfers.ways_to(target, NodeId(home)).cpu_to_cpu_ns(source);
        assert_eq!(found_ns, expected_ns, "from {source} to {target} by {home}");
    }

    fn kunpeng() -> (Machine, Transfers) {
        let mut machine = MachineFile::preset("kunpeng920").expect("a preset").nominal();
        machine.line.cluster_ns = 20;
        machine.line.node_ns = 50;
        machine.line.remote_ns = vec![(12, 80), (20, 120), (22, 140), (24, 160)];
        machine.line.home_detour_percent = 50;
        let transfers = Transfers::new(&machine);
        (machine, transfers)
    }

    #[test]
    fn near_cores_do_not_go_by_the_home() {
        check(cpu(1, 0, 0), cpu(1, 0, 3), 3, 20);
        check(cpu(1, 0, 0), cpu(1, 7, 0), 3, 50);
    }

    #[test]
    fn a_home_on_the_way_is_no_detour() {
        check(cpu(0, 0, 0), cpu(2, 0, 0), 2, 120);
        check(cpu(0, 0, 0), cpu(2, 0, 0), 0, 120);
    }

    #[test]
    fn half_of_the_detour_by_a_third_node_is_paid() {
        // Straight 120; by node 1 it is 140 and 80.
        check(cpu(0, 0, 0), cpu(2, 0, 0), 1, 120 + (140 + 80 - 120) / 2);
    }

    #[test]
    fn classes_are_the_shapes_distances() {
        let (machine, transfers) = kunpeng();
        for (one, other) in [(0, 1), (0, 4), (0, 32), (0, 64), (0, 96), (32, 96), (127, 0)] {
            let Class(class) = transfers.class(one, other);
            let expected = machine.shape.distance(CpuId(one), CpuId(other));
            assert_eq!(transfers.distances()[class as usize], expected);
        }
    }
}
