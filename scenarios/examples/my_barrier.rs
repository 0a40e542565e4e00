//! A resync barrier from outside the workspace, beside the built-in ones of `raid10-resync-lock`:
//! `cargo run --release -p scenarios --example my_barrier`.
//!
//! It counts the requests of each core on a line of that core's own, as the kernel's `percpu_ref`
//! does. It wakes nobody: whoever must wait looks again after a while.

use raid::concurrency::barrier::{ResyncBarrier, Step};
use raid::platform::{Cpu, Label, Ordering::SeqCst, Place, Platform, Word};
use scenarios::catalogue::raid10_resync_lock::{OwnBarrier, Raid10ResyncLock};
use scenarios::verbs::compare_scenario;
use sim::machine::MachineFile;
use std::sync::Arc;

/// Far below a resync window.
const LOOK_AGAIN_NS: u64 = 2_000;
/// Minus one, for words that wrap.
const MINUS_ONE: u64 = u64::MAX;

/// A request is inside while it is counted on its core and then found `raised` at zero; a job is
/// inside once it has raised and then found every count at zero. Both in sequentially consistent
/// order, so of a request and a job that meet at least one sees the other.
pub(crate) struct CountPerCore<P: Platform> {
    inside: Vec<P::Word>,
    raised: P::Word,
    waiting: P::Word,
}

impl<P: Platform> CountPerCore<P> {
    /// A barrier that is down.
    pub(crate) fn new(platform: &P) -> Self {
        let word = |name| platform.word(Label::new(name), Place::Alone, 0);
        let inside = (0..platform.topology().cpu_count()).map(|_| word("requests_of_core"));
        Self { inside: inside.collect(), raised: word("raised"), waiting: word("waiting") }
    }

    async fn until_zero(cpu: &P::Cpu, word: &P::Word) {
        while word.load(cpu, SeqCst).await != 0 {
            cpu.sleep_ns(LOOK_AGAIN_NS).await;
        }
    }
}

impl<P: Platform> ResyncBarrier<P> for CountPerCore<P> {
    fn enter<'a>(&'a self, cpu: &'a P::Cpu) -> Step<'a> {
        Box::pin(async move {
            let own = &self.inside[cpu.id().0 as usize];
            loop {
                own.fetch_add(cpu, 1, SeqCst).await;
                if self.raised.load(cpu, SeqCst).await == 0 {
                    return;
                }
                own.fetch_add(cpu, MINUS_ONE, SeqCst).await;
                self.waiting.fetch_add(cpu, 1, SeqCst).await;
                Self::until_zero(cpu, &self.raised).await;
                self.waiting.fetch_add(cpu, MINUS_ONE, SeqCst).await;
            }
        })
    }

    fn submitted<'a>(&'a self, _: &'a P::Cpu) -> Step<'a> {
        Box::pin(async {})
    }

    /// On the core that it entered on, since completions are waited for there.
    fn leave<'a>(&'a self, cpu: &'a P::Cpu) -> Step<'a> {
        Box::pin(async move {
            let own = &self.inside[cpu.id().0 as usize];
            let before = own.fetch_add(cpu, MINUS_ONE, SeqCst).await;
            assert_ne!(before, 0, "a request leaves where it entered");
        })
    }

    fn raise<'a>(&'a self, cpu: &'a P::Cpu, force: bool) -> Step<'a> {
        Box::pin(async move {
            if !force {
                Self::until_zero(cpu, &self.waiting).await;
            }
            self.raised.fetch_add(cpu, 1, SeqCst).await;
            for count in &self.inside {
                Self::until_zero(cpu, count).await;
            }
        })
    }

    fn lower<'a>(&'a self, cpu: &'a P::Cpu) -> Step<'a> {
        Box::pin(async move {
            let before = self.raised.fetch_add(cpu, MINUS_ONE, SeqCst).await;
            assert_ne!(before, 0, "a job lowers what it raised");
        })
    }
}

fn main() {
    let about = "requests counted on a line of each core";
    let own = OwnBarrier { name: "mine", about, make: |on| Arc::new(CountPerCore::new(on)) };
    let machine = MachineFile::preset("kunpeng920").expect("a preset");
    let scenario = Raid10ResyncLock { own: Some(own) };
    print!("{}", compare_scenario(&scenario, &machine, 3, 2022).render());
}
