//! The locks of [`crate::lock`] on the platform's words and parkers.

use super::{LABEL, lone_word, on_all_cores, participants};
use crate::lock::{LOOKS_MAX, ReaderSpin, RwSem, SeqLock, SpinKind, SpinLock, WaitQueue};
use crate::platform::{Cpu, Ordering, Place, Platform, Word};
use std::sync::Arc;

/// Two tasks on each core take one spin lock `rounds` times each: sections never overlap, and what
/// one wrote the next one sees.
pub async fn spin_lock<P: Platform>(cpu: &P::Cpu, kind: SpinKind, rounds: u64) {
    let platform = cpu.platform();
    let lock = Arc::new(SpinLock::new(platform, LABEL, kind, Place::Alone, 0_u64));
    let inside = lone_word(platform, 0);
    let shared = lock.clone();
    on_all_cores::<P, _>(cpu, 2, move |cpu, _| {
        let (lock, inside) = (shared.clone(), inside.clone());
        async move {
            for _ in 0..rounds {
                lock.with(&cpu, async |count| {
                    let before = *count;
                    let others = inside.fetch_add(&cpu, 1, Ordering::Relaxed).await;
                    assert_eq!(others, 0, "{kind:?}: two cores in one section");
                    inside.add(&cpu, u64::MAX, Ordering::Relaxed).await;
                    *count = before + 1;
                })
                .await;
                cpu.yield_now().await;
            }
        }
    })
    .await;
    let total = 2 * rounds * participants(platform).count() as u64;
    let counted = lock.with(cpu, async |count| *count).await;
    assert_eq!(counted, total, "{kind:?}: a section's write was lost");
}

/// On each core one task writes a pair of words and one reads it, `rounds` times each: no reader
/// that is told that nothing changed has seen half a write.
pub async fn sequence_lock<P: Platform>(cpu: &P::Cpu, kind: SpinKind, rounds: u64) {
    let platform = cpu.platform();
    let lock = Arc::new(SeqLock::new(platform, LABEL, kind, Place::Alone));
    let (first, second) = (lone_word(platform, 0), lone_word(platform, 0));
    let cores = participants(platform).count() as u32;
    let pair = (lock.clone(), first.clone(), second.clone());
    on_all_cores::<P, _>(cpu, 2, move |cpu, number| {
        let (lock, first, second) = pair.clone();
        async move {
            for _ in 0..rounds {
                if number < cores {
                    lock.write(&cpu, async || {
                        let next = first.load(&cpu, Ordering::Relaxed).await + 1;
                        first.store(&cpu, next, Ordering::Relaxed).await;
                        second.store(&cpu, next, Ordering::Relaxed).await;
                    })
                    .await;
                } else {
                    read_pair(&cpu, &lock, &first, &second).await;
                }
                cpu.yield_now().await;
            }
        }
    })
    .await;
    let total = rounds * u64::from(cores);
    assert_eq!(read_pair(cpu, &lock, &first, &second).await, total, "a write was lost");
}

async fn read_pair<P: Platform>(
    cpu: &P::Cpu,
    lock: &SeqLock<P>,
    first: &P::Word,
    second: &P::Word,
) -> u64 {
    loop {
        let since = lock.read_begin(cpu).await;
        // Against the writer's order, so that half a write would show.
        let later = second.load(cpu, Ordering::Relaxed).await;
        let earlier = first.load(cpu, Ordering::Relaxed).await;
        if !lock.read_changed(cpu, since).await {
            assert_eq!(earlier, later, "half a write was read");
            return earlier;
        }
    }
}

/// One task on each core waits for its turn, `rounds` times, and passes the turn on by waking all,
/// every other time only if anybody waits. It ends only if no wake-up is lost.
pub async fn wait_queue<P: Platform>(cpu: &P::Cpu, kind: SpinKind, rounds: u64) {
    let platform = cpu.platform();
    let queue = Arc::new(WaitQueue::new(platform, LABEL, kind, Place::Alone));
    let turn = lone_word(platform, 0);
    let cores = participants(platform).count() as u64;
    let shared = (queue.clone(), turn.clone());
    on_all_cores::<P, _>(cpu, 1, move |cpu, number| {
        let (queue, turn) = shared.clone();
        async move {
            for _ in 0..rounds {
                let mine =
                    async || turn.load(&cpu, Ordering::Acquire).await % cores == u64::from(number);
                queue.wait_until(&cpu, mine).await;
                let passed = turn.fetch_add(&cpu, 1, Ordering::AcqRel).await;
                if passed % 2 == 0 || queue.has_waiters(&cpu).await {
                    queue.wake_all(&cpu).await;
                }
            }
        }
    })
    .await;
    assert_eq!(turn.load(cpu, Ordering::Acquire).await, rounds * cores);
    assert!(!queue.has_waiters(cpu).await, "somebody still waits");
}

/// Two tasks on each core take one reader-writer semaphore `rounds` times each, to write every
/// fourth time, and let others run inside: a writer is alone, and none of them sleeps forever.
pub async fn reader_writer<P: Platform>(cpu: &P::Cpu, reader_spin: ReaderSpin, rounds: u64) {
    let platform = cpu.platform();
    let kind = SpinKind::Queued;
    let sem = RwSem::new(platform, LABEL, kind, Place::Alone, reader_spin, LOOKS_MAX);
    let sem = Arc::new(sem);
    let (written, writers) = (lone_word(platform, 0), lone_word(platform, 0));
    let shared = (sem.clone(), written.clone(), writers);
    on_all_cores::<P, _>(cpu, 2, move |cpu, number| {
        let (sem, written, writers) = shared.clone();
        async move {
            for round in 0..rounds {
                if (round + u64::from(number)) % 4 == 0 {
                    sem.write(&cpu, async || {
                        let others = writers.fetch_add(&cpu, 1, Ordering::Relaxed).await;
                        assert_eq!(others, 0, "{reader_spin:?}: two writers inside");
                        let before = written.load(&cpu, Ordering::Relaxed).await;
                        cpu.yield_now().await;
                        written.store(&cpu, before + 1, Ordering::Relaxed).await;
                        writers.add(&cpu, u64::MAX, Ordering::Relaxed).await;
                    })
                    .await;
                } else {
                    sem.read(&cpu, async || {
                        cpu.yield_now().await;
                        let inside = writers.load(&cpu, Ordering::Relaxed).await;
                        assert_eq!(inside, 0, "{reader_spin:?}: a writer beside a reader");
                    })
                    .await;
                }
            }
        }
    })
    .await;
    let tasks = 2 * participants(platform).count() as u64;
    let expected: u64 =
        (0..tasks).map(|task| (0..rounds).filter(|it| (it + task) % 4 == 0).count() as u64).sum();
    assert_eq!(written.load(cpu, Ordering::Acquire).await, expected, "a write was lost");
}
