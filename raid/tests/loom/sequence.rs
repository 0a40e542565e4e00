//! Sequence locks: a reader that need not try again saw no half of a write.

use crate::support::{LoomCpu, LoomPlatform, LoomWord, model};
use raid::lock::{SeqLock, SpinKind};
use raid::platform::{Cpu, Label, Ordering, Place, Platform, Word};
use raid::units::CpuId;

const LABEL: Label = Label::new("model");

/// A lock and two words that it guards.
struct Pair {
    lock: SeqLock<LoomPlatform>,
    first: LoomWord,
    second: LoomWord,
}

impl Pair {
    fn new(platform: &LoomPlatform) -> Self {
        let lock = SeqLock::new(platform, LABEL, SpinKind::TestAndSet, Place::Alone);
        let word = || platform.word(LABEL, Place::Alone, 0);
        Self { lock, first: word(), second: word() }
    }

    async fn add_to_both(&self, cpu: &LoomCpu) {
        let section = async || {
            let before = self.first.load(cpu, Ordering::Relaxed).await;
            self.first.store(cpu, before + 1, Ordering::Relaxed).await;
            self.second.store(cpu, before + 1, Ordering::Relaxed).await;
        };
        self.lock.write(cpu, section).await;
    }

    /// Both words if no writer came in between.
    async fn read(&self, cpu: &LoomCpu) -> Option<(u64, u64)> {
        let since = self.lock.read_begin(cpu).await;
        let first = self.first.load(cpu, Ordering::Relaxed).await;
        let second = self.second.load(cpu, Ordering::Relaxed).await;
        (!self.lock.read_changed(cpu, since).await).then_some((first, second))
    }
}

/// The first `writers` cores add one to both words in each of `sections` sections; the others read.
#[track_caller]
fn check(node_of_cpu: &'static [u32], writers: u32, sections: u64, preemptions_max: Option<usize>) {
    let sum = u64::from(writers) * sections;
    model(
        node_of_cpu,
        preemptions_max,
        Pair::new,
        async move |cpu, pair| {
            if cpu.id() < CpuId(writers) {
                for _ in 0..sections {
                    pair.add_to_both(cpu).await;
                }
            } else if let Some((first, second)) = pair.read(cpu).await {
                assert_eq!(first, second, "a torn pair");
            }
        },
        // The task that checks need not be one that wrote: it enters as a writer to see all writes.
        async move |cpu, pair| {
            pair.add_to_both(cpu).await;
            assert_eq!(pair.read(cpu).await, Some((sum + 1, sum + 1)));
        },
    );
}

#[test]
fn a_reader_sees_no_half_of_a_write() {
    check(&[0, 0], 1, 2, None);
}

#[test]
fn a_reader_sees_no_half_of_two_writers() {
    check(&[0, 0, 0], 2, 1, Some(2));
}

/// A reader counts itself in and leaves if a writer was there: what a request does that passes a
/// barrier. The writer raises the barrier, then looks for readers.
#[test]
fn a_reader_that_counts_itself_in_is_seen_by_the_writer() {
    model(
        &[0, 0],
        None,
        |platform| (Pair::new(platform), platform.word(LABEL, Place::Alone, 0)),
        async |cpu, (pair, overlooked)| {
            let (barrier, inside) = (&pair.first, &pair.second);
            if cpu.id() == CpuId(0) {
                let raise = async || {
                    barrier.store(cpu, 1, Ordering::Relaxed).await;
                    cpu.fence(Ordering::SeqCst).await;
                    inside.load(cpu, Ordering::Relaxed).await
                };
                if pair.lock.write(cpu, raise).await == 0 {
                    overlooked.fetch_add(cpu, 1, Ordering::Relaxed).await;
                }
            } else {
                let since = pair.lock.read_begin(cpu).await;
                if barrier.load(cpu, Ordering::Relaxed).await == 0 {
                    inside.add(cpu, 1, Ordering::Relaxed).await;
                    cpu.fence(Ordering::SeqCst).await;
                    if !pair.lock.read_changed(cpu, since).await {
                        overlooked.fetch_add(cpu, 1, Ordering::Relaxed).await;
                    }
                }
            }
        },
        async |cpu, (_, overlooked)| {
            // An exchange, unlike a load, sees the newest value.
            let overlooked = overlooked.fetch_add(cpu, 0, Ordering::Relaxed).await;
            assert_ne!(overlooked, 2, "a reader is inside and the writer saw nobody");
        },
    );
}
