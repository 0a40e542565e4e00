//! The traits of the engine's platform, on the small world's scheduler.

use super::drive::Drive;
use super::{LocalSpawns, Start, TestPlatform};
use raid::platform::{
    Cpu, Guarded, Label, LockKind, LockProbe, Ordering, Parker, Place, Platform, Topology, Word,
    Work,
};
use raid::units::CpuId;
use std::collections::BTreeSet;
use std::future::{Future, poll_fn};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Poll, Waker};

impl Platform for TestPlatform {
    type Cpu = TestCpu;
    type Device = Drive;
    type Word = TestWord;
    type Region = TestRegion;
    type Guarded<T: Send + 'static> = TestGuarded<T>;
    type Parker = TestParker;
    type LockProbe = NoProbe;

    fn topology(&self) -> &Topology {
        &self.0.topology
    }

    fn region(&self, _: Label, start_bytes: u32, length_bytes: u32) -> TestRegion {
        TestRegion { start_bytes, length_bytes, taken: Arc::default() }
    }

    fn word(&self, label: Label, place: Place<'_, Self>, value: u64) -> TestWord {
        if let Place::Within { region, offset_bytes } = place {
            assert!((region.start_bytes + offset_bytes).is_multiple_of(8), "{label} is misaligned");
            assert!(offset_bytes + 8 <= region.length_bytes, "{label} leaves its region");
            let free = region.taken.lock().expect("no panic").insert(offset_bytes);
            assert!(free, "{label} overlaps another word");
        }
        TestWord { platform: self.clone(), value: AtomicU64::new(value) }
    }

    fn guarded<T: Send + 'static>(&self, value: T) -> TestGuarded<T> {
        TestGuarded(Mutex::new(value))
    }

    fn parker(&self, label: Label) -> TestParker {
        TestParker { label, permit: Arc::default() }
    }

    fn lock_probe(&self, _: Label, _: LockKind) -> NoProbe {
        NoProbe
    }

    fn spawn_on<F>(
        &self,
        cpu: CpuId,
        label: Label,
        task: impl FnOnce(TestCpu) -> F + Send + 'static,
    ) where
        F: Future<Output = ()> + 'static,
    {
        let start: Start = Box::new(|cpu| Box::pin(task(cpu)));
        self.state().starts.push((cpu, label, start));
    }
}

#[derive(Clone)]
pub(crate) struct TestCpu {
    pub(super) platform: TestPlatform,
    pub(super) id: CpuId,
    pub(super) local: LocalSpawns,
}

impl Cpu<TestPlatform> for TestCpu {
    fn platform(&self) -> &TestPlatform {
        &self.platform
    }

    fn id(&self) -> CpuId {
        self.id
    }

    fn now_ns(&self) -> u64 {
        self.platform.state().now_ns
    }

    fn spawn(&self, label: Label, task: impl Future<Output = ()> + 'static) {
        self.local.borrow_mut().push((self.id, label, Box::pin(task)));
    }

    async fn sleep_ns(&self, duration_ns: u64) {
        self.platform.assert_may_sleep();
        let until = self.now_ns() + duration_ns;
        poll_fn(|context| {
            let mut state = self.platform.state();
            if state.now_ns >= until {
                return Poll::Ready(());
            }
            let current = state.current;
            state.sleepers.insert((until, current), context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    async fn spend(&self, _: Work) {
        self.platform.switch_point().await;
    }

    async fn yield_now(&self) {
        self.platform.assert_may_sleep();
        self.platform.let_others_run().await;
    }

    async fn fence(&self, _: Ordering) {
        self.platform.switch_point().await;
    }

    fn enter_atomic(&self) {
        let mut state = self.platform.state();
        let current = state.current;
        let entry = &mut state.atomic[self.id.0 as usize];
        let (holder, depth) = entry.unwrap_or((current, 0));
        assert_eq!(holder, current, "two tasks run on one core");
        *entry = Some((current, depth + 1));
    }

    fn leave_atomic(&self) {
        let mut state = self.platform.state();
        let entry = &mut state.atomic[self.id.0 as usize];
        let (holder, depth) = entry.expect("leaves what it entered");
        *entry = (depth > 1).then_some((holder, depth - 1));
    }
}

#[derive(Clone)]
pub(crate) struct TestRegion {
    start_bytes: u32,
    length_bytes: u32,
    taken: Arc<Mutex<BTreeSet<u32>>>,
}

pub(crate) struct TestWord {
    platform: TestPlatform,
    value: AtomicU64,
}

/// One thread: the orderings do not matter.
const ANY: Ordering = Ordering::SeqCst;

impl Word<TestPlatform> for TestWord {
    async fn load(&self, _: &TestCpu, _: Ordering) -> u64 {
        self.platform.switch_point().await;
        self.value.load(ANY)
    }

    async fn store(&self, _: &TestCpu, value: u64, _: Ordering) {
        self.platform.switch_point().await;
        self.value.store(value, ANY);
    }

    async fn add(&self, cpu: &TestCpu, delta: u64, order: Ordering) {
        self.fetch_add(cpu, delta, order).await;
    }

    async fn fetch_add(&self, _: &TestCpu, delta: u64, _: Ordering) -> u64 {
        self.platform.switch_point().await;
        self.value.fetch_add(delta, ANY)
    }

    async fn fetch_or(&self, _: &TestCpu, bits: u64, _: Ordering) -> u64 {
        self.platform.switch_point().await;
        self.value.fetch_or(bits, ANY)
    }

    async fn swap(&self, _: &TestCpu, value: u64, _: Ordering) -> u64 {
        self.platform.switch_point().await;
        self.value.swap(value, ANY)
    }

    async fn swap_bits(&self, _: &TestCpu, mask: u64, value: u64, _: Ordering) -> u64 {
        self.platform.switch_point().await;
        let old = self.value.load(ANY);
        self.value.store(old & !mask | value & mask, ANY);
        old
    }

    async fn compare_exchange(
        &self,
        _: &TestCpu,
        current: u64,
        new: u64,
        _: Ordering,
    ) -> Result<u64, u64> {
        self.platform.switch_point().await;
        self.value.compare_exchange(current, new, ANY, ANY)
    }

    async fn spin_until(&self, _: &TestCpu, _: Ordering, ready: impl Fn(u64) -> bool) -> u64 {
        self.platform.switch_point().await;
        loop {
            let value = self.value.load(ANY);
            if ready(value) {
                return value;
            }
            self.platform.let_others_run().await;
        }
    }
}

/// Panics where two tasks are in one section.
pub(crate) struct TestGuarded<T>(Mutex<T>);

impl<T: Send + 'static> Guarded<T> for TestGuarded<T> {
    type Access<'a> = MutexGuard<'a, T>;

    unsafe fn access(&self) -> MutexGuard<'_, T> {
        self.0.try_lock().expect("one task at a time in a section")
    }
}

#[derive(Clone)]
pub(crate) struct TestParker {
    label: Label,
    permit: Arc<Mutex<(bool, Option<Waker>)>>,
}

impl Parker<TestPlatform> for TestParker {
    async fn park(&self, cpu: &TestCpu) {
        cpu.platform.assert_may_sleep();
        poll_fn(|context| {
            let mut permit = self.permit.lock().expect("no panic");
            let mut state = cpu.platform.state();
            let current = state.current;
            if std::mem::take(&mut permit.0) {
                state.parked.remove(&current);
                return Poll::Ready(());
            }
            state.parked.insert(current, self.label);
            permit.1 = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    async fn unpark(&self, cpu: &TestCpu) {
        cpu.platform.switch_point().await;
        let mut permit = self.permit.lock().expect("no panic");
        permit.0 = true;
        if let Some(waker) = permit.1.take() {
            waker.wake();
        }
    }
}

pub(crate) struct NoProbe;

impl LockProbe<TestPlatform> for NoProbe {
    fn acquiring(&self, _: &TestCpu) {}
    fn acquired(&self, _: &TestCpu, _: bool) {}
    fn released(&self, _: &TestCpu) {}
}
