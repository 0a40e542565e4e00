//! Which strategy guards each contended spot: plain data, so that a command line, a file or a
//! comparison can choose it. Never changes what the array promises, except for
//! [`Undo::Silent`], which is there to be found out.

use crate::lock::SpinKind;

/// The choices for one array. The default is the best of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// What guards the resync barrier.
    pub resync_lock: ResyncLock,
    /// The algorithm of every spin lock of the array.
    pub spin_kind: SpinKind,
    /// When the wait queue of the barrier is woken.
    pub wake: Wake,
    /// Where the barrier's words lie.
    pub placement: Placement,
    /// What a request does that entered without the lock and finds that it must not.
    pub undo: Undo,
    /// How many stripe heads, rows of 4 KiB on each member, an array with parity may have in memory
    /// at once: those that are worked on and those that are kept for later.
    pub stripe_heads_max: u32,
    /// How a write to an array with parity gets hold of its stripe heads.
    pub stripe_lookup: StripeLookup,
    /// Threads on each node that carry out what writes have added to [`StripeLookup::Heads`], beside
    /// the one that every array has: md's `group_thread_cnt`.
    pub stripe_threads_per_node: u32,
}

/// Stripe heads if nothing else is asked for: 4 MiB of each member. md has 256, which large requests
/// to arrays of today's chunks use up at once.
pub const STRIPE_HEADS_MAX: u32 = 1024;

/// What guards the resync barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResyncLock {
    /// A spin lock, taken by each request: md's raid10 until Linux 6.0.
    Spin,
    /// A sequence lock: a request writes no more than the count of pending requests, as long as the
    /// barrier is down. md's raid10 since Linux 6.1.
    Seqlock,
}

/// When leaving the submission path, and having sent pending writes off, wakes the barrier's wait
/// queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Always, which takes the queue's lock.
    Always,
    /// After a look at whether anybody waits, which takes no lock.
    IfWaiting,
}

/// Where the barrier's words lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Side by side, as in md's structure.
    Together,
    /// Each on cache lines of its own.
    Apart,
}

/// What a request does that has counted itself as pending without the lock and then finds that the
/// barrier changed meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undo {
    /// It counts itself off and, if it was the last, wakes whoever waits for that.
    WakeAtZero,
    /// It only counts itself off: the fault in the first version of the change to a sequence lock.
    /// A resync that has seen the request as pending then sleeps for ever.
    Silent,
}

/// How a write to an array with parity gets hold of its stripe heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StripeLookup {
    /// It claims all rows that it needs of a stripe at once, and carries itself out.
    Claims,
    /// As md's raid5: it looks each head up by its row under a hashed lock and leaves its pages there;
    /// threads carry the heads out. Where logical blocks are larger than a head this is as
    /// [`Claims`](Self::Claims).
    Heads(HeadLookup),
}

/// How often a write looks heads up. The two changes are those of md in Linux 6.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadLookup {
    /// Once for each page of 4 KiB, and again for the previous head, to join its batch.
    PerPage,
    /// As `PerPage`, but whoever has filled a head keeps a reference to it for the next to join.
    BatchReference,
    /// Once for each head, whose pages of all data disks are added together; and again for the
    /// previous head.
    Pivot,
    /// Once for each head.
    Both,
}

impl HeadLookup {
    /// Whether all pages of a head are added together.
    pub fn pivots(self) -> bool {
        matches!(self, Self::Pivot | Self::Both)
    }

    /// Whether the head that was filled last stays referenced.
    pub fn keeps_last(self) -> bool {
        matches!(self, Self::BatchReference | Self::Both)
    }
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            resync_lock: ResyncLock::Seqlock,
            spin_kind: SpinKind::Queued,
            wake: Wake::IfWaiting,
            placement: Placement::Together,
            undo: Undo::WakeAtZero,
            stripe_heads_max: STRIPE_HEADS_MAX,
            stripe_lookup: StripeLookup::Claims,
            stripe_threads_per_node: 0,
        }
    }
}
