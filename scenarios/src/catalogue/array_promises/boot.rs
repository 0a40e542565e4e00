//! One start of the machine, seen from inside: recover, let writers, a job and faults loose, stop.
//!
//! Whatever is acknowledged is told to the oracle only after the failed members were noted, as a real
//! array notes them in its superblocks first.

use super::case::{Boot, Fault, Job};
use super::oracle::Oracle;
use raid::buffer::Buffer;
use raid::device::Durability;
use raid::platform::{Cpu, Label, Platform};
use raid::units::{CpuId, SECTOR_BYTES, Sector, Sectors};
use raid::{Array, ArrayError, MemberState, RecoverOptions, ResyncOptions};
use rand::{Rng, RngExt};
use rand_chacha::ChaCha8Rng;
use sim::device::{DrivePlug, Media};
use sim::{SimCpu, SimPlatform};
use std::sync::{Arc, Mutex, MutexGuard};

/// The longest request.
const REQUEST_SECTORS_MAX: u64 = 70;
/// The longest pause between two requests of a writer.
const PAUSE_NS_MAX: u64 = 40_000;
/// How often somebody looks whether the others have ended.
const LOOK_NS: u64 = 5_000;

/// What the tasks of one boot share.
#[derive(Clone)]
pub(super) struct Run {
    pub(super) array: Arc<Array<SimPlatform>>,
    pub(super) oracle: Arc<Mutex<Oracle>>,
    pub(super) progress: Arc<Mutex<Progress>>,
    pub(super) media: Vec<Media>,
    pub(super) plugs: Vec<DrivePlug>,
    /// Faults may be more than the redundancy covers, so errors are no violation.
    pub(super) errors_allowed: bool,
}

/// How far a boot has come.
pub(super) struct Progress {
    pub(super) violation: Option<String>,
    /// Members that are known to have failed.
    pub(super) failed: Vec<bool>,
    /// Drives that were taken away.
    pub(super) gone: Vec<bool>,
    pub(super) stopping: bool,
    pub(super) under_way: u32,
}

/// What a boot is to do.
pub(super) struct Errand {
    /// Whether the array was not stopped in order.
    pub(super) unclean: bool,
    /// Whether members are to be filled.
    pub(super) recover: bool,
    /// What happens after the recovery; nothing if there is none.
    pub(super) plan: Option<Boot>,
    /// One stream for each writer.
    pub(super) writers: Vec<ChaCha8Rng>,
}

impl Run {
    pub(super) fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().expect("a failed assertion ends the run")
    }

    fn oracle(&self) -> MutexGuard<'_, Oracle> {
        self.oracle.lock().expect("a failed assertion ends the run")
    }

    /// The first violation counts.
    fn violated(&self, why: String) {
        let violation = &mut self.progress().violation;
        violation.get_or_insert(why);
    }

    /// Takes note of an error: a violation, unless errors are allowed.
    fn failed<T>(&self, what: &str, result: Result<T, ArrayError>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                if !self.errors_allowed {
                    self.violated(format!("{what}: {error}"));
                }
                None
            }
        }
    }

    /// From the start of the machine to its orderly end.
    pub(super) async fn main(self, cpu: SimCpu, errand: Errand) {
        if errand.unclean {
            self.array.distrust_copies(&cpu).await;
        }
        self.read_all(&cpu).await;
        if errand.unclean {
            let resynced = self.array.resync(&cpu, ResyncOptions::default()).await;
            if self.failed("resync", resynced).is_some() {
                self.oracle().settle();
            }
            self.read_all(&cpu).await;
        }
        if errand.recover {
            let recovered = self.array.recover(&cpu, RecoverOptions::default()).await;
            if let Some(report) = self.failed("recovery", recovered) {
                for member in report.recovered {
                    self.progress().failed[member.0 as usize] = false;
                }
            }
            self.note_failed(&cpu).await;
        }
        if let Some(plan) = errand.plan {
            let up_ns = plan.up_ns;
            self.let_loose(&cpu, plan, errand.writers);
            cpu.sleep_ns(up_ns).await;
            self.progress().stopping = true;
            while self.progress().under_way > 0 {
                cpu.sleep_ns(LOOK_NS).await;
            }
        }
        self.flush(&cpu).await;
        self.read_all(&cpu).await;
        self.check(&cpu).await;
    }

    fn let_loose(&self, cpu: &SimCpu, plan: Boot, writers: Vec<ChaCha8Rng>) {
        let cpus = cpu.platform().topology().cpu_count();
        let count = writers.len() as u64;
        for (index, random) in (0..).zip(writers) {
            self.progress().under_way += 1;
            let run = self.clone();
            let label = Label::indexed("writer", index);
            cpu.platform().spawn_on(CpuId(index % cpus), label, move |cpu| async move {
                run.write(&cpu, u64::from(index), count, random).await;
                run.progress().under_way -= 1;
            });
        }
        if let Some((at_ns, job)) = plan.job {
            self.progress().under_way += 1;
            let run = self.clone();
            cpu.spawn(Label::new("job"), {
                let cpu = cpu.clone();
                async move {
                    cpu.sleep_ns(at_ns).await;
                    run.work(&cpu, job).await;
                    run.progress().under_way -= 1;
                }
            });
        }
        let (run, cpu) = (self.clone(), cpu.clone());
        cpu.clone().spawn(Label::new("faults"), async move {
            let mut now_ns = 0;
            for (at_ns, fault) in plan.faults {
                cpu.sleep_ns(at_ns - now_ns).await;
                now_ns = at_ns;
                run.inject(&fault);
            }
        });
    }

    fn inject(&self, fault: &Fault) {
        match *fault {
            Fault::Gone { member } => {
                self.plugs[member as usize].pull();
                self.progress().gone[member as usize] = true;
            }
            Fault::Spoiled { member, at, length } => {
                self.media[member as usize].spoil(Sector(at), Sectors(length));
            }
            Fault::WornOut { member, at, length } => {
                self.media[member as usize].wear_out(Sector(at), Sectors(length));
            }
        }
    }

    async fn work(&self, cpu: &SimCpu, job: Job) {
        match job {
            Job::Resync => {
                let done = self.array.resync(cpu, ResyncOptions::default()).await;
                self.failed("resync", done);
            }
            Job::Check => {
                let done = self.array.check(cpu, ResyncOptions::default()).await;
                self.failed("check", done);
            }
        }
    }

    /// Writes to sectors of its own, reads them back and flushes now and then, until the boot ends.
    async fn write(&self, cpu: &SimCpu, writer: u64, writers: u64, mut random: ChaCha8Rng) {
        let block = u64::from(self.array.logical_block_bytes()) / SECTOR_BYTES;
        let blocks_each = self.array.capacity().0 / block / writers;
        while blocks_each > 0 && !self.progress().stopping {
            let offset = random.random_range(0..blocks_each);
            let length_max = (REQUEST_SECTORS_MAX / block).min(blocks_each - offset);
            let length = Sectors(random.random_range(1..=length_max) * block);
            let at = Sector((writer * blocks_each + offset) * block);
            match random.random_range(0..8) {
                0 => self.flush(cpu).await,
                1..4 => self.read(cpu, at, length).await,
                4 => self.write_once(cpu, at, length, Durability::Fua).await,
                _ => self.write_once(cpu, at, length, Durability::Cached).await,
            }
            cpu.sleep_ns(random.next_u64() % PAUSE_NS_MAX).await;
        }
    }

    async fn write_once(&self, cpu: &SimCpu, at: Sector, length: Sectors, durability: Durability) {
        let (version, bytes) = self.oracle().submitted(at, length);
        let data = Buffer::copy_of(&bytes).into_shared();
        let written = self.array.write(cpu, at, data, durability).await;
        self.note_failed(cpu).await;
        if self.failed("write", written).is_some() {
            self.oracle().written(at, length, version, durability);
        }
    }

    async fn flush(&self, cpu: &SimCpu) {
        let acknowledged = self.oracle().acknowledged();
        let flushed = self.array.flush(cpu).await;
        self.note_failed(cpu).await;
        if self.failed("flush", flushed).is_some() {
            self.oracle().flushed(&acknowledged);
        }
    }

    async fn read(&self, cpu: &SimCpu, at: Sector, length: Sectors) {
        let done = self.array.read(cpu, at, Buffer::zeroed(length.bytes() as usize)).await;
        if self.failed("read", done.result).is_some() {
            // What copies of a sector differ in since a power cut may change if the one that was read
            // fails before they were made to agree.
            let stays = !self.errors_allowed;
            let found = self.oracle().read(at, &done.buffer, stays);
            if let Err(why) = found {
                self.violated(why);
            }
        }
    }

    /// Reads everything, piece by piece, so that an error hides no more than a piece.
    async fn read_all(&self, cpu: &SimCpu) {
        let block = u64::from(self.array.logical_block_bytes()) / SECTOR_BYTES;
        let capacity = self.array.capacity().0 / block * block;
        let piece = block.max(32);
        for at in (0..capacity).step_by(piece as usize) {
            self.read(cpu, Sector(at), Sectors(piece.min(capacity - at))).await;
        }
    }

    /// Nobody writes any more: redundancy has to agree, as far as it is there.
    async fn check(&self, cpu: &SimCpu) {
        let checked = self.array.check(cpu, ResyncOptions::default()).await;
        if let Some(report) = self.failed("check", checked)
            && report.mismatches.0 > 0
            && !self.errors_allowed
        {
            self.violated(format!("{} sectors of redundancy disagree", report.mismatches));
        }
    }

    async fn note_failed(&self, cpu: &SimCpu) {
        let states = self.array.member_states(cpu).await;
        for (failed, state) in self.progress().failed.iter_mut().zip(states) {
            *failed |= state == MemberState::Failed;
        }
    }
}
