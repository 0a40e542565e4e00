//! Everything that the engine asks of a machine: cores, shared memory, sleeping and waking.
//!
//! The traits are few and low on purpose. A platform supplies machine words with the operations
//! that hardware has, and a way to put a task to sleep; every lock, counter and wait queue is
//! written once on top of them, in [`crate::lock`]. So the very code whose interleavings a model
//! checker has walked through is the code whose cache-line transfers the simulator prices and the
//! code that guards real drives.
//!
//! Each `.await` in the engine marks a point where another core may run, in the order in which the
//! hardware would do it: what was read before it may be stale after it.
//!
//! Architecture invariant: nothing here names a clock, a thread, a file or a random source.

use crate::device::Device;
use crate::units::{CpuId, NodeId};
use std::fmt;
use std::future::Future;
use std::ops::DerefMut;
pub use std::sync::atomic::Ordering;

/// A machine: its cores, its memory, its drives.
///
/// A value is a handle, cheap to clone, and may be sent to any core.
pub trait Platform: Clone + Send + Sync + Sized + 'static {
    /// The core that a task is running on.
    type Cpu: Cpu<Self>;
    /// A drive, or whatever else stores sectors.
    type Device: Device<Self>;
    /// A machine word in shared memory.
    type Word: Word<Self>;
    /// A stretch of memory in which words can be placed side by side.
    type Region: Clone + Send + Sync + 'static;
    /// Plain memory that several cores reach, guarded by a lock of ours.
    type Guarded<T: Send + 'static>: Guarded<T>;
    /// A place where one task sleeps until another wakes it.
    type Parker: Parker<Self>;
    /// Counts what happens to one lock.
    type LockProbe: LockProbe<Self>;

    /// The machine's shape.
    fn topology(&self) -> &Topology;

    /// Memory for words that lie side by side: `length_bytes` bytes that start `start_bytes` after
    /// a boundary of 128 bytes, so that the caller decides where cache lines cut it. No other
    /// memory shares its lines.
    fn region(&self, label: Label, start_bytes: u32, length_bytes: u32) -> Self::Region;

    /// A word that holds `value` at first. It keeps its region alive.
    ///
    /// # Panics
    /// If the place lies outside its region or is no multiple of 8 bytes from the boundary.
    fn word(&self, label: Label, place: Place<'_, Self>, value: u64) -> Self::Word;

    /// Memory that a lock will guard.
    fn guarded<T: Send + 'static>(&self, value: T) -> Self::Guarded<T>;

    /// A place to sleep. The label appears in reports of deadlocks.
    fn parker(&self, label: Label) -> Self::Parker;

    /// Statistics of one lock, under its label.
    fn lock_probe(&self, label: Label, kind: LockKind) -> Self::LockProbe;

    /// Starts a task on core `cpu`. The closure runs there, so the future need not be `Send`.
    fn spawn_on<F>(
        &self,
        cpu: CpuId,
        label: Label,
        task: impl FnOnce(Self::Cpu) -> F + Send + 'static,
    ) where
        F: Future<Output = ()> + 'static;

    /// Where a scheduler would let a thread go on that is bound to no core, that ran on `last` and
    /// is woken from `waker` now. On a platform where tasks stay where they were started, at `last`.
    fn core_for_wakeup(&self, waker: CpuId, last: CpuId) -> CpuId {
        let _ = waker;
        last
    }
}

/// The core that the current task runs on, and the task's way to spend time on it.
///
/// Passed first to every call that costs time. Valid only on the core that made it.
pub trait Cpu<P: Platform>: Clone + 'static {
    /// The machine that this core belongs to.
    fn platform(&self) -> &P;

    /// The core that the calling task is on now.
    fn id(&self) -> CpuId;

    /// The NUMA node of that core.
    fn node(&self) -> NodeId {
        self.platform().topology().node_of(self.id())
    }

    /// Nanoseconds since the machine started. Monotonic. For statistics and pacing only: nothing
    /// that the engine decides may depend on it.
    fn now_ns(&self) -> u64;

    /// Starts a task on this core.
    fn spawn(&self, label: Label, task: impl Future<Output = ()> + 'static);

    /// Starts a task on this core that waits for a device before anything else, as the end of a
    /// request does. It may be asleep there when this returns: the simulator lets it come so far
    /// without the core's run queue, since a driver needs none to be called back.
    fn spawn_waiting(&self, label: Label, task: impl Future<Output = ()> + 'static) {
        self.spawn(label, task);
    }

    /// Gives up the core for `duration_ns`.
    fn sleep_ns(&self, duration_ns: u64) -> impl Future<Output = ()>;

    /// Charges work that the core does. The simulator turns it into time from its machine file;
    /// a real core pays by doing it, so there this is a no-op.
    fn spend(&self, work: Work) -> impl Future<Output = ()>;

    /// Lets other tasks of this core run, and continues behind them as an ordinary task, even if
    /// it was running in the context of a completion interrupt.
    fn yield_now(&self) -> impl Future<Output = ()>;

    /// A memory fence, as the language defines it: `Acquire`, `Release` or `SeqCst`. The last one
    /// waits until the stores before it are visible (`MFENCE`, `DMB ISH`); the others cost the core
    /// little or nothing.
    ///
    /// # Panics
    /// If the order is `Relaxed`.
    fn fence(&self, order: Ordering) -> impl Future<Output = ()>;

    /// Enters a stretch in which the task may not sleep and its core takes no interrupt, as around
    /// a spin lock. Stretches nest.
    fn enter_atomic(&self);

    /// Leaves the innermost such stretch.
    fn leave_atomic(&self);
}

/// A machine word in shared memory, 8 bytes.
///
/// The operations are the hardware's, with the memory orderings of the language. The simulator
/// makes them sequentially consistent and prices the cache line; real cores and the model checker
/// take the orderings as they stand.
pub trait Word<P: Platform>: Send + Sync + 'static {
    /// Reads the word.
    fn load(&self, cpu: &P::Cpu, order: Ordering) -> impl Future<Output = u64>;

    /// Writes the word. The core does not wait for the line: stores go through a store buffer and
    /// become visible in program order.
    fn store(&self, cpu: &P::Cpu, value: u64, order: Ordering) -> impl Future<Output = ()>;

    /// Adds `delta`, wrapping, and does not ask for the old value, so that the core need not wait
    /// for the line (STADD on ARM; on x86 it waits).
    fn add(&self, cpu: &P::Cpu, delta: u64, order: Ordering) -> impl Future<Output = ()>;

    /// Adds `delta`, wrapping; the old value.
    fn fetch_add(&self, cpu: &P::Cpu, delta: u64, order: Ordering) -> impl Future<Output = u64>;

    /// Sets bits; the old value.
    fn fetch_or(&self, cpu: &P::Cpu, bits: u64, order: Ordering) -> impl Future<Output = u64>;

    /// Writes `value`; the old value.
    fn swap(&self, cpu: &P::Cpu, value: u64, order: Ordering) -> impl Future<Output = u64>;

    /// Writes the bits of `value` that `mask` selects and leaves the others; the old value.
    ///
    /// It stands for the swap of a part of a word that some processors have (a half-word `SWP`, an
    /// `XCHG` of 16 bits), which takes the line once. The language has no such swap, so a real
    /// platform repeats a compare-exchange until it succeeds.
    fn swap_bits(
        &self,
        cpu: &P::Cpu,
        mask: u64,
        value: u64,
        order: Ordering,
    ) -> impl Future<Output = u64>;

    /// Writes `new` if the word is `current`. The old value, as `Ok` if it was written. A failure
    /// takes the line just as a success does. The failure ordering is relaxed.
    fn compare_exchange(
        &self,
        cpu: &P::Cpu,
        current: u64,
        new: u64,
        order: Ordering,
    ) -> impl Future<Output = Result<u64, u64>>;

    /// Spins, holding the core, until `ready` says yes of the word; the value that it said yes to.
    fn spin_until(
        &self,
        cpu: &P::Cpu,
        order: Ordering,
        ready: impl Fn(u64) -> bool,
    ) -> impl Future<Output = u64>;
}

/// Plain memory that a lock guards.
pub trait Guarded<T>: Send + Sync + 'static {
    /// The right to reach the value, from [`access`](Self::access) until it is dropped. A model
    /// checker watches for two of them at once, and for two without an order between them.
    type Access<'a>: DerefMut<Target = T>
    where
        Self: 'a;

    /// Reaches the value.
    ///
    /// # Safety
    /// The caller holds the lock that guards this value from before the call until the result is
    /// dropped, and has no other access to the same value meanwhile.
    unsafe fn access(&self) -> Self::Access<'_>;
}

/// A place where one task at a time sleeps. It holds at most one permit, so a wake-up that comes
/// before the sleep is not lost. What was written before `unpark` is seen after the `park` that
/// takes its permit.
pub trait Parker<P: Platform>: Clone + Send + Sync + 'static {
    /// Sleeps until there is a permit, and takes it. The core is free meanwhile.
    fn park(&self, cpu: &P::Cpu) -> impl Future<Output = ()>;

    /// Leaves a permit and wakes the sleeper, on whatever core it sleeps. May be called inside an
    /// atomic stretch.
    fn unpark(&self, cpu: &P::Cpu) -> impl Future<Output = ()>;

    /// As [`unpark`](Self::unpark), if the sleeper is on this very core and its process is not told
    /// through the scheduler, as an application that finds the end of its request in a ring.
    fn unpark_here(&self, cpu: &P::Cpu) -> impl Future<Output = ()> {
        self.unpark(cpu)
    }
}

/// What kind of lock a probe watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// One task at a time has it, in an atomic stretch.
    Spin,
    /// Several tasks may have it at once, and may sleep before they have it and while they do.
    Semaphore,
}

/// Sees what happens to one lock. The simulator keeps the contention table with it; on real cores
/// it may be empty. A task releases what it has in the reverse order.
pub trait LockProbe<P: Platform>: Send + Sync + 'static {
    /// The current task begins to acquire the lock.
    fn acquiring(&self, cpu: &P::Cpu);
    /// It has it; `contended` if it found the lock taken.
    fn acquired(&self, cpu: &P::Cpu, contended: bool);
    /// It is about to let it go.
    fn released(&self, cpu: &P::Cpu);
}

/// Where a word lies.
pub enum Place<'a, P: Platform> {
    /// On cache lines of its own.
    Alone,
    /// In `region`, `offset_bytes` from its start.
    Within {
        /// The stretch of memory.
        region: &'a P::Region,
        /// From its start; such that the word is aligned to 8 bytes.
        offset_bytes: u32,
    },
}

/// Work that a core does, in the units that the engine knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Some simple instructions, counted from compiled code.
    Instructions(u32),
    /// The application and the system call that hand one request to the array.
    ApplicationSubmit,
    /// The application takes note of one completed request.
    ApplicationReap,
    /// The array takes a request in: allocate it, map its address, clone it for a member.
    ArrayRequest,
    /// The array finishes a request after its last member is done.
    ArrayCompletion,
    /// Block layer and driver hand a request to a device.
    DriverSubmit,
    /// Driver and block layer take a request's end from a device.
    DriverCompletion,
    /// A copy of this many bytes.
    Copy(u64),
}

/// What a word, a lock, a task or a parker is called in reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label {
    name: &'static str,
    index: Option<u32>,
}

impl Label {
    /// A name.
    pub const fn new(name: &'static str) -> Self {
        Self { name, index: None }
    }

    /// One of several of the same name.
    pub const fn indexed(name: &'static str, index: u32) -> Self {
        Self { name, index: Some(index) }
    }

    /// The name without the index, under which a report sums the like up.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Which one of that name.
    pub const fn index(&self) -> Option<u32> {
        self.index
    }
}

impl fmt::Display for Label {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.index {
            None => write!(formatter, "{}", self.name),
            Some(index) => write!(formatter, "{}[{index}]", self.name),
        }
    }
}

/// The shape of a machine, as far as the engine needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    node_of_cpu: Vec<NodeId>,
}

impl Topology {
    /// A machine whose core `i` lies in node `node_of_cpu[i]`.
    ///
    /// # Panics
    /// If there is no core.
    pub fn new(node_of_cpu: Vec<NodeId>) -> Self {
        assert!(!node_of_cpu.is_empty(), "a machine has at least one core");
        Self { node_of_cpu }
    }

    /// How many cores there are.
    pub fn cpu_count(&self) -> u32 {
        self.node_of_cpu.len() as u32
    }

    /// How many nodes there are: one more than the highest number.
    pub fn node_count(&self) -> u32 {
        self.node_of_cpu.iter().map(|node| node.0 + 1).max().unwrap_or(1)
    }

    /// The node of a core.
    ///
    /// # Panics
    /// If there is no such core.
    pub fn node_of(&self, cpu: CpuId) -> NodeId {
        self.node_of_cpu[cpu.0 as usize]
    }

    /// The cores of a node, ascending.
    pub fn cpus_of(&self, node: NodeId) -> impl Iterator<Item = CpuId> {
        self.node_of_cpu
            .iter()
            .enumerate()
            .filter(move |(_, of)| **of == node)
            .map(|(cpu, _)| CpuId(cpu as u32))
    }
}
