//! Reader-writer semaphores: a writer is alone inside, and nobody sleeps forever. A lost wake-up is
//! a deadlock, which loom reports.

use crate::support::{LoomPlatform, model};
use raid::lock::{ReaderSpin, RwSem, SpinKind};
use raid::platform::{Cpu, Label, Ordering, Place, Platform, Word};

const LABEL: Label = Label::new("model");

/// The first `writers` cores write once, the others read once. A writer changes two words one after
/// the other; a reader or writer that overlaps it finds them different.
#[track_caller]
fn check(
    reader_spin: ReaderSpin,
    node_of_cpu: &'static [u32],
    writers: u32,
    preemptions_max: Option<usize>,
) {
    let setup = move |platform: &LoomPlatform| {
        let kind = SpinKind::TestAndSet;
        let sem = RwSem::new(platform, LABEL, kind, Place::Alone, reader_spin, 1);
        let word = || platform.word(LABEL, Place::Alone, 0);
        (sem, word(), word())
    };
    model(
        node_of_cpu,
        preemptions_max,
        setup,
        async move |cpu, (sem, first, second)| {
            if cpu.id().0 < writers {
                sem.write(cpu, async || {
                    let before = first.load(cpu, Ordering::Relaxed).await;
                    first.store(cpu, before + 1, Ordering::Relaxed).await;
                    second.store(cpu, before + 1, Ordering::Relaxed).await;
                })
                .await;
            } else {
                sem.read(cpu, async || {
                    let later = second.load(cpu, Ordering::Relaxed).await;
                    assert_eq!(first.load(cpu, Ordering::Relaxed).await, later);
                })
                .await;
            }
        },
        async move |cpu, (sem, first, _)| {
            let counted = sem.write(cpu, async || first.load(cpu, Ordering::Relaxed).await).await;
            assert_eq!(counted, u64::from(writers));
        },
    );
}

#[test]
fn a_reader_and_a_writer_exclude_each_other() {
    check(ReaderSpin::Off, &[0, 0], 1, Some(6));
    check(ReaderSpin::On, &[0, 0], 1, Some(6));
    check(ReaderSpin::Adaptive, &[0, 0], 1, Some(6));
}

#[test]
fn two_writers_exclude_each_other() {
    check(ReaderSpin::Off, &[0, 0], 2, Some(6));
}

#[test]
fn two_readers_and_a_writer_lose_no_wake_up() {
    check(ReaderSpin::Off, &[0, 0, 0], 1, Some(3));
    check(ReaderSpin::Adaptive, &[0, 0, 0], 1, Some(3));
}

#[test]
fn a_reader_and_two_writers_lose_no_wake_up() {
    check(ReaderSpin::Off, &[0, 0, 0], 2, Some(3));
    check(ReaderSpin::Adaptive, &[0, 0, 0], 2, Some(3));
}
