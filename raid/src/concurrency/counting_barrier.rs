//! The resync barrier of md's raid10 around Linux 6.0, in the variants of the change "reduce lock
//! contention for io" (Yu Kuai, linux-raid, August 2022).
//!
//! # State
//!
//! Three counts and a wait queue. `nr_pending` requests are inside; `nr_waiting` requests wait for
//! the barrier to be lowered; `barrier` background jobs have raised it.
//!
//! | state   | `barrier` | `nr_pending` | who is inside                                  |
//! |---------|-----------|--------------|------------------------------------------------|
//! | open    | 0         | any          | requests; nobody waits                         |
//! | closing | > 0       | > 0          | the last requests; the jobs wait for them      |
//! | raised  | > 0       | 0            | background jobs                                |
//!
//! | transition                  | by                                | under                      |
//! |-----------------------------|-----------------------------------|----------------------------|
//! | `nr_pending` +1 in open     | a request entering                | the lock, or a sequence that did not change around it |
//! | `nr_pending` −1             | a request ending, or undoing      | nothing                    |
//! | `nr_waiting` ±1             | a request that finds it not open  | the lock                   |
//! | open → closing, raised      | [`raise`](CountingBarrier::raise) | the lock                   |
//! | closing → raised            | the last request, by its −1       | nothing; it wakes the job  |
//! | raised → open               | [`lower`](CountingBarrier::lower) | the lock; it wakes all     |
//!
//! With the sequence lock `nr_pending` may also rise for a moment in closing and raised: a request
//! that read the sequence before `barrier` rose counts itself in, sees that the sequence changed and
//! counts itself off again. A job that looks at `nr_pending` in that moment goes to sleep, and only
//! the request's wake-up ([`Undo::WakeAtZero`]) gets it out again.
//!
//! # Placement
//!
//! In the driver's structure on 64-bit machines (`struct r10conf`, which starts on a boundary of 128
//! bytes) these fields are neighbours, and each request comes by all of them:
//!
//! | byte       | field                       | a request                                        |
//! |------------|-----------------------------|--------------------------------------------------|
//! | 136        | `reshape_progress`          | reads it to map its address                      |
//! | 216        | `resync_lock`               | takes it to enter                                |
//! | 220 to 256 | `nr_pending` … `barrier` …  | reads and changes them                           |
//! | 256 to 280 | `wait_barrier`              | takes its lock to wake whoever waits             |
//! | 280 to 352 | `r10bio_pool`               | reads it to be allocated and to be freed         |
//!
//! [`Placement::Together`] keeps these offsets, with words of 8 bytes:
//!
//! ```text
//!  128 | 136 reshape_progress | 216 lock or sequence and lock, nr_pending, nr_waiting, barrier |
//!  256 | wait queue           | 280 r10bio_pool                                                |
//! ```
//!
//! so that, in lines of 128 bytes, whoever maps an address or frees a request takes the line from
//! whoever holds a lock; in lines of 64 bytes only the pool and the wait queue meet.
//! [`Placement::Apart`] puts each word and each primitive on lines of its own. The pool stands for
//! the driver's allocator, of which only this reading is left: requests live in their own futures.

use crate::concurrency::barrier::RESYNC_DEPTH;
use crate::lock::{SeqLock, SpinLock, WaitQueue};
use crate::platform::{Cpu, Label, Ordering, Place, Platform, Word, Work};
use crate::tuning::{Placement, ResyncLock, Tuning, Undo, Wake};

/// The part of the driver's structure that starts at byte 128, and where in it the fields lie.
const REGION_LENGTH_BYTES: u32 = 288 - 128;
const RESHAPE_PROGRESS_OFFSET_BYTES: u32 = 136 - 128;
const LOCK_OFFSET_BYTES: u32 = 216 - 128;
const WAIT_QUEUE_OFFSET_BYTES: u32 = 256 - 128;
const POOL_OFFSET_BYTES: u32 = 280 - 128;

/// No reshape is under way: every address maps by the one geometry that there is.
const NO_RESHAPE: u64 = u64::MAX;

/// Instructions between lock and unlock beside those on the words themselves, counted from the
/// shape of the code: save and mask the interrupt flag (4), preemption count (2), compare and
/// branch (2), and the same back (4).
const SECTION_INSTRUCTIONS: u32 = 12;

/// Minus one, for words that wrap.
const MINUS_ONE: u64 = u64::MAX;

/// The barrier that md's raid10 has. See the head of this file.
pub struct CountingBarrier<P: Platform> {
    lock: Lock<P>,
    pending: P::Word,
    waiting: P::Word,
    raised: P::Word,
    wait_barrier: WaitQueue<P>,
    reshape_progress: P::Word,
    pool: P::Word,
    wake: Wake,
    undo: Undo,
}

/// What guards the counts. The sequence lock's writers stand where the spin lock's holders do.
enum Lock<P: Platform> {
    Spin(SpinLock<P, ()>),
    Sequence(SeqLock<P>),
}

impl<P: Platform> CountingBarrier<P> {
    /// An open barrier, with the variants that `tuning` names.
    pub fn new(platform: &P, tuning: Tuning) -> Self {
        let region = platform.region(Label::new("r10conf"), 0, REGION_LENGTH_BYTES);
        let place = |offset_bytes| match tuning.placement {
            Placement::Together => Place::Within { region: &region, offset_bytes },
            Placement::Apart => Place::Alone,
        };
        let (kind, label) = (tuning.spin_kind, Label::new("resync_lock"));
        let lock_place = place(LOCK_OFFSET_BYTES);
        let (lock, lock_bytes) = match tuning.resync_lock {
            ResyncLock::Spin => {
                let lock = SpinLock::new(platform, label, kind, lock_place, ());
                (Lock::Spin(lock), SpinLock::<P, ()>::BYTES)
            }
            ResyncLock::Seqlock => {
                let lock = SeqLock::new(platform, label, kind, lock_place);
                (Lock::Sequence(lock), SeqLock::<P>::BYTES)
            }
        };
        let counts = LOCK_OFFSET_BYTES + lock_bytes;
        assert!(counts + 24 <= WAIT_QUEUE_OFFSET_BYTES, "the counts end before the wait queue");
        let wait_barrier = Label::new("wait_barrier");
        let reshape_progress = Label::new("reshape_progress");
        let pool = Label::new("r10bio_pool");
        Self {
            lock,
            pending: platform.word(Label::new("nr_pending"), place(counts), 0),
            waiting: platform.word(Label::new("nr_waiting"), place(counts + 8), 0),
            raised: platform.word(Label::new("barrier"), place(counts + 16), 0),
            wait_barrier: WaitQueue::new(
                platform,
                wait_barrier,
                kind,
                place(WAIT_QUEUE_OFFSET_BYTES),
            ),
            reshape_progress: platform.word(
                reshape_progress,
                place(RESHAPE_PROGRESS_OFFSET_BYTES),
                NO_RESHAPE,
            ),
            pool: platform.word(pool, place(POOL_OFFSET_BYTES), 0),
            wake: tuning.wake,
            undo: tuning.undo,
        }
    }

    /// A request begins: it is allocated, enters, and finds out which geometry maps it.
    pub async fn enter(&self, cpu: &P::Cpu) {
        self.pool.load(cpu, Ordering::Relaxed).await;
        self.pass(cpu).await;
        let reshape_progress = self.reshape_progress.load(cpu, Ordering::Relaxed).await;
        assert_eq!(reshape_progress, NO_RESHAPE, "one geometry maps every address");
    }

    /// Whether a background job has raised it.
    pub(crate) async fn is_raised(&self, cpu: &P::Cpu) -> bool {
        self.raised.load(cpu, Ordering::Relaxed).await != 0
    }

    async fn pass(&self, cpu: &P::Cpu) {
        if let Lock::Sequence(lock) = &self.lock
            && self.enter_without_lock(cpu, lock).await
        {
            return;
        }
        let entered = self.exclusive(cpu, async || {
            cpu.spend(Work::Instructions(SECTION_INSTRUCTIONS)).await;
            if self.raised.load(cpu, Ordering::Relaxed).await == 0 {
                self.pending.add(cpu, 1, Ordering::Relaxed).await;
                return true;
            }
            self.waiting.add(cpu, 1, Ordering::Relaxed).await;
            false
        });
        if !entered.await {
            Box::pin(self.wait_for_lowering(cpu)).await;
        }
    }

    /// A request has been handed to the members, or a batch of writes has been sent off.
    pub async fn submitted(&self, cpu: &P::Cpu) {
        self.wake_waiters(cpu).await;
    }

    /// A request has ended, and is freed.
    pub async fn leave(&self, cpu: &P::Cpu) {
        self.count_off(cpu).await;
        self.pool.load(cpu, Ordering::Relaxed).await;
    }

    async fn count_off(&self, cpu: &P::Cpu) {
        let before = self.pending.fetch_add(cpu, MINUS_ONE, Ordering::AcqRel).await;
        assert!(before > 0, "a request leaves that never entered");
        if before == 1 {
            self.wake_waiters(cpu).await;
        }
    }

    /// A background job begins. With `force` the caller has raised the barrier before.
    ///
    /// The depth is looked at before the barrier rises, so that several jobs which rise at once
    /// cannot all wait for one another.
    ///
    /// # Panics
    /// If `force` is given and nobody has raised the barrier.
    pub async fn raise(&self, cpu: &P::Cpu, force: bool) {
        let try_raise = async || {
            self.exclusive(cpu, async || {
                cpu.spend(Work::Instructions(SECTION_INSTRUCTIONS)).await;
                let raised = self.raised.load(cpu, Ordering::Relaxed).await;
                // Looked at under the lock: before it was taken, another job's lowering may be
                // half seen.
                assert!(!force || raised > 0, "only who is inside may force the barrier");
                let waiting = self.waiting.load(cpu, Ordering::Relaxed).await;
                let may_rise = (force || waiting == 0) && raised < u64::from(RESYNC_DEPTH);
                if may_rise {
                    self.raised.store(cpu, raised + 1, Ordering::Relaxed).await;
                }
                may_rise
            })
            .await
        };
        self.wait_barrier.wait_until(cpu, try_raise).await;
        let nobody_inside = async || {
            self.exclusive(cpu, async || {
                cpu.spend(Work::Instructions(SECTION_INSTRUCTIONS)).await;
                // A read-modify-write, because it is ordered with the requests' own: whoever counts
                // itself in after this sees the sequence that the raising changed, and whoever
                // counts itself off after this sees this job on the wait queue.
                self.pending.fetch_add(cpu, 0, Ordering::AcqRel).await == 0
            })
            .await
        };
        self.wait_barrier.wait_until(cpu, nobody_inside).await;
    }

    /// A background job ends.
    pub async fn lower(&self, cpu: &P::Cpu) {
        self.exclusive(cpu, async || {
            cpu.spend(Work::Instructions(SECTION_INSTRUCTIONS)).await;
            let raised = self.raised.load(cpu, Ordering::Relaxed).await;
            assert!(raised > 0, "a barrier is lowered as often as it was raised");
            self.raised.store(cpu, raised - 1, Ordering::Relaxed).await;
        })
        .await;
        self.wait_barrier.wake_all(cpu).await;
    }

    /// The path of the sequence lock: writes one count and no lock. Whether the request is inside.
    async fn enter_without_lock(&self, cpu: &P::Cpu, lock: &SeqLock<P>) -> bool {
        let sequence = lock.read_begin(cpu).await;
        if self.raised.load(cpu, Ordering::Relaxed).await != 0 {
            return false;
        }
        // See `raise` for why this order suffices without a full fence.
        self.pending.fetch_add(cpu, 1, Ordering::AcqRel).await;
        if !lock.read_changed(cpu, sequence).await {
            return true;
        }
        match self.undo {
            Undo::WakeAtZero => self.count_off(cpu).await,
            Undo::Silent => {
                self.pending.fetch_add(cpu, MINUS_ONE, Ordering::AcqRel).await;
            }
        }
        false
    }

    /// The rest of a request's entry after it has counted itself as waiting.
    async fn wait_for_lowering(&self, cpu: &P::Cpu) {
        let mut was_last = false;
        let try_enter = async || {
            let left = self.exclusive(cpu, async || {
                cpu.spend(Work::Instructions(SECTION_INSTRUCTIONS)).await;
                if self.raised.load(cpu, Ordering::Relaxed).await != 0 {
                    return None;
                }
                let waiting = self.waiting.load(cpu, Ordering::Relaxed).await;
                assert!(waiting > 0, "this request waits");
                self.waiting.store(cpu, waiting - 1, Ordering::Relaxed).await;
                self.pending.add(cpu, 1, Ordering::Relaxed).await;
                Some(waiting - 1)
            });
            let left = left.await;
            was_last = left == Some(0);
            left.is_some()
        };
        self.wait_barrier.wait_until(cpu, try_enter).await;
        if was_last {
            // A job may wait for just this before it raises the barrier again.
            self.wait_barrier.wake_all(cpu).await;
        }
    }

    async fn exclusive<R>(&self, cpu: &P::Cpu, section: impl AsyncFnOnce() -> R) -> R {
        match &self.lock {
            Lock::Spin(lock) => lock.with(cpu, async |_: &mut ()| section().await).await,
            Lock::Sequence(lock) => lock.write(cpu, section).await,
        }
    }

    async fn wake_waiters(&self, cpu: &P::Cpu) {
        let needed = match self.wake {
            Wake::Always => true,
            Wake::IfWaiting => self.wait_barrier.has_waiters(cpu).await,
        };
        if needed {
            self.wait_barrier.wake_all(cpu).await;
        }
    }
}
