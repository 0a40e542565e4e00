//! Runs a [`Workload`] on any platform: simulated and real runs are this very code.
//!
//! A job is `io_depth` slots, tasks of one core. Each slot has one buffer and at most one request
//! under way. What a job counts stays on its core until the job ends. When content is verified,
//! every block that the job wrote is read back at its end.

use crate::checker::{self, Generation, Ledger, Mismatch};
use crate::statistics::IoStatistics;
use crate::target::Target;
use crate::workload::{Access, AccessGenerator, Workload};
use raid::buffer::{Buffer, SharedBuffer};
use raid::platform::{Cpu, Label, Parker, Platform, Work};
use raid::units::CpuId;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

/// Why a job ended early.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The target reported an error, told in words.
    #[error("{0}")]
    Io(String),
    /// A block is not what was last written there.
    #[error("{0}")]
    Mismatch(Mismatch),
}

/// What all jobs together did.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Their requests.
    pub statistics: IoStatistics,
    /// How long requests were counted.
    pub measured_ns: u64,
    /// What went wrong first in each job that failed, in the order of jobs.
    pub failures: Vec<Failure>,
}

/// Jobs that were started. A handle, cheap to clone.
pub struct Running<P: Platform> {
    workload: Arc<Workload>,
    results: Arc<Mutex<Vec<JobResult>>>,
    all_ended: P::Parker,
}

struct JobResult {
    job: u32,
    statistics: IoStatistics,
    last_completion_ns: u64,
    failure: Option<Failure>,
}

/// What a platform may do with the buffers of a job before their first use, such as register them
/// with the kernel. It runs on the job's core.
pub type PrepareBuffers<P> = fn(&<P as Platform>::Cpu, &mut [Buffer]);

/// Starts job `i` on `cpus[i]`.
///
/// # Panics
/// If there is not one core for each job.
pub fn start<P: Platform>(
    platform: &P,
    target: &Target<P>,
    workload: Workload,
    cpus: &[CpuId],
    prepare_buffers: PrepareBuffers<P>,
) -> Running<P> {
    assert_eq!(cpus.len(), workload.jobs as usize, "one core for each job");
    let running = Running {
        workload: Arc::new(workload),
        results: Arc::default(),
        all_ended: platform.parker(Label::new("all jobs ended")),
    };
    for (index, cpu) in cpus.iter().enumerate() {
        let (target, running) = (target.clone(), running.clone());
        let index = index as u32;
        platform.spawn_on(*cpu, Label::indexed("job", index), move |cpu| async move {
            Job::new(index, target, running).start_slots(&cpu, prepare_buffers);
        });
    }
    running
}

impl<P: Platform> Clone for Running<P> {
    fn clone(&self) -> Self {
        Self {
            workload: self.workload.clone(),
            results: self.results.clone(),
            all_ended: self.all_ended.clone(),
        }
    }
}

impl<P: Platform> Running<P> {
    /// Sleeps until every job has ended. One task may do so.
    pub async fn ended(&self, cpu: &P::Cpu) {
        self.all_ended.park(cpu).await;
    }

    /// What the jobs did; `None` while one of them still runs.
    pub fn outcome(&self) -> Option<Outcome> {
        let mut results = self.results.lock().expect("no job panics while it reports");
        if results.len() < self.workload.jobs as usize {
            return None;
        }
        results.sort_by_key(|result| result.job);
        let mut statistics = IoStatistics::default();
        results.iter().for_each(|result| statistics.merge(&result.statistics));
        let schedule = &self.workload.schedule;
        let last_ns = results.iter().map(|result| result.last_completion_ns).max().unwrap_or(0);
        let measured_ns = last_ns.min(schedule.end_ns).saturating_sub(schedule.measure_from_ns);
        let failures = results.iter().filter_map(|result| result.failure.clone()).collect();
        Some(Outcome { statistics, measured_ns: measured_ns.max(1), failures })
    }

    /// Takes one job's result, and says whether it was the last.
    fn report(&self, result: JobResult) -> bool {
        let mut results = self.results.lock().expect("no job panics while it reports");
        results.push(result);
        results.len() == self.workload.jobs as usize
    }
}

/// One job, shared by its slots. All of them run on one core.
struct Job<P: Platform> {
    index: u32,
    target: Target<P>,
    running: Running<P>,
    state: RefCell<JobState>,
}

struct JobState {
    generator: AccessGenerator,
    /// Kept while content is verified.
    ledger: Option<Ledger>,
    statistics: IoStatistics,
    requests_begun: u64,
    slots_running: u32,
    last_completion_ns: u64,
    failure: Option<Failure>,
    /// Blocks still to be read back, when the requests have ended.
    read_back: Vec<(u64, Generation)>,
}

impl<P: Platform> Job<P> {
    fn new(index: u32, target: Target<P>, running: Running<P>) -> Rc<Self> {
        let workload = &running.workload;
        let range = workload.blocks_of(index);
        let state = RefCell::new(JobState {
            generator: AccessGenerator::new(workload, index),
            ledger: workload.verify.then(|| Ledger::new(range.first, range.count)),
            statistics: IoStatistics::default(),
            requests_begun: 0,
            slots_running: workload.io_depth,
            last_completion_ns: 0,
            failure: None,
            read_back: Vec::new(),
        });
        Rc::new(Self { index, target, running, state })
    }

    fn workload(&self) -> &Workload {
        &self.running.workload
    }

    fn block_bytes(&self) -> usize {
        self.workload().block.bytes() as usize
    }

    fn start_slots(self: Rc<Self>, cpu: &P::Cpu, prepare_buffers: PrepareBuffers<P>) {
        let depth = self.workload().io_depth;
        let mut buffers: Vec<Buffer> =
            (0..depth).map(|_| Buffer::zeroed(self.block_bytes())).collect();
        prepare_buffers(cpu, &mut buffers);
        for (slot, buffer) in (0..).zip(buffers) {
            cpu.spawn(Label::indexed("slot", slot), self.clone().slot(cpu.clone(), buffer));
        }
    }

    async fn slot(self: Rc<Self>, cpu: P::Cpu, mut buffer: Buffer) {
        while let Some(access) = self.next_access(cpu.now_ns()) {
            buffer = self.request(&cpu, access, buffer).await;
        }
        if self.is_last_slot() {
            self.all_requests_ended(&cpu).await;
        }
    }

    /// The next request, or `None` when the job is to end.
    fn next_access(&self, now_ns: u64) -> Option<Access> {
        let schedule = &self.workload().schedule;
        let mut state = self.state.borrow_mut();
        let is_over = now_ns >= schedule.end_ns
            || schedule.ios_per_job.is_some_and(|limit| state.requests_begun >= limit)
            || state.failure.is_some();
        if is_over {
            return None;
        }
        state.requests_begun += 1;
        let mut access = state.generator.next_access();
        if let Some(ledger) = &mut state.ledger {
            access.block_index = ledger.take(access.block_index);
        }
        Some(access)
    }

    /// Does one request, from the application's decision until it has taken note of the result.
    async fn request(&self, cpu: &P::Cpu, access: Access, buffer: Buffer) -> Buffer {
        let begun_ns = cpu.now_ns();
        cpu.spend(Work::ApplicationSubmit).await;
        let (result, buffer) = match access.is_write {
            true => self.write(cpu, access.block_index, buffer).await,
            false => self.read(cpu, access.block_index, buffer).await,
        };
        // The request has ended in its completion interrupt. The application takes note of it when its
        // turn comes, and until then the request is not over for it.
        cpu.yield_now().await;
        cpu.spend(Work::ApplicationReap).await;
        let now_ns = cpu.now_ns();
        let schedule = &self.workload().schedule;
        let mut state = self.state.borrow_mut();
        state.last_completion_ns = now_ns;
        match result {
            Err(failure) => {
                state.failure.get_or_insert(failure);
            }
            Ok(()) if schedule.counts(now_ns) => {
                let bytes = self.block_bytes() as u64;
                state.statistics.record(access.is_write, bytes, now_ns - begun_ns);
            }
            Ok(()) => {}
        }
        buffer
    }

    async fn read(
        &self,
        cpu: &P::Cpu,
        block_index: u64,
        buffer: Buffer,
    ) -> (Result<(), Failure>, Buffer) {
        let at = self.workload().sector_of(block_index);
        let (result, buffer) = self.target.read(cpu, at, buffer).await;
        let mut state = self.state.borrow_mut();
        let Some(ledger) = &mut state.ledger else {
            return (result.map_err(Failure::Io), buffer);
        };
        ledger.release(block_index, None);
        let last = ledger.last_write(block_index);
        // Where a run writes, what an earlier one left may lie at other addresses: an array of
        // another geometry puts the same blocks elsewhere. Only a run that reads alone can hold a
        // block that it did not write to its word.
        if last == 0 && self.workload().pattern.writes() {
            return (result.map_err(Failure::Io), buffer);
        }
        let checked = result.map_err(Failure::Io).and_then(|()| {
            checker::check(&buffer, at, last, self.workload().random_seed)
                .map_err(Failure::Mismatch)
        });
        state.statistics.blocks_verified += u64::from(checked == Ok(true));
        (checked.map(drop), buffer)
    }

    async fn write(
        &self,
        cpu: &P::Cpu,
        block_index: u64,
        mut buffer: Buffer,
    ) -> (Result<(), Failure>, Buffer) {
        let at = self.workload().sector_of(block_index);
        let generation =
            self.state.borrow().ledger.as_ref().map(|ledger| ledger.last_write(block_index) + 1);
        if let Some(generation) = generation {
            checker::fill(&mut buffer, at, generation, self.workload().random_seed);
        }
        let data = buffer.into_shared();
        let result = self.target.write(cpu, at, data.clone()).await;
        if let Some(ledger) = &mut self.state.borrow_mut().ledger {
            ledger.release(block_index, generation.filter(|_| result.is_ok()));
        }
        (result.map_err(Failure::Io), self.sole_buffer(data))
    }

    /// The write's buffer again, or a fresh one if the target still holds on to it.
    fn sole_buffer(&self, data: SharedBuffer) -> Buffer {
        data.try_into_buffer().unwrap_or_else(|_| Buffer::zeroed(self.block_bytes()))
    }

    fn is_last_slot(&self) -> bool {
        let mut state = self.state.borrow_mut();
        state.slots_running -= 1;
        state.slots_running == 0
    }

    /// Reads back what was written, with as many slots as before, or ends the job.
    async fn all_requests_ended(self: Rc<Self>, cpu: &P::Cpu) {
        let slots = {
            let mut state = self.state.borrow_mut();
            let written: Vec<_> = state.ledger.iter().flat_map(|ledger| ledger.written()).collect();
            let slots = self.workload().io_depth.min(written.len() as u32);
            (state.read_back, state.slots_running) = (written, slots);
            slots
        };
        if slots == 0 || self.state.borrow().failure.is_some() {
            return self.end(cpu).await;
        }
        for slot in 0..slots {
            let task = self.clone().read_back_slot(cpu.clone());
            cpu.spawn(Label::indexed("read back", slot), task);
        }
    }

    async fn read_back_slot(self: Rc<Self>, cpu: P::Cpu) {
        let mut buffer = Buffer::zeroed(self.block_bytes());
        while let Some((block_index, generation)) = self.next_read_back() {
            let at = self.workload().sector_of(block_index);
            let (result, returned) = self.target.read(&cpu, at, buffer).await;
            buffer = returned;
            let checked = result.map_err(Failure::Io).and_then(|()| {
                checker::check(&buffer, at, generation, self.workload().random_seed)
                    .map_err(Failure::Mismatch)
            });
            let mut state = self.state.borrow_mut();
            match checked {
                Ok(_) => state.statistics.blocks_verified += 1,
                Err(failure) => {
                    state.failure.get_or_insert(failure);
                }
            }
        }
        if self.is_last_slot() {
            self.end(&cpu).await;
        }
    }

    fn next_read_back(&self) -> Option<(u64, Generation)> {
        let mut state = self.state.borrow_mut();
        if state.failure.is_some() { None } else { state.read_back.pop() }
    }

    async fn end(&self, cpu: &P::Cpu) {
        let result = {
            let mut state = self.state.borrow_mut();
            JobResult {
                job: self.index,
                statistics: std::mem::take(&mut state.statistics),
                last_completion_ns: state.last_completion_ns,
                failure: state.failure.take(),
            }
        };
        if self.running.report(result) {
            self.running.all_ended.unpark(cpu).await;
        }
    }
}
