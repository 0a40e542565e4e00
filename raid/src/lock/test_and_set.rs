//! The test-and-set lock: one flag that cores race for.
//!
//! It never orders its waiters: the core that the flag's line reaches first wins.

use super::spin::Hold;
use crate::platform::{Ordering, Platform, Word};

const FREE: u64 = 0;
const TAKEN: u64 = 1;

pub(super) struct TestAndSet<P: Platform> {
    flag: P::Word,
}

impl<P: Platform> TestAndSet<P> {
    /// `flag` is zero.
    pub(super) fn new(flag: P::Word) -> Self {
        Self { flag }
    }

    /// Exchanges at once; after a failure it reads until the flag looks free, so that waiters share
    /// the line while they wait, and only then tries again.
    pub(super) async fn acquire(&self, cpu: &P::Cpu) -> Hold {
        if self.flag.swap(cpu, TAKEN, Ordering::Acquire).await == FREE {
            return Hold { contended: false, memo: 0 };
        }
        loop {
            self.flag.spin_until(cpu, Ordering::Relaxed, |flag| flag == FREE).await;
            if self.flag.compare_exchange(cpu, FREE, TAKEN, Ordering::Acquire).await.is_ok() {
                return Hold { contended: true, memo: 0 };
            }
        }
    }

    pub(super) async fn release(&self, cpu: &P::Cpu) {
        self.flag.store(cpu, FREE, Ordering::Release).await;
    }
}
