//! An array: members, a level, and the words that requests share.
//!
//! # What it promises
//! - A read that succeeds returns, for each sector, what the last write that completed before the
//!   read began put there, or what a write under way meanwhile puts there.
//! - A write that succeeds is on every member that serves its sectors. If one of them did not take
//!   it, that member is recorded as failed before the caller learns of the success, so no later read
//!   goes there.
//! - After a write that fails, its sectors hold old or new data, sector by sector. Until a
//!   resync has made the copies agree, reads stay with one copy, so they do not change from read to
//!   read.
//! - Two writes under way at once over the same sectors have no order, as on any drive. As in md,
//!   they are not serialised: the copies of those sectors may end up different and reads may see
//!   either, until they are written again or a resync has passed. Whoever lets writes race over the
//!   same sectors must not mind which one wins.
//! - A member that fails is never used again in this run. The last member that holds some data is
//!   never failed; its errors go to the caller instead. So it is with every member of a level that
//!   stores each sector once.
//! - Sectors in a member's list of bad blocks, and those that a recovering member lacks, are never
//!   read there. A write error on a member with room in that list costs only the sectors, if another
//!   member has them.
//!
//! - With parity, sectors that a member does not give are put together from the rest of their
//!   stripe. Where that is beyond redundancy there is an error for those sectors, never wrong data,
//!   also after a restart. For that a member that refuses a write beyond redundancy loses those
//!   sectors, or is failed if it has no room in its list and the array survives that, as in md.
//!
//! What to do is decided by the pure planners of [`crate::levels`]; `copies/` and `stripe/` do it.

use crate::buffer::{Buffer, SharedBuffer};
use crate::common::Common;
use crate::concurrency::barrier::{Barrier, CountingBarrier, ResyncBarrier};
use crate::copies::CopyArray;
use crate::device::Durability;
use crate::error::{ArrayError, CreateError};
use crate::jobs::{CheckReport, RecoverOptions, RecoverReport, ResyncOptions, ResyncReport};
use crate::layout::CopyLayout;
use crate::layout::parity::ParityLayout;
use crate::levels::Level;
use crate::member::{MemberOptions, MemberState};
use crate::opening::{self, Use};
use crate::platform::Platform;
use crate::request::Extent;
use crate::stripe::ParityArray;
use crate::tuning::Tuning;
use crate::units::{MemberIndex, Sector, Sectors};
use std::sync::Arc;
use tracing::Instrument;

/// What array to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayOptions {
    /// The level.
    pub level: Level,
    /// One member's share of a stripe: 4 KiB to 1 GiB, a power of two except for RAID 0. For linear
    /// what the members are rounded to, zero for nothing; RAID 1 does not look at it.
    pub chunk: Sectors,
    /// Which strategies guard what requests share.
    pub tuning: Tuning,
}

/// An array of devices of one platform.
pub struct Array<P: Platform> {
    pub(crate) body: Body<P>,
}

/// The kinds of arrays.
#[expect(clippy::large_enum_variant, reason = "there is one, and it lies behind the array's Arc")]
pub(crate) enum Body<P: Platform> {
    /// Each sector once or several times, as it is.
    Copies(CopyArray<P>),
    /// Data with parity. Its futures are large and are boxed, so that those of copies stay small.
    Parity(ParityArray<P>),
}

/// How a read ended.
#[derive(Debug)]
pub struct ReadDone {
    /// Success, or why not.
    pub result: Result<(), ArrayError>,
    /// The caller's buffer; its contents are undefined after an error.
    pub buffer: Buffer,
}

impl<P: Platform> Array<P> {
    /// An array of `devices`, in the order of members. It writes nothing and takes the copies to
    /// agree, as fresh drives and arrays that were shut down in order do; otherwise call
    /// [`distrust_copies`](Self::distrust_copies) before the first read.
    ///
    /// # Errors
    /// Any [`CreateError`].
    pub fn create(
        platform: &P,
        devices: Vec<P::Device>,
        options: ArrayOptions,
    ) -> Result<Arc<Self>, CreateError> {
        let barrier = Barrier::Counting(CountingBarrier::new(platform, options.tuning));
        opening::open(platform, whole(devices), options, barrier, Use::Bare)
    }

    /// As [`create`](Self::create), with a resync barrier of the caller's own in place of the one
    /// that the tuning names.
    ///
    /// # Errors
    /// Any [`CreateError`].
    pub fn create_with_barrier(
        platform: &P,
        devices: Vec<P::Device>,
        options: ArrayOptions,
        barrier: Arc<dyn ResyncBarrier<P>>,
    ) -> Result<Arc<Self>, CreateError> {
        opening::open(platform, whole(devices), options, Barrier::Custom(barrier), Use::Bare)
    }

    /// An array of members of which each has its place, its state and its bad blocks, in the order
    /// of their roles. It writes nothing and takes the copies to agree, as
    /// [`create`](Self::create).
    ///
    /// # Errors
    /// Any [`CreateError`]; [`CreateError::MembersMissing`] if the members in sync do not have all
    /// data.
    pub fn open(
        platform: &P,
        members: Vec<MemberOptions<P>>,
        options: ArrayOptions,
    ) -> Result<Arc<Self>, CreateError> {
        let barrier = Barrier::Counting(CountingBarrier::new(platform, options.tuning));
        opening::open(platform, members, options, barrier, Use::Bare)
    }

    /// As [`open`](Self::open), for reading only: nothing is ever written to a member, not even to
    /// repair it.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_read_only(
        platform: &P,
        members: Vec<MemberOptions<P>>,
        options: ArrayOptions,
    ) -> Result<Arc<Self>, CreateError> {
        let barrier = Barrier::Counting(CountingBarrier::new(platform, options.tuning));
        opening::open(platform, members, options, barrier, Use::ReadOnly)
    }

    /// How much the array holds.
    pub fn capacity(&self) -> Sectors {
        match &self.body {
            Body::Copies(array) => array.capacity(),
            Body::Parity(array) => array.capacity(),
        }
    }

    /// The smallest unit of requests, in bytes: the largest of the members' logical blocks.
    pub fn logical_block_bytes(&self) -> u32 {
        self.common().logical_block_bytes
    }

    /// The address map, if the array stores each sector as it is.
    pub fn copy_layout(&self) -> Option<&CopyLayout> {
        match &self.body {
            Body::Copies(array) => Some(array.level.layout()),
            Body::Parity(_) => None,
        }
    }

    /// The address map, if the array has parity.
    pub fn parity_layout(&self) -> Option<&ParityLayout> {
        match &self.body {
            Body::Copies(_) => None,
            Body::Parity(array) => Some(array.level.layout()),
        }
    }

    /// The state of each member, in the order of their roles, and then of each replacement.
    pub async fn member_states(&self, cpu: &P::Cpu) -> Vec<MemberState> {
        self.common().member_states(cpu).await
    }

    /// The place in [`member_states`](Self::member_states) of the replacement for a role.
    pub fn replacement_of(&self, role: MemberIndex) -> Option<MemberIndex> {
        self.common().replacement_of(role)
    }

    /// The bad sectors of a member or replacement, in sectors of its data, ascending.
    ///
    /// # Panics
    /// If there is no such member.
    pub async fn bad_blocks(&self, cpu: &P::Cpu, member: MemberIndex) -> Vec<Extent> {
        self.common().member(member).bad_blocks(cpu).await
    }

    pub(crate) fn common(&self) -> &Common<P> {
        match &self.body {
            Body::Copies(array) => &array.common,
            Body::Parity(array) => &array.common,
        }
    }

    /// Fills `into` from the sectors that start at `at`.
    ///
    /// # Errors
    /// In the result: a request that the array cannot serve, or [`ArrayError::Unreadable`]; with
    /// parity [`ArrayError::BeyondRedundancy`].
    pub async fn read(&self, cpu: &P::Cpu, at: Sector, into: Buffer) -> ReadDone {
        let span = tracing::trace_span!("read", at = at.0, bytes = into.len());
        if span.is_disabled() {
            drop(span); // Not kept while the request is under way.
            return self.serve_read(cpu, at, into).await;
        }
        // Boxed, as all that is rare: a future is as large as the largest that it may wait for.
        Box::pin(self.serve_read(cpu, at, into).instrument(span)).await
    }

    async fn serve_read(&self, cpu: &P::Cpu, at: Sector, into: Buffer) -> ReadDone {
        match self.check_request(at, into.len()) {
            Ok(extent) => match &self.body {
                Body::Copies(array) => array.execute_read(cpu, extent, into).await,
                Body::Parity(array) => Box::pin(array.read(cpu, extent, into)).await,
            },
            Err(error) => ReadDone { result: Err(error), buffer: into },
        }
    }

    /// Writes `data` to the sectors that start at `at`, on all members that serve them.
    ///
    /// # Errors
    /// A request that the array cannot serve, or [`ArrayError::Unwritable`]; with parity also
    /// [`ArrayError::BeyondRedundancy`].
    pub async fn write(
        &self,
        cpu: &P::Cpu,
        at: Sector,
        data: SharedBuffer,
        durability: Durability,
    ) -> Result<(), ArrayError> {
        let fua = durability == Durability::Fua;
        let span = tracing::trace_span!("write", at = at.0, bytes = data.len(), fua);
        if span.is_disabled() {
            drop(span);
            return self.serve_write(cpu, at, data, durability).await;
        }
        Box::pin(self.serve_write(cpu, at, data, durability).instrument(span)).await
    }

    async fn serve_write(
        &self,
        cpu: &P::Cpu,
        at: Sector,
        data: SharedBuffer,
        durability: Durability,
    ) -> Result<(), ArrayError> {
        let extent = self.check_request(at, data.len())?;
        if self.common().read_only {
            return Err(ArrayError::ReadOnly);
        }
        if self.common().records.is_some() {
            return Box::pin(self.write_recorded(cpu, extent, data, durability)).await;
        }
        match &self.body {
            Body::Copies(array) => array.execute_write(cpu, extent, data, durability).await,
            Body::Parity(array) => Box::pin(array.write(cpu, extent, data, durability)).await,
        }
    }

    /// Makes every write that completed before durable.
    ///
    /// # Errors
    /// [`ArrayError::Unflushed`], [`ArrayError::Unrecorded`].
    pub async fn flush(&self, cpu: &P::Cpu) -> Result<(), ArrayError> {
        match &self.body {
            Body::Copies(array) => array.flush(cpu).await,
            Body::Parity(array) => Box::pin(array.flush(cpu)).await,
        }?;
        match &self.common().records {
            Some(records) => Box::pin(records.end_flush(cpu, self.common())).await,
            None => Ok(()),
        }
    }

    /// Says that the copies may differ anywhere, as after a power loss. From now on reads stay with
    /// the first copy, sector by sector until a resync has passed. Parity is not read while data can
    /// be, so with parity this changes nothing.
    pub async fn distrust_copies(&self, cpu: &P::Cpu) {
        match &self.body {
            Body::Copies(array) => array.distrust_from(cpu, Sector(0)).await,
            Body::Parity(_) => {}
        }
    }

    /// Stops the array: returns when no request and no background job is under way, and keeps new
    /// ones waiting until [`resume`](Self::resume). A second suspension waits for the end of the
    /// first.
    pub async fn suspend(&self, cpu: &P::Cpu) {
        match &self.body {
            Body::Copies(array) => array.suspend(cpu).await,
            Body::Parity(array) => Box::pin(array.suspend(cpu)).await,
        }
    }

    /// Lets requests and background jobs go on.
    ///
    /// # Panics
    /// If the array is not suspended.
    pub async fn resume(&self, cpu: &P::Cpu) {
        match &self.body {
            Body::Copies(array) => array.resume(cpu).await,
            Body::Parity(array) => Box::pin(array.resume(cpu)).await,
        }
    }

    /// Makes all copies in a range agree, and flushes the members.
    ///
    /// # Errors
    /// Options that cannot be, [`ArrayError::ResyncRunning`], [`ArrayError::Unflushed`]. Sectors
    /// that cannot be read are no error but a count in the report.
    pub async fn resync(
        &self,
        cpu: &P::Cpu,
        options: ResyncOptions,
    ) -> Result<ResyncReport, ArrayError> {
        match &self.body {
            Body::Copies(array) => array.resync(cpu, options).await,
            Body::Parity(array) => Box::pin(array.resync(cpu, options)).await,
        }
    }

    /// Compares the redundancy in a range and writes nothing.
    ///
    /// # Errors
    /// Options that cannot be, [`ArrayError::ResyncRunning`]. Sectors that cannot be read are no
    /// error but a count in the report.
    pub async fn check(
        &self,
        cpu: &P::Cpu,
        options: ResyncOptions,
    ) -> Result<CheckReport, ArrayError> {
        match &self.body {
            Body::Copies(array) => array.check(cpu, options).await,
            Body::Parity(array) => Box::pin(array.check(cpu, options)).await,
        }
    }

    /// Fills all members and replacements that are recovering, each from its recovery point on,
    /// which moves on window by window. Who reaches the end is in sync; a replacement then takes the
    /// place of its member, which is failed.
    ///
    /// # Errors
    /// Options that cannot be, [`ArrayError::ReadOnly`], [`ArrayError::ResyncRunning`];
    /// [`ArrayError::Unreadable`] if some sectors cannot be had from the others and the member has
    /// no room to note them as bad: it stays recovering.
    pub async fn recover(
        &self,
        cpu: &P::Cpu,
        options: RecoverOptions,
    ) -> Result<RecoverReport, ArrayError> {
        match &self.body {
            Body::Copies(array) => array.recover(cpu, options).await,
            Body::Parity(array) => Box::pin(array.recover(cpu, options)).await,
        }
    }

    fn check_request(&self, at: Sector, length_bytes: usize) -> Result<Extent, ArrayError> {
        Extent::checked(at, length_bytes as u64, self.logical_block_bytes(), self.capacity())
    }
}

fn whole<P: Platform>(devices: Vec<P::Device>) -> Vec<MemberOptions<P>> {
    devices.into_iter().map(|device| MemberOptions::whole(Arc::new(device))).collect()
}
