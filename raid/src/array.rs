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
//!   never failed; its errors go to the caller instead.
//!
//! What to do is decided by the pure planners of [`crate::levels`]; `execute.rs` does it.

use crate::buffer::{Buffer, SharedBuffer};
use crate::common::Common;
use crate::concurrency::barrier::{Barrier, CountingBarrier, ResyncBarrier};
use crate::copies::CopyArray;
use crate::copies::resync::{ResyncOptions, ResyncReport};
use crate::device::{Device, Durability};
use crate::error::{ArrayError, CreateError};
use crate::levels::{DeviceFacts, Level, Raid10};
use crate::member::{Member, MemberState};
use crate::platform::Platform;
use crate::request::Extent;
use crate::tuning::Tuning;
use crate::units::{MemberIndex, Sector, Sectors};
use std::sync::Arc;

/// What array to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayOptions {
    /// The level.
    pub level: Level,
    /// One member's share of a stripe: a power of two, 4 KiB to 16 MiB.
    pub chunk: Sectors,
    /// Which strategies guard what requests share.
    pub tuning: Tuning,
}

/// An array of devices of one platform.
pub struct Array<P: Platform> {
    copies: CopyArray<P>,
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
        Self::assemble(platform, devices, options, barrier)
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
        Self::assemble(platform, devices, options, Barrier::Custom(barrier))
    }

    fn assemble(
        platform: &P,
        devices: Vec<P::Device>,
        options: ArrayOptions,
        barrier: Barrier<P>,
    ) -> Result<Arc<Self>, CreateError> {
        let facts: Vec<DeviceFacts> = devices.iter().map(facts_of::<P>).collect();
        let Level::Raid10 { near_copies } = options.level;
        let level = Raid10::new(&facts, near_copies, options.chunk)?;
        let blocks = facts.iter().map(|device| device.logical_block_bytes);
        let block_bytes = blocks.max().expect("a level has members");
        let members = devices
            .into_iter()
            .zip(0..)
            .map(|(device, index)| Member::new(platform, MemberIndex(index), device));
        let members = members.collect();
        let common = Common::new(platform, members, block_bytes, options.tuning.spin_kind);
        let copies = CopyArray::new(platform, common, level, barrier);
        Ok(Arc::new(Self { copies }))
    }

    /// How much the array holds.
    pub fn capacity(&self) -> Sectors {
        self.copies.capacity()
    }

    /// The smallest unit of requests, in bytes: the largest of the members' logical blocks.
    pub fn logical_block_bytes(&self) -> u32 {
        self.copies.common.logical_block_bytes
    }

    /// The planner, which knows the address map.
    pub fn level(&self) -> &Raid10 {
        &self.copies.level
    }

    /// The state of each member, in their order.
    pub async fn member_states(&self, cpu: &P::Cpu) -> Vec<MemberState> {
        self.copies.common.member_states(cpu).await
    }

    /// Fills `into` from the sectors that start at `at`.
    ///
    /// # Errors
    /// In the result: a request that the array cannot serve, or [`ArrayError::Unreadable`].
    #[tracing::instrument(
        level = "trace", skip_all, fields(at = at.0, bytes = into.len())
    )]
    pub async fn read(&self, cpu: &P::Cpu, at: Sector, into: Buffer) -> ReadDone {
        match self.check_request(at, into.len()) {
            Ok(extent) => self.copies.execute_read(cpu, extent, into).await,
            Err(error) => ReadDone { result: Err(error), buffer: into },
        }
    }

    /// Writes `data` to the sectors that start at `at`, on all members that serve them.
    ///
    /// # Errors
    /// A request that the array cannot serve, or [`ArrayError::Unwritable`].
    #[tracing::instrument(
        level = "trace", skip_all, fields(at = at.0, bytes = data.len(), fua = durability == Durability::Fua)
    )]
    pub async fn write(
        &self,
        cpu: &P::Cpu,
        at: Sector,
        data: SharedBuffer,
        durability: Durability,
    ) -> Result<(), ArrayError> {
        let extent = self.check_request(at, data.len())?;
        self.copies.execute_write(cpu, extent, data, durability).await
    }

    /// Makes every write that completed before durable.
    ///
    /// # Errors
    /// [`ArrayError::Unflushed`].
    #[tracing::instrument(level = "trace", skip_all)]
    pub async fn flush(&self, cpu: &P::Cpu) -> Result<(), ArrayError> {
        self.copies.flush(cpu).await
    }

    /// Says that the copies may differ anywhere, as after a power loss. From now on reads stay with
    /// the first copy, sector by sector until a resync has passed.
    pub async fn distrust_copies(&self, cpu: &P::Cpu) {
        self.copies.distrust_from(cpu, Sector(0)).await;
    }

    /// Stops the array: returns when no request and no background job is under way, and keeps new
    /// ones waiting until [`resume`](Self::resume). A second suspension waits for the end of the
    /// first.
    pub async fn suspend(&self, cpu: &P::Cpu) {
        self.copies.suspend(cpu).await;
    }

    /// Lets requests and background jobs go on.
    ///
    /// # Panics
    /// If the array is not suspended.
    pub async fn resume(&self, cpu: &P::Cpu) {
        self.copies.resume(cpu).await;
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
        self.copies.resync(cpu, options).await
    }

    fn check_request(&self, at: Sector, length_bytes: usize) -> Result<Extent, ArrayError> {
        Extent::checked(at, length_bytes as u64, self.logical_block_bytes(), self.capacity())
    }
}

fn facts_of<P: Platform>(device: &P::Device) -> DeviceFacts {
    DeviceFacts {
        name: device.name().to_owned(),
        size: device.size(),
        logical_block_bytes: device.logical_block_bytes(),
    }
}
