//! Stripe heads as md's raid5 has them: a fixed number, found by row under hashed locks, counted,
//! filled page by page by those who write, and carried out by threads.
//!
//! # The life of a write
//! For each page of 4 KiB, or for each head, it looks the head up (`find.rs`), which counts it, and
//! adds what it writes (`add.rs`, `content.rs`). A head that has become full joins the batch of the
//! head before it (`join.rs`). Heads stay on the request's plug until all of it has been added, or
//! until it has to wait for a head; then they go to the list of those to be handled (`release.rs`).
//! Threads (`threads.rs`) take them from there and carry out batch by batch (`handle.rs`), with the
//! plans, the arithmetic and the writes of every other write. The request ends with its last page
//! (`pending.rs`).
//!
//! # Rules
//! - A head that is counted stays the head of its row. One that is not is on the list of heads to be
//!   handled, on that of delayed heads (those not full, handled when nothing else is), or inactive,
//!   and then may be taken for another row.
//! - A thread has a head alone from taking it off a list until it lets it go; what is added meanwhile
//!   waits for its next turn.
//! - While a batch is carried out it holds a *claim* on its rows (`../cache.rs`), as every other write
//!   and every job does. So heads take no part in keeping jobs, degraded reads and writes apart.
//! - Whoever has to sleep gives up its plug and its reference to the last head first, so that all that
//!   was added goes on without it.
//!
//! Locks are taken in this order: a hash lock, then the device lock; a lead's stripe lock, then that
//! of a head that joins it. Never is one of the first kind taken with one of the second held.
//!
//! # Where it differs from md
//! What is computed and written for a batch happens in one go where md passes the list of heads to be
//! handled several times, and one request to a member holds a run of a batch's pages where md makes
//! one of each page and merges them. A write enters on a core one at a time, as a thread of an
//! application that submits one request after the other.

mod add;
mod content;
mod find;
mod handle;
mod join;
mod pending;
mod release;
mod threads;

use crate::concurrency::Turn;
use crate::lock::{SpinKind, SpinLock, WaitQueue};
use crate::platform::{Label, Place, Platform};
use crate::tuning::{HeadLookup, Tuning};
use content::Content;
use find::Chains;
use release::Lists;

/// md's NR_STRIPE_HASH_LOCKS. They lie side by side in md's `r5conf`, on one line of 64 bytes.
const HASH_LOCKS: u64 = 8;
const LOCK_BYTES: u32 = 8;

/// A head of the fixed number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct HeadId(u32);

/// All heads of an array.
pub(super) struct Heads<P: Platform> {
    hash_locks: Vec<SpinLock<P, Chains>>,
    heads: Vec<StripeHead<P>>,
    device_lock: SpinLock<P, Lists>,
    /// The first of the heads whose last reference was let go; 0 or an id plus one.
    released: P::Word,
    /// Whether the thread runs that every array has.
    daemon: P::Word,
    /// Heads that are not inactive.
    active: P::Word,
    /// Whether somebody found no inactive head; until a quarter is inactive again nobody gets one.
    exhausted: P::Word,
    wait_for_stripe: WaitQueue<P>,
    wait_for_overlap: WaitQueue<P>,
    /// Of each core: whose turn it is to add a write.
    submitters: Vec<Turn<P, ()>>,
    kind: SpinKind,
    lookup: HeadLookup,
    batch_heads_max: u64,
}

/// A head. As md's `stripe_head`, the links of lists and the sector lie on its first line, what
/// counts and guards it on its second.
struct StripeHead<P: Platform> {
    /// The next on the list of released heads. Read in place of the sector when a chain is walked.
    link: P::Word,
    state: P::Word,
    count: P::Word,
    content: SpinLock<P, Content<P>>,
}

/// Offsets of md's `stripe_head` on 64-bit machines, rounded down to whole words.
const LINK_OFFSET: u32 = 32;
const STATE_OFFSET: u32 = 72;
const COUNT_OFFSET: u32 = 80;
const STRIPE_LOCK_OFFSET: u32 = 104;
const STRIPE_HEAD_BYTES: u32 = 128;

/// A bit of a head's state: there is something to be handled.
const HANDLE: u64 = 1;
/// It is on somebody's plug.
const PLUGGED: u64 = 2;
/// All its data is new.
const FULL: u64 = 4;

impl<P: Platform> Heads<P> {
    /// `batch_heads_max`: the most heads that are carried out together.
    pub(super) fn new(
        platform: &P,
        tuning: Tuning,
        lookup: HeadLookup,
        batch_heads_max: u64,
    ) -> Self {
        let kind = tuning.spin_kind;
        let count = u64::from(tuning.stripe_heads_max).next_multiple_of(HASH_LOCKS).max(HASH_LOCKS);
        let line = platform.region(Label::new("hash_locks"), 0, HASH_LOCKS as u32 * LOCK_BYTES);
        let hash_lock = |index: u64| {
            let label = Label::indexed("hash_lock", index as u32);
            let offset_bytes = index as u32 * LOCK_BYTES;
            let place = Place::Within { region: &line, offset_bytes };
            let heads = (index as u32..count as u32).step_by(HASH_LOCKS as usize).map(HeadId);
            SpinLock::new(platform, label, kind, place, Chains::new(heads))
        };
        let word = |name| platform.word(Label::new(name), Place::Alone, 0);
        let queue = |name| WaitQueue::new(platform, Label::new(name), kind, Place::Alone);
        let submitter = |cpu| Turn::new(platform, Label::indexed("submitter", cpu), kind, ());
        let nodes = platform.topology().node_count();
        let lists = Lists::new(count, nodes, tuning.stripe_threads_per_node);
        let device_lock = Label::new("device_lock");
        Self {
            hash_locks: (0..HASH_LOCKS).map(hash_lock).collect(),
            heads: (0..count).map(|_| StripeHead::new(platform, kind)).collect(),
            device_lock: SpinLock::new(platform, device_lock, kind, Place::Alone, lists),
            released: word("released_stripes"),
            daemon: word("raid5d"),
            active: word("active_stripes"),
            exhausted: word("cache_state"),
            wait_for_stripe: queue("wait_for_stripe"),
            wait_for_overlap: queue("wait_for_overlap"),
            submitters: (0..platform.topology().cpu_count()).map(submitter).collect(),
            kind,
            lookup,
            batch_heads_max,
        }
    }

    fn head(&self, id: HeadId) -> &StripeHead<P> {
        &self.heads[id.0 as usize]
    }
}

impl<P: Platform> StripeHead<P> {
    fn new(platform: &P, kind: SpinKind) -> Self {
        let label = Label::new("stripe_head");
        let region = platform.region(label, 0, STRIPE_HEAD_BYTES);
        let place = |offset_bytes| Place::Within { region: &region, offset_bytes };
        let word = |name, offset| platform.word(Label::new(name), place(offset), 0);
        let lock = place(STRIPE_LOCK_OFFSET);
        Self {
            link: word("stripe links", LINK_OFFSET),
            state: word("stripe state", STATE_OFFSET),
            count: word("stripe count", COUNT_OFFSET),
            content: SpinLock::new(
                platform,
                Label::new("stripe_lock"),
                kind,
                lock,
                Content::default(),
            ),
        }
    }
}
