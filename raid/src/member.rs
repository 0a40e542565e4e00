//! A member of an array: its device, whether it still counts, and how many requests it has under
//! way.
//!
//! States and their transition:
//! - *in sync*: serves reads and takes writes.
//! - *failed*: serves nothing and takes nothing, for the rest of this run.
//! - in sync → failed: `Array::fail_member`, under the array's
//!   `device_lock`, and only if the array survives without it. There is no way back.

use crate::device::{Device, Io, IoDone};
use crate::platform::{Label, Ordering, Place, Platform, Word};
use crate::units::MemberIndex;

/// Whether a member still counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// It holds what was written.
    InSync,
    /// It missed a write or is gone, and serves nothing any more.
    Failed,
}

const IN_SYNC: u64 = 0;
const FAILED: u64 = 1;
const MINUS_ONE: u64 = u64::MAX;

/// Where the driver's structure of a member has its flags, after a boundary of 128 bytes, and its
/// count of requests: 184 and 240 bytes into an allocation that starts at such a boundary. On lines
/// of 64 bytes the two are apart; on lines of 128 bytes every request moves the line of the flags.
const FLAGS_START_BYTES: u32 = 184 % 128;
const COUNT_OFFSET_BYTES: u32 = 240 - 184;

/// One member.
pub(crate) struct Member<P: Platform> {
    device: P::Device,
    state: P::Word,
    in_flight: P::Word,
}

/// What a device resolves when it is done with a request.
pub(crate) type CompletionOf<P> = <<P as Platform>::Device as Device<P>>::Completion;

impl<P: Platform> Member<P> {
    pub(crate) fn new(platform: &P, index: MemberIndex, device: P::Device) -> Self {
        let label = |name| Label::indexed(name, index.0);
        let length_bytes = COUNT_OFFSET_BYTES + 8;
        let region = platform.region(label("member"), FLAGS_START_BYTES, length_bytes);
        let place = |offset_bytes| Place::Within { region: &region, offset_bytes };
        Self {
            device,
            state: platform.word(label("member_state"), place(0), IN_SYNC),
            in_flight: platform.word(label("in_flight"), place(COUNT_OFFSET_BYTES), 0),
        }
    }

    pub(crate) fn name(&self) -> &str {
        self.device.name()
    }

    pub(crate) async fn state(&self, cpu: &P::Cpu) -> MemberState {
        match self.state.load(cpu, Ordering::Acquire).await {
            IN_SYNC => MemberState::InSync,
            _ => MemberState::Failed,
        }
    }

    pub(crate) async fn is_live(&self, cpu: &P::Cpu) -> bool {
        self.state(cpu).await == MemberState::InSync
    }

    /// Takes the member out. Whoever does this holds the array's `device_lock`.
    pub(crate) async fn set_failed(&self, cpu: &P::Cpu) {
        self.state.store(cpu, FAILED, Ordering::Release).await;
    }

    /// Requests under way, for balancing: exact only for a moment.
    pub(crate) async fn in_flight(&self, cpu: &P::Cpu) -> u64 {
        self.in_flight.load(cpu, Ordering::Relaxed).await
    }

    /// Hands a request to the device. The caller passes the completion to [`wait`](Self::wait).
    pub(crate) async fn submit(&self, cpu: &P::Cpu, io: Io) -> CompletionOf<P> {
        self.in_flight.add(cpu, 1, Ordering::Relaxed).await;
        self.device.submit(cpu, io).await
    }

    /// Waits for a request that was handed over on this core.
    pub(crate) async fn wait(&self, cpu: &P::Cpu, completion: CompletionOf<P>) -> IoDone {
        let done = completion.await;
        let before = self.in_flight.fetch_add(cpu, MINUS_ONE, Ordering::AcqRel).await;
        assert!(before > 0, "a request ends that was never handed over");
        done
    }
}
