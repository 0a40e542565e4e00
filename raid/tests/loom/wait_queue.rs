//! Wait queues and parkers: no wake-up is lost. A lost one is a deadlock, which loom reports.

use crate::support::{LoomCpu, LoomPlatform, LoomWord, model};
use raid::lock::{SpinKind, WaitQueue};
use raid::platform::{Cpu, Label, Ordering, Parker, Place, Platform, Word};
use raid::units::CpuId;

const LABEL: Label = Label::new("model");

/// A queue and the word that its waiters' condition looks at.
struct Queue {
    queue: WaitQueue<LoomPlatform>,
    word: LoomWord,
}

impl Queue {
    fn new(platform: &LoomPlatform) -> Self {
        let queue = WaitQueue::new(platform, LABEL, SpinKind::TestAndSet, Place::Alone);
        Self { queue, word: platform.word(LABEL, Place::Alone, 0) }
    }

    async fn take_token(&self, cpu: &LoomCpu) -> bool {
        let mut tokens = self.word.load(cpu, Ordering::Relaxed).await;
        while tokens != 0 {
            match self.word.compare_exchange(cpu, tokens, tokens - 1, Ordering::Relaxed).await {
                Ok(_) => return true,
                Err(changed) => tokens = changed,
            }
        }
        false
    }
}

/// Core 0 runs `wake`, all others wait until the word is not 0.
#[track_caller]
fn check(
    node_of_cpu: &'static [u32],
    preemptions_max: Option<usize>,
    wake: impl AsyncFn(&LoomCpu, &Queue) + Copy + Send + Sync + 'static,
) {
    model(
        node_of_cpu,
        preemptions_max,
        Queue::new,
        async move |cpu, shared| {
            if cpu.id() == CpuId(0) {
                wake(cpu, shared).await;
            } else {
                let ready = async || shared.word.load(cpu, Ordering::Relaxed).await != 0;
                shared.queue.wait_until(cpu, ready).await;
            }
        },
        async |cpu, shared| {
            shared.queue.wake_all(cpu).await;
            assert!(!shared.queue.has_waiters(cpu).await, "someone stayed on the list");
        },
    );
}

async fn set_and_wake_all(cpu: &LoomCpu, shared: &Queue) {
    shared.word.store(cpu, 1, Ordering::Relaxed).await;
    shared.queue.wake_all(cpu).await;
}

async fn set_and_wake_if_waiting(cpu: &LoomCpu, shared: &Queue) {
    shared.word.store(cpu, 1, Ordering::Relaxed).await;
    if shared.queue.has_waiters(cpu).await {
        shared.queue.wake_all(cpu).await;
    }
}

#[test]
fn wake_all_is_not_lost() {
    check(&[0, 0], None, set_and_wake_all);
}

#[test]
fn wake_all_is_not_lost_on_two_waiters() {
    check(&[0, 0, 0], Some(2), set_and_wake_all);
}

#[test]
fn wake_if_waiting_is_not_lost() {
    check(&[0, 0], None, set_and_wake_if_waiting);
}

#[test]
fn wake_if_waiting_is_not_lost_on_two_waiters() {
    check(&[0, 0, 0], Some(2), set_and_wake_if_waiting);
}

/// Two tokens come, each with one wake-up, and each of two waiters needs one. A waiter that finds
/// the first token by itself may be given the wake-up of the second, and has to pass it on.
#[test]
fn wake_one_reaches_someone_who_needs_it() {
    model(
        &[0, 0, 0],
        Some(2),
        Queue::new,
        async |cpu, shared| {
            if cpu.id() == CpuId(0) {
                for _ in 0..2 {
                    shared.word.add(cpu, 1, Ordering::Relaxed).await;
                    shared.queue.wake_one(cpu).await;
                }
            } else {
                shared.queue.wait_until(cpu, async || shared.take_token(cpu).await).await;
            }
        },
        async |cpu, shared| {
            assert_eq!(shared.word.fetch_add(cpu, 0, Ordering::Relaxed).await, 0);
        },
    );
}

/// The rule that every parker keeps: a permit that comes before the sleep ends it, and brings what
/// was written before.
#[test]
fn a_permit_waits_for_its_sleeper() {
    model(
        &[0, 0],
        None,
        |platform| (platform.parker(LABEL), platform.word(LABEL, Place::Alone, 0)),
        async |cpu, (parker, word)| {
            if cpu.id() == CpuId(0) {
                parker.park(cpu).await;
                assert_eq!(word.load(cpu, Ordering::Relaxed).await, 1);
            } else {
                word.store(cpu, 1, Ordering::Relaxed).await;
                parker.unpark(cpu).await;
            }
        },
        async |_, _| {},
    );
}
