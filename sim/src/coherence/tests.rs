//! The states of a line and of the store buffers, access by access, without an executor.

use super::line::{Line, Next, Request};
use super::memory::{Begun, Memory, Operation, Scheduled, WordId};
use super::transfers::Transfers;
use crate::executor::TaskId;
use crate::machine::{Atomics, Machine, MachineFile};
use raid::platform::{Label, Ordering};

/// Clusters of four cores, nodes of 32. Half of a transfer leads to the line, and half of that to
/// its home.
fn machine(atomics: Atomics) -> Machine {
    let mut machine = MachineFile::preset("kunpeng920").expect("a preset").nominal();
    machine.core.atomics = atomics;
    machine.core.load_hit_ns = 2;
    machine.core.rmw_hit_ns = 6;
    machine.core.store_ns = 1;
    machine.line.cluster_ns = 20;
    machine.line.node_ns = 80;
    machine.line.memory_ns = 100;
    machine.line.snoop_point_percent = 50;
    machine.line.shared_read_ns = 10;
    machine
}

/// A memory, its clock, and everything that it has asked for and that is still to come.
struct Bench {
    machine: Machine,
    memory: Memory,
    now_ns: u64,
    coming: Vec<(u64, Scheduled)>,
}

impl Bench {
    fn new(atomics: Atomics) -> Self {
        let machine = machine(atomics);
        let memory = Memory::new(&machine);
        Self { machine, memory, now_ns: 0, coming: Vec::new() }
    }

    /// A word on a line of its own.
    fn word(&mut self) -> WordId {
        let line = self.memory.add_line();
        self.memory.add_word(Label::new("word"), line, 0)
    }

    fn collect(&mut self) {
        for scheduled in self.memory.scheduled.drain(..) {
            let at_ns = match scheduled {
                Scheduled::TaskArrival { delay_ns, .. }
                | Scheduled::StoreArrival { delay_ns, .. } => self.now_ns + delay_ns,
                Scheduled::LineFree { at_ns, .. } => at_ns,
            };
            self.coming.push((at_ns, scheduled));
        }
    }

    fn begin(&mut self, cpu: u32, word: WordId, operation: Operation, order: Ordering) -> Begun {
        let what = (operation, order);
        let begun = self.memory.begin(&self.machine, self.now_ns, (TaskId(cpu), cpu), word, what);
        self.collect();
        begun
    }

    /// Lets all that comes happen. Who got the line of `word` when: tasks by their core, as in
    /// `(core, exclusive, nanoseconds)`.
    fn settle(&mut self, word: WordId) -> Vec<(u32, bool, u64)> {
        let line = self.memory.line_of(word);
        let mut arrived = Vec::new();
        while let Some(next) = (0..self.coming.len()).min_by_key(|index| self.coming[*index].0) {
            let (at_ns, scheduled) = self.coming.remove(next);
            self.now_ns = at_ns;
            match scheduled {
                Scheduled::TaskArrival { task: TaskId(cpu), exclusive, .. } => {
                    arrived.push((cpu, exclusive, at_ns));
                    if exclusive {
                        self.memory.arrive(at_ns, line, cpu);
                        self.memory.serve(at_ns, line);
                    }
                }
                Scheduled::StoreArrival { cpu, .. } => {
                    let line = self.memory.first_store_line(cpu);
                    self.memory.arrive(at_ns, line, cpu);
                    self.memory.store_arrived(at_ns, cpu);
                    self.memory.serve(at_ns, line);
                }
                Scheduled::LineFree { line, .. } => self.memory.serve(at_ns, line),
            }
            self.collect();
        }
        arrived
    }

    /// Brings the line to a core, whatever it takes.
    fn fetch(&mut self, cpu: u32, word: WordId, operation: Operation) {
        self.begin(cpu, word, operation, Ordering::Relaxed);
        self.settle(word);
    }

    /// Begins an access and tells what it takes: the busy time of a hit, or, after a miss, who got
    /// the line when since then.
    fn check(&mut self, cpu: u32, word: WordId, operation: Operation, expected: Expected<'_>) {
        let start_ns = self.now_ns;
        match (self.begin(cpu, word, operation, Ordering::Relaxed), expected) {
            (Begun::Done { busy_ns, .. }, Expected::Hit { busy_ns: expected_ns }) => {
                assert_eq!(busy_ns, expected_ns, "{operation:?} on core {cpu}");
            }
            (Begun::Requested { .. }, Expected::Miss(expected)) => {
                let arrived = self.settle(word).into_iter();
                let since: Vec<_> =
                    arrived.map(|(cpu, alone, ns)| (cpu, alone, ns - start_ns)).collect();
                assert_eq!(since, expected, "{operation:?} on core {cpu}");
            }
            (begun, expected) => {
                let hit = matches!(begun, Begun::Done { .. });
                panic!("{operation:?} on core {cpu}: hit {hit}, expected {expected:?}");
            }
        }
    }
}

/// What an access takes.
#[derive(Debug)]
enum Expected<'a> {
    Hit { busy_ns: u64 },
    Miss(&'a [(u32, bool, u64)]),
}

use Expected::{Hit, Miss};

#[test]
fn the_first_reader_has_the_line_alone() {
    let mut bench = Bench::new(Atomics::SingleInstruction);
    let word = bench.word();
    bench.check(0, word, Operation::Load, Miss(&[(0, false, 100)]));
    bench.check(0, word, Operation::Load, Hit { busy_ns: 2 });
    bench.check(0, word, Operation::FetchAdd(1), Hit { busy_ns: 6 });
}

#[test]
fn a_copy_hits_for_reads_and_is_upgraded_for_changes() {
    let mut bench = Bench::new(Atomics::SingleInstruction);
    let word = bench.word();
    bench.fetch(0, word, Operation::FetchAdd(1));
    bench.check(1, word, Operation::Load, Miss(&[(1, false, 20)]));
    bench.check(0, word, Operation::Load, Hit { busy_ns: 2 });
    bench.check(0, word, Operation::FetchAdd(1), Miss(&[(0, true, 20)]));
    bench.check(0, word, Operation::FetchAdd(1), Hit { busy_ns: 6 });
    bench.check(1, word, Operation::Load, Miss(&[(1, false, 20)]));
}

#[test]
fn a_change_takes_as_long_as_the_farthest_copy_and_a_read_as_the_nearest() {
    let mut bench = Bench::new(Atomics::SingleInstruction);
    let word = bench.word();
    bench.fetch(0, word, Operation::Load);
    bench.check(4, word, Operation::Load, Miss(&[(4, false, 80)]));
    bench.check(1, word, Operation::Load, Miss(&[(1, false, 20)]));
    bench.check(0, word, Operation::Swap(1), Miss(&[(0, true, 80)]));
}

#[test]
fn requests_of_the_owners_cluster_overtake_those_from_afar() {
    let mut bench = Bench::new(Atomics::SingleInstruction);
    let word = bench.word();
    bench.fetch(0, word, Operation::FetchAdd(1));
    let start_ns = bench.now_ns;
    bench.begin(4, word, Operation::FetchAdd(1), Ordering::Relaxed);
    bench.begin(1, word, Operation::FetchAdd(1), Ordering::Relaxed);
    let order: Vec<_> =
        bench.settle(word).into_iter().map(|(cpu, _, ns)| (cpu, ns - start_ns)).collect();
    assert_eq!(order, [(1, 20), (4, 80)]);
}

#[test]
fn reads_of_a_shared_line_wait_for_the_directory_only() {
    let mut bench = Bench::new(Atomics::SingleInstruction);
    let word = bench.word();
    bench.fetch(0, word, Operation::Load);
    bench.fetch(1, word, Operation::Load);
    let start_ns = bench.now_ns;
    for cpu in [8, 12] {
        bench.begin(cpu, word, Operation::Load, Ordering::Relaxed);
    }
    let order: Vec<_> =
        bench.settle(word).into_iter().map(|(cpu, _, ns)| (cpu, ns - start_ns)).collect();
    assert_eq!(order, [(8, 80), (12, 90)]);
}

#[test]
fn an_arrival_invalidates_spinners_and_they_ask_again() {
    let machine = machine(Atomics::SingleInstruction);
    let transfers = Transfers::new(&machine);
    let mut line = Line::new(machine.shape.cpu_count());
    for cpu in [0, 1] {
        line.start(&Request::of_read(TaskId(cpu), cpu, 0), &transfers, u64::from(cpu) * 1000);
    }
    line.watchers.push((TaskId(1), 1));
    assert!(line.hits(0, false) && line.hits(1, false), "both have a copy");
    line.start(&Request::of_store(0, 2000), &transfers, 2000);
    assert!(!line.hits(0, false) && !line.hits(1, false), "nobody has a line in transit");
    let mut spinners = Vec::new();
    line.arrive(0, &transfers, 2010, &mut spinners);
    assert_eq!(spinners, [(TaskId(1), 1)]);
    assert!(line.hits(0, true) && !line.hits(1, false));
    assert!(matches!(line.next(&transfers, 2010), Next::LineFree { at_ns: 2020 }));
    let Next::Serve(request) = line.next(&transfers, 2020) else { panic!("the spinner's read") };
    assert_eq!((request.cpu, request.exclusive), (1, false));
}

#[test]
fn a_linked_store_that_lost_its_copy_falls_back_on_a_load() {
    let mut bench = Bench::new(Atomics::LoadLinked);
    let word = bench.word();
    bench.fetch(0, word, Operation::Load);
    bench.fetch(4, word, Operation::Load);
    let start_ns = bench.now_ns;
    bench.begin(4, word, Operation::FetchAdd(1), Ordering::Relaxed);
    bench.begin(0, word, Operation::FetchAdd(1), Ordering::Relaxed);
    let since: Vec<_> = bench
        .settle(word)
        .into_iter()
        .map(|(cpu, alone, ns)| (cpu, alone, ns - start_ns))
        .collect();
    let alone: Vec<_> = since.iter().map(|(_, alone, _)| *alone).collect();
    assert_eq!(alone, [true, false], "the second one finds its copy gone: {since:?}");
}

#[test]
fn a_linked_compare_exchange_that_fails_takes_the_line_from_nobody() {
    let mut bench = Bench::new(Atomics::LoadLinked);
    let word = bench.word();
    bench.fetch(0, word, Operation::Load);
    bench.fetch(4, word, Operation::Load);
    let failing = Operation::CompareExchange { current: 9, new: 1 };
    bench.check(4, word, failing, Hit { busy_ns: 2 });
    bench.check(0, word, Operation::Load, Hit { busy_ns: 2 });
}

#[test]
fn stores_leave_their_buffer_in_order() {
    let mut bench = Bench::new(Atomics::SingleInstruction);
    let (first, second) = (bench.word(), bench.word());
    bench.fetch(0, second, Operation::Load);
    for word in [first, second] {
        bench.check(0, word, Operation::Store(7), Hit { busy_ns: 1 });
    }
    // The second line is here already, and still its store waits behind the first.
    assert_eq!(bench.memory.apply(second, Operation::Load), 0);
    bench.settle(first);
    assert_eq!(bench.memory.apply(first, Operation::Load), 7);
    assert_eq!(bench.memory.apply(second, Operation::Load), 7);
    assert!(bench.memory.stores_drained(0));
}

#[test]
fn strong_accesses_and_those_to_a_buffered_line_wait_for_the_drain() {
    let mut bench = Bench::new(Atomics::SingleInstruction);
    let (stored, other) = (bench.word(), bench.word());
    bench.fetch(0, other, Operation::Load);
    bench.begin(0, stored, Operation::Store(1), Ordering::Relaxed);
    for (word, operation, order, drains) in [
        (other, Operation::Load, Ordering::Relaxed, false),
        (other, Operation::Load, Ordering::SeqCst, true),
        (other, Operation::FetchAdd(0), Ordering::Acquire, false),
        (other, Operation::FetchAdd(0), Ordering::Release, true),
        (stored, Operation::Load, Ordering::Relaxed, true),
    ] {
        let begun = bench.begin(0, word, operation, order);
        assert_eq!(matches!(begun, Begun::MustDrain), drains, "{operation:?} {order:?}");
    }
}
