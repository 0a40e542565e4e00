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
/// together in about `duration_ns`.
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
    let rate_per_s = Arc::new(AtomicU64::new(0));
    let begin_ns = cpu.now_ns() + LEAD_NS;
    let measured = begin_ns..begin_ns + duration_ns;
    for thread in 0..threads {
        let (device, running, rate_per_s) = (device.clone(), running.clone(), rate_per_s.clone());
        let (ended, measured) = (ended.clone(), measured.clone());
        let label = Label::indexed("job", thread);
        platform.spawn_on(CpuId(thread), label, async move |cpu: P::Cpu| {
            let of_thread = requests_per_s::<P>(&cpu, &device, measured).await;
            rate_per_s.fetch_add(of_thread, atomic::Ordering::Relaxed);
            if running.fetch_add(&cpu, u64::MAX, Ordering::AcqRel).await == 1 {
                ended.unpark(&cpu).await;
            }
        });
    }
    ended.park(cpu).await;
    assert_eq!(device.sum(cpu).await, 0, "{kind:?} counts requests that have ended");
    rate_per_s.load(atomic::Ordering::Relaxed) as f64 / 1e6
}

/// Makes requests until `measured` is over, and at least one batch from its begin on: how many a
/// second, by the time that they took.
async fn requests_per_s<P: Platform>(
    cpu: &P::Cpu,
    device: &Inflight<P>,
    measured: Range<u64>,
) -> u64 {
    while cpu.now_ns() < measured.start {
        requests::<P>(cpu, device).await;
    }
    let begun_ns = cpu.now_ns();
    let mut counted = 0;
    loop {
        requests::<P>(cpu, device).await;
        counted += BATCH;
        let now_ns = cpu.now_ns();
        if now_ns >= measured.end {
            return counted * 1_000_000_000 / (now_ns - begun_ns).max(1);
        }
    }
}

async fn requests<P: Platform>(cpu: &P::Cpu, device: &Inflight<P>) {
    for _ in 0..BATCH {
        request::<P>(cpu, device, None).await;
    }
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
            assert!(rate > 0.0, "{kind:?}: {rate} M requests a second");
        }
    }
}
