//! Spin locks: one core at a time is inside, and sees what those before it did.

use crate::support::{LoomPlatform, model};
use raid::lock::{SpinKind, SpinLock};
use raid::platform::{Label, Ordering, Place, Platform, Word};

const LABEL: Label = Label::new("model");

/// Each core adds one in each of `sections` sections, through a word that it may lose in between:
/// reading and writing back are apart, so any overlap shows in the sum, or as a race on the value.
#[track_caller]
fn check(
    kind: SpinKind,
    node_of_cpu: &'static [u32],
    sections: u64,
    preemptions_max: Option<usize>,
) {
    let setup = move |platform: &LoomPlatform| {
        let lock = SpinLock::new(platform, LABEL, kind, Place::Alone, 0);
        (lock, platform.word(LABEL, Place::Alone, 0))
    };
    let sum = sections * node_of_cpu.len() as u64;
    model(
        node_of_cpu,
        preemptions_max,
        setup,
        async move |cpu, (lock, outside)| {
            for _ in 0..sections {
                let section = async |value: &mut u64| {
                    let before = outside.load(cpu, Ordering::Relaxed).await;
                    *value += 1;
                    outside.store(cpu, before + 1, Ordering::Relaxed).await;
                };
                lock.with(cpu, section).await;
            }
        },
        async move |cpu, (lock, outside)| {
            assert_eq!(lock.with(cpu, async |value: &mut u64| *value).await, sum);
            assert_eq!(outside.load(cpu, Ordering::Relaxed).await, sum);
        },
    );
}

#[test]
fn two_cores_exclude_each_other_by_test_and_set() {
    check(SpinKind::TestAndSet, &[0, 0], 2, None);
}

#[test]
fn two_cores_exclude_each_other_by_tickets() {
    check(SpinKind::Ticket, &[0, 0], 2, None);
}

#[test]
fn two_cores_exclude_each_other_in_a_queue() {
    check(SpinKind::Queued, &[0, 0], 2, None);
}

#[test]
fn two_cores_exclude_each_other_in_a_numa_queue() {
    check(SpinKind::NumaQueued, &[0, 0], 2, None);
    check(SpinKind::NumaQueued, &[0, 1], 2, None);
}

#[test]
fn three_cores_exclude_each_other_by_test_and_set() {
    check(SpinKind::TestAndSet, &[0, 0, 0], 1, Some(2));
}

#[test]
fn three_cores_exclude_each_other_by_tickets() {
    check(SpinKind::Ticket, &[0, 0, 0], 1, Some(2));
}

#[test]
fn three_cores_exclude_each_other_in_a_queue() {
    check(SpinKind::Queued, &[0, 0, 0], 1, Some(2));
}

/// The core in the middle is passed over when it queues before the third: the secondary queue.
#[test]
fn three_cores_exclude_each_other_in_a_numa_queue() {
    check(SpinKind::NumaQueued, &[0, 1, 0], 1, Some(2));
}
