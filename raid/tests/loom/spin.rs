//! Spin locks: one core at a time is inside, and sees what those before it did.

use crate::support::{LoomPlatform, model};
use raid::lock::{SpinKind, SpinLock};
use raid::platform::{Label, Ordering, Place, Platform, Word};

const LABEL: Label = Label::new("model");

/// Each core adds one to the guarded value and to a word in each of `sections` sections. On the word
/// reading and writing back are apart, so an overlap shows in the sum; on the value it is a race.
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
    check(SpinKind::Queued, &[0, 0], 2, Some(6));
}

#[test]
fn two_cores_exclude_each_other_in_a_numa_queue() {
    check(SpinKind::NumaQueued, &[0, 0], 2, Some(6));
    check(SpinKind::NumaQueued, &[0, 1], 2, Some(6));
}

#[test]
fn three_cores_exclude_each_other_by_test_and_set() {
    check(SpinKind::TestAndSet, &[0, 0, 0], 1, None);
}

#[test]
fn three_cores_exclude_each_other_by_tickets() {
    check(SpinKind::Ticket, &[0, 0, 0], 1, None);
}

/// Held, pending, and a head of the queue.
#[test]
fn three_cores_exclude_each_other_in_a_queue() {
    check(SpinKind::Queued, &[0, 0, 0], 1, Some(4));
}

/// The core in the middle is passed over when it queues up before the third: the secondary queue
/// comes into being, and becomes the main one.
#[test]
fn three_cores_exclude_each_other_in_a_numa_queue() {
    check(SpinKind::NumaQueued, &[0, 1, 0], 1, Some(4));
}

/// A core that waits behind the head of the queue; one that sets `pending`, finds a queue and takes
/// it back.
#[test]
fn four_cores_exclude_each_other_in_a_queue() {
    check(SpinKind::Queued, &[0, 0, 0, 0], 1, Some(3));
}

/// The secondary queue is spliced in front of a main queue that has no waiter nearby.
#[test]
fn four_cores_exclude_each_other_in_a_numa_queue() {
    check(SpinKind::NumaQueued, &[0, 1, 0, 1], 1, Some(2));
}
