//! Keeps the metadata of a running array as md does: superblocks, bad-block logs, the write-intent
//! bitmap.
//!
//! # What is on the devices when
//! - Before the first write of a clean array goes out, all superblocks say that it is being written
//!   to. When it is stopped, or nothing was written for a while, they say that it is clean, after
//!   everything that was written has been made durable.
//! - Before the data of a write goes out, its bits of the bitmap are set and durable on every
//!   member. They are cleared some time after it ended, never while a member is missing, and only
//!   after the data has been made durable on all of them.
//! - Before a write is acknowledged that a member did not take, all other members' superblocks say
//!   that the member failed, or its bad-block log names the sectors.
//! - How far a resync or a recovery has come is written down from time to time, after what it wrote
//!   has been made durable.
//!
//! Each update is one more event, and it is on all members before the next one begins: after a power
//! cut members differ by one event at most, which assembly accepts. A device that does not take its
//! superblock is failed like one that does not take a write.
//!
//! Arrays without redundancy have nothing to keep; neither have arrays that were made of bare
//! devices. Requests to those never come here.
//!
//! - `intent.rs` and `superblocks.rs` are pure; `ledger.rs` says what is to be written down,
//! - `settle.rs` writes superblocks, `bitmap.rs` the bitmap,
//! - `requests.rs` is what a write passes before and after, and what stops the array,
//! - `jobs.rs` drives resync and recovery with their checkpoints, `array.rs` offers all that.

mod array;
mod bitmap;
mod intent;
mod jobs;
mod ledger;
mod requests;
mod settle;
mod superblocks;

use crate::concurrency::Turn;
use crate::lock::{SpinKind, SpinLock, WaitQueue};
use crate::metadata::bad_blocks::BadBlockLog;
use crate::metadata::bitmap::Bitmap;
use crate::metadata::identity::Time;
use crate::metadata::superblock::Superblock;
use crate::platform::{Label, Ordering, Place, Platform, Word};
use crate::units::{MemberIndex, Sector};
use intent::WriteIntent;
use ledger::Ledger;
pub(crate) use settle::Change;
use std::sync::Arc;

/// Whether an array keeps all of its data on just those members for which the predicate says yes.
pub(crate) type Survives = Box<dyn Fn(&dyn Fn(MemberIndex) -> bool) -> bool + Send + Sync>;

/// A device whose metadata is kept.
pub(crate) struct RecordedDevice<P: Platform> {
    pub(crate) device: Arc<P::Device>,
    /// As it was found.
    pub(crate) superblock: Superblock,
    /// Its place among the members and replacements; `None` for spares.
    pub(crate) member: Option<MemberIndex>,
    /// As it was found.
    pub(crate) bad_blocks: Option<BadBlockLog>,
}

/// What records begin with.
pub(crate) struct RecordsSeed<P: Platform> {
    pub(crate) devices: Vec<RecordedDevice<P>>,
    /// As it was found, on any of the members.
    pub(crate) bitmap: Option<Bitmap>,
    /// The freshest event count.
    pub(crate) events: u64,
    /// Up to where redundancy agrees; `None` for everywhere.
    pub(crate) resync_offset: Option<Sector>,
    /// The time of day at which the machine's clock stood at `opened_ns`.
    pub(crate) opened: Time,
    /// As the machine counts.
    pub(crate) opened_ns: u64,
}

/// What is kept of one device while the array runs.
struct Kept<P: Platform> {
    device: Arc<P::Device>,
    member: Option<MemberIndex>,
}

/// The metadata of a running array.
pub(crate) struct Records<P: Platform> {
    devices: Vec<Kept<P>>,
    survives: Survives,
    opened: Time,
    opened_ns: u64,
    /// Whoever has it may write metadata.
    ledger: Turn<P, Ledger>,
    intent: Option<SpinLock<P, WriteIntent>>,
    /// Not zero if the superblocks say that the array is being written to.
    active: P::Word,
    /// Not zero while new writes wait.
    gate: P::Word,
    /// Writes past the gate.
    writes: P::Word,
    /// Writes begun in all, to see whether the array is idle.
    writes_begun: P::Word,
    quiet: WaitQueue<P>,
    /// Counts changes of members that have to be written down.
    changed: P::Word,
    /// Up to which of them that has been done.
    recorded: P::Word,
    /// Not zero while somebody goes through what the metadata marks.
    resync_driven: P::Word,
}

impl<P: Platform> Records<P> {
    pub(crate) fn new(
        platform: &P,
        kind: SpinKind,
        seed: RecordsSeed<P>,
        survives: Survives,
    ) -> Self {
        let word = |name| platform.word(Label::new(name), Place::Alone, 0);
        let intent = seed.bitmap.map(|bitmap| {
            let label = Label::new("write_intent");
            SpinLock::new(platform, label, kind, Place::Alone, WriteIntent::new(bitmap))
        });
        let (devices, superblocks_and_logs): (Vec<_>, Vec<_>) = seed
            .devices
            .into_iter()
            .map(|of| {
                let kept = Kept { device: of.device, member: of.member };
                (kept, (of.superblock, of.bad_blocks))
            })
            .unzip();
        let ledger = Ledger::new(superblocks_and_logs, seed.events, seed.resync_offset);
        Self {
            devices,
            survives,
            opened: seed.opened,
            opened_ns: seed.opened_ns,
            ledger: Turn::new(platform, Label::new("ledger"), kind, ledger),
            intent,
            active: word("array_active"),
            gate: word("writes_gate"),
            writes: word("writes_under_way"),
            writes_begun: word("writes_begun"),
            quiet: WaitQueue::new(platform, Label::new("writes_quiet"), kind, Place::Alone),
            changed: word("members_changed"),
            recorded: word("members_recorded"),
            resync_driven: word("resync_driven"),
        }
    }

    /// Whether the array keeps a write-intent bitmap.
    pub(crate) fn has_bitmap(&self) -> bool {
        self.intent.is_some()
    }

    /// What counts of a member has changed: what is acknowledged from now on waits until that is
    /// written down. Said before anybody can act on the change.
    pub(crate) async fn note_change(&self, cpu: &P::Cpu) {
        self.changed.fetch_add(cpu, 1, Ordering::AcqRel).await;
    }

    /// Whether some change is not yet written down.
    async fn is_behind(&self, cpu: &P::Cpu) -> bool {
        let recorded = self.recorded.load(cpu, Ordering::Acquire).await;
        self.changed.load(cpu, Ordering::Acquire).await != recorded
    }

    /// The time of day.
    fn now(&self, cpu: &P::Cpu) -> Time {
        use crate::platform::Cpu as _;
        let elapsed_us = cpu.now_ns().saturating_sub(self.opened_ns) / 1000;
        let microseconds = u64::from(self.opened.microseconds) + elapsed_us;
        Time {
            seconds: self.opened.seconds + microseconds / 1_000_000,
            microseconds: (microseconds % 1_000_000) as u32,
        }
    }
}
