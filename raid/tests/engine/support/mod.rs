//! A small world for the engine: one thread, a seeded scheduler that may switch to another task at
//! every access to shared memory, drives in memory that finish requests in any order.
//!
//! It explores interleavings and prices nothing. Time passes only when nobody can run. It checks
//! what no compiler does: no task sleeps in an atomic stretch, no two tasks are in a lock's section,
//! words neither overlap nor leave their region.

#![allow(dead_code, reason = "each test program uses its own part")]

mod drive;
mod machine;

pub(crate) use drive::Drive;
pub(crate) use machine::TestCpu;

use raid::platform::{Label, Ordering, Topology};
use raid::units::{CpuId, NodeId};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};

/// More steps than any test needs.
const STEPS_MAX: u64 = 5_000_000;

/// Up to so many steps long one task is left behind: a fair world would never see what happens if a
/// core stalls between two instructions.
const STALL_STEPS_MAX: u64 = 1000;

type LocalFuture = Pin<Box<dyn Future<Output = ()>>>;
type Start = Box<dyn FnOnce(TestCpu) -> LocalFuture + Send>;

/// Everything that happens is drawn from one seed.
pub(crate) struct World {
    platform: TestPlatform,
    tasks: Vec<Option<Task>>,
    local: LocalSpawns,
}

/// How a run ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Every task ended.
    Done,
    /// Nobody can run: the tasks that are left, and what each waits for.
    Deadlock(Vec<String>),
}

#[derive(Clone)]
pub(crate) struct TestPlatform(Arc<Shared>);

struct Shared {
    topology: Topology,
    state: Mutex<State>,
}

struct State {
    random: u64,
    now_ns: u64,
    starts: Vec<(CpuId, Label, Start)>,
    sleepers: BTreeMap<(u64, usize), Waker>,
    parked: BTreeMap<usize, Label>,
    requests: Vec<drive::Request>,
    /// The task that runs now.
    current: usize,
    /// For each core: which task is in an atomic stretch there, and how deep.
    atomic: Vec<Option<(usize, u32)>>,
}

type LocalSpawns = Rc<RefCell<Vec<(CpuId, Label, LocalFuture)>>>;

struct Task {
    cpu: CpuId,
    label: Label,
    ready: Arc<Ready>,
    future: LocalFuture,
}

struct Ready(AtomicBool);

impl Wake for Ready {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl World {
    pub(crate) fn new(cpus: u32, seed: u64) -> Self {
        let state = State {
            random: seed,
            now_ns: 0,
            starts: Vec::new(),
            sleepers: BTreeMap::new(),
            parked: BTreeMap::new(),
            requests: Vec::new(),
            current: 0,
            atomic: vec![None; cpus as usize],
        };
        let topology = Topology::new((0..cpus).map(|cpu| NodeId(cpu % 2)).collect());
        let platform = TestPlatform(Arc::new(Shared { topology, state: Mutex::new(state) }));
        Self { platform, tasks: Vec::new(), local: Rc::default() }
    }

    pub(crate) fn platform(&self) -> &TestPlatform {
        &self.platform
    }

    /// A drive of zeros.
    pub(crate) fn drive(&self, name: &str, sectors: u64) -> Drive {
        Drive::new(self.platform.clone(), name, sectors)
    }

    /// Starts a task that need not be `Send`.
    pub(crate) fn spawn<F: Future<Output = ()> + 'static>(
        &self,
        cpu: u32,
        label: &'static str,
        task: impl FnOnce(TestCpu) -> F,
    ) {
        let core = self.cpu(CpuId(cpu));
        let future = Box::pin(task(core));
        self.local.borrow_mut().push((CpuId(cpu), Label::new(label), future));
    }

    /// Runs until every task has ended or none can go on.
    pub(crate) fn run(&mut self) -> Outcome {
        let outcome = self.run_for(STEPS_MAX);
        outcome
            .unwrap_or_else(|| panic!("{STEPS_MAX} steps are not enough: somebody spins for ever"))
    }

    /// As [`run`](Self::run), but for so many steps at most; `None` if there is more to do then.
    /// Requests under way have happened or not; what is left of the world is only its drives.
    pub(crate) fn run_for(&mut self, steps: u64) -> Option<Outcome> {
        let (mut stalled, mut stalled_until) = (None, 0);
        for step in 0..steps {
            self.admit();
            let mut runnable: Vec<usize> =
                (0..self.tasks.len()).filter(|index| self.can_run(*index)).collect();
            let mut state = self.platform.state();
            if step == stalled_until {
                stalled_until += 1 + state.draw(STALL_STEPS_MAX);
                stalled = Some(state.draw(self.tasks.len() as u64 + 1) as usize);
            }
            if runnable.len() > 1 {
                runnable.retain(|index| Some(*index) != stalled);
            }
            let choices = runnable.len() + state.requests.len();
            if choices == 0 {
                let Some((until, waker)) = state.sleepers.pop_first() else {
                    drop(state);
                    return Some(self.outcome());
                };
                state.now_ns = until.0;
                waker.wake();
                continue;
            }
            let choice = state.draw(choices as u64) as usize;
            if let Some(index) = runnable.get(choice) {
                state.current = *index;
                drop(state);
                self.poll(*index);
            } else {
                let request = state.requests.swap_remove(choice - runnable.len());
                let random = state.draw(u64::MAX);
                drop(state);
                request.finish(random);
            }
        }
        None
    }

    /// An even draw below `end`, from the same stream as all else.
    pub(crate) fn draw(&self, end: u64) -> u64 {
        self.platform.state().draw(end)
    }

    fn cpu(&self, id: CpuId) -> TestCpu {
        TestCpu { platform: self.platform.clone(), id, local: self.local.clone() }
    }

    fn admit(&mut self) {
        let starts = std::mem::take(&mut self.platform.state().starts);
        let started = starts.into_iter().map(|(cpu, label, start)| {
            let future = start(self.cpu(cpu));
            (cpu, label, future)
        });
        let started: Vec<_> = started.chain(self.local.take()).collect();
        for (cpu, label, future) in started {
            let ready = Arc::new(Ready(AtomicBool::new(true)));
            self.tasks.push(Some(Task { cpu, label, ready, future }));
        }
    }

    fn can_run(&self, index: usize) -> bool {
        let Some(task) = &self.tasks[index] else { return false };
        let atomic = self.platform.state().atomic[task.cpu.0 as usize];
        task.ready.0.load(Ordering::Relaxed) && atomic.is_none_or(|(holder, _)| holder == index)
    }

    fn poll(&mut self, index: usize) {
        let task = self.tasks[index].as_mut().expect("a task that can run");
        task.ready.0.store(false, Ordering::Relaxed);
        let waker = Waker::from(task.ready.clone());
        if task.future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
            self.tasks[index] = None;
        }
    }

    fn outcome(&self) -> Outcome {
        let state = self.platform.state();
        let left = self.tasks.iter().enumerate().filter_map(|(index, task)| {
            let task = task.as_ref()?;
            let waits_for = state.parked.get(&index).map_or("?".to_owned(), Label::to_string);
            Some(format!("{} waits for {waits_for}", task.label))
        });
        let left: Vec<String> = left.collect();
        if left.is_empty() { Outcome::Done } else { Outcome::Deadlock(left) }
    }
}

impl State {
    /// An even draw below `end`, by splitmix64 (Steele, Lea, Flood 2014).
    fn draw(&mut self, end: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}

impl TestPlatform {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().expect("no test goes on after a panic")
    }

    /// Where another task may run.
    async fn switch_point(&self) {
        if self.state().draw(2) == 0 {
            self.let_others_run().await;
        }
    }

    async fn let_others_run(&self) {
        let mut first = true;
        poll_fn(|context| {
            if !std::mem::take(&mut first) {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }

    fn assert_may_sleep(&self) {
        let state = self.state();
        let mut holders = state.atomic.iter().flatten();
        let sleeps = !holders.any(|(holder, _)| *holder == state.current);
        drop(state);
        assert!(sleeps, "a task sleeps in an atomic stretch");
    }
}
