//! The fault in the first version of raid10's seqlock: a request that had counted itself as pending
//! without the lock, and then found that the barrier was being raised, counted itself off without
//! waking whoever waits for zero. Resync, which had seen it as pending, slept for ever.
//!
//! A few readers come and go while a resync raises and lowers the barrier window by window. The
//! property: everybody ends.

use super::{Kind, RunReport, Scenario, Setup, Variant};
use raid::ResyncOptions;
use raid::buffer::Buffer;
use raid::platform::{Cpu, Label, Platform};
use raid::tuning::{Placement, ResyncLock, Tuning, Undo, Wake};
use raid::units::{CpuId, Sector, Sectors};
use raid::{Array, ArrayOptions, Level};
use rand::Rng;
use sim::machine::{DriveModel, LatencyQuantiles, Shape};
use sim::{Options, Outcome, Perturbation, SimCpu, SimPlatform, Simulation};
use std::sync::Arc;

/// The scenario.
pub struct Raid10LostWakeup;

const MEMBERS: u32 = 2;
const READERS: u32 = 3;
const READS_OF_EACH: u32 = 4;
const BLOCK: Sectors = Sectors(8);
const CHUNK: Sectors = Sectors(128);
const WINDOWS: u64 = 8;
/// Longest pause of a reader between two reads: several windows of the resync long, so that often
/// nobody waits for the barrier and nobody is pending when it is raised.
const PAUSE_NS_MAX: u64 = 200_000;
/// Reads of an Intel P4800X at depth 1 (median and p99 as measured with fio). The shorter a window
/// of the resync lasts, the more often the barrier is raised while somebody enters.
const READ_LATENCY: LatencyQuantiles =
    LatencyQuantiles { minimum_ns: 8_000, median_ns: 8_900, p99_ns: 10_000, maximum_ns: 20_000 };
/// Now and then a core is held up, as by an interrupt, for longer than the critical stretch lasts.
const HOLD_UPS: Perturbation = Perturbation::Delays { steps_of_1000: 50, delay_ns_max: 3_000 };
/// A sound run takes less than a hundredth of this.
const TIME_LIMIT_NS: u64 = 200_000_000;

const UNDOS: [(&str, &str, Undo); 2] = [
    ("fixed", "a request that counts itself off wakes whoever waits for zero", Undo::WakeAtZero),
    ("faulty", "a request that counts itself off wakes nobody", Undo::Silent),
];

impl Scenario for Raid10LostWakeup {
    fn name(&self) -> &'static str {
        "raid10-lost-wakeup"
    }

    fn about(&self) -> &'static str {
        "a resync that hangs because a reader took its count back and told nobody"
    }

    fn variants(&self) -> Vec<Variant> {
        let variant = |(name, about, _): &(&str, &str, Undo)| Variant {
            name: (*name).to_owned(),
            about: (*about).to_owned(),
        };
        UNDOS.iter().map(variant).collect()
    }

    fn kind(&self) -> Kind {
        Kind::Property { statement: "every reader and the resync end" }
    }

    fn fits(&self, shape: &Shape) -> Result<(), String> {
        match shape.cpu_count() > READERS {
            true => Ok(()),
            false => Err(format!("{} cores", READERS + 1)),
        }
    }

    fn run(&self, variant: usize, setup: &Setup<'_>) -> RunReport {
        let (_, _, undo) = UNDOS[variant];
        let options = Options { seed: setup.seed, perturbation: HOLD_UPS, ..Options::default() };
        let mut world = Simulation::new(setup.machine, options);
        let platform = world.platform();
        let size = Sectors(CHUNK.0 * WINDOWS);
        let model = DriveModel { read_latency: READ_LATENCY, ..setup.machine.drive.clone() };
        let drives = (0..MEMBERS)
            .map(|index| world.drive_without_content(&format!("nvme{index}n1"), &model, size))
            .collect();
        let tuning = Tuning {
            resync_lock: ResyncLock::Seqlock,
            wake: Wake::IfWaiting,
            // Words on lines of their own travel one by one, which stretches the critical moment.
            placement: Placement::Apart,
            undo,
            ..Tuning::default()
        };
        let options = ArrayOptions { level: Level::raid10_near(2), chunk: CHUNK, tuning };
        let array = Array::create(&platform, drives, options).expect("two drives make a mirror");
        let mut random = world.random(0);
        for reader in 0..READERS {
            let pauses_ns = (0..READS_OF_EACH).map(|_| random.next_u64() % PAUSE_NS_MAX).collect();
            // Readers on cores far apart, so that their words travel.
            let cpu = CpuId(reader * setup.machine.shape.cpu_count() / READERS + 1);
            spawn_reader(&platform, reader, cpu, &array, pauses_ns);
        }
        platform.spawn_on(CpuId(0), Label::new("resync"), move |cpu| async move {
            let options = ResyncOptions { window: CHUNK, ..ResyncOptions::default() };
            array.resync(&cpu, options).await.expect("the drives do not fail");
        });
        let (outcome, trace) = setup.run(&mut world, |world| world.run_until(TIME_LIMIT_NS));
        let violation = match outcome {
            Outcome::Done => None,
            Outcome::TimeLimit { .. } => Some(format!("still running after {TIME_LIMIT_NS} ns")),
            Outcome::Deadlock(deadlock) => Some(deadlock.to_string()),
        };
        RunReport::of(&world, violation, trace)
    }
}

fn spawn_reader(
    platform: &SimPlatform,
    reader: u32,
    cpu: CpuId,
    array: &Arc<Array<SimPlatform>>,
    pauses_ns: Vec<u64>,
) {
    let array = array.clone();
    platform.spawn_on(cpu, Label::indexed("reader", reader), move |cpu: SimCpu| async move {
        let blocks = array.capacity().0 / BLOCK.0;
        let mut buffer = Buffer::zeroed(BLOCK.bytes() as usize);
        for (index, pause_ns) in pauses_ns.into_iter().enumerate() {
            cpu.sleep_ns(pause_ns).await;
            let block = (index as u64 * u64::from(READERS) + u64::from(reader)) % blocks;
            let done = array.read(&cpu, Sector(block * BLOCK.0), buffer).await;
            done.result.expect("the drives do not fail");
            buffer = done.buffer;
        }
    });
}
