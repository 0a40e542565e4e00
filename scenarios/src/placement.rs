//! On which cores the jobs of a simulated machine run.
//!
//! Jobs that nobody binds are placed as a scheduler places freshly forked tasks on an idle machine:
//! evenly over the nodes, within a node evenly over its clusters, within a cluster evenly over its
//! cores; among equals the seed decides.

use raid::units::{CpuId, NodeId};
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use sim::machine::Shape;

/// Which cores jobs may run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    /// Anywhere.
    Unbound,
    /// On the cores of one node.
    Node(NodeId),
    /// On the cores of this many nodes, from the first.
    FirstNodes(u32),
}

/// The core of each of `jobs` jobs.
///
/// # Panics
/// If the binding names a node that the machine does not have.
pub fn place_jobs(shape: &Shape, jobs: u32, binding: Binding, seed: u64) -> Vec<CpuId> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut candidates: Vec<Candidate> = (0..shape.cpu_count())
        .map(|cpu| Candidate::new(shape, CpuId(cpu)))
        .filter(|candidate| match binding {
            Binding::Unbound => true,
            Binding::Node(node) => candidate.node == node,
            Binding::FirstNodes(count) => candidate.node.0 < count,
        })
        .collect();
    assert!(!candidates.is_empty(), "no core for {binding:?}");
    (0..jobs).map(|_| place_one(&mut candidates, &mut random)).collect()
}

/// A core, and how many jobs are already near it.
struct Candidate {
    cpu: CpuId,
    cluster: u32,
    node: NodeId,
    jobs_on_node: u32,
    jobs_on_cluster: u32,
    jobs_on_cpu: u32,
}

impl Candidate {
    fn new(shape: &Shape, cpu: CpuId) -> Self {
        let index = cpu.0 as usize;
        let (cluster, node) = (shape.cluster_of_cpu[index], shape.node_of_cpu[index]);
        Self { cpu, cluster, node, jobs_on_node: 0, jobs_on_cluster: 0, jobs_on_cpu: 0 }
    }

    fn load(&self) -> (u32, u32, u32) {
        (self.jobs_on_node, self.jobs_on_cluster, self.jobs_on_cpu)
    }
}

fn place_one(candidates: &mut [Candidate], random: &mut ChaCha8Rng) -> CpuId {
    let least = candidates.iter().map(Candidate::load).min().expect("there is a candidate");
    let equals = candidates.iter().filter(|candidate| candidate.load() == least);
    let chosen = pick(equals, random);
    let (cpu, cluster, node) = (chosen.cpu, chosen.cluster, chosen.node);
    for candidate in candidates.iter_mut() {
        candidate.jobs_on_node += u32::from(candidate.node == node);
        candidate.jobs_on_cluster += u32::from(candidate.cluster == cluster);
        candidate.jobs_on_cpu += u32::from(candidate.cpu == cpu);
    }
    cpu
}

fn pick<'a>(
    equals: impl Iterator<Item = &'a Candidate> + Clone,
    random: &mut ChaCha8Rng,
) -> &'a Candidate {
    let count = equals.clone().count() as u64;
    let index = ((u128::from(random.next_u64()) * u128::from(count)) >> 64) as usize;
    equals.into_iter().nth(index).expect("the index is below the count")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Four nodes of eight clusters of four cores.
    fn shape() -> Shape {
        let distance = |from: usize, to: usize| if from == to { 10 } else { 20 };
        Shape {
            cluster_of_cpu: (0..128).map(|cpu| cpu / 4).collect(),
            node_of_cpu: (0..128).map(|cpu| NodeId(cpu / 32)).collect(),
            socket_of_node: vec![0, 0, 1, 1],
            distance: (0..4).map(|from| (0..4).map(|to| distance(from, to)).collect()).collect(),
            line_bytes: 128,
        }
    }

    fn clusters(cpus: &[CpuId]) -> BTreeSet<u32> {
        cpus.iter().map(|cpu| cpu.0 / 4).collect()
    }

    #[test]
    fn unbound_jobs_spread_over_nodes_and_then_over_clusters() {
        for seed in 0..20 {
            let cpus = place_jobs(&shape(), 16, Binding::Unbound, seed);
            for node in 0..4 {
                assert_eq!(cpus.iter().filter(|cpu| cpu.0 / 32 == node).count(), 4);
            }
            assert_eq!(clusters(&cpus).len(), 16);
        }
    }

    #[test]
    fn bound_jobs_stay_on_their_node_and_share_no_core_while_there_are_enough() {
        let cpus = place_jobs(&shape(), 16, Binding::Node(NodeId(2)), 1);
        assert!(cpus.iter().all(|cpu| cpu.0 / 32 == 2));
        assert_eq!(clusters(&cpus).len(), 8);
        assert_eq!(cpus.iter().collect::<BTreeSet<_>>().len(), 16);
    }

    #[test]
    fn the_seed_decides_and_decides_alone() {
        let place = |seed| place_jobs(&shape(), 16, Binding::Unbound, seed);
        assert_eq!(place(5), place(5));
        assert_ne!(place(5), place(6));
    }
}
