//! Writes the write-intent bitmap to the members: bits before the data that they announce, and away
//! again when that data is durable.

use super::Records;
use super::intent::{Flush, WriteIntent};
use super::ledger::Ledger;
use super::settle::Refusal;
use crate::common::Common;
use crate::error::ArrayError;
use crate::platform::Platform;
use crate::request::Extent;
use crate::sector_io::SectorWrite;

impl<P: Platform> Records<P> {
    /// The members that take part, as indices of devices.
    async fn members_in_use(&self, cpu: &P::Cpu, common: &Common<P>) -> Vec<usize> {
        let mut devices = Vec::new();
        for (index, kept) in self.devices.iter().enumerate() {
            let Some(member) = kept.member else { continue };
            if common.member(member).flags(cpu).await.takes_writes() {
                devices.push(index);
            }
        }
        devices
    }

    /// Waits until the bits of `extents` of the sync space are on every member. Whether they were
    /// not before.
    pub(crate) async fn make_bits_durable(
        &self,
        cpu: &P::Cpu,
        common: &Common<P>,
        extents: &[Extent],
    ) -> Result<bool, ArrayError> {
        let intent = self.intent.as_ref().expect("there is a bitmap");
        let mut ledger = self.ledger.take(cpu).await;
        // Somebody else may have written them along with its own.
        let all_durable = async |intent: &mut WriteIntent| {
            extents.iter().all(|extent| intent.is_durable(*extent))
        };
        let result = match intent.with(cpu, all_durable).await {
            true => Ok(false),
            false => self.write_bits(cpu, common, &mut ledger).await.map(|()| true),
        };
        self.ledger.give_back(cpu, ledger).await;
        result
    }

    /// Writes what has changed of the bitmap to all members.
    async fn write_bits(
        &self,
        cpu: &P::Cpu,
        common: &Common<P>,
        ledger: &mut Ledger,
    ) -> Result<(), ArrayError> {
        let devices = self.members_in_use(cpu, common).await;
        let refusals = self.flush_bitmap(cpu, ledger, &devices).await;
        if refusals.is_empty() {
            return Ok(());
        }
        self.take_out(cpu, common, ledger, refusals).await?;
        // Writes the bitmap, too, to those that are left.
        self.settle_ledger(cpu, common, ledger).await
    }

    /// Writes what has changed of the bitmap to some devices. If one of them refuses, no bit counts
    /// as written, and all of the bitmap is written the next time.
    async fn flush_bitmap(&self, cpu: &P::Cpu, ledger: &Ledger, devices: &[usize]) -> Vec<Refusal> {
        let Some(intent) = &self.intent else { return Vec::new() };
        let flush = intent.with(cpu, async |intent: &mut WriteIntent| intent.flush()).await;
        let refusals = self.write_parts(cpu, ledger, devices, &flush).await;
        let note = async |intent: &mut WriteIntent| match refusals.is_empty() {
            true => intent.flushed(&flush),
            false => intent.forget_flush(),
        };
        intent.with(cpu, note).await;
        refusals
    }

    async fn write_parts(
        &self,
        cpu: &P::Cpu,
        ledger: &Ledger,
        devices: &[usize],
        flush: &Flush,
    ) -> Vec<Refusal> {
        let mut writes = Vec::new();
        for index in devices {
            let start = ledger.superblocks[*index].bitmap_at().expect("the array has a bitmap");
            for (offset, bytes) in &flush.parts {
                writes.push((*index, SectorWrite { at: start + *offset, bytes: bytes.clone() }));
            }
        }
        self.write_durably(cpu, writes).await
    }

    /// Says in the bitmaps' headers at which event they were written, and up to which bits were
    /// cleared if that has moved on.
    pub(super) async fn write_bitmap_header(
        &self,
        cpu: &P::Cpu,
        ledger: &Ledger,
        devices: &[usize],
        events: u64,
        events_cleared: Option<u64>,
    ) -> Vec<Refusal> {
        let Some(intent) = &self.intent else { return Vec::new() };
        let set = async |intent: &mut WriteIntent| intent.set_events(events, events_cleared);
        intent.with(cpu, set).await;
        let members = devices.iter().copied().filter(|index| self.devices[*index].member.is_some());
        self.flush_bitmap(cpu, ledger, &members.collect::<Vec<_>>()).await
    }

    /// Clears the bits of chunks that nobody writes to: see [`WriteIntent::clear_idle`]. Not while a
    /// member is missing: what it lacks is what the bits say.
    pub(super) async fn clear_bits(
        &self,
        cpu: &P::Cpu,
        common: &Common<P>,
        ledger: &mut Ledger,
        at_once: bool,
    ) -> Result<(), ArrayError> {
        let Some(intent) = &self.intent else { return Ok(()) };
        if common.is_degraded(cpu).await {
            return Ok(());
        }
        let idle = intent.with(cpu, async |intent: &mut WriteIntent| intent.has_idle(at_once));
        if idle.await {
            // The data first, on all members: a bit that is gone vouches for it.
            let devices = self.members_in_use(cpu, common).await;
            let refusals = self.flush_devices(cpu, &devices).await;
            if !refusals.is_empty() {
                self.take_out(cpu, common, ledger, refusals).await?;
                return self.settle_ledger(cpu, common, ledger).await;
            }
            // One that failed meanwhile was not flushed.
            if common.is_degraded(cpu).await {
                return Ok(());
            }
        }
        let events = ledger.events;
        let clear = async |intent: &mut WriteIntent| {
            let cleared = intent.clear_idle(at_once);
            if cleared {
                intent.set_events(events, Some(events));
            }
            cleared
        };
        match intent.with(cpu, clear).await {
            true => self.write_bits(cpu, common, ledger).await,
            false => Ok(()),
        }
    }

    /// Runs something on the bitmap; `None` if there is none.
    pub(super) async fn with_intent<T>(
        &self,
        cpu: &P::Cpu,
        task: impl AsyncFnOnce(&mut WriteIntent) -> T,
    ) -> Option<T> {
        Some(self.intent.as_ref()?.with(cpu, task).await)
    }
}
