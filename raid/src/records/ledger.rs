//! What is written down of an array, and what should be: the members as they are now, put into the
//! words of a superblock.
//!
//! Never writes a device.

use super::Records;
use super::superblocks::{ArrayRecord, DeviceRecord};
use crate::common::Common;
use crate::member::MemberState;
use crate::metadata::bad_blocks::{BadBlockLog, BadBlocksError};
use crate::metadata::superblock::{Role, Superblock};
use crate::platform::Platform;
use crate::request::Extent;
use crate::units::Sector;

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
    /// Where the pass of a resync that is under way goes on, if it has left something behind that
    /// does not agree: then `resync_offset` stays where that is.
    pub(super) resync_resumes: Option<Sector>,
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
            resync_resumes: None,
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
    /// Devices whose log has no room for all that is bad on them.
    pub(super) overfull: Vec<usize>,
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
        let (mut devices, mut logs, mut overfull) = (Vec::new(), Vec::new(), Vec::new());
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
                    match with_bad_within(log, data_of(superblock), &bad) {
                        Ok(fresh) => *log = fresh,
                        Err(_) if device.role == Role::Faulty => {}
                        Err(_) => overfull.push(index),
                    }
                }
            }
            device.has_bad_blocks = log.as_ref().is_some_and(|log| !log.is_empty());
            devices.push(device);
            logs.push(log);
        }
        let (clean, resync_offset) = (ledger.clean, ledger.resync_offset);
        let record = ArrayRecord { clean, resync_offset, devices };
        Observed { record, logs, overfull, degraded: common.is_degraded(cpu).await }
    }
}

/// Where what the array uses of a device lies on it. A bad sector behind that is of no array yet, and
/// stays in the log until the array grows over it.
fn data_of(superblock: &Superblock) -> Extent {
    Extent { at: superblock.data_offset(), length: superblock.component_size }
}

/// The log that names, within the data, just the sectors that are bad now. `bad` counts from the
/// data's start.
///
/// # Errors
/// If the log has no room for that.
fn with_bad_within(
    log: &BadBlockLog,
    data: Extent,
    bad: &[Extent],
) -> Result<BadBlockLog, BadBlocksError> {
    let mut fresh = log.emptied();
    for (at, length) in log.ranges() {
        for outside in (Extent { at, length }).without(data).into_iter().flatten() {
            fresh.insert(outside.at, outside.length)?;
        }
    }
    for of in bad {
        fresh.insert(Sector(data.at.0 + of.at.0), of.length)?;
    }
    Ok(fresh)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Sectors;

    const DATA: Extent = Extent { at: Sector(100), length: Sectors(4000) };

    fn extent(at: u64, length: u64) -> Extent {
        Extent { at: Sector(at), length: Sectors(length) }
    }

    /// What a log with these ranges names when these sectors of the data are bad.
    fn check(named: &[(u64, u64)], bad: &[Extent], expected: &[(u64, u64)]) {
        let mut log = BadBlockLog::new(Sectors(8), 0).expect("a shift of md");
        for (at, length) in named {
            log.insert(Sector(*at), Sectors(*length)).expect("room");
        }
        let fresh = with_bad_within(&log, DATA, bad).expect("room");
        let ranges: Vec<_> = fresh.ranges().map(|(at, length)| (at.0, length.0)).collect();
        assert_eq!(ranges, expected);
    }

    #[test]
    fn a_log_follows_the_data_and_keeps_what_lies_outside() {
        check(&[(50, 10), (200, 8), (5000, 1)], &[], &[(50, 10), (5000, 1)]);
        check(&[(90, 20)], &[extent(0, 10)], &[(90, 20)]);
        check(&[(90, 20), (4090, 20)], &[], &[(90, 10), (4100, 10)]);
        check(&[(200, 8)], &[extent(104, 2), extent(300, 1)], &[(204, 2), (400, 1)]);
    }

    #[test]
    fn a_log_that_has_no_room_is_no_log() {
        let log = BadBlockLog::new(Sectors(8), 0).expect("a shift of md");
        let bad: Vec<Extent> = (0..513).map(|index| extent(index * 2, 1)).collect();
        assert!(with_bad_within(&log, DATA, &bad[..512]).is_ok());
        let full = BadBlocksError::Full { entries_max: 512 };
        assert_eq!(with_bad_within(&log, DATA, &bad), Err(full));
    }
}
