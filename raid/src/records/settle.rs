//! Brings the superblocks and the bad-block logs up to date with the array. Comparing what is with
//! what was written down last, it is right after any change and does nothing where there was none;
//! several changes that come together are written down at once.

use super::Records;
use super::ledger::{Ledger, Observed};
use crate::common::Common;
use crate::device::{Device, Io, IoError};
use crate::error::ArrayError;
use crate::metadata::superblock::{Role, Superblock};
use crate::platform::{Ordering, Platform, Word};
use crate::sector_io::{self, SectorWrite};
use crate::units::Sector;

/// A device that did not take what was to be written.
pub(super) struct Refusal {
    pub(super) device: usize,
    pub(super) cause: IoError,
}

impl<P: Platform> Records<P> {
    /// Changes what is to be said of the array, and writes down whatever differs from what was
    /// written last.
    ///
    /// # Errors
    /// [`ArrayError::Unrecorded`].
    pub(crate) async fn settle(
        &self,
        cpu: &P::Cpu,
        common: &Common<P>,
        change: Change,
    ) -> Result<(), ArrayError> {
        let mut ledger = self.ledger.take(cpu).await;
        change.apply(&mut ledger);
        let result = self.settle_ledger(cpu, common, &mut ledger).await;
        self.ledger.give_back(cpu, ledger).await;
        result
    }

    /// As [`settle`](Self::settle), for whoever has the ledger.
    pub(super) async fn settle_ledger(
        &self,
        cpu: &P::Cpu,
        common: &Common<P>,
        ledger: &mut Ledger,
    ) -> Result<(), ArrayError> {
        loop {
            // Read first: a change that comes later is looked at again.
            let changed = self.changed.load(cpu, Ordering::Acquire).await;
            let observed = self.observe(cpu, common, ledger).await;
            if !observed.overfull.is_empty() {
                // What is bad on them cannot be written down.
                let refusal = |device| Refusal { device, cause: IoError::BadBlockLogFull };
                let refusals = observed.overfull.into_iter().map(refusal).collect();
                self.take_out(cpu, common, ledger, refusals).await?;
                continue;
            }
            if ledger.written.as_ref() == Some(&observed.record) && ledger.logs == observed.logs {
                self.recorded.store(cpu, changed, Ordering::Release).await;
                return Ok(());
            }
            let refusals = self.write_down(cpu, ledger, observed).await;
            if refusals.is_empty() {
                self.recorded.store(cpu, changed, Ordering::Release).await;
                return Ok(());
            }
            self.take_out(cpu, common, ledger, refusals).await?;
        }
    }

    /// Takes out the devices that refused.
    pub(super) async fn take_out(
        &self,
        cpu: &P::Cpu,
        common: &Common<P>,
        ledger: &mut Ledger,
        refusals: Vec<Refusal>,
    ) -> Result<(), ArrayError> {
        // Some devices may have taken the update.
        ledger.written = None;
        for Refusal { device, cause } in refusals {
            let Some(member) = self.devices[device].member else {
                ledger.lost[device] = true;
                continue;
            };
            if !common.take_out(cpu, member, &cause, |live| (self.survives)(live)).await {
                return Err(ArrayError::Unrecorded { member, cause });
            }
        }
        Ok(())
    }

    /// The devices that metadata is written to, as the record has them.
    fn in_use<'a>(
        &'a self,
        ledger: &'a Ledger,
        observed: &'a Observed,
    ) -> impl Iterator<Item = usize> + 'a {
        let works = |index: &usize| {
            observed.record.devices[*index].role != Role::Faulty && !ledger.lost[*index]
        };
        (0..self.devices.len()).filter(works)
    }

    /// One update of everything, one event on.
    async fn write_down(
        &self,
        cpu: &P::Cpu,
        ledger: &mut Ledger,
        observed: Observed,
    ) -> Vec<Refusal> {
        let devices: Vec<usize> = self.in_use(ledger, &observed).collect();
        // What is said to be whole has to survive.
        let refusals = self.flush_devices(cpu, &devices).await;
        if !refusals.is_empty() {
            return refusals;
        }
        let logs = devices.iter().filter_map(|index| {
            let log = observed.logs[*index].as_ref()?;
            let changed = ledger.logs[*index].as_ref() != Some(log);
            let (at, _) = ledger.superblocks[*index].bad_block_log()?;
            changed.then(|| (*index, SectorWrite { at, bytes: log.encode() }))
        });
        let refusals = self.write_durably(cpu, logs.collect()).await;
        if !refusals.is_empty() {
            return refusals;
        }
        let events = ledger.events + 1;
        // The bitmap goes first: one that is older than its superblock says nothing.
        let cleared = (!observed.degraded).then_some(events);
        let refusals = self.write_bitmap_header(cpu, ledger, &devices, events, cleared).await;
        if !refusals.is_empty() {
            return refusals;
        }
        ledger.events = events;
        let updated = self.now(cpu);
        let mut fresh: Vec<(usize, Superblock)> = Vec::new();
        for index in &devices {
            let mut superblock = ledger.superblocks[*index].clone();
            observed.record.put_into(&mut superblock, *index, events, updated);
            fresh.push((*index, superblock));
        }
        let write = |(index, superblock): &(usize, Superblock)| {
            (*index, SectorWrite { at: superblock.at, bytes: superblock.encode() })
        };
        let refusals = self.write_durably(cpu, fresh.iter().map(write).collect()).await;
        if refusals.is_empty() {
            for (index, superblock) in fresh {
                ledger.superblocks[index] = superblock;
            }
            ledger.logs = observed.logs;
            tracing::debug!(events, clean = observed.record.clean, "superblocks written");
            ledger.written = Some(observed.record);
        }
        refusals
    }

    /// Makes what completed on these devices durable.
    pub(super) async fn flush_devices(&self, cpu: &P::Cpu, devices: &[usize]) -> Vec<Refusal> {
        let mut handed = Vec::with_capacity(devices.len());
        for index in devices {
            handed.push((*index, self.devices[*index].device.submit(cpu, Io::Flush).await));
        }
        let mut refusals = Vec::new();
        for (device, completion) in handed {
            if let Err(cause) = completion.await.result {
                refusals.push(Refusal { device, cause });
            }
        }
        refusals
    }

    /// Writes to several devices at once.
    pub(super) async fn write_durably(
        &self,
        cpu: &P::Cpu,
        writes: Vec<(usize, SectorWrite)>,
    ) -> Vec<Refusal> {
        let (mut handed, mut refusals) = (Vec::with_capacity(writes.len()), Vec::new());
        for (device, write) in writes {
            let on = &self.devices[device].device;
            match sector_io::submit_durable_write::<P>(cpu, on, write).await {
                Ok(completion) => handed.push((device, completion)),
                Err(cause) => refusals.push(Refusal { device, cause }),
            }
        }
        for (device, completion) in handed {
            if let Err(cause) = completion.await.result {
                refusals.push(Refusal { device, cause });
            }
        }
        refusals
    }
}

/// What is to be said of the array from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// The same.
    Nothing,
    /// It is being written to.
    Active,
    /// A write has failed: redundancy may disagree anywhere.
    Disagreement,
    /// A resync has made redundancy agree up to a sector, or everywhere, unless some write failed
    /// since there were so many disagreements.
    Resynced {
        /// Up to where; `None` for everywhere.
        up_to: Option<Sector>,
        /// What [`Ledger::disagreements`] was when the resync began.
        disagreements: u64,
    },
}

impl Change {
    fn apply(self, ledger: &mut Ledger) {
        match self {
            Self::Nothing => {}
            Self::Active => ledger.clean = false,
            Self::Disagreement => {
                (ledger.resync_offset, ledger.resync_resumes) = (Some(Sector(0)), None);
                ledger.disagreements += 1;
            }
            Self::Resynced { up_to, disagreements } => {
                if ledger.disagreements == disagreements {
                    ledger.resync_offset = up_to;
                }
            }
        }
    }
}
