//! The stripe cache: who works on which rows of which stripe, and what is known of rows that nobody
//! works on.
//!
//! # Rules
//! - Whoever reads, computes or writes redundancy of some rows *claims* them, and has them alone
//!   until it releases them. Claims on the same rows are granted in the order in which they were
//!   asked for. Claims of stripes are found through hashed locks.
//! - What is known of a row, its *head*, goes to the claimant and comes back with the release. Heads
//!   of rows that nobody has claimed are *idle*; when room is needed the one that was released
//!   longest ago is forgotten.
//! - Before its first claim a request reserves room for all the heads that it will claim. Then it
//!   claims stripe by stripe, in ascending order, and all that it needs of a stripe at once. So
//!   nobody who has room waits for room; and whoever waits at a stripe waits for those who came
//!   there earlier, who either wait there too or have gone on to a higher one: no two wait for each
//!   other.
//! - Claimed and idle heads together are never more than `heads_max`.
//!
//! Locks are taken in this order: a bucket's, then the pool's. Never does I/O.

use super::head::{HEAD_SECTORS, Head};
use crate::lock::{SpinKind, SpinLock, WaitQueue};
use crate::platform::{Label, Place, Platform};
use std::collections::BTreeMap;
use std::ops::Range;

/// Hashed locks: more than md's 8, for the machines of today.
const BUCKETS: u64 = 32;

/// The cache of one array.
pub(super) struct StripeCache<P: Platform> {
    buckets: Vec<Bucket<P>>,
    pool: SpinLock<P, Pool>,
    room: WaitQueue<P>,
    heads_max: u64,
}

/// The stripes that hash alike.
struct Bucket<P: Platform> {
    stripes: SpinLock<P, Stripes>,
    released: WaitQueue<P>,
}

#[derive(Default)]
struct Stripes {
    next_ticket: u64,
    /// Granted or waiting, in the order of their tickets.
    claims: Vec<(u64, Range<u64>)>,
    /// By row.
    idle: BTreeMap<u64, Idle>,
}

struct Idle {
    age: u64,
    head: Head,
}

/// Bounds memory.
#[derive(Default)]
struct Pool {
    reserved: u64,
    next_ticket: u64,
    /// Whoever has this ticket is the next to reserve.
    serving: u64,
    next_age: u64,
    /// Idle heads by age: the stripe and the row of each.
    idle: BTreeMap<u64, (u64, u64)>,
}

/// Rows that the holder has alone, with what is known of them. Rows are numbered over the whole
/// member.
pub(super) struct Claim {
    ticket: u64,
    stripe: u64,
    rows: Range<u64>,
    /// One for each row.
    pub(super) heads: Vec<Head>,
}

impl Claim {
    /// How many heads it holds.
    pub(super) fn head_count(&self) -> u64 {
        self.rows.end - self.rows.start
    }
}

impl<P: Platform> StripeCache<P> {
    pub(super) fn new(platform: &P, kind: SpinKind, heads_max: u64) -> Self {
        assert!(heads_max > 0, "a cache holds a head");
        let bucket = |index| {
            let label = |name| Label::indexed(name, index);
            let (stripes, released) = (label("stripe_hash_lock"), label("stripe_released"));
            let inside = Stripes::default();
            Bucket {
                stripes: SpinLock::new(platform, stripes, kind, Place::Alone, inside),
                released: WaitQueue::new(platform, released, kind, Place::Alone),
            }
        };
        let (pool, room) = (Label::new("stripe_pool"), Label::new("wait_for_stripe"));
        Self {
            buckets: (0..BUCKETS as u32).map(bucket).collect(),
            pool: SpinLock::new(platform, pool, kind, Place::Alone, Pool::default()),
            room: WaitQueue::new(platform, room, kind, Place::Alone),
            heads_max,
        }
    }

    /// Waits until there is room for `heads` more claimed heads, in the order of asking.
    ///
    /// # Panics
    /// If the whole cache is smaller.
    pub(super) async fn reserve(&self, cpu: &P::Cpu, heads: u64) {
        let heads_max = self.heads_max;
        assert!(heads <= heads_max, "{heads} heads of a cache of {heads_max}");
        let draw = async |pool: &mut Pool| {
            pool.next_ticket += 1;
            pool.next_ticket - 1
        };
        let ticket = self.pool.with(cpu, draw).await;
        let mut forgotten = Vec::new();
        let try_reserve = async || {
            let reserve = async |pool: &mut Pool| {
                if pool.serving != ticket || pool.reserved + heads > heads_max {
                    return false;
                }
                pool.serving += 1;
                pool.reserved += heads;
                while pool.reserved + pool.idle.len() as u64 > heads_max {
                    forgotten.push(pool.idle.pop_first().expect("more than is reserved"));
                }
                true
            };
            self.pool.with(cpu, reserve).await
        };
        self.room.wait_until(cpu, try_reserve).await;
        for (age, (stripe, row)) in forgotten {
            self.forget(cpu, age, stripe, row).await;
        }
        // The next in line may fit too.
        if self.room.has_waiters(cpu).await {
            self.room.wake_all(cpu).await;
        }
    }

    /// Gives room back.
    pub(super) async fn give_back(&self, cpu: &P::Cpu, heads: u64) {
        let give_back = async |pool: &mut Pool| {
            assert!(pool.reserved >= heads, "only what was reserved is given back");
            pool.reserved -= heads;
        };
        self.pool.with(cpu, give_back).await;
        if self.room.has_waiters(cpu).await {
            self.room.wake_all(cpu).await;
        }
    }

    /// Waits until nobody else has any of `runs`, all of one stripe, and takes them. The caller has
    /// reserved room.
    pub(super) async fn claim(
        &self,
        cpu: &P::Cpu,
        stripe: u64,
        runs: Vec<Range<u64>>,
    ) -> Vec<Claim> {
        let bucket = self.bucket(stripe);
        let ask = async |stripes: &mut Stripes| {
            let first = stripes.next_ticket;
            stripes.next_ticket += runs.len() as u64;
            stripes.claims.extend((first..).zip(runs.iter().cloned()));
            (first, self.try_take(cpu, stripes, first, &runs).await)
        };
        let (first, mut taken) = bucket.stripes.with(cpu, ask).await;
        if taken.is_none() {
            let granted = async || {
                let take =
                    async |stripes: &mut Stripes| self.try_take(cpu, stripes, first, &runs).await;
                taken = bucket.stripes.with(cpu, take).await;
                taken.is_some()
            };
            bucket.released.wait_until(cpu, granted).await;
        }
        let heads = taken.expect("the claim was granted");
        let claim = |(ticket, (rows, heads))| Claim { ticket, stripe, rows, heads };
        (first..).zip(runs.into_iter().zip(heads)).map(claim).collect()
    }

    /// Lets others have the rows. What is known of them stays as long as there is room; the room
    /// itself the caller gives back.
    pub(super) async fn release(&self, cpu: &P::Cpu, claim: Claim) {
        let bucket = self.bucket(claim.stripe);
        let release = async |stripes: &mut Stripes| {
            let place = stripes.claims.iter().position(|(ticket, _)| *ticket == claim.ticket);
            stripes.claims.remove(place.expect("only what was claimed is released"));
            let known: Vec<(u64, Head)> =
                claim.rows.zip(claim.heads).filter(|(_, head)| !head.is_empty()).collect();
            if known.is_empty() {
                return;
            }
            let note = async |pool: &mut Pool| {
                let first = pool.next_age;
                pool.next_age += known.len() as u64;
                let places = known.iter().map(|(row, _)| (claim.stripe, *row));
                pool.idle.extend((first..).zip(places));
                first
            };
            let first = self.pool.with(cpu, note).await;
            for (age, (row, head)) in (first..).zip(known) {
                let before = stripes.idle.insert(row, Idle { age, head });
                assert!(before.is_none(), "a row has one head");
            }
        };
        bucket.stripes.with(cpu, release).await;
        if bucket.released.has_waiters(cpu).await {
            bucket.released.wake_all(cpu).await;
        }
    }

    /// The heads of `runs`, unless a claim with a ticket before `first` is in the way. Under the
    /// bucket's lock.
    async fn try_take(
        &self,
        cpu: &P::Cpu,
        stripes: &mut Stripes,
        first: u64,
        runs: &[Range<u64>],
    ) -> Option<Vec<Vec<Head>>> {
        let in_the_way = |earlier: &Range<u64>| {
            runs.iter().any(|rows| earlier.start < rows.end && rows.start < earlier.end)
        };
        let mut earlier = stripes.claims.iter().take_while(|(ticket, _)| *ticket < first);
        if earlier.any(|(_, rows)| in_the_way(rows)) {
            return None;
        }
        let mut ages = Vec::new();
        let mut take = |row| {
            let idle = stripes.idle.remove(&row)?;
            ages.push(idle.age);
            Some(idle.head)
        };
        let mut heads = Vec::with_capacity(runs.len());
        for rows in runs {
            heads.push(rows.clone().map(|row| take(row).unwrap_or_default()).collect());
        }
        if !ages.is_empty() {
            let forget = async |pool: &mut Pool| {
                for age in ages {
                    pool.idle.remove(&age);
                }
            };
            self.pool.with(cpu, forget).await;
        }
        Some(heads)
    }

    /// Forgets an idle head, unless somebody has claimed it meanwhile.
    async fn forget(&self, cpu: &P::Cpu, age: u64, stripe: u64, row: u64) {
        let forget = async |stripes: &mut Stripes| {
            let found = stripes.idle.get(&row).is_some_and(|idle| idle.age == age);
            // Freed outside of the lock.
            found.then(|| stripes.idle.remove(&row))
        };
        self.bucket(stripe).stripes.with(cpu, forget).await;
    }

    fn bucket(&self, stripe: u64) -> &Bucket<P> {
        &self.buckets[(stripe % BUCKETS) as usize]
    }
}

/// The rows, numbered over the whole member, that hold sectors `start` to `end` of the member.
pub(super) fn rows_of(start: u64, end: u64) -> Range<u64> {
    start / HEAD_SECTORS..end.div_ceil(HEAD_SECTORS)
}
