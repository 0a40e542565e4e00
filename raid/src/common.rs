//! What every kind of array has: its members, the gate in front of the submission path, and the one
//! place where a member is taken out.
//!
//! Never knows where data lies on the members; the kinds of array, `copies/` and `stripe/`, do.

use crate::concurrency::{RangeClaims, Suspension};
use crate::device::{Io, IoError};
use crate::error::ArrayError;
use crate::lock::{SpinKind, SpinLock};
use crate::member::{Member, MemberOptions, MemberState};
use crate::platform::{Cpu, Label, Place, Platform, Work};
use crate::records::{Change, Records};
use crate::request::Extent;
use crate::units::MemberIndex;
use smallvec::SmallVec;

/// The common part of an array.
pub(crate) struct Common<P: Platform> {
    /// The members in the order of their roles, then the replacements.
    pub(crate) members: Vec<Member<P>>,
    /// How many roles there are.
    roles: u32,
    /// The roles that have a replacement, in the order of the replacements.
    replaced_roles: Vec<MemberIndex>,
    /// Whether some member is to be read only when nothing else can be.
    pub(crate) has_write_mostly: bool,
    /// Whether nothing may be written to any member.
    pub(crate) read_only: bool,
    pub(crate) suspension: Suspension<P>,
    /// The smallest unit of requests, in bytes: the largest of the members' logical blocks.
    pub(crate) logical_block_bytes: u32,
    /// Sectors that background jobs work on.
    pub(crate) claims: RangeClaims<P>,
    /// Not zero while a resync, a check or a recovery runs.
    pub(crate) resync_running: P::Word,
    /// Held to change what counts of a member, so that two cannot go at once who are one too many.
    device_lock: SpinLock<P, ()>,
    /// Keeps the metadata, where the array has any and may be written.
    pub(crate) records: Option<Records<P>>,
}

/// Whether the device itself is lost, not just some sectors of it.
pub(crate) fn device_is_lost(error: &IoError) -> bool {
    // A request that timed out may still be carried out at any time: such a member cannot be used.
    matches!(error, IoError::Gone | IoError::TimedOut)
}

/// What came of an attempt to take a member out.
struct Removal {
    was_in_use: bool,
    was_in_sync: bool,
    survives: bool,
}

impl<P: Platform> Common<P> {
    pub(crate) fn new(
        platform: &P,
        members: Vec<MemberOptions<P>>,
        logical_block_bytes: u32,
        kind: SpinKind,
        read_only: bool,
    ) -> Self {
        let roles = members.len() as u32;
        let mut devices = Vec::with_capacity(members.len());
        let mut replacements = Vec::new();
        let mut replaced_roles = Vec::new();
        for (role, member) in (0..).map(MemberIndex).zip(members) {
            devices.push(member.device);
            if let Some(replacement) = member.replacement {
                replacements.push(Some(replacement));
                replaced_roles.push(role);
            }
        }
        devices.append(&mut replacements);
        let members: Vec<Member<P>> = (0..)
            .map(MemberIndex)
            .zip(devices)
            .map(|(index, device)| Member::new(platform, index, device, logical_block_bytes, kind))
            .collect();
        let lock = Label::new("device_lock");
        Self {
            roles,
            replaced_roles,
            has_write_mostly: members.iter().any(Member::is_write_mostly),
            read_only,
            members,
            suspension: Suspension::new(platform, kind),
            claims: RangeClaims::new(platform, kind),
            resync_running: platform.word(Label::new("resync_running"), Place::Alone, 0),
            logical_block_bytes,
            device_lock: SpinLock::new(platform, lock, kind, Place::Alone, ()),
            records: None,
        }
    }

    /// A member or, with an index from the count of roles on, a replacement.
    pub(crate) fn member(&self, index: MemberIndex) -> &Member<P> {
        &self.members[index.0 as usize]
    }

    /// The indexes of all members and replacements.
    pub(crate) fn indexes(&self) -> impl Iterator<Item = MemberIndex> + use<P> {
        (0..self.members.len() as u32).map(MemberIndex)
    }

    /// The role of a member or replacement.
    pub(crate) fn role_of(&self, index: MemberIndex) -> MemberIndex {
        match index.0.checked_sub(self.roles) {
            None => index,
            Some(replacement) => self.replaced_roles[replacement as usize],
        }
    }

    /// The replacement for a role.
    pub(crate) fn replacement_of(&self, role: MemberIndex) -> Option<MemberIndex> {
        let place = self.replaced_roles.iter().position(|replaced| *replaced == role)?;
        Some(MemberIndex(self.roles + place as u32))
    }

    pub(crate) fn has_replacements(&self) -> bool {
        !self.replaced_roles.is_empty()
    }

    /// The state of each member, in their order, and then of each replacement.
    pub(crate) async fn member_states(&self, cpu: &P::Cpu) -> Vec<MemberState> {
        let mut states = Vec::with_capacity(self.members.len());
        for member in &self.members {
            states.push(member.state(cpu).await);
        }
        states
    }

    /// Whether some role has no member in sync.
    pub(crate) async fn is_degraded(&self, cpu: &P::Cpu) -> bool {
        for role in (0..self.roles).map(MemberIndex) {
            let mut in_sync = self.member(role).flags(cpu).await.is_in_sync();
            if let Some(replacement) = self.replacement_of(role) {
                in_sync |= self.member(replacement).flags(cpu).await.is_in_sync();
            }
            if !in_sync {
                return true;
            }
        }
        false
    }

    /// A member has changed; under the `device_lock`.
    async fn note_change(&self, cpu: &P::Cpu) {
        if let Some(records) = &self.records {
            records.note_change(cpu).await;
        }
    }

    /// Writes changes of members down before anybody is told of what came of them.
    async fn settle(&self, cpu: &P::Cpu) {
        let Some(records) = &self.records else { return };
        // Boxed, as all that is rare.
        if let Err(error) = Box::pin(records.settle(cpu, self, Change::Nothing)).await {
            // Whoever wants to acknowledge a write tries again and gets the error.
            tracing::error!(%error, "a change of members is not written down");
        }
    }

    /// Takes a member out after `cause`, and writes that down. False if the array would not survive
    /// that, as `survives_on` says of the roles that are left: then the member stays, and the caller
    /// has to report the error.
    pub(crate) async fn fail_member(
        &self,
        cpu: &P::Cpu,
        index: MemberIndex,
        cause: &IoError,
        survives_on: impl Fn(&dyn Fn(MemberIndex) -> bool) -> bool,
    ) -> bool {
        let spared = self.take_out(cpu, index, cause, survives_on).await;
        self.settle(cpu).await;
        spared
    }

    /// As [`fail_member`](Self::fail_member), but leaves it to the caller to write that down.
    pub(crate) async fn take_out(
        &self,
        cpu: &P::Cpu,
        index: MemberIndex,
        cause: &IoError,
        survives_on: impl Fn(&dyn Fn(MemberIndex) -> bool) -> bool,
    ) -> bool {
        let try_fail = async |_: &mut ()| {
            let mut in_sync = Vec::with_capacity(self.members.len());
            let mut was_in_use = false;
            for member in self.indexes() {
                let flags = self.member(member).flags(cpu).await;
                in_sync.push(flags.is_in_sync());
                was_in_use |= member == index && flags.takes_writes();
            }
            let was_in_sync = std::mem::replace(&mut in_sync[index.0 as usize], false);
            let survives = survives_on(&|role: MemberIndex| {
                let replacement = self.replacement_of(role);
                in_sync[role.0 as usize] || replacement.is_some_and(|of| in_sync[of.0 as usize])
            });
            // Nothing rests on a member that is not in sync.
            if was_in_use && (survives || !was_in_sync) {
                self.member(index).set_failed(cpu).await;
                self.note_change(cpu).await;
            }
            Removal { was_in_use, was_in_sync, survives }
        };
        let Removal { was_in_use, was_in_sync, survives } =
            self.device_lock.with(cpu, try_fail).await;
        let (member, device) = (index.0, self.member(index).name());
        match (was_in_use, survives || !was_in_sync) {
            (true, true) => tracing::warn!(member, device, %cause, "member failed"),
            (true, false) => tracing::error!(member, device, %cause, "member cannot be spared"),
            (false, _) => {}
        }
        survives || (was_in_use && !was_in_sync)
    }

    /// A member did not take a write to `extent`. Notes those sectors as bad, where that can be
    /// noted, and otherwise takes the member out. False if the array cannot spare that, as
    /// `redundant_here` says of these sectors (whether another member has them) and `survives_on` of
    /// the whole: then the caller has to report the error.
    pub(crate) async fn write_failed(
        &self,
        cpu: &P::Cpu,
        index: MemberIndex,
        extent: Extent,
        cause: &IoError,
        redundant_here: impl AsyncFn() -> bool,
        survives_on: impl Fn(&dyn Fn(MemberIndex) -> bool) -> bool,
    ) -> bool {
        let lost = device_is_lost(cause);
        let note = async |_: &mut ()| {
            let redundant = redundant_here().await;
            let noted = redundant && !lost && self.member(index).record_bad(cpu, extent).await;
            if noted {
                self.note_change(cpu).await;
            }
            (redundant, noted)
        };
        let (redundant, noted) = self.device_lock.with(cpu, note).await;
        let (member, device, at, sectors) =
            (index.0, self.member(index).name(), extent.at.0, extent.length.0);
        if noted {
            tracing::warn!(member, device, at, sectors, %cause, "bad sectors noted");
            self.settle(cpu).await;
            return true;
        }
        if !redundant && !lost {
            tracing::error!(member, device, at, sectors, %cause, "write failed on the last copy");
            return false;
        }
        self.fail_member(cpu, index, cause, survives_on).await && redundant
    }

    /// Notes sectors of a member as bad, which could not be filled in. False if there is no room.
    pub(crate) async fn note_bad(&self, cpu: &P::Cpu, index: MemberIndex, extent: Extent) -> bool {
        let note = async |_: &mut ()| {
            let noted = self.member(index).record_bad(cpu, extent).await;
            if noted {
                self.note_change(cpu).await;
            }
            noted
        };
        let noted = self.device_lock.with(cpu, note).await;
        self.settle(cpu).await;
        noted
    }

    /// A member that had bad blocks has taken a write to `extent`: those sectors are good again. Its
    /// log says so from the next update on; until then it names too much, which loses nothing.
    pub(crate) async fn written_again(&self, cpu: &P::Cpu, index: MemberIndex, extent: Extent) {
        let clear = async |_: &mut ()| self.member(index).clear_bad(cpu, extent).await;
        if self.device_lock.with(cpu, clear).await {
            let (member, at, sectors) = (index.0, extent.at.0, extent.length.0);
            tracing::info!(member, at, sectors, "bad sectors written again");
        }
    }

    /// A member has been filled in to its end. If it was to replace another, it does so now.
    pub(crate) async fn recovered(&self, cpu: &P::Cpu, index: MemberIndex) {
        let role = self.role_of(index);
        let take_over = async |_: &mut ()| {
            if !self.member(index).flags(cpu).await.is_recovering() {
                return false;
            }
            self.member(index).set_in_sync(cpu).await;
            if role != index {
                self.member(role).set_failed(cpu).await;
            }
            self.note_change(cpu).await;
            true
        };
        if self.device_lock.with(cpu, take_over).await {
            self.settle(cpu).await;
            let (member, device) = (role.0, self.member(index).name());
            tracing::info!(member, device, "member recovered");
        }
    }

    /// Flushes all members that take writes, and takes out by `fail` those that refuse. The caller sees to it
    /// that the array is not suspended.
    pub(crate) async fn flush_members(
        &self,
        cpu: &P::Cpu,
        fail: impl AsyncFn(MemberIndex, &IoError) -> bool,
    ) -> Result<(), ArrayError> {
        cpu.spend(Work::ArrayRequest).await;
        let mut handed: SmallVec<[_; 4]> = SmallVec::new();
        for member in self.indexes() {
            if self.member(member).flags(cpu).await.takes_writes() {
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
