//! The resync barrier: a request and a background job are never inside together, each sees what the
//! other did before, and neither sleeps for ever.

use crate::support::{LoomCpu, LoomPlatform, model};
use raid::concurrency::barrier::CountingBarrier;
use raid::lock::SpinKind;
use raid::platform::{Cpu, Guarded, Platform};
use raid::tuning::{ResyncLock, Tuning, Undo, Wake};
use raid::units::CpuId;

/// Without a bound the walk takes minutes; the lost wake-up needs two preemptions.
const PREEMPTIONS_MAX: Option<usize> = Some(3);

type Cell = <LoomPlatform as Platform>::Guarded<u64>;

/// The barrier and what it keeps apart: loom reports two accesses without an order between them.
struct Shared {
    barrier: CountingBarrier<LoomPlatform>,
    inside: Cell,
}

impl Shared {
    fn touch(&self) {
        // SAFETY: whoever calls this is inside the barrier, as one of two parties that exclude each
        // other. Whether they do is the question.
        *unsafe { self.inside.access() } += 1;
    }
}

/// Core 0 goes through once as a background job, core 1 as a request.
fn check(resync_lock: ResyncLock, wake: Wake, undo: Undo) {
    let spin_kind = SpinKind::Ticket;
    let tuning = Tuning { resync_lock, wake, undo, spin_kind, ..Tuning::default() };
    let setup = move |platform: &LoomPlatform| Shared {
        barrier: CountingBarrier::new(platform, tuning),
        inside: platform.guarded(0),
    };
    let go_through = async |cpu: &LoomCpu, shared: &Shared| {
        if cpu.id() == CpuId(0) {
            shared.barrier.raise(cpu, false).await;
            shared.touch();
            shared.barrier.lower(cpu).await;
        } else {
            shared.barrier.enter(cpu).await;
            shared.touch();
            shared.barrier.submitted(cpu).await;
            shared.barrier.leave(cpu).await;
        }
    };
    model(&[0, 0], PREEMPTIONS_MAX, setup, go_through, async |_, _| {});
}

#[test]
fn the_spin_lock_keeps_requests_and_jobs_apart() {
    check(ResyncLock::Spin, Wake::IfWaiting, Undo::WakeAtZero);
}

#[test]
fn the_sequence_lock_keeps_requests_and_jobs_apart() {
    check(ResyncLock::Seqlock, Wake::IfWaiting, Undo::WakeAtZero);
}

#[test]
fn waking_always_does_no_harm() {
    check(ResyncLock::Seqlock, Wake::Always, Undo::WakeAtZero);
}

#[test]
#[should_panic(expected = "deadlock")]
fn the_silent_undo_loses_a_wake_up() {
    check(ResyncLock::Seqlock, Wake::IfWaiting, Undo::Silent);
}
