//! What every kind of array has: its members, the gate in front of the submission path, and the one
//! place where a member is taken out.
//!
//! Never knows where data lies on the members; the kinds of array, `copies/` and `stripe/`, do.

use crate::concurrency::{RangeClaims, Suspension};
use crate::device::{Io, IoError};
use crate::error::ArrayError;
use crate::lock::{SpinKind, SpinLock};
use crate::member::{Member, MemberState};
use crate::platform::{Cpu, Label, Place, Platform, Work};
use crate::units::MemberIndex;
use smallvec::SmallVec;

/// The common part of an array.
pub(crate) struct Common<P: Platform> {
    pub(crate) members: Vec<Member<P>>,
    pub(crate) suspension: Suspension<P>,
    /// The smallest unit of requests, in bytes: the largest of the members' logical blocks.
    pub(crate) logical_block_bytes: u32,
    /// Sectors that background jobs work on.
    pub(crate) claims: RangeClaims<P>,
    /// Not zero while a resync runs.
    pub(crate) resync_running: P::Word,
    /// Held to take a member out, so that two cannot go at once who are one too many.
    device_lock: SpinLock<P, ()>,
}

/// Whether the device itself is lost, not just some sectors of it.
pub(crate) fn device_is_lost(error: &IoError) -> bool {
    // A request that timed out may still be carried out at any time: such a member cannot be used.
    matches!(error, IoError::Gone | IoError::TimedOut)
}

impl<P: Platform> Common<P> {
    pub(crate) fn new(
        platform: &P,
        members: Vec<Member<P>>,
        logical_block_bytes: u32,
        kind: SpinKind,
    ) -> Self {
        let lock = Label::new("device_lock");
        Self {
            members,
            suspension: Suspension::new(platform, kind),
            claims: RangeClaims::new(platform, kind),
            resync_running: platform.word(Label::new("resync_running"), Place::Alone, 0),
            logical_block_bytes,
            device_lock: SpinLock::new(platform, lock, kind, Place::Alone, ()),
        }
    }

    pub(crate) fn member(&self, index: MemberIndex) -> &Member<P> {
        &self.members[index.0 as usize]
    }

    /// The state of each member, in their order.
    pub(crate) async fn member_states(&self, cpu: &P::Cpu) -> Vec<MemberState> {
        let mut states = Vec::with_capacity(self.members.len());
        for member in &self.members {
            states.push(member.state(cpu).await);
        }
        states
    }

    /// Takes a member out after `cause`. False if the array would not survive that, as
    /// `survives_on` says of the members that are left: then the member stays, and the caller has
    /// to report the error.
    pub(crate) async fn fail_member(
        &self,
        cpu: &P::Cpu,
        index: MemberIndex,
        cause: &IoError,
        survives_on: impl Fn(&dyn Fn(MemberIndex) -> bool) -> bool,
    ) -> bool {
        let try_fail = async |_: &mut ()| {
            let mut live = Vec::with_capacity(self.members.len());
            for member in &self.members {
                live.push(member.is_live(cpu).await);
            }
            let was_live = std::mem::replace(&mut live[index.0 as usize], false);
            let survives = survives_on(&|member: MemberIndex| live[member.0 as usize]);
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

    /// Flushes all live members, and takes out by `fail` those that refuse. The caller sees to it
    /// that the array is not suspended.
    pub(crate) async fn flush_members(
        &self,
        cpu: &P::Cpu,
        fail: impl AsyncFn(MemberIndex, &IoError) -> bool,
    ) -> Result<(), ArrayError> {
        cpu.spend(Work::ArrayRequest).await;
        let mut handed: SmallVec<[_; 4]> = SmallVec::new();
        for member in (0..self.members.len() as u32).map(MemberIndex) {
            if self.member(member).is_live(cpu).await {
                handed.push((member, self.member(member).submit(cpu, Io::Flush).await));
            }
        }
        let mut result = Ok(());
        for (member, completion) in handed {
            let done = self.member(member).wait(cpu, completion).await;
            if let Err(cause) = done.result
                && !fail(member, &cause).await
            {
                result = result.and(Err(ArrayError::Unflushed { member, cause }));
            }
        }
        cpu.spend(Work::ArrayCompletion).await;
        result
    }
}
