//! What a write passes before its data goes out and after it has ended, and what takes the array back
//! to clean: being stopped, or being idle.
//!
//! A write counts itself in `writes` and then looks at the gate; whoever closes the gate looks at
//! `writes` afterwards. So either the write sees the gate, or its count is seen. While the gate is
//! closed and `writes` is zero nobody writes: then the array may be called clean.

use super::Records;
use super::intent::WriteIntent;
use super::ledger::Ledger;
use super::settle::Change;
use crate::common::Common;
use crate::error::ArrayError;
use crate::platform::{Ordering, Platform, Word};
use crate::request::Extent;

const MINUS_ONE: u64 = u64::MAX;

impl<P: Platform> Records<P> {
    /// A write to `extent` of the sync space begins. When this returns its data may go out; then
    /// the caller calls [`end_write`](Self::end_write).
    ///
    /// # Errors
    /// [`ArrayError::Unrecorded`]: no data may go out.
    pub(crate) async fn begin_write(
        &self,
        cpu: &P::Cpu,
        common: &Common<P>,
        extent: Extent,
    ) -> Result<(), ArrayError> {
        if self.begin_unannounced(cpu, common, extent).await? {
            let result = self.make_bits_durable(cpu, common, &[extent]).await;
            if result.is_err() {
                self.abandon_write(cpu, extent).await;
            }
            result?;
        }
        Ok(())
    }

    /// As [`begin_write`](Self::begin_write), but the data may have to wait, as the result says,
    /// until [`make_bits_durable`](Self::make_bits_durable) has returned for its extent.
    ///
    /// # Errors
    /// [`ArrayError::Unrecorded`]: no data may go out.
    pub(crate) async fn begin_unannounced(
        &self,
        cpu: &P::Cpu,
        common: &Common<P>,
        extent: Extent,
    ) -> Result<bool, ArrayError> {
        loop {
            self.writes.fetch_add(cpu, 1, Ordering::AcqRel).await;
            if self.gate.fetch_add(cpu, 0, Ordering::AcqRel).await == 0 {
                break;
            }
            self.leave(cpu).await;
            let open = async || self.gate.load(cpu, Ordering::Acquire).await == 0;
            self.quiet.wait_until(cpu, open).await;
        }
        self.writes_begun.add(cpu, 1, Ordering::Relaxed).await;
        if self.active.load(cpu, Ordering::Acquire).await == 0 {
            if let Err(error) = self.settle(cpu, common, Change::Active).await {
                self.leave(cpu).await;
                return Err(error);
            }
            // Nobody can call the array clean meanwhile: this write is counted.
            self.active.store(cpu, 1, Ordering::Release).await;
        }
        let Some(intent) = &self.intent else { return Ok(false) };
        Ok(intent.with(cpu, async |of: &mut WriteIntent| of.begin(extent)).await)
    }

    /// A write that has begun ends without its data having gone out.
    pub(crate) async fn abandon_write(&self, cpu: &P::Cpu, extent: Extent) {
        if let Some(intent) = &self.intent {
            intent.with(cpu, async |of: &mut WriteIntent| of.end(extent, true)).await;
        }
        self.leave(cpu).await;
    }

    /// A write has ended. It may be acknowledged when this returns: whatever happened to members
    /// meanwhile is written down. `result` is what came of it.
    ///
    /// # Errors
    /// `result`'s, or [`ArrayError::Unrecorded`].
    pub(crate) async fn end_write(
        &self,
        cpu: &P::Cpu,
        common: &Common<P>,
        extent: Extent,
        mut result: Result<(), ArrayError>,
    ) -> Result<(), ArrayError> {
        if let Some(intent) = &self.intent {
            let agrees = result.is_ok();
            intent.with(cpu, async |of: &mut WriteIntent| of.end(extent, agrees)).await;
        }
        if result.is_err() {
            // Some member may have taken what another did not.
            result = result.and(self.settle(cpu, common, Change::Disagreement).await);
        } else if self.is_behind(cpu).await {
            result = self.settle(cpu, common, Change::Nothing).await;
        }
        self.leave(cpu).await;
        result
    }

    /// A flush has gone to all members that work. It may count only when those that it left out are
    /// written down as failed: after a crash one of them could otherwise serve what it never made
    /// durable.
    ///
    /// # Errors
    /// [`ArrayError::Unrecorded`].
    pub(crate) async fn end_flush(
        &self,
        cpu: &P::Cpu,
        common: &Common<P>,
    ) -> Result<(), ArrayError> {
        match self.is_behind(cpu).await {
            true => self.settle(cpu, common, Change::Nothing).await,
            false => Ok(()),
        }
    }

    async fn leave(&self, cpu: &P::Cpu) {
        let before = self.writes.fetch_add(cpu, MINUS_ONE, Ordering::AcqRel).await;
        assert!(before > 0, "a write leaves that never entered");
        if before == 1 && self.gate.fetch_add(cpu, 0, Ordering::AcqRel).await != 0 {
            self.quiet.wake_all(cpu).await;
        }
    }

    async fn close_gate(&self, cpu: &P::Cpu) {
        self.gate.fetch_add(cpu, 1, Ordering::AcqRel).await;
    }

    async fn open_gate(&self, cpu: &P::Cpu) {
        self.gate.fetch_add(cpu, MINUS_ONE, Ordering::AcqRel).await;
        self.quiet.wake_all(cpu).await;
    }

    /// Runs `task` while no write is under way; new ones wait.
    pub(super) async fn while_quiet<T>(&self, cpu: &P::Cpu, task: impl AsyncFnOnce() -> T) -> T {
        self.close_gate(cpu).await;
        let none = async || self.writes.fetch_add(cpu, 0, Ordering::AcqRel).await == 0;
        self.quiet.wait_until(cpu, none).await;
        let done = task().await;
        self.open_gate(cpu).await;
        done
    }

    /// Waits until no write is under way, clears the bitmap and calls the array clean. A write that
    /// comes later makes it active again.
    ///
    /// # Errors
    /// [`ArrayError::Unrecorded`].
    pub(crate) async fn stop(&self, cpu: &P::Cpu, common: &Common<P>) -> Result<(), ArrayError> {
        self.while_quiet(cpu, async || {
            let mut ledger = self.ledger.take(cpu).await;
            let cleared = self.clear_bits(cpu, common, &mut ledger, true).await;
            let result = cleared.and(self.call_clean(cpu, common, &mut ledger).await);
            self.ledger.give_back(cpu, ledger).await;
            result
        })
        .await
    }

    /// Clears bits of chunks that are idle, and calls the array clean if nothing was written since
    /// the last time that this was called. To be called every few seconds.
    ///
    /// # Errors
    /// [`ArrayError::Unrecorded`].
    pub(crate) async fn housekeeping(
        &self,
        cpu: &P::Cpu,
        common: &Common<P>,
    ) -> Result<(), ArrayError> {
        let mut ledger = self.ledger.take(cpu).await;
        let mut result = self.clear_bits(cpu, common, &mut ledger, false).await;
        let begun = self.writes_begun.load(cpu, Ordering::Relaxed).await;
        if std::mem::replace(&mut ledger.writes_seen, begun) == begun {
            self.close_gate(cpu).await;
            if self.writes.fetch_add(cpu, 0, Ordering::AcqRel).await == 0 {
                result = result.and(self.call_clean(cpu, common, &mut ledger).await);
            }
            self.open_gate(cpu).await;
        }
        self.ledger.give_back(cpu, ledger).await;
        result
    }

    /// Nobody writes.
    async fn call_clean(
        &self,
        cpu: &P::Cpu,
        common: &Common<P>,
        ledger: &mut Ledger,
    ) -> Result<(), ArrayError> {
        if self.active.swap(cpu, 0, Ordering::AcqRel).await == 0 && ledger.clean {
            return Ok(());
        }
        ledger.clean = true;
        self.settle_ledger(cpu, common, ledger).await
    }
}
