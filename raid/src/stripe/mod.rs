//! Arrays with parity: RAID 4, 5 and 6.
//!
//! # The life of a write
//! It is cut into *batches*, rows of one stripe each (`split.rs`). Each batch claims its rows in the
//! stripe cache (`cache.rs`), looks at what the members can do (`facts.rs`), makes a plan
//! ([`crate::levels::parity`]), reads what the plan needs (`fetch.rs`), computes parity
//! (`compute.rs`), writes (`store.rs`), and releases the rows with what is known of them now.
//!
//! # The life of a read
//! It goes straight to the members that hold the data. Only what they cannot give is put together in
//! a batch (`read.rs`).
//!
//! With [`StripeLookup::Heads`] a write leaves its pages at stripe heads, as in md, and threads carry
//! out the batches that come of it (`heads/`).
//!
//! # What it promises
//! As [`crate::Array`], and: a claim on rows is held from before the redundancy of these rows is
//! read until what was computed from it is on the members, so nobody computes from a stripe that
//! somebody else is changing. As in md, a write that a power loss cuts short may leave parity that
//! does not fit the data of its stripe, until a resync has passed.
//!
//! What md calls a failed stripe is an error here, for those sectors only. What a member did not take
//! beyond redundancy is noted in its log of bad blocks; without room there the member is failed, as
//! in md. Only a member that the array cannot spare stays: what it did not take is in doubt
//! (`doubts.rs`) until it is written again.

mod batch;
mod cache;
mod compute;
mod contents;
mod doubts;
mod facts;
mod fetch;
mod head;
mod heads;
mod jobs;
mod read;
mod recover;
mod split;
mod store;
mod write;

use crate::array::Array;
use crate::common::Common;
use crate::device::IoError;
use crate::error::ArrayError;
use crate::levels::ParityLevel;
use crate::levels::parity::blocks::Rows;
use crate::levels::parity::segments::LostRows;
use crate::platform::Platform;
use crate::tuning::{StripeLookup, Tuning};
use crate::units::{Sector, Sectors};
use batch::Batch;
use cache::{StripeCache, rows_of};
use doubts::Doubts;
use head::HEAD_SECTORS;
use heads::Heads;
use split::BatchExtent;
use std::sync::Weak;

/// The batches of a group by stripe: what is claimed at once.
fn by_stripe(group: Vec<BatchExtent>) -> impl Iterator<Item = Vec<BatchExtent>> {
    let mut batches = group.into_iter().peekable();
    std::iter::from_fn(move || {
        let mut of_stripe = vec![batches.next()?];
        while let Some(batch) = batches.next_if(|batch| batch.stripe == of_stripe[0].stripe) {
            of_stripe.push(batch);
        }
        Some(of_stripe)
    })
}

/// An array with parity.
pub(crate) struct ParityArray<P: Platform> {
    pub(crate) common: Common<P>,
    pub(crate) level: ParityLevel,
    cache: StripeCache<P>,
    doubts: Doubts<P>,
    /// The most heads that a batch, and a group of batches that go forward together, may have: a
    /// part of the cache, so that several requests fit.
    batch_heads_max: u64,
    /// Where writes leave their pages, if they do not carry themselves out.
    heads: Option<Heads<P>>,
    threads_per_node: u32,
    /// The array itself, for threads.
    whole: Weak<Array<P>>,
}

impl<P: Platform> ParityArray<P> {
    pub(crate) fn new(
        platform: &P,
        common: Common<P>,
        level: ParityLevel,
        tuning: Tuning,
        whole: Weak<Array<P>>,
    ) -> Self {
        let heads_max = u64::from(tuning.stripe_heads_max.max(1));
        // A batch has to hold whole logical blocks, which may be larger than a head.
        let block_heads = rows_of(0, u64::from(common.logical_block_bytes) / 512).end;
        let batch_heads_max = (heads_max / 4).max(1).next_multiple_of(block_heads);
        let heads_max = heads_max.max(batch_heads_max);
        let block_fits = u64::from(common.logical_block_bytes) <= HEAD_SECTORS * 512;
        let heads = match tuning.stripe_lookup {
            StripeLookup::Heads(lookup) if block_fits => {
                Some(Heads::new(platform, tuning, lookup, batch_heads_max))
            }
            StripeLookup::Heads(_) | StripeLookup::Claims => None,
        };
        Self {
            heads,
            threads_per_node: tuning.stripe_threads_per_node,
            whole,
            cache: StripeCache::new(platform, tuning.spin_kind, heads_max),
            doubts: Doubts::new(platform, tuning.spin_kind),
            batch_heads_max,
            common,
            level,
        }
    }

    pub(crate) fn capacity(&self) -> Sectors {
        self.level.layout().capacity()
    }

    /// Here and not in `Array`, so that the flush of a job shows in traces too.
    #[tracing::instrument(level = "trace", skip_all)]
    pub(crate) async fn flush(&self, cpu: &P::Cpu) -> Result<(), ArrayError> {
        self.common.suspension.enter(cpu).await;
        let result = self.flush_members(cpu).await;
        self.common.suspension.leave(cpu).await;
        result
    }

    /// Flushes all members. The caller sees to it that the array is not suspended.
    async fn flush_members(&self, cpu: &P::Cpu) -> Result<(), ArrayError> {
        let fail = async |member, cause: &IoError| self.fail_member(cpu, member, cause).await;
        self.common.flush_members(cpu, fail).await
    }

    pub(crate) async fn suspend(&self, cpu: &P::Cpu) {
        // Requests and the windows of jobs are inside until they have ended.
        self.common.suspension.suspend(cpu).await;
    }

    pub(crate) async fn resume(&self, cpu: &P::Cpu) {
        self.common.suspension.resume(cpu).await;
    }

    /// Batches that go forward together: as many as the room that a request may have allows.
    fn groups(
        &self,
        batches: impl IntoIterator<Item = BatchExtent>,
    ) -> impl Iterator<Item = Vec<BatchExtent>> {
        let mut batches = batches.into_iter().peekable();
        let heads_max = self.batch_heads_max;
        std::iter::from_fn(move || {
            let first = batches.next()?;
            let mut heads = first.head_count();
            let mut group = vec![first];
            while let Some(batch) = batches.next_if(|batch| heads + batch.head_count() <= heads_max)
            {
                heads += batch.head_count();
                group.push(batch);
            }
            Some(group)
        })
    }

    /// Waits for the room that a group needs.
    async fn reserve(&self, cpu: &P::Cpu, group: &[BatchExtent]) {
        let heads = group.iter().map(BatchExtent::head_count).sum();
        self.cache.reserve(cpu, heads).await;
    }

    /// Has the rows of a group's batches of one stripe alone from now on.
    async fn claim(&self, cpu: &P::Cpu, of_stripe: Vec<BatchExtent>) -> Vec<Batch> {
        let layout = self.level.layout();
        let stripe = of_stripe[0].stripe;
        let chunk_start = layout.member_sector(stripe, Sectors(0));
        let rows = |batch: &BatchExtent| {
            let Rows { start, end } = batch.rows;
            rows_of((chunk_start + start).0, (chunk_start + end).0)
        };
        let claims = self.cache.claim(cpu, stripe, of_stripe.iter().map(rows).collect()).await;
        let batch = |(extent, claim)| Batch::new(extent, layout.stripe(stripe), claim, chunk_start);
        of_stripe.into_iter().zip(claims).map(batch).collect()
    }

    /// Lets others have the rows, and gives their room back.
    async fn release(&self, cpu: &P::Cpu, mut batch: Batch) {
        if u64::from(self.common.logical_block_bytes) > HEAD_SECTORS * 512 {
            // A head alone would be a part of a block, which no member reads or writes.
            batch.forget_heads();
        }
        let heads = batch.claim.head_count();
        self.cache.release(cpu, batch.claim).await;
        self.cache.give_back(cpu, heads).await;
    }

    /// What a caller is told.
    fn beyond_redundancy(&self, batch: &Batch, lost: LostRows) -> ArrayError {
        let (at, length) = batch.asked_within(lost.rows).unwrap_or((
            self.level.layout().array_sector(batch.map.stripe(), 0, lost.rows.start),
            lost.rows.length(),
        ));
        let members = lost.lost.0.iter().map(|block| batch.map.member(block)).collect();
        ArrayError::BeyondRedundancy { at, length, members }
    }

    /// The stripes that hold some sectors of the array.
    fn stripes_of(&self, at: Sector, length: Sectors) -> std::ops::Range<u64> {
        let stripe_data = self.level.layout().stripe_data().0;
        at.0 / stripe_data..(at.0 + length.0).div_ceil(stripe_data)
    }
}
