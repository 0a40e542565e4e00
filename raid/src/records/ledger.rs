//! What is written down of an array, and what should be: the members as they are now, put into the
//! words of a superblock.
//!
//! Never writes a device.

use super::Records;
use super::superblocks::{ArrayRecord, DeviceRecord};
use crate::common::Common;
use crate::member::MemberState;
use crate::metadata::bad_blocks::BadBlocks as BadBlockLog;
use crate::metadata::superblock::{Role, Superblock};
use crate::platform::Platform;
use crate::request::Extent;
use crate::units::{Sector, Sectors};

/// The state of the metadata. Whoever holds it may write.
pub(super) struct Ledger {
    /// As they were written last, or found.
    pub(super) superblocks: Vec<Superblock>,
    /// As they were written last, or found.
    pub(super) logs: Vec<Option<BadBlockLog>>,
    /// Devices without a role that did not take their superblock.
    pub(super) lost: Vec<bool>,
    /// What all superblocks say; `None` if that has to be written anew.
    pub(super) written: Option<ArrayRecord>,
    /// The event count of the last update that was tried.
    pub(super) events: u64,
    /// Whether the array is to be called clean.
    pub(super) clean: bool,
    /// Up to where redundancy agrees; `None` for everywhere.
    pub(super) resync_offset: Option<Sector>,
    /// Writes that failed and may have left redundancy that disagrees.
    pub(super) disagreements: u64,
    /// `writes_begun` at the last housekeeping.
    pub(super) writes_seen: u64,
}

impl Ledger {
    pub(super) fn new(
        devices: Vec<(Superblock, Option<BadBlockLog>)>,
        events: u64,
        resync_offset: Option<Sector>,
    ) -> Self {
        let lost = vec![false; devices.len()];
        let (superblocks, logs) = devices.into_iter().unzip();
        Self {
            superblocks,
            logs,
            lost,
            written: None,
            events,
            clean: true,
            resync_offset,
            disagreements: 0,
            writes_seen: 0,
        }
    }
}

/// What is to be written down.
pub(super) struct Observed {
    pub(super) record: ArrayRecord,
    /// By device; `None` where it keeps no log.
    pub(super) logs: Vec<Option<BadBlockLog>>,
    /// Some role has no member in sync.
    pub(super) degraded: bool,
}

impl<P: Platform> Records<P> {
    /// Looks at the members.
    pub(super) async fn observe(
        &self,
        cpu: &P::Cpu,
        common: &Common<P>,
        ledger: &Ledger,
    ) -> Observed {
        let (mut devices, mut logs) = (Vec::new(), Vec::new());
        for (index, kept) in self.devices.iter().enumerate() {
            let superblock = &ledger.superblocks[index];
            let mut log = ledger.logs[index].clone();
            let mut device = DeviceRecord {
                dev_number: superblock.dev_number,
                role: superblock.role(),
                recovery_offset: None,
                is_replacement: false,
                has_bad_blocks: false,
            };
            if let Some(member) = kept.member {
                let role = common.role_of(member);
                device.role = Role::Active(role.0);
                match common.member(member).state(cpu).await {
                    MemberState::InSync => {}
                    MemberState::Recovering { point } => {
                        device.recovery_offset = Some(point);
                        device.is_replacement = member != role;
                    }
                    MemberState::Failed | MemberState::Missing => device.role = Role::Faulty,
                }
                if let Some(log) = &mut log {
                    let bad = common.member(member).bad_blocks(cpu).await;
                    let data = data_of(superblock);
                    replace_within(log, data, &bad);
                }
            }
            device.has_bad_blocks = log.as_ref().is_some_and(|log| !log.is_empty());
            devices.push(device);
            logs.push(log);
        }
        let (clean, resync_offset) = (ledger.clean, ledger.resync_offset);
        let record = ArrayRecord { clean, resync_offset, devices };
        Observed { record, logs, degraded: common.is_degraded(cpu).await }
    }
}

/// Where a device's data lies on it.
fn data_of(superblock: &Superblock) -> Extent {
    Extent { at: superblock.data_offset(), length: superblock.data_size() }
}

/// Makes the log name, within the data, just the sectors that are bad now. `bad` counts from the
/// data's start. What the log cannot hold the member's own list did not take either.
fn replace_within(log: &mut BadBlockLog, data: Extent, bad: &[Extent]) {
    let mut fresh = log.clone();
    let named: Vec<(Sector, Sectors)> =
        bad.iter().map(|of| (Sector(data.at.0 + of.at.0), of.length)).collect();
    let before: Vec<(Sector, Sectors)> = log.ranges().collect();
    let inside =
        |(at, length): &(Sector, Sectors)| Extent { at: *at, length: *length }.overlaps(data);
    let mut result = Ok(());
    for range in before.iter().filter(|range| inside(range) && !named.contains(range)) {
        result = result.and(fresh.remove(range.0, range.1));
    }
    for (at, length) in named {
        result = result.and(fresh.insert(at, length));
    }
    match result {
        Ok(()) => *log = fresh,
        // Too many entries is an error of the caller; naming too much is safe.
        Err(cause) => tracing::error!(%cause, "bad-block log keeps what it had"),
    }
}
