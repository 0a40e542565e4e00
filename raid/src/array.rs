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

use crate::background::claimed_whole;
use crate::buffer::{Buffer, SharedBuffer};
use crate::concurrency::barrier::{Barrier, CountingBarrier, ResyncBarrier};
use crate::concurrency::{RangeClaims, Suspension};
use crate::device::{Device, Durability, IoError};
use crate::error::{ArrayError, CreateError};
use crate::levels::{DeviceFacts, Level, Raid10};
use crate::lock::SpinLock;
use crate::member::{Member, MemberState};
use crate::platform::{Label, Ordering, Place, Platform, Word};
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
    pub(crate) level: Raid10,
    pub(crate) chunk: Sectors,
    pub(crate) logical_block_bytes: u32,
    pub(crate) members: Vec<Member<P>>,
    pub(crate) barrier: Barrier<P>,
    pub(crate) suspension: Suspension<P>,
    pub(crate) claims: RangeClaims<P>,
    /// Not zero while a resync runs.
    pub(crate) resync_running: P::Word,
    /// Held to take a member out, so that two cannot go at once who are one too many.
    device_lock: SpinLock<P, ()>,
    /// Below this sector all copies are known to agree. Above, reads stay with the first copy.
    copies_agree_below: P::Word,
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
        let members = devices
            .into_iter()
            .zip(0..)
            .map(|(device, index)| Member::new(platform, MemberIndex(index), device));
        let kind = options.tuning.spin_kind;
        let word = |name, value| platform.word(Label::new(name), Place::Alone, value);
        Ok(Arc::new(Self {
            chunk: options.chunk,
            logical_block_bytes: blocks.max().expect("a level has members"),
            members: members.collect(),
            barrier,
            suspension: Suspension::new(platform, kind),
            claims: RangeClaims::new(platform, kind),
            resync_running: word("resync_running", 0),
            device_lock: SpinLock::new(platform, Label::new("device_lock"), kind, Place::Alone, ()),
            copies_agree_below: word("copies_agree_below", level.layout().capacity().0),
            level,
        }))
    }

    /// How much the array holds.
    pub fn capacity(&self) -> Sectors {
        self.level.layout().capacity()
    }

    /// The smallest unit of requests, in bytes: the largest of the members' logical blocks.
    pub fn logical_block_bytes(&self) -> u32 {
        self.logical_block_bytes
    }

    /// The planner, which knows the address map.
    pub fn level(&self) -> &Raid10 {
        &self.level
    }

    /// The state of each member, in their order.
    pub async fn member_states(&self, cpu: &P::Cpu) -> Vec<MemberState> {
        let mut states = Vec::with_capacity(self.members.len());
        for member in &self.members {
            states.push(member.state(cpu).await);
        }
        states
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
            Ok(extent) => self.execute_read(cpu, extent, into).await,
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
        self.execute_write(cpu, extent, data, durability).await
    }

    /// Makes every write that completed before durable.
    ///
    /// # Errors
    /// [`ArrayError::Unflushed`].
    #[tracing::instrument(level = "trace", skip_all)]
    pub async fn flush(&self, cpu: &P::Cpu) -> Result<(), ArrayError> {
        self.suspension.enter(cpu).await;
        let result = self.flush_members(cpu).await;
        self.suspension.leave(cpu).await;
        result
    }

    /// Says that the copies may differ anywhere, as after a power loss. From now on reads stay with
    /// the first copy, sector by sector until a resync has passed.
    pub async fn distrust_copies(&self, cpu: &P::Cpu) {
        self.distrust_from(cpu, Sector(0)).await;
    }

    /// Stops the array: returns when no request and no background job is under way, and keeps new
    /// ones waiting until [`resume`](Self::resume). A second suspension waits for the end of the
    /// first.
    pub async fn suspend(&self, cpu: &P::Cpu) {
        self.suspension.suspend(cpu).await;
        self.claims.claim(cpu, claimed_whole(self.capacity())).await;
        self.barrier.raise(cpu, false).await;
    }

    /// Lets requests and background jobs go on.
    ///
    /// # Panics
    /// If the array is not suspended.
    pub async fn resume(&self, cpu: &P::Cpu) {
        self.barrier.lower(cpu).await;
        self.claims.release(cpu, claimed_whole(self.capacity())).await;
        self.suspension.resume(cpu).await;
    }

    pub(crate) fn member(&self, index: MemberIndex) -> &Member<P> {
        &self.members[index.0 as usize]
    }

    /// Takes a member out after `cause`. False if the array would not survive that: then the member
    /// stays, and the caller has to report the error.
    pub(crate) async fn fail_member(
        &self,
        cpu: &P::Cpu,
        index: MemberIndex,
        cause: &IoError,
    ) -> bool {
        let try_fail = async |_: &mut ()| {
            let mut live = Vec::with_capacity(self.members.len());
            for member in &self.members {
                live.push(member.is_live(cpu).await);
            }
            let was_live = std::mem::replace(&mut live[index.0 as usize], false);
            let survives = self.level.survives_on(|member| live[member.0 as usize]);
            if was_live && survives {
                self.member(index).set_failed(cpu).await;
            }
            (was_live, survives)
        };
        let (was_live, survives) = self.device_lock.with(cpu, try_fail).await;
        let (member, device) = (index.0, self.member(index).name());
        match (was_live, survives) {
            (true, true) => tracing::warn!(member, device, %cause, "member failed"),
            (true, false) => tracing::error!(member, device, %cause, "member cannot be spared"),
            (false, _) => {}
        }
        survives
    }

    /// Whether all copies of `extent` are known to agree.
    pub(crate) async fn copies_agree(&self, cpu: &P::Cpu, extent: Extent) -> bool {
        extent.end().0 <= self.copies_agree_below.load(cpu, Ordering::Acquire).await
    }

    /// The copies may differ from `at` on.
    pub(crate) async fn distrust_from(&self, cpu: &P::Cpu, at: Sector) {
        let mut current = self.copies_agree_below.load(cpu, Ordering::Relaxed).await;
        while at.0 < current {
            let word = &self.copies_agree_below;
            match word.compare_exchange(cpu, current, at.0, Ordering::AcqRel).await {
                Ok(_) => return,
                Err(now) => current = now,
            }
        }
    }

    /// The copies of `extent` agree now. That says something new only if they agreed up to it.
    pub(crate) async fn trust_again(&self, cpu: &P::Cpu, extent: Extent) {
        let current = self.copies_agree_below.load(cpu, Ordering::Acquire).await;
        if extent.at.0 <= current && current < extent.end().0 {
            // If it changed meanwhile, a write has failed, and what it distrusts stays so.
            let word = &self.copies_agree_below;
            let _ = word.compare_exchange(cpu, current, extent.end().0, Ordering::AcqRel).await;
        }
    }

    fn check_request(&self, at: Sector, length_bytes: usize) -> Result<Extent, ArrayError> {
        Extent::checked(at, length_bytes as u64, self.logical_block_bytes, self.capacity())
    }
}

fn facts_of<P: Platform>(device: &P::Device) -> DeviceFacts {
    DeviceFacts {
        name: device.name().to_owned(),
        size: device.size(),
        logical_block_bytes: device.logical_block_bytes(),
    }
}
