//! What single accesses cost on a machine with round numbers: the line model, case by case.

use raid::platform::{Cpu, Label, Ordering, Parker, Place, Platform, Word};
use raid::units::CpuId;
use sim::machine::{Atomics, Machine, MachineFile};
use sim::{Options, Outcome, SimCpu, SimParker, SimPlatform, SimWord, Simulation};
use std::sync::{Arc, Mutex};

const LOAD_HIT_NS: u64 = 2;
const RMW_HIT_NS: u64 = 5;
const STORE_NS: u64 = 1;
const CLUSTER_NS: u64 = 20;
const NODE_NS: u64 = 40;
const SOCKET_NS: u64 = 100;
const MEMORY_NS: u64 = 200;

/// Two nodes of two clusters of two cores: 0 and 1 | 2 and 3 || 4 and 5 | 6 and 7.
fn machine() -> Machine {
    let mut machine = MachineFile::preset("kunpeng920").expect("a preset").nominal();
    machine.shape.cluster_of_cpu = (0..8).map(|cpu| cpu / 2).collect();
    machine.shape.node_of_cpu = (0..8).map(|cpu| raid::units::NodeId(cpu / 4)).collect();
    machine.shape.socket_of_node = vec![0, 1];
    machine.shape.distance = vec![vec![10, 20], vec![20, 10]];
    machine.core.load_hit_ns = LOAD_HIT_NS;
    machine.core.rmw_hit_ns = RMW_HIT_NS;
    machine.core.store_ns = STORE_NS;
    machine.line.cluster_ns = CLUSTER_NS;
    machine.line.node_ns = NODE_NS;
    machine.line.remote_ns = vec![(20, SOCKET_NS)];
    machine.line.memory_ns = MEMORY_NS;
    machine.line.snoop_point_percent = 50;
    machine.line.home_detour_percent = 0;
    machine.line.shared_read_ns = 10;
    machine
}

/// A word that core `owner` has alone, and how long `access` takes on core `cpu` afterwards.
fn check<F>(
    owner: u32,
    readers: &[u32],
    cpu: u32,
    access: impl Fn(SimCpu, Arc<SimWord>) -> F + Send + 'static,
    expected_ns: u64,
) where
    F: Future<Output = ()> + 'static,
{
    let mut simulation = Simulation::new(&machine(), Options::default());
    let platform = simulation.platform();
    let word = Arc::new(platform.word(Label::new("word"), Place::Alone, 0));
    prepare(&mut simulation, &word, owner, |cpu, word| async move {
        word.swap(&cpu, 0, Ordering::Relaxed).await;
    });
    for reader in readers {
        prepare(&mut simulation, &word, *reader, |cpu, word| async move {
            word.load(&cpu, Ordering::Relaxed).await;
        });
    }
    let taken_ns = Arc::new(Mutex::new(None));
    let result = taken_ns.clone();
    platform.spawn_on(CpuId(cpu), Label::new("measured"), move |cpu| async move {
        let begun_ns = cpu.now_ns();
        access(cpu.clone(), word).await;
        *result.lock().expect("no other holder") = Some(cpu.now_ns() - begun_ns);
    });
    assert_eq!(simulation.run(), Outcome::Done);
    assert_eq!(*taken_ns.lock().expect("no other holder"), Some(expected_ns));
}

fn prepare<F>(
    simulation: &mut Simulation,
    word: &Arc<SimWord>,
    cpu: u32,
    access: impl Fn(SimCpu, Arc<SimWord>) -> F + Send + 'static,
) where
    F: Future<Output = ()> + 'static,
{
    let word = word.clone();
    let platform: SimPlatform = simulation.platform();
    platform.spawn_on(CpuId(cpu), Label::new("before"), move |cpu| access(cpu, word));
    assert_eq!(simulation.run(), Outcome::Done);
}

async fn load(cpu: SimCpu, word: Arc<SimWord>) {
    word.load(&cpu, Ordering::Relaxed).await;
}

async fn add(cpu: SimCpu, word: Arc<SimWord>) {
    word.fetch_add(&cpu, 1, Ordering::Relaxed).await;
}

#[test]
fn an_access_to_a_line_of_ones_own_costs_the_core_alone() {
    check(0, &[], 0, load, LOAD_HIT_NS);
    check(0, &[], 0, add, RMW_HIT_NS);
    check(0, &[1], 0, load, LOAD_HIT_NS);
}

#[test]
fn a_read_costs_the_way_from_the_nearest_copy() {
    check(0, &[], 1, load, CLUSTER_NS);
    check(0, &[], 2, load, NODE_NS);
    check(0, &[], 4, load, SOCKET_NS);
    check(0, &[5], 4, load, CLUSTER_NS);
}

#[test]
fn a_change_waits_for_the_farthest_copy() {
    check(0, &[], 2, add, NODE_NS + RMW_HIT_NS);
    check(0, &[4], 0, add, SOCKET_NS + RMW_HIT_NS);
    check(0, &[1, 2], 0, add, NODE_NS + RMW_HIT_NS);
}

#[test]
fn a_store_is_not_waited_for_until_something_needs_it_seen() {
    let store = async |cpu: &SimCpu, word: &SimWord| word.store(cpu, 1, Ordering::Release).await;
    check(0, &[], 4, move |cpu, word| async move { store(&cpu, &word).await }, STORE_NS);
    let store_and_fence = move |cpu: SimCpu, word: Arc<SimWord>| async move {
        word.store(&cpu, 1, Ordering::Relaxed).await;
        cpu.fence(Ordering::SeqCst).await;
    };
    check(0, &[], 4, store_and_fence, SOCKET_NS);
    let store_and_load = move |cpu: SimCpu, word: Arc<SimWord>| async move {
        word.store(&cpu, 7, Ordering::Relaxed).await;
        assert_eq!(word.load(&cpu, Ordering::Relaxed).await, 7, "a core sees its own stores");
    };
    check(0, &[], 4, store_and_load, SOCKET_NS + LOAD_HIT_NS);
}

#[test]
fn a_failing_compare_exchange_takes_the_line_unless_it_is_load_linked() {
    for atomics in [Atomics::SingleInstruction, Atomics::LoadLinked] {
        let mut machine = machine();
        machine.core.atomics = atomics;
        let mut simulation = Simulation::new(&machine, Options::default());
        let word = Arc::new(simulation.platform().word(Label::new("word"), Place::Alone, 1));
        prepare(&mut simulation, &word, 0, add);
        prepare(&mut simulation, &word, 2, |cpu, word| async move {
            word.compare_exchange(&cpu, 0, 9, Ordering::Relaxed).await.expect_err("it is 2");
        });
        // Whether core 0 still has a copy shows in what a read costs it.
        let read_ns = if atomics == Atomics::LoadLinked { LOAD_HIT_NS } else { NODE_NS };
        prepare(&mut simulation, &word, 0, move |cpu, word| async move {
            let begun_ns = cpu.now_ns();
            word.load(&cpu, Ordering::Relaxed).await;
            assert_eq!(cpu.now_ns() - begun_ns, read_ns, "{atomics:?}");
            let begun_ns = cpu.now_ns();
            word.fetch_add(&cpu, 1, Ordering::Relaxed).await;
            // Either way the other core has a copy now, which has to go.
            assert_eq!(cpu.now_ns() - begun_ns, NODE_NS + RMW_HIT_NS, "{atomics:?}");
        });
    }
}

#[test]
fn requests_are_served_in_order_but_for_the_owners_cluster() {
    let mut simulation = Simulation::new(&machine(), Options::default());
    let platform = simulation.platform();
    let word = Arc::new(platform.word(Label::new("word"), Place::Alone, 0));
    prepare(&mut simulation, &word, 0, add);
    let order = Arc::new(Mutex::new(Vec::new()));
    let begun_ns = simulation.now_ns();
    // The other socket asks first, then the other cluster, then the owner's neighbour.
    for (cpu, asks_at_ns) in [(4, 10_000), (2, 10_030), (1, 10_035)] {
        let (word, order) = (word.clone(), order.clone());
        platform.spawn_on(CpuId(cpu), Label::indexed("asks", cpu), move |core| async move {
            core.sleep_ns(asks_at_ns - (core.now_ns() - begun_ns)).await;
            word.fetch_add(&core, 1, Ordering::Relaxed).await;
            order.lock().expect("no other holder").push(cpu);
        });
    }
    assert_eq!(simulation.run(), Outcome::Done);
    assert_eq!(*order.lock().expect("no other holder"), [1, 4, 2]);
}

#[test]
fn an_idle_core_wakes_late_and_the_waker_pays_its_part() {
    let machine = machine();
    let mut simulation = Simulation::new(&machine, Options::default());
    let platform = simulation.platform();
    let parker: SimParker = platform.parker(Label::new("bed"));
    let woken_ns = Arc::new(Mutex::new(0));
    let (sleeper, woken) = (parker.clone(), woken_ns.clone());
    platform.spawn_on(CpuId(1), Label::new("sleeper"), move |cpu| async move {
        sleeper.park(&cpu).await;
        *woken.lock().expect("no other holder") = cpu.now_ns();
    });
    platform.spawn_on(CpuId(0), Label::new("waker"), move |cpu| async move {
        cpu.sleep_ns(100_000).await;
        parker.unpark(&cpu).await;
    });
    assert_eq!(simulation.run(), Outcome::Done);
    let scheduler = &machine.scheduler;
    // The waker's own core was idle as well when its timer rang.
    let expected_ns = 100_000 + 3 * scheduler.wake_latency_ns + scheduler.wake_ns;
    assert_eq!(*woken_ns.lock().expect("no other holder"), expected_ns);
}

#[test]
#[should_panic(expected = "sleeps with a lock held")]
fn sleeping_in_an_atomic_stretch_is_refused() {
    let mut simulation = Simulation::new(&machine(), Options::default());
    simulation.platform().spawn_on(CpuId(0), Label::new("careless"), |cpu| async move {
        cpu.enter_atomic();
        cpu.sleep_ns(1).await;
    });
    simulation.run();
}
