//! Which strategy guards each contended spot: plain data, so that a command line, a file or a
//! comparison can choose it. Never changes what the array promises, except for [`Undo::Silent`],
//! [`Dispatch::Direct`] and [`OfflineLists::Forgotten`], which are there to be found out.

use crate::lock::SpinKind;
use crate::units::CpuId;

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
    /// How writes get to the members of an array of copies that keeps a write-intent bitmap.
    pub dispatch: Dispatch,
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

/// Who hands a write to the members once its bits of the write-intent bitmap are durable. All but
/// [`Own`](Self::Own) and [`Direct`](Self::Direct) need services of the array's, see
/// [`Array::start_dispatch`](crate::Array::start_dispatch).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dispatch {
    /// The task that writes waits for its bits and hands over by itself.
    Own,
    /// One thread does for all: it takes the writes that have gathered, makes their bits durable at
    /// once and hands over. md's raid1 and raid10 until Linux 3.5.
    RaidThread(Affinity),
    /// Writes gather in a list for each core; the thread makes the bits of all durable, and then a
    /// worker on each core hands over what that core gathered (Shaohua Li, linux-raid, June 2012).
    PerCpu(OfflineLists),
    /// The submitter gathers what it has, makes the bits durable and hands over; if it has to sleep
    /// in between, it leaves that to the thread. md since Linux 3.6 (NeilBrown, linux-raid, June
    /// 2012).
    Plug,
    /// As `Own`, but the data does not wait for the bits. After a power cut copies may differ where
    /// no bit says so.
    Direct,
}

/// Where the thread of an array may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Affinity {
    /// Wherever the scheduler lets it, anew at each wake-up.
    Free,
    /// On one core.
    Core(CpuId),
}

/// What becomes of writes that gathered on a core which has gone offline since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OfflineLists {
    /// A worker on another core hands them over.
    Adopted,
    /// Nobody looks there, until the core is back.
    Forgotten,
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
            dispatch: Dispatch::Own,
            stripe_lookup: StripeLookup::Claims,
            stripe_threads_per_node: 0,
        }
    }
}
