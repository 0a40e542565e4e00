//! Requests on a device that completes them at once: they take a tag, are counted, and give both
//! back. One piece of code for the simulated machine and for this one.

use crate::inflight::{CounterKind, Inflight, TickReader};
use raid::platform::{Cpu, Label, Ordering, Parker, Place, Platform, Word, Work};
use raid::units::CpuId;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{self, AtomicU64};

/// Linux's clock at HZ=1000, the most that it has.
const TICK_NS: u64 = 1_000_000;
/// Requests between two looks at the clock, which costs as much as a request does.
const BATCH: u64 = 64;
/// From the start of the threads until all of them run for sure.
const LEAD_NS: u64 = 20_000_000;

/// One request, from the application's decision until it has taken note of the end. `ticks`, if
/// there is one, has the number read once in each tick.
pub async fn request<P: Platform>(
    cpu: &P::Cpu,
    device: &Inflight<P>,
    ticks: Option<&TickReader<P>>,
) {
    cpu.spend(Work::ApplicationSubmit).await;
    pass_tick(cpu, device, ticks).await;
    let started = device.start(cpu, false).await.expect("a job has one request under way");
    cpu.spend(Work::DriverSubmit).await;
    cpu.spend(Work::DriverCompletion).await;
    pass_tick(cpu, device, ticks).await;
    device.end(cpu, started).await;
    tracing::debug!("request completed");
    cpu.spend(Work::ApplicationReap).await;
}

async fn pass_tick<P: Platform>(cpu: &P::Cpu, device: &Inflight<P>, ticks: Option<&TickReader<P>>) {
    if let Some(ticks) = ticks {
        ticks.pass(cpu, device, 1 + cpu.now_ns() / TICK_NS).await;
    }
}

/// Millions of requests a second that `threads` threads, one on each of the first cores, make
/// together in `duration_ns`.
///
/// # Panics
/// If the machine has not so many cores, or a request is still under way at the end.
pub async fn request_rate<P: Platform>(
    cpu: &P::Cpu,
    kind: CounterKind,
    threads: u32,
    duration_ns: u64,
) -> f64 {
    let platform = cpu.platform();
    let device = Arc::new(Inflight::new(platform, kind, platform.topology().cpu_count()));
    let running = Arc::new(platform.word(Label::new("running"), Place::Alone, threads.into()));
    let ended = platform.parker(Label::new("all have ended"));
    let completed = Arc::new(AtomicU64::new(0));
    let begin_ns = cpu.now_ns() + LEAD_NS;
    let measured = begin_ns..begin_ns + duration_ns;
    for thread in 0..threads {
        let (device, running, completed) = (device.clone(), running.clone(), completed.clone());
        let (ended, measured) = (ended.clone(), measured.clone());
        let label = Label::indexed("job", thread);
        platform.spawn_on(CpuId(thread), label, async move |cpu: P::Cpu| {
            let counted = requests_in::<P>(&cpu, &device, measured).await;
            completed.fetch_add(counted, atomic::Ordering::Relaxed);
            if running.fetch_add(&cpu, u64::MAX, Ordering::AcqRel).await == 1 {
                ended.unpark(&cpu).await;
            }
        });
    }
    ended.park(cpu).await;
    assert_eq!(device.sum(cpu).await, 0, "{kind:?} counts requests that have ended");
    // Requests in a microsecond are millions in a second.
    completed.load(atomic::Ordering::Relaxed) as f64 * 1000.0 / duration_ns as f64
}

/// Makes requests until `measured` is over; how many of them lay in it.
async fn requests_in<P: Platform>(cpu: &P::Cpu, device: &Inflight<P>, measured: Range<u64>) -> u64 {
    let mut counted = 0;
    while cpu.now_ns() < measured.end {
        for _ in 0..BATCH {
            request::<P>(cpu, device, None).await;
        }
        if measured.contains(&cpu.now_ns()) {
            counted += BATCH;
        }
    }
    counted
}

#[cfg(test)]
mod tests {
    use super::*;
    use backends::{Cpus, Options, RealMachine, RealPlatform};

    #[test]
    fn requests_are_made_on_this_machine_and_all_of_them_end() {
        let machine =
            RealMachine::start(Cpus::Count(1), Options::from_environment()).expect("a core");
        for kind in CounterKind::ALL {
            let rate = machine.block_on(CpuId(0), async move |cpu| {
                request_rate::<RealPlatform>(&cpu, kind, 1, 2_000_000).await
            });
            assert!(rate > 0.01, "{kind:?}: {rate} M requests a second");
        }
    }
}
