//! One start of the machine, seen from inside: assemble, recover, let writers, a job and faults
//! loose, stop.

use super::case::{Boot, Fault, Job};
use super::oracle::Oracle;
use raid::assemble::{AssembleOptions, MakeError, OpenError, assemble, make};
use raid::buffer::Buffer;
use raid::device::Durability;
use raid::metadata::assembly;
use raid::metadata::create::NewArray;
use raid::platform::{Cpu, Label, Platform};
use raid::units::{CpuId, SECTOR_BYTES, Sector, Sectors};
use raid::{Array, ArrayError, RecoverOptions, ResyncOptions, Tuning};
use rand::{Rng, RngExt};
use rand_chacha::ChaCha8Rng;
use sim::device::{DrivePlug, Media, SimDevice};
use sim::{SimCpu, SimPlatform};
use std::sync::{Arc, Mutex, MutexGuard};

/// The longest request.
const REQUEST_SECTORS_MAX: u64 = 70;
/// The longest pause between two requests of a writer.
const PAUSE_NS_MAX: u64 = 40_000;
/// How often somebody looks whether the others have ended.
const LOOK_NS: u64 = 5_000;

/// What outlives the tasks of a boot.
#[derive(Clone)]
pub(super) struct Boards {
    /// There once the array was made.
    pub(super) oracle: Arc<Mutex<Option<Oracle>>>,
    pub(super) progress: Arc<Mutex<Progress>>,
    pub(super) media: Vec<Media>,
    pub(super) plugs: Vec<DrivePlug>,
    /// Faults may be more than the redundancy covers, so errors are no violation.
    pub(super) errors_allowed: bool,
}

/// How far a boot has come.
#[derive(Default)]
pub(super) struct Progress {
    pub(super) violation: Option<String>,
    /// Drives that were taken away.
    pub(super) gone: Vec<bool>,
    pub(super) stopping: bool,
    pub(super) under_way: u32,
}

/// What a boot is to do.
pub(super) struct Errand {
    pub(super) devices: Vec<Arc<SimDevice>>,
    /// Which strategies guard what its requests share.
    pub(super) tuning: Tuning,
    /// The array to make first.
    pub(super) make: Option<NewArray>,
    /// What happens after the recovery; nothing if there is none.
    pub(super) plan: Option<Boot>,
    /// One stream for each writer.
    pub(super) writers: Vec<ChaCha8Rng>,
}

/// Why a boot has no array.
#[derive(Debug, thiserror::Error)]
enum NoArray {
    #[error(transparent)]
    Make(#[from] MakeError),
    #[error(transparent)]
    Open(#[from] OpenError),
}

/// What the tasks of one boot share.
#[derive(Clone)]
struct Run {
    array: Arc<Array<SimPlatform>>,
    boards: Boards,
}

impl Boards {
    pub(super) fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().expect("a failed assertion ends the run")
    }

    /// The first violation counts.
    fn violated(&self, why: String) {
        self.progress().violation.get_or_insert(why);
    }

    /// From the start of the machine to its orderly end.
    pub(super) async fn boot(self, cpu: SimCpu, errand: Errand) {
        let Errand { devices, tuning, make, plan, writers } = errand;
        let array = match open(&cpu, devices, tuning, make).await {
            Ok(array) => array,
            Err(_) if self.errors_allowed => return,
            Err(error) => return self.violated(format!("no array: {error}")),
        };
        // Until here the power may fail in the middle of making it, and nothing is promised.
        self.oracle
            .lock()
            .expect("a failed assertion ends the run")
            .get_or_insert_with(|| Oracle::new(array.capacity()));
        Run { array, boards: self }.main(cpu, plan, writers).await;
    }
}

/// Makes the array if it is to be made, and assembles it as far as that goes.
async fn open(
    cpu: &SimCpu,
    devices: Vec<Arc<SimDevice>>,
    tuning: Tuning,
    new: Option<NewArray>,
) -> Result<Arc<Array<SimPlatform>>, NoArray> {
    if let Some(new) = new {
        make::<SimPlatform>(cpu, &devices, &new).await?;
    }
    let rules = assembly::Options { degraded: true, ..assembly::Options::default() };
    let options = AssembleOptions {
        rules,
        writable: true,
        take_spares: true,
        tuning,
        ..AssembleOptions::default()
    };
    let assembled = assemble::<SimPlatform>(cpu, devices, options).await?;
    Ok(assembled.array().expect("it is in no reshape").clone())
}

impl Run {
    fn with_oracle<R>(&self, ask: impl FnOnce(&mut Oracle) -> R) -> R {
        let mut oracle = self.boards.oracle.lock().expect("a failed assertion ends the run");
        ask(oracle.as_mut().expect("it is there since the array was made"))
    }

    /// Takes note of an error: a violation, unless errors are allowed.
    fn failed<T>(&self, what: &str, result: Result<T, ArrayError>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                if !self.boards.errors_allowed {
                    self.boards.violated(format!("{what}: {error}"));
                }
                None
            }
        }
    }

    async fn main(self, cpu: SimCpu, plan: Option<Boot>, writers: Vec<ChaCha8Rng>) {
        self.read_all(&cpu).await;
        let resynced = self.array.resync_what_may_differ(&cpu, ResyncOptions::default()).await;
        if self.failed("resync", resynced).is_some() {
            self.with_oracle(Oracle::settle);
        }
        self.read_all(&cpu).await;
        let rebuilt = self.array.rebuild(&cpu, RecoverOptions::default()).await;
        self.failed("recovery", rebuilt);
        if let Some(plan) = plan {
            let up_ns = plan.up_ns;
            self.let_loose(&cpu, plan, writers);
            cpu.sleep_ns(up_ns).await;
            self.boards.progress().stopping = true;
            while self.boards.progress().under_way > 0 {
                cpu.sleep_ns(LOOK_NS).await;
            }
        }
        let acknowledged = self.with_oracle(|oracle| oracle.acknowledged());
        let stopped = self.array.stop(&cpu).await;
        if self.failed("stop", stopped).is_some() {
            self.with_oracle(|oracle| oracle.flushed(&acknowledged));
        }
        self.read_all(&cpu).await;
        self.check(&cpu).await;
    }

    fn let_loose(&self, cpu: &SimCpu, plan: Boot, writers: Vec<ChaCha8Rng>) {
        let cpus = cpu.platform().topology().cpu_count();
        let count = writers.len() as u64;
        for (index, random) in (0..).zip(writers) {
            self.boards.progress().under_way += 1;
            let run = self.clone();
            let label = Label::indexed("writer", index);
            cpu.platform().spawn_on(CpuId(index % cpus), label, move |cpu| async move {
                run.write(&cpu, u64::from(index), count, random).await;
                run.boards.progress().under_way -= 1;
            });
        }
        if let Some((at_ns, job)) = plan.job {
            self.boards.progress().under_way += 1;
            let run = self.clone();
            cpu.spawn(Label::new("job"), {
                let cpu = cpu.clone();
                async move {
                    cpu.sleep_ns(at_ns).await;
                    run.work(&cpu, job).await;
                    run.boards.progress().under_way -= 1;
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
                self.boards.plugs[member as usize].pull();
                self.boards.progress().gone[member as usize] = true;
            }
            Fault::Spoiled { member, at, length } => {
                self.boards.media[member as usize].spoil(Sector(at), Sectors(length));
            }
            Fault::WornOut { member, at, length } => {
                self.boards.media[member as usize].wear_out(Sector(at), Sectors(length));
            }
        }
    }

    async fn work(&self, cpu: &SimCpu, job: Job) {
        match job {
            Job::Resync => {
                let done = self.array.resync(cpu, ResyncOptions::default()).await;
                self.failed("resync", done);
            }
            Job::Housekeeping => {
                let done = self.array.housekeeping(cpu).await;
                self.failed("housekeeping", done);
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
        while blocks_each > 0 && !self.boards.progress().stopping {
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
        let (version, bytes) = self.with_oracle(|oracle| oracle.submitted(at, length));
        let data = Buffer::copy_of(&bytes).into_shared();
        let written = self.array.write(cpu, at, data, durability).await;
        if self.failed("write", written).is_some() {
            self.with_oracle(|oracle| oracle.written(at, length, version, durability));
        }
    }

    async fn flush(&self, cpu: &SimCpu) {
        let acknowledged = self.with_oracle(|oracle| oracle.acknowledged());
        let flushed = self.array.flush(cpu).await;
        if self.failed("flush", flushed).is_some() {
            self.with_oracle(|oracle| oracle.flushed(&acknowledged));
        }
    }

    async fn read(&self, cpu: &SimCpu, at: Sector, length: Sectors) {
        let done = self.array.read(cpu, at, Buffer::zeroed(length.bytes() as usize)).await;
        if self.failed("read", done.result).is_some() {
            // What copies of a sector differ in since a power cut may change if the one that was read
            // fails before they were made to agree.
            let stays = !self.boards.errors_allowed;
            let found = self.with_oracle(|oracle| oracle.read(at, &done.buffer, stays));
            if let Err(why) = found {
                self.boards.violated(why);
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
            && !self.boards.errors_allowed
        {
            self.boards.violated(format!("{} sectors of redundancy disagree", report.mismatches));
        }
    }
}
