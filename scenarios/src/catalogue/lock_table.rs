//! One contended user-space lock in many placements, beside what was measured on the machine: the
//! table that the transfer costs of its machine file are set from and checked against.
//!
//! The program is the measured one: threads take 100,000,000 turns in all at flipping one bit of an
//! array of 125 KB under one test-and-set lock; here they take fewer. Which bit follows from the
//! turn's number by the program's own formula. The time is that of the last thread, over all turns.

use super::{Kind, RunReport, Scenario, Setup, Size, Variant};
use crate::figures::{LOCK_TABLE, LockTableRow};
use crate::sweep::Axis;
use raid::lock::{SpinKind, SpinLock};
use raid::platform::{Cpu, Label, Ordering, Place, Platform, Word, Work};
use raid::units::CpuId;
use sim::machine::{Atomics, Shape};
use sim::{Options, Outcome, SimPlatform, SimWord, Simulation};
use std::sync::Arc;

/// The scenario.
pub struct ContendedLockTable;

/// Enough for the threads that lie well to finish long before the others, as in the measured run.
const TURNS_OF_EACH_THREAD: u64 = 10_000;
const TURNS_OF_EACH_THREAD_IN_SMALL: u64 = 4;
const BITS: u64 = 1_000_000;
/// Words of the array that lie on one line of the first-level cache; the simulator is given one
/// word for each such line.
const LINE_BYTES: u32 = 64;
const LINES_OF_PAGE: usize = 4096 / LINE_BYTES as usize;
const LINE_BITS: u64 = LINE_BYTES as u64 * 8;
/// Instructions between two turns, of the program compiled without optimisation for 64-bit ARM: the
/// loop, the addresses, the calls' frames (45), and a chain of three multiplications and a division
/// of 64 bits for the bit's number, which takes as long as some 35 simple ones.
const INSTRUCTIONS_OUTSIDE: u32 = 80;
/// Instructions with the lock held, likewise: the return from the lock function, three loads of
/// locals, the exclusive or, the call of the unlock function.
const INSTRUCTIONS_INSIDE: u32 = 16;

impl Scenario for ContendedLockTable {
    fn name(&self) -> &'static str {
        "lock-table"
    }

    fn about(&self) -> &'static str {
        "what an acquisition of one contended test-and-set lock costs, by where its users run"
    }

    fn variants(&self) -> Vec<Variant> {
        let variant =
            |row: &LockTableRow| Variant { name: row.name.clone(), about: row.placement.clone() };
        LOCK_TABLE.rows.iter().map(variant).collect()
    }

    fn kind(&self) -> Kind {
        Kind::Measures { quantity: "time an acquisition", unit: "ns" }
    }

    fn axes(&self) -> &'static [Axis] {
        &[Axis::Lock]
    }

    fn fits(&self, shape: &Shape) -> Result<(), String> {
        let cores = LOCK_TABLE.rows.iter().flat_map(|row| &row.cpus).max().map_or(0, |cpu| cpu + 1);
        match shape.cpu_count() >= cores {
            true => Ok(()),
            false => Err(format!("at least {cores} cores, as it was measured on a Kunpeng 920")),
        }
    }

    fn run(&self, variant: usize, setup: &Setup<'_>) -> RunReport {
        let cpus = &LOCK_TABLE.rows[variant].cpus;
        let options = Options { seed: setup.seed, ..Options::default() };
        // The program and its C library were built for ARMv8.0: unlike the kernel on the same cores
        // they have load-exclusive and store-exclusive only.
        let mut machine = setup.machine.clone();
        machine.core.atomics = Atomics::LoadLinked;
        let mut world = Simulation::new(&machine, options);
        let platform = world.platform();
        let kind = setup.changes.lock.unwrap_or(SpinKind::TestAndSet);
        let shared = Arc::new(Shared::new(&platform, kind));
        // The measured runs are so long that fetching the array from memory at first is no part of
        // them. A page belongs to the node of the thread that touches it first.
        for (thread, cpu) in cpus.iter().enumerate() {
            let warmed = shared.clone();
            let label = Label::indexed("warm-up", thread as u32);
            let stride = cpus.len();
            platform.spawn_on(CpuId(*cpu), label, move |cpu| async move {
                for page in warmed.array.chunks(LINES_OF_PAGE).skip(thread).step_by(stride) {
                    for word in page {
                        word.store(&cpu, 0, Ordering::Relaxed).await;
                    }
                }
            });
        }
        assert_eq!(world.run(), Outcome::Done, "the warm-up waits for nothing");
        world.reset_contention();
        let begun_ns = world.now_ns();
        let threads = cpus.len() as u64;
        let turns_of_each = match setup.size {
            Size::Full => TURNS_OF_EACH_THREAD,
            Size::Small => TURNS_OF_EACH_THREAD_IN_SMALL,
        };
        for (thread, cpu) in cpus.iter().enumerate() {
            let shared = shared.clone();
            let label = Label::indexed("thread", thread as u32);
            // Another seed looks at another stretch of the measured run.
            let first_turn = setup.seed % BITS * threads + thread as u64;
            platform.spawn_on(CpuId(*cpu), label, move |cpu| async move {
                for turn in 0..turns_of_each {
                    let turn = first_turn + turn * threads;
                    shared.take_turn(&cpu, turn).await;
                    tracing::debug!(turn, "turn taken");
                }
            });
        }
        let (outcome, trace) = setup.run(&mut world, Simulation::run);
        let violation = match outcome {
            Outcome::Done => None,
            Outcome::TimeLimit { .. } => unreachable!("the run has no time limit"),
            Outcome::Deadlock(deadlock) => Some(deadlock.to_string()),
        };
        let mut report = RunReport::of(&world, violation, trace);
        let turns = turns_of_each * threads;
        report.measured = Some((world.now_ns() - begun_ns) as f64 / turns as f64);
        report
    }
}

/// The lock and the array under it.
struct Shared {
    lock: SpinLock<SimPlatform, ()>,
    array: Vec<SimWord>,
}

impl Shared {
    fn new(platform: &SimPlatform, kind: SpinKind) -> Self {
        let label = Label::new("lock");
        let lock = SpinLock::new(platform, label, kind, Place::Alone, ());
        let lines = BITS.div_ceil(LINE_BITS) as u32;
        let label = Label::new("array");
        let region = platform.region(label, 0, lines * LINE_BYTES);
        let word = |line| {
            let offset_bytes = line * LINE_BYTES;
            platform.word(label, Place::Within { region: &region, offset_bytes }, 0)
        };
        Self { lock, array: (0..lines).map(word).collect() }
    }

    async fn take_turn(&self, cpu: &<SimPlatform as Platform>::Cpu, turn: u64) {
        cpu.spend(Work::Instructions(INSTRUCTIONS_OUTSIDE)).await;
        let bit = turn.wrapping_mul(turn).wrapping_mul(turn) % BITS;
        let word = &self.array[(bit / LINE_BITS) as usize];
        let section = async |_: &mut ()| {
            cpu.spend(Work::Instructions(INSTRUCTIONS_INSIDE)).await;
            let old = word.load(cpu, Ordering::Relaxed).await;
            word.store(cpu, old ^ (1 << (bit % 64)), Ordering::Relaxed).await;
        };
        self.lock.with(cpu, section).await;
    }
}
