//! The barrier in all its variants, and one that is not ours.

use crate::rig::{CHUNK_SECTORS, read_tags};
use crate::support::{Outcome, TestCpu, TestPlatform, World};
use raid::concurrency::barrier::{CountingBarrier, ResyncBarrier, Step};
use raid::lock::{SpinKind, SpinLock, WaitQueue};
use raid::platform::{Cpu, Label, Place};
use raid::tuning::{Placement, ResyncLock, Tuning, Undo, Wake};
use raid::units::Sectors;
use raid::{Array, ArrayOptions, Level, ResyncOptions};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

const KINDS: [SpinKind; 4] =
    [SpinKind::TestAndSet, SpinKind::Ticket, SpinKind::Queued, SpinKind::NumaQueued];

/// Requests and jobs go through the barrier; no request may be inside together with a job.
fn go_through(tuning: Tuning, seed: u64) -> Outcome {
    let mut world = World::new(4, seed);
    let barrier = Rc::new(CountingBarrier::new(world.platform(), tuning));
    let requests_inside = Rc::new(Cell::new(0));
    let jobs_inside = Rc::new(Cell::new(0));
    for cpu in 0..3 {
        let (barrier, requests, jobs) =
            (barrier.clone(), requests_inside.clone(), jobs_inside.clone());
        world.spawn(cpu, "request", |cpu| async move {
            for _ in 0..6 {
                barrier.enter(&cpu).await;
                assert_eq!(jobs.get(), 0, "a request beside a job");
                requests.set(requests.get() + 1);
                barrier.submitted(&cpu).await;
                cpu.yield_now().await;
                requests.set(requests.get() - 1);
                barrier.leave(&cpu).await;
            }
        });
    }
    for cpu in 2..4 {
        let (barrier, requests, jobs) =
            (barrier.clone(), requests_inside.clone(), jobs_inside.clone());
        world.spawn(cpu, "job", |cpu| async move {
            for _ in 0..3 {
                for force in [false, true] {
                    barrier.raise(&cpu, force).await;
                    assert_eq!(requests.get(), 0, "a job beside a request");
                    jobs.set(jobs.get() + 1);
                }
                cpu.yield_now().await;
                for _ in 0..2 {
                    assert_eq!(requests.get(), 0, "a job beside a request");
                    jobs.set(jobs.get() - 1);
                    barrier.lower(&cpu).await;
                }
            }
        });
    }
    world.run()
}

/// The first seed below `seeds` that hangs.
fn first_hang(tuning: Tuning, seeds: u64) -> Option<u64> {
    (0..seeds).find(|seed| go_through(tuning, *seed) != Outcome::Done)
}

#[test]
fn no_variant_lets_requests_and_jobs_meet_or_hangs() {
    for resync_lock in [ResyncLock::Spin, ResyncLock::Seqlock] {
        for wake in [Wake::Always, Wake::IfWaiting] {
            for placement in [Placement::Together, Placement::Apart] {
                for spin_kind in KINDS {
                    let undo = Undo::WakeAtZero;
                    let tuning = Tuning {
                        resync_lock,
                        wake,
                        placement,
                        spin_kind,
                        undo,
                        ..Tuning::default()
                    };
                    assert_eq!(first_hang(tuning, 30), None, "{tuning:?}");
                }
            }
        }
    }
}

#[test]
fn the_silent_undo_loses_a_wake_up_and_the_fixed_one_does_not() {
    let silent = Tuning { undo: Undo::Silent, ..Tuning::default() };
    let seed = first_hang(silent, 1000).expect("some seed loses the wake-up");
    let Outcome::Deadlock(left) = go_through(silent, seed) else { panic!("it hung before") };
    assert!(left.iter().any(|task| task == "job waits for wait_barrier"), "{left:?}");
    assert_eq!(first_hang(Tuning::default(), 1000), None);
}

#[test]
fn the_lock_path_never_undoes() {
    let tuning = Tuning { resync_lock: ResyncLock::Spin, undo: Undo::Silent, ..Tuning::default() };
    assert_eq!(first_hang(tuning, 300), None);
}

#[test]
#[should_panic(expected = "only who is inside may force the barrier")]
fn an_open_barrier_cannot_be_forced() {
    let mut world = World::new(1, 0);
    let barrier = CountingBarrier::new(world.platform(), Tuning::default());
    world.spawn(0, "job", |cpu| async move { barrier.raise(&cpu, true).await });
    world.run();
}

/// A barrier such as a user may bring: one lock, two numbers.
struct PlainBarrier {
    counts: SpinLock<TestPlatform, (u32, u32)>,
    wait: WaitQueue<TestPlatform>,
}

impl PlainBarrier {
    fn new(platform: &TestPlatform) -> Self {
        let (label, kind) = (Label::new("plain"), SpinKind::Ticket);
        Self {
            counts: SpinLock::new(platform, label, kind, Place::Alone, (0, 0)),
            wait: WaitQueue::new(platform, label, kind, Place::Alone),
        }
    }

    async fn change(&self, cpu: &TestCpu, change: impl Fn(&mut (u32, u32))) {
        self.counts.with(cpu, async |counts| change(counts)).await;
        self.wait.wake_all(cpu).await;
    }
}

impl ResyncBarrier<TestPlatform> for PlainBarrier {
    fn enter<'a>(&'a self, cpu: &'a TestCpu) -> Step<'a> {
        Box::pin(self.wait.wait_until(cpu, async || {
            let enter = async |(requests, jobs): &mut (u32, u32)| {
                *requests += u32::from(*jobs == 0);
                *jobs == 0
            };
            self.counts.with(cpu, enter).await
        }))
    }

    fn submitted<'a>(&'a self, _: &'a TestCpu) -> Step<'a> {
        Box::pin(async {})
    }

    fn leave<'a>(&'a self, cpu: &'a TestCpu) -> Step<'a> {
        Box::pin(self.change(cpu, |(requests, _)| *requests -= 1))
    }

    fn raise<'a>(&'a self, cpu: &'a TestCpu, _: bool) -> Step<'a> {
        Box::pin(async {
            self.change(cpu, |(_, jobs)| *jobs += 1).await;
            let alone = async || self.counts.with(cpu, async |(requests, _)| *requests == 0).await;
            self.wait.wait_until(cpu, alone).await;
        })
    }

    fn lower<'a>(&'a self, cpu: &'a TestCpu) -> Step<'a> {
        Box::pin(self.change(cpu, |(_, jobs)| *jobs -= 1))
    }
}

#[test]
fn an_array_works_with_a_barrier_from_outside() {
    let mut world = World::new(2, 7);
    let drives = vec![world.drive("disk0", 64), world.drive("disk1", 64)];
    let options = ArrayOptions {
        level: Level::raid10_near(2),
        chunk: Sectors(CHUNK_SECTORS),
        tuning: Tuning::default(),
    };
    let barrier = Arc::new(PlainBarrier::new(world.platform()));
    let array = Array::create_with_barrier(world.platform(), drives, options, barrier);
    let array = array.expect("a fit array");
    let reader = array.clone();
    world.spawn(0, "reader", |cpu| async move {
        for at in 0..20 {
            read_tags(&cpu, &reader, at, 9).await.expect("no fault");
        }
    });
    world.spawn(1, "resync", |cpu| async move {
        let options = ResyncOptions { window: Sectors(8), ..ResyncOptions::default() };
        array.resync(&cpu, options).await.expect("no fault");
    });
    assert_eq!(world.run(), Outcome::Done);
}
