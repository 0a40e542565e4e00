//! A member of an array, or a device that is to replace one: whether it counts, what of it can be
//! trusted, and how many requests it has under way.
//!
//! States and their transitions, all made under the array's `device_lock`:
//! - *in sync*: serves reads outside of its bad blocks and takes writes.
//! - *recovering*: takes all writes, and serves reads below its recovery point. recovering → in sync
//!   when a recovery has come to its end.
//! - *failed*: serves nothing and takes nothing, for the rest of this run. In sync → failed only if
//!   the array survives without it; recovering → failed at any time. There is no way back.
//! - *missing*: as failed, and there is no device.
//!
//! All of that is one word, so that a request to a healthy member looks at one word.

use crate::bad_blocks::BadBlocks;
use crate::device::{Device, Io, IoDone};
use crate::lock::{SpinKind, SpinLock};
use crate::patches::Patches;
use crate::platform::{Label, Ordering, Place, Platform, Word};
use crate::request::Extent;
use crate::units::{MemberIndex, SECTOR_BYTES, Sector, Sectors};
use std::sync::Arc;

/// Whether a member counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// It holds what was written.
    InSync,
    /// It takes what is written, and what was written before is being filled in.
    Recovering {
        /// The first sector of its data that is not filled in yet.
        point: Sector,
    },
    /// It missed a write or is gone, and serves nothing any more.
    Failed,
    /// There is no device.
    Missing,
}

/// A device and what an array is to know of it before it is used.
pub struct MemberDevice<P: Platform> {
    /// The device.
    pub device: Arc<P::Device>,
    /// Where the member's data starts on the device. Every other address of a member counts from
    /// here.
    pub data_start: Sector,
    /// How much of it the array may use.
    pub data_length: Sectors,
    /// `None` if it holds what was written; otherwise from where on it has to be filled in.
    pub recovery_point: Option<Sector>,
    /// Read only when nothing else can be.
    pub write_mostly: bool,
    /// What cannot be trusted, and how much more may be noted; `None` if nothing can be noted, so
    /// that a write error costs the member.
    pub bad_blocks: Option<BadBlocks>,
    /// What is read in place of what the device holds: the end of a replayed log, where nothing may
    /// be written. Empty for a member that may be written.
    pub patches: Patches,
}

impl<P: Platform> MemberDevice<P> {
    /// A whole device, in sync.
    pub fn whole(device: Arc<P::Device>) -> Self {
        let data_length = device.size();
        Self {
            device,
            data_start: Sector(0),
            data_length,
            recovery_point: None,
            write_mostly: false,
            bad_blocks: None,
            patches: Patches::default(),
        }
    }
}

/// A member of an array that is to be opened.
pub struct MemberOptions<P: Platform> {
    /// Its device; `None` if it is missing.
    pub device: Option<MemberDevice<P>>,
    /// A device that is being filled to take its place, or has taken it.
    pub replacement: Option<MemberDevice<P>>,
}

impl<P: Platform> MemberOptions<P> {
    /// A member that is a whole device, in sync.
    pub fn whole(device: Arc<P::Device>) -> Self {
        Self { device: Some(MemberDevice::whole(device)), replacement: None }
    }

    /// A member that is missing.
    pub fn missing() -> Self {
        Self { device: None, replacement: None }
    }
}

/// What is so of a member now: a copy of its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flags(u64);

impl Flags {
    const FAILED: u64 = 1;
    const RECOVERING: u64 = 2;
    const BAD_BLOCKS: u64 = 4;

    /// In sync or recovering.
    pub(crate) fn takes_writes(self) -> bool {
        self.0 & Self::FAILED == 0
    }

    pub(crate) fn is_in_sync(self) -> bool {
        self.0 & (Self::FAILED | Self::RECOVERING) == 0
    }

    pub(crate) fn is_recovering(self) -> bool {
        self.0 & (Self::FAILED | Self::RECOVERING) == Self::RECOVERING
    }

    pub(crate) fn has_bad_blocks(self) -> bool {
        self.0 & Self::BAD_BLOCKS != 0
    }
}

/// Whether some sectors of a member can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readable {
    /// All of them.
    Yes,
    /// Some are bad, or only the first are filled in.
    InPart,
    /// The member serves none of them.
    No,
}

const MINUS_ONE: u64 = u64::MAX;

/// Where the driver's structure of a member has its flags, after a boundary of 128 bytes, and its
/// count of requests: 184 and 240 bytes into an allocation that starts at such a boundary. On lines
/// of 64 bytes the two are apart; on lines of 128 bytes every request moves the line of the flags.
const FLAGS_START_BYTES: u32 = 184 % 128;
const COUNT_OFFSET_BYTES: u32 = 240 - 184;

/// One member.
pub(crate) struct Member<P: Platform> {
    device: Option<Arc<P::Device>>,
    data_start: Sector,
    write_mostly: bool,
    flags: P::Word,
    in_flight: P::Word,
    /// What only members have that are not simply in sync.
    details: Option<Details<P>>,
    patches: Patches,
}

struct Details<P: Platform> {
    /// While the member is recovering, what is below can be read.
    recovery_point: P::Word,
    bad_blocks: Option<SpinLock<P, BadBlocks>>,
}

/// What a device resolves when it is done with a request.
type DeviceCompletion<P> = <<P as Platform>::Device as Device<P>>::Completion;

/// A request that a member has under way.
pub(crate) struct CompletionOf<P: Platform> {
    done: DeviceCompletion<P>,
    /// Where it reads, if anything there is patched.
    patched_at: Option<Sector>,
}

impl<P: Platform> Member<P> {
    /// A member whose bad blocks and recovery point are widened to whole blocks of the array.
    pub(crate) fn new(
        platform: &P,
        index: MemberIndex,
        device: Option<MemberDevice<P>>,
        block_bytes: u32,
        kind: SpinKind,
    ) -> Self {
        let label = |name| Label::indexed(name, index.0);
        let length_bytes = COUNT_OFFSET_BYTES + 8;
        let region = platform.region(label("member"), FLAGS_START_BYTES, length_bytes);
        let place = |offset_bytes| Place::Within { region: &region, offset_bytes };
        let word = |flags| platform.word(label("member_state"), place(0), flags);
        let count = || platform.word(label("in_flight"), place(COUNT_OFFSET_BYTES), 0);
        let Some(options) = device else {
            return Self {
                device: None,
                data_start: Sector(0),
                write_mostly: false,
                flags: word(Flags::FAILED),
                in_flight: count(),
                details: None,
                patches: Patches::default(),
            };
        };
        let block = Sectors(u64::from(block_bytes) / SECTOR_BYTES);
        let point = options.recovery_point.map(|point| point.0 - point.0 % block.0);
        let bad_blocks = options.bad_blocks.map(|list| list.aligned_to(block));
        let mut flags = 0;
        if point.is_some() {
            flags |= Flags::RECOVERING;
        }
        if bad_blocks.as_ref().is_some_and(|list| !list.is_empty()) {
            flags |= Flags::BAD_BLOCKS;
        }
        Self {
            device: Some(options.device),
            data_start: options.data_start,
            write_mostly: options.write_mostly,
            flags: word(flags),
            in_flight: count(),
            details: (point.is_some() || bad_blocks.is_some()).then(|| Details {
                recovery_point: platform.word(
                    label("recovery_point"),
                    Place::Alone,
                    point.unwrap_or(u64::MAX),
                ),
                bad_blocks: bad_blocks.map(|list| {
                    SpinLock::new(platform, label("bad_blocks"), kind, Place::Alone, list)
                }),
            }),
            patches: options.patches,
        }
    }

    pub(crate) fn name(&self) -> &str {
        self.device.as_ref().map_or("missing", |device| device.name())
    }

    pub(crate) fn is_write_mostly(&self) -> bool {
        self.write_mostly
    }

    pub(crate) async fn state(&self, cpu: &P::Cpu) -> MemberState {
        let flags = self.flags(cpu).await;
        match flags {
            _ if self.device.is_none() => MemberState::Missing,
            _ if flags.is_in_sync() => MemberState::InSync,
            _ if flags.is_recovering() => {
                MemberState::Recovering { point: self.recovery_point(cpu).await }
            }
            _ => MemberState::Failed,
        }
    }

    pub(crate) async fn flags(&self, cpu: &P::Cpu) -> Flags {
        Flags(self.flags.load(cpu, Ordering::Acquire).await)
    }

    /// Whether all of `extent` can be read.
    pub(crate) async fn may_read(&self, cpu: &P::Cpu, extent: Extent) -> bool {
        self.readable(cpu, extent).await == Readable::Yes
    }

    pub(crate) async fn readable(&self, cpu: &P::Cpu, extent: Extent) -> Readable {
        let flags = self.flags(cpu).await;
        if flags.0 == 0 {
            return Readable::Yes;
        }
        if !flags.takes_writes() {
            return Readable::No;
        }
        // Boxed, as all that is rare.
        Box::pin(async {
            if flags.is_recovering() {
                let point = self.recovery_point(cpu).await;
                if point <= extent.at {
                    return Readable::No;
                }
                if point < extent.end() {
                    return Readable::InPart;
                }
            }
            let bad = flags.has_bad_blocks() && self.is_bad(cpu, extent).await;
            if bad { Readable::InPart } else { Readable::Yes }
        })
        .await
    }

    /// The sectors within `extent` before which something changes: the recovery point and the
    /// boundaries of bad blocks.
    pub(crate) async fn boundaries(&self, cpu: &P::Cpu, extent: Extent) -> Vec<Sector> {
        let flags = self.flags(cpu).await;
        let mut boundaries = Vec::new();
        if flags.is_recovering() {
            boundaries.push(self.recovery_point(cpu).await);
        }
        if flags.has_bad_blocks() {
            for bad in self.bad_blocks(cpu).await {
                boundaries.extend([bad.at, bad.end()]);
            }
        }
        boundaries.retain(|boundary| extent.at < *boundary && *boundary < extent.end());
        boundaries
    }

    pub(crate) async fn recovery_point(&self, cpu: &P::Cpu) -> Sector {
        match &self.details {
            Some(details) => Sector(details.recovery_point.load(cpu, Ordering::Acquire).await),
            None => Sector(u64::MAX),
        }
    }

    /// What is below `point` is filled in. Only the one recovery says so.
    pub(crate) async fn set_recovery_point(&self, cpu: &P::Cpu, point: Sector) {
        let details = self.details.as_ref().expect("a member that recovers was opened as such");
        details.recovery_point.store(cpu, point.0, Ordering::Release).await;
    }

    pub(crate) async fn bad_blocks(&self, cpu: &P::Cpu) -> Vec<Extent> {
        match self.log() {
            Some(log) => log.with(cpu, async |list| list.extents().to_vec()).await,
            None => Vec::new(),
        }
    }

    async fn is_bad(&self, cpu: &P::Cpu, extent: Extent) -> bool {
        let log = self.log().expect("bad blocks are in a list");
        log.with(cpu, async |list| list.overlaps(extent)).await
    }

    fn log(&self) -> Option<&SpinLock<P, BadBlocks>> {
        self.details.as_ref().and_then(|details| details.bad_blocks.as_ref())
    }

    /// Takes sectors into the list of bad blocks; false if there is none or no room in it. Whoever
    /// does this, and what follows, holds the array's `device_lock`.
    pub(crate) async fn record_bad(&self, cpu: &P::Cpu, extent: Extent) -> bool {
        let Some(log) = self.log() else { return false };
        let recorded = log.with(cpu, async |list| list.record(extent)).await;
        if recorded {
            self.change(cpu, Flags::BAD_BLOCKS, 0).await;
        }
        recorded
    }

    /// Lets sectors out of the list, which have been written again. Whether any was in it.
    pub(crate) async fn clear_bad(&self, cpu: &P::Cpu, extent: Extent) -> bool {
        let Some(log) = self.log() else { return false };
        let clear = async |list: &mut BadBlocks| {
            let cleared = list.overlaps(extent) && list.clear(extent);
            (cleared, list.is_empty())
        };
        let (cleared, empty) = log.with(cpu, clear).await;
        if empty {
            self.change(cpu, 0, Flags::BAD_BLOCKS).await;
        }
        cleared
    }

    /// Takes the member out.
    pub(crate) async fn set_failed(&self, cpu: &P::Cpu) {
        self.change(cpu, Flags::FAILED, 0).await;
    }

    /// The member has all that was written.
    pub(crate) async fn set_in_sync(&self, cpu: &P::Cpu) {
        self.change(cpu, 0, Flags::RECOVERING).await;
    }

    async fn change(&self, cpu: &P::Cpu, set: u64, clear: u64) {
        let flags = self.flags.load(cpu, Ordering::Relaxed).await;
        self.flags.store(cpu, flags & !clear | set, Ordering::Release).await;
    }

    /// Requests under way, for balancing: exact only for a moment.
    pub(crate) async fn in_flight(&self, cpu: &P::Cpu) -> u64 {
        self.in_flight.load(cpu, Ordering::Relaxed).await
    }

    /// Hands a request, addressed in sectors of the member's data, to the device. The caller passes
    /// the completion to [`wait`](Self::wait).
    pub(crate) async fn submit(&self, cpu: &P::Cpu, io: Io) -> CompletionOf<P> {
        let device = self.device.as_ref().expect("nothing is asked of a member that is missing");
        let patched_at = self.patched_at(&io);
        self.in_flight.add(cpu, 1, Ordering::Relaxed).await;
        CompletionOf { done: device.submit(cpu, self.on_device(io)).await, patched_at }
    }

    fn patched_at(&self, io: &Io) -> Option<Sector> {
        match io {
            _ if self.patches.is_empty() => None,
            Io::Read { at, into } => self.patches.touch(*at, into.len()).then_some(*at),
            Io::Write { .. } => panic!("{}: a patched member is written", self.name()),
            Io::Flush | Io::Discard { .. } => None,
        }
    }

    fn on_device(&self, io: Io) -> Io {
        let ahead = Sectors(self.data_start.0);
        match io {
            Io::Read { at, into } => Io::Read { at: at + ahead, into },
            Io::Write { at, data, durability } => Io::Write { at: at + ahead, data, durability },
            Io::Discard { at, length } => Io::Discard { at: at + ahead, length },
            Io::Flush => Io::Flush,
        }
    }

    /// Waits for a request that was handed over on this core.
    pub(crate) async fn wait(&self, cpu: &P::Cpu, completion: CompletionOf<P>) -> IoDone {
        let mut done = completion.done.await;
        if let (Some(at), Some(buffer)) = (completion.patched_at, &mut done.buffer) {
            self.patches.apply(at, buffer);
        }
        let before = self.in_flight.fetch_add(cpu, MINUS_ONE, Ordering::AcqRel).await;
        assert!(before > 0, "a request ends that was never handed over");
        done
    }
}
