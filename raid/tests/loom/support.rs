//! A platform for models: each core is a loom thread, each word a loom atomic.
//!
//! Every future is ready at once; waiting blocks the thread. It also asserts what every platform
//! may rely on: sections of a lock do not overlap, nobody sleeps in an atomic stretch.

use loom::cell::{MutPtr, UnsafeCell};
use loom::sync::atomic::AtomicU64;
use loom::sync::{Condvar, Mutex};
use loom::thread;
use raid::device::{Device, Io, IoDone};
use raid::lock::QUEUE_NODE;
use raid::platform::{
    Cpu, Guarded, Label, LockKind, LockProbe, Ordering, Parker, Place, Platform, Topology, Word,
    Work,
};
use raid::units::{CpuId, NodeId, Sectors};
use std::cell::Cell;
use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
// Beside the model: these count without being a place where another core may run.
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::task::{Context, Poll, Waker};

/// Places at which a run may go more than one way: several times those of the longest model.
const BRANCHES_MAX: usize = 10_000;

/// Walks through the ways in which one task on each core can run. `node_of_cpu` is the machine,
/// `setup` makes what the tasks share, `check` runs when all are done.
pub(crate) fn model<S: Send + Sync + 'static>(
    node_of_cpu: &'static [u32],
    preemptions_max: Option<usize>,
    setup: impl Fn(&LoomPlatform) -> S + Send + Sync + 'static,
    task: impl AsyncFn(&LoomCpu, &S) + Copy + Send + Sync + 'static,
    check: impl AsyncFn(&LoomCpu, &S) + Copy + Send + Sync + 'static,
) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions_max;
    builder.max_branches = BRANCHES_MAX;
    builder.check(move || {
        let platform = LoomPlatform::new(node_of_cpu);
        let shared = Arc::new(setup(&platform));
        let running = Arc::new(AtomicUsize::new(node_of_cpu.len()));
        let run = move |cpu: CpuId, platform: LoomPlatform, shared: Arc<S>| {
            let cpu = LoomCpu { platform, id: cpu, atomic_depth: Rc::default() };
            block_on(task(&cpu, &shared));
            assert_eq!(cpu.atomic_depth.get(), 0, "an atomic stretch that nobody left");
            // Instead of joining, which would be one more thing to interleave.
            if running.fetch_sub(1, Ordering::SeqCst) == 1 {
                block_on(check(&cpu, &shared));
            }
        };
        for cpu in 1..node_of_cpu.len() as u32 {
            let (run, platform, shared) = (run.clone(), platform.clone(), shared.clone());
            thread::spawn(move || run(CpuId(cpu), platform, shared));
        }
        run(CpuId(0), platform, shared);
    });
}

fn block_on<R>(future: impl Future<Output = R>) -> R {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => unreachable!("futures of this platform are ready at once"),
    }
}

#[derive(Clone)]
pub(crate) struct LoomPlatform {
    topology: Arc<Topology>,
}

impl LoomPlatform {
    fn new(node_of_cpu: &[u32]) -> Self {
        let nodes = node_of_cpu.iter().map(|node| NodeId(*node)).collect();
        Self { topology: Arc::new(Topology::new(nodes)) }
    }
}

impl Platform for LoomPlatform {
    type Cpu = LoomCpu;
    type Device = NoDevice;
    type Word = LoomWord;
    type Region = LoomRegion;
    type Guarded<T: Send + 'static> = LoomGuarded<T>;
    type Parker = LoomParker;
    type LockProbe = LoomProbe;

    fn topology(&self) -> &Topology {
        &self.topology
    }

    fn region(&self, _: Label, _: u32, length_bytes: u32) -> LoomRegion {
        LoomRegion { taken: (0..length_bytes / 8).map(|_| AtomicBool::new(false)).collect() }
    }

    fn word(&self, label: Label, place: Place<'_, Self>, value: u64) -> LoomWord {
        if let Place::Within { region, offset_bytes } = place {
            assert!(offset_bytes.is_multiple_of(8), "{label} is not aligned");
            let taken = region.taken[offset_bytes as usize / 8].swap(true, Ordering::SeqCst);
            assert!(!taken, "{label} lies on another word");
        }
        LoomWord { value: AtomicU64::new(value), stored_only: label.name() == QUEUE_NODE }
    }

    fn guarded<T: Send + 'static>(&self, value: T) -> LoomGuarded<T> {
        LoomGuarded(UnsafeCell::new(value))
    }

    fn parker(&self, _: Label) -> LoomParker {
        LoomParker(Arc::new(Sleep {
            permit: Mutex::new(false),
            given: Condvar::new(),
            sleeper: thread::current().id(),
        }))
    }

    fn lock_probe(&self, _: Label, kind: LockKind) -> LoomProbe {
        LoomProbe { kind, held: AtomicBool::new(false) }
    }

    fn spawn_on<F>(&self, _: CpuId, label: Label, _: impl FnOnce(LoomCpu) -> F + Send + 'static)
    where
        F: Future<Output = ()> + 'static,
    {
        unreachable!("{label}: a model has one task on each core");
    }
}

#[derive(Clone)]
pub(crate) struct LoomCpu {
    platform: LoomPlatform,
    id: CpuId,
    atomic_depth: Rc<Cell<u32>>,
}

impl Cpu<LoomPlatform> for LoomCpu {
    fn platform(&self) -> &LoomPlatform {
        &self.platform
    }

    fn id(&self) -> CpuId {
        self.id
    }

    fn now_ns(&self) -> u64 {
        0
    }

    fn spawn(&self, label: Label, _: impl Future<Output = ()> + 'static) {
        unreachable!("{label}: a model has one task on each core");
    }

    async fn sleep_ns(&self, _: u64) {
        thread::yield_now();
    }

    async fn spend(&self, _: Work) {}

    async fn yield_now(&self) {
        thread::yield_now();
    }

    async fn fence(&self, order: Ordering) {
        loom::sync::atomic::fence(order);
    }

    fn enter_atomic(&self) {
        self.atomic_depth.set(self.atomic_depth.get() + 1);
    }

    fn leave_atomic(&self) {
        self.atomic_depth.set(self.atomic_depth.get() - 1);
    }
}

#[derive(Clone)]
pub(crate) struct LoomRegion {
    taken: Arc<[AtomicBool]>,
}

/// Spinners that only wake each other would make the model endless. A look in vain changes
/// nothing, so what a core does after many of them it also does in a way in which it looks later:
/// ways with more than this many in one wait run to their end, but no further ways branch off.
const LOOKS_IN_VAIN_MAX: u32 = 1;

pub(crate) struct LoomWord {
    value: AtomicU64,
    /// Loom would let a plain store slip in between the two halves of another core's exchange, so
    /// stores to words that are exchanged are exchanges too. The price is that such a store does
    /// not end a release sequence, as it does in the language, and has one place in the order of
    /// all stores to its word; so words that are stored only are exempt.
    stored_only: bool,
}

impl LoomWord {
    fn exchanged(&self) -> &AtomicU64 {
        assert!(!self.stored_only, "exchanges a word that is stored only");
        &self.value
    }
}

impl Word<LoomPlatform> for LoomWord {
    async fn load(&self, _: &LoomCpu, order: Ordering) -> u64 {
        self.value.load(order)
    }

    async fn store(&self, _: &LoomCpu, value: u64, order: Ordering) {
        if self.stored_only {
            self.value.store(value, order);
        } else {
            self.value.swap(value, order);
        }
    }

    async fn add(&self, _: &LoomCpu, delta: u64, order: Ordering) {
        self.exchanged().fetch_add(delta, order);
    }

    async fn fetch_add(&self, _: &LoomCpu, delta: u64, order: Ordering) -> u64 {
        self.exchanged().fetch_add(delta, order)
    }

    async fn fetch_or(&self, _: &LoomCpu, bits: u64, order: Ordering) -> u64 {
        self.exchanged().fetch_or(bits, order)
    }

    async fn swap(&self, _: &LoomCpu, value: u64, order: Ordering) -> u64 {
        self.exchanged().swap(value, order)
    }

    async fn swap_bits(&self, _: &LoomCpu, mask: u64, value: u64, order: Ordering) -> u64 {
        let word = self.exchanged();
        let mut old = word.load(Ordering::Relaxed);
        loop {
            let new = old & !mask | value & mask;
            match word.compare_exchange(old, new, order, Ordering::Relaxed) {
                Ok(old) => return old,
                Err(changed) => old = changed,
            }
        }
    }

    async fn compare_exchange(
        &self,
        _: &LoomCpu,
        current: u64,
        new: u64,
        order: Ordering,
    ) -> Result<u64, u64> {
        self.exchanged().compare_exchange(current, new, order, Ordering::Relaxed)
    }

    async fn spin_until(&self, _: &LoomCpu, order: Ordering, ready: impl Fn(u64) -> bool) -> u64 {
        let mut looks_in_vain = 0;
        loop {
            let value = self.value.load(order);
            if ready(value) {
                return value;
            }
            looks_in_vain += 1;
            if looks_in_vain > LOOKS_IN_VAIN_MAX {
                loom::skip_branch();
            }
            thread::yield_now();
        }
    }
}

/// Loom's cell panics when two accesses overlap or have no order between them.
pub(crate) struct LoomGuarded<T>(UnsafeCell<T>);

// SAFETY: loom runs all threads of a model on one thread of the system, and its cell checks every
// access.
unsafe impl<T: Send> Send for LoomGuarded<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for LoomGuarded<T> {}

pub(crate) struct LoomAccess<'a, T> {
    value: MutPtr<T>,
    _guarded: &'a LoomGuarded<T>,
}

impl<T: Send + 'static> Guarded<T> for LoomGuarded<T> {
    type Access<'a> = LoomAccess<'a, T>;

    unsafe fn access(&self) -> LoomAccess<'_, T> {
        LoomAccess { value: self.0.get_mut(), _guarded: self }
    }
}

impl<T> Deref for LoomAccess<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: loom has checked that there is no other access, and the cell is borrowed.
        unsafe { self.value.deref() }
    }
}

impl<T> DerefMut for LoomAccess<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`.
        unsafe { self.value.deref() }
    }
}

/// Its maker sleeps in it.
#[derive(Clone)]
pub(crate) struct LoomParker(Arc<Sleep>);

/// A condition rather than loom's own parking: that forgets a wake-up that comes while the sleeper
/// still spins somewhere.
struct Sleep {
    permit: Mutex<bool>,
    given: Condvar,
    sleeper: thread::ThreadId,
}

impl Parker<LoomPlatform> for LoomParker {
    async fn park(&self, cpu: &LoomCpu) {
        assert_eq!(cpu.atomic_depth.get(), 0, "sleeps in an atomic stretch");
        assert_eq!(thread::current().id(), self.0.sleeper, "sleeps in another's parker");
        let mut permit = self.0.permit.lock().expect("no panic goes on");
        while !std::mem::take(&mut *permit) {
            permit = self.0.given.wait(permit).expect("no panic goes on");
        }
    }

    async fn unpark(&self, _: &LoomCpu) {
        *self.0.permit.lock().expect("no panic goes on") = true;
        self.0.given.notify_one();
    }
}

/// Checks spin locks. Who is inside of a semaphore together is for its models to check.
pub(crate) struct LoomProbe {
    kind: LockKind,
    held: AtomicBool,
}

impl LockProbe<LoomPlatform> for LoomProbe {
    fn acquiring(&self, cpu: &LoomCpu) {
        let is_atomic = cpu.atomic_depth.get() != 0;
        match self.kind {
            LockKind::Spin => assert!(is_atomic, "takes a lock with interrupts on"),
            LockKind::Semaphore => assert!(!is_atomic, "may sleep with interrupts off"),
        }
    }

    fn acquired(&self, _: &LoomCpu, _: bool) {
        if self.kind == LockKind::Semaphore {
            return;
        }
        assert!(!self.held.swap(true, Ordering::SeqCst), "two cores hold one lock");
    }

    fn released(&self, _: &LoomCpu) {
        if self.kind == LockKind::Semaphore {
            return;
        }
        assert!(self.held.swap(false, Ordering::SeqCst), "releases a lock that nobody holds");
    }
}

/// Models have no drives.
pub(crate) enum NoDevice {}

impl Device<LoomPlatform> for NoDevice {
    type Completion = std::future::Ready<IoDone>;

    fn name(&self) -> &str {
        match *self {}
    }

    fn size(&self) -> Sectors {
        match *self {}
    }

    fn logical_block_bytes(&self) -> u32 {
        match *self {}
    }

    async fn submit(&self, _: &LoomCpu, _: Io) -> Self::Completion {
        match *self {}
    }
}
