//! A resync barrier from outside the workspace, plugged into an array and compared with the built-in
//! ones on a simulated machine:
//!
//! ```sh
//! cargo run --release -p scenarios --example own_barrier
//! ```
//!
//! [`CountPerCore`] counts the requests of each core on a line of that core's own, as the kernel's
//! `percpu_ref` does: entering moves no line between cores, and raising reads one line for each core.
//! It never wakes anybody: whoever must wait looks again after a while.

use raid::buffer::Buffer;
use raid::concurrency::barrier::{ResyncBarrier, Step};
use raid::lock::SpinKind;
use raid::platform::{Cpu, Label, Ordering, Place, Platform, Word};
use raid::tuning::{ResyncLock, Wake};
use raid::units::{CpuId, Sector, Sectors};
use raid::{Array, ArrayOptions, Level, ResyncOptions, Tuning};
use sim::machine::MachineFile;
use sim::{Options, Outcome, SimPlatform, Simulation};
use std::sync::Arc;

/// How long a waiting request or job sleeps before it looks again; far below a resync window.
const LOOK_AGAIN_NS: u64 = 2_000;
/// Minus one, for words that wrap.
const MINUS_ONE: u64 = u64::MAX;

/// The barrier. A request is inside while it is counted on its core and found `raised` at zero after
/// that; a job is inside once it has seen every count at zero after raising. Both orders are
/// sequentially consistent, so of a request and a job that meet at least one sees the other.
struct CountPerCore<P: Platform> {
    inside: Vec<P::Word>,
    raised: P::Word,
    waiting: P::Word,
}

impl<P: Platform> CountPerCore<P> {
    fn new(platform: &P) -> Self {
        let word = |name| platform.word(Label::new(name), Place::Alone, 0);
        let inside = (0..platform.topology().cpu_count()).map(|_| word("requests_of_core"));
        Self { inside: inside.collect(), raised: word("raised"), waiting: word("waiting") }
    }

    fn own_count(&self, cpu: &P::Cpu) -> &P::Word {
        &self.inside[cpu.id().0 as usize]
    }

    async fn until_zero(cpu: &P::Cpu, word: &P::Word) {
        while word.load(cpu, Ordering::SeqCst).await != 0 {
            cpu.sleep_ns(LOOK_AGAIN_NS).await;
        }
    }
}

impl<P: Platform> ResyncBarrier<P> for CountPerCore<P> {
    fn enter<'a>(&'a self, cpu: &'a P::Cpu) -> Step<'a> {
        Box::pin(async move {
            loop {
                self.own_count(cpu).fetch_add(cpu, 1, Ordering::SeqCst).await;
                if self.raised.load(cpu, Ordering::SeqCst).await == 0 {
                    return;
                }
                self.own_count(cpu).fetch_add(cpu, MINUS_ONE, Ordering::SeqCst).await;
                self.waiting.fetch_add(cpu, 1, Ordering::SeqCst).await;
                Self::until_zero(cpu, &self.raised).await;
                self.waiting.fetch_add(cpu, MINUS_ONE, Ordering::SeqCst).await;
            }
        })
    }

    fn submitted<'a>(&'a self, _: &'a P::Cpu) -> Step<'a> {
        Box::pin(async {})
    }

    /// A request leaves on the core that it entered on, since completions are waited for there.
    fn leave<'a>(&'a self, cpu: &'a P::Cpu) -> Step<'a> {
        Box::pin(async move {
            let before = self.own_count(cpu).fetch_add(cpu, MINUS_ONE, Ordering::SeqCst).await;
            assert_ne!(before, 0, "a request leaves where it entered");
        })
    }

    fn raise<'a>(&'a self, cpu: &'a P::Cpu, force: bool) -> Step<'a> {
        Box::pin(async move {
            if !force {
                Self::until_zero(cpu, &self.waiting).await;
            }
            self.raised.fetch_add(cpu, 1, Ordering::SeqCst).await;
            for count in &self.inside {
                Self::until_zero(cpu, count).await;
            }
        })
    }

    fn lower<'a>(&'a self, cpu: &'a P::Cpu) -> Step<'a> {
        Box::pin(async move {
            let before = self.raised.fetch_add(cpu, MINUS_ONE, Ordering::SeqCst).await;
            assert_ne!(before, 0, "a job lowers what it raised");
        })
    }
}

/// What guards the array's barrier.
#[derive(Clone, Copy)]
enum Design {
    BuiltIn(ResyncLock, Wake),
    CountPerCore,
}

const READERS_PER_CORE: u32 = 4;
const READS_PER_READER: u32 = 20;
const READ_BYTES: usize = 4096;
const DRIVES: usize = 4;
const DRIVE_SIZE: Sectors = Sectors(1 << 16);

/// Nanoseconds until the first `cores` cores of a Kunpeng 920 have done their reads, beside a resync
/// if `resync`.
fn simulate(design: Design, cores: u32, resync: bool) -> u64 {
    let machine = MachineFile::preset("kunpeng920").expect("a preset").nominal();
    let mut simulation = Simulation::new(&machine, Options { seed: 2022, ..Options::default() });
    let platform = simulation.platform();
    let drives = (0..DRIVES)
        .map(|_| simulation.drive_without_content("drive", &machine.drive, DRIVE_SIZE))
        .collect();
    let mut options = ArrayOptions {
        level: Level::raid10_near(2),
        chunk: Sectors(128),
        tuning: Tuning { spin_kind: SpinKind::Queued, ..Tuning::default() },
    };
    let array = match design {
        Design::BuiltIn(resync_lock, wake) => {
            options.tuning = Tuning { resync_lock, wake, ..options.tuning };
            Array::create(&platform, drives, options)
        }
        Design::CountPerCore => {
            let barrier = Arc::new(CountPerCore::<SimPlatform>::new(&platform));
            Array::create_with_barrier(&platform, drives, options, barrier)
        }
    }
    .expect("four like drives make an array");
    for reader in 0..cores * READERS_PER_CORE {
        let array = array.clone();
        let label = Label::indexed("reader", reader);
        platform.spawn_on(CpuId(reader % cores), label, move |cpu| async move {
            let mut buffer = Buffer::zeroed(READ_BYTES);
            let sectors = READ_BYTES as u64 / 512;
            for read in 0..READS_PER_READER {
                let at = u64::from(reader * READS_PER_READER + read) * sectors;
                let done = array.read(&cpu, Sector(at % array.capacity().0), buffer).await;
                done.result.expect("the drives are well");
                buffer = done.buffer;
            }
        });
    }
    if resync {
        platform.spawn_on(CpuId(cores), Label::new("resync"), move |cpu| async move {
            let range = Some(Sector(0)..Sector(1 << 13));
            let options = ResyncOptions { range, ..ResyncOptions::default() };
            array.resync(&cpu, options).await.expect("the drives are well");
        });
    }
    assert_eq!(simulation.run(), Outcome::Done);
    simulation.now_ns()
}

const DESIGNS: [(&str, Design); 3] = [
    ("spin lock, wake always", Design::BuiltIn(ResyncLock::Spin, Wake::Always)),
    ("sequence lock, wake if waiting", Design::BuiltIn(ResyncLock::Seqlock, Wake::IfWaiting)),
    ("count per core", Design::CountPerCore),
];

fn main() {
    println!("{:32} {:>12} {:>16}", "barrier", "reads alone", "beside a resync");
    for (name, design) in DESIGNS {
        let [alone_us, beside_us] = [false, true].map(|resync| simulate(design, 64, resync) / 1000);
        println!("{name:32} {alone_us:>9} µs {beside_us:>13} µs");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_design_lets_reads_and_a_resync_through() {
        for (_, design) in DESIGNS {
            assert!(simulate(design, 8, true) >= simulate(design, 8, false));
        }
    }
}
