//! Writes of arrays of copies that keep a write-intent bitmap and leave it to somebody else to hand
//! them to the members: what their submitters do, what is done with writes that were taken off a list,
//! and the services, tasks of the array, that do it.
//!
//! A write passes the gate of the records and the barrier, is planned, and is put on a list. Whoever
//! takes it off makes its bits durable, together with those of all others on the list, and hands it
//! over. It ends on the core that handed it over, and its submitter learns that at its own core's desk.

use super::CopyArray;
use super::execute::Handed;
use crate::array::{Array, Body};
use crate::buffer::SharedBuffer;
use crate::concurrency::dispatch::{DispatchCounts, QueuedWrite, WriteDispatch};
use crate::device::Durability;
use crate::error::ArrayError;
use crate::platform::{Cpu, Label, Platform, Work};
use crate::records::Records;
use crate::request::Extent;
use crate::tuning::{Dispatch, Tuning};
use crate::units::CpuId;
use std::sync::{Arc, OnceLock, Weak};

/// The lists of an array, and the array for the tasks that empty them.
pub(crate) struct Dispatching<P: Platform> {
    queues: WriteDispatch<P>,
    array: OnceLock<Weak<Array<P>>>,
}

impl<P: Platform> Dispatching<P> {
    /// `None` if writes hand themselves over.
    pub(super) fn new(platform: &P, tuning: Tuning) -> Option<Box<Self>> {
        let queues = || WriteDispatch::new(platform, tuning);
        let needed = tuning.dispatch != Dispatch::Own;
        needed.then(|| Box::new(Self { queues: queues(), array: OnceLock::new() }))
    }
}

impl<P: Platform> Array<P> {
    /// Starts the tasks, on every core, that a form of dispatch needs: see
    /// [`Dispatch`]. Until then, and on arrays that keep no write-intent
    /// bitmap, each write is handed over by its own task. To be called once.
    ///
    /// # Panics
    /// If it is called again.
    pub async fn start_dispatch(self: &Arc<Self>, cpu: &P::Cpu) {
        let Some((_, dispatching)) = self.dispatching() else { return };
        let is_first = dispatching.array.set(Arc::downgrade(self)).is_ok();
        assert!(is_first, "services are started once");
        let queues = &dispatching.queues;
        queues.begin_service(cpu).await;
        if queues.form == Dispatch::Direct {
            return;
        }
        let platform = cpu.platform();
        for core in (0..platform.topology().cpu_count()).map(CpuId) {
            let array = self.clone();
            platform.spawn_on(core, Label::indexed("write ends", core.0), move |cpu| async move {
                array.serve_desk(&cpu).await;
            });
            let array = self.clone();
            platform.spawn_on(core, Label::indexed("raid thread", core.0), move |cpu| async move {
                array.serve_thread(&cpu).await;
            });
            if let Dispatch::PerCpu(_) = queues.form {
                let array = self.clone();
                platform.spawn_on(core, Label::indexed("worker", core.0), move |cpu| async move {
                    array.serve_list(&cpu).await;
                });
            }
        }
    }

    /// Ends the tasks that [`start_dispatch`](Self::start_dispatch) started. The caller sees to it
    /// that no write is under way, and that none begins before this has returned.
    pub async fn end_dispatch(&self, cpu: &P::Cpu) {
        if let Some((_, dispatching)) = self.dispatching() {
            dispatching.queues.end_service(cpu).await;
        }
    }

    /// What was counted of dispatched writes; `None` if writes hand themselves over.
    pub async fn dispatch_counts(&self, cpu: &P::Cpu) -> Option<DispatchCounts> {
        let (_, dispatching) = self.dispatching()?;
        Some(dispatching.queues.counts(cpu).await)
    }

    /// A core goes offline: the array's worker there does nothing more until it is back. One core at
    /// least stays online.
    pub async fn core_goes_offline(&self, cpu: &P::Cpu, core: CpuId) {
        if let Some((_, dispatching)) = self.dispatching()
            && let Dispatch::PerCpu(_) = dispatching.queues.form
        {
            dispatching.queues.lists.set_online(cpu, core, false).await;
        }
    }

    /// A core is back.
    pub async fn core_comes_online(&self, cpu: &P::Cpu, core: CpuId) {
        if let Some((_, dispatching)) = self.dispatching()
            && let Dispatch::PerCpu(_) = dispatching.queues.form
        {
            dispatching.queues.lists.set_online(cpu, core, true).await;
            // What it had gathered.
            dispatching.queues.thread.wake(cpu).await;
        }
    }

    fn dispatching(&self) -> Option<(&CopyArray<P>, &Dispatching<P>)> {
        match &self.body {
            Body::Copies(copies) => Some((copies, copies.dispatching.as_deref()?)),
            Body::Parity(_) => None,
        }
    }

    /// As [`dispatching`](Self::dispatching), if its services run.
    pub(crate) async fn dispatching_now(&self, cpu: &P::Cpu) -> Option<&Dispatching<P>> {
        let (_, dispatching) = self.dispatching()?;
        dispatching.queues.is_serving(cpu).await.then_some(dispatching)
    }

    fn copies_and_queues(&self) -> (&CopyArray<P>, &WriteDispatch<P>, &Records<P>) {
        let (copies, dispatching) = self.dispatching().expect("writes are dispatched");
        (copies, &dispatching.queues, self.records().expect("there is a bitmap"))
    }

    /// A write, as its submitter sees it.
    pub(crate) async fn write_dispatched(
        &self,
        cpu: &P::Cpu,
        dispatching: &Dispatching<P>,
        extent: Extent,
        data: SharedBuffer,
        durability: Durability,
    ) -> Result<(), ArrayError> {
        let (copies, queues, records) = self.copies_and_queues();
        let in_sync_space = self.sync_extent(extent);
        let needs_bits = records.begin_unannounced(cpu, &copies.common, in_sync_space).await?;
        copies.common.suspension.enter(cpu).await;
        if queues.form == Dispatch::Plug && copies.barrier.would_wait(cpu).await {
            self.leave_plug_to_thread(cpu).await;
        }
        copies.barrier.enter(cpu).await;
        let (ticket, receipt) = queues.desk(cpu).receipt(cpu).await;
        let mut write = QueuedWrite {
            extent,
            pieces: Default::default(),
            data,
            durability,
            in_sync_space,
            needs_bits,
            receipt,
        };
        for piece in copies.level.layout().split(extent) {
            cpu.spend(Work::ArrayRequest).await;
            write.pieces.push((piece, copies.write_targets(piece)));
        }
        let array = || dispatching.array.get().and_then(Weak::upgrade).expect("it is in use");
        let has_opened = match queues.form {
            Dispatch::Direct => {
                array().hand_over_direct(cpu, write).await;
                false
            }
            _ => queues.queue(cpu, write).await,
        };
        copies.barrier.submitted(cpu).await;
        copies.common.suspension.leave(cpu).await;
        if has_opened {
            cpu.yield_now().await;
            array().unplug(cpu).await;
        }
        queues.desk(cpu).collect(cpu, ticket).await
    }

    /// The scheduler takes the core from a submitter: the thread is to do the rest.
    async fn leave_plug_to_thread(&self, cpu: &P::Cpu) {
        let (_, queues, _) = self.copies_and_queues();
        let writes = queues.plug(cpu).take(cpu).await;
        if writes.is_empty() {
            return;
        }
        tracing::debug!(writes = writes.len(), "plug left to the thread");
        queues.pending.put(cpu, writes).await;
        queues.thread.wake(cpu).await;
        let note = |counts: &mut DispatchCounts| {
            counts.unplugs += 1;
            counts.unplugs_from_scheduler += 1;
        };
        queues.desk(cpu).note(cpu, note).await;
    }

    /// The submitter sends off what it has gathered.
    async fn unplug(self: &Arc<Self>, cpu: &P::Cpu) {
        let (_, queues, _) = self.copies_and_queues();
        let writes = queues.plug(cpu).take(cpu).await;
        if !writes.is_empty() {
            queues.desk(cpu).note(cpu, |counts| counts.unplugs += 1).await;
            self.send_off(cpu, writes).await;
        }
    }

    /// Makes the bits of all durable, and hands them over.
    async fn send_off(self: &Arc<Self>, cpu: &P::Cpu, writes: Vec<QueuedWrite<P>>) {
        let need_bits = writes.iter().filter(|write| write.needs_bits);
        let need_bits: Vec<Extent> = need_bits.map(|write| write.in_sync_space).collect();
        match self.flush_bits(cpu, &need_bits).await {
            Ok(()) => {
                for write in writes {
                    self.hand_over(cpu, write).await;
                }
            }
            Err(error) => {
                for write in writes {
                    self.refuse(cpu, write, error.clone()).await;
                }
            }
        }
    }

    /// Makes bits durable if any may not be, and wakes whoever waits at the barrier, as the driver.
    async fn flush_bits(&self, cpu: &P::Cpu, extents: &[Extent]) -> Result<(), ArrayError> {
        let (copies, queues, records) = self.copies_and_queues();
        let mut result = Ok(());
        if !extents.is_empty() {
            match records.make_bits_durable(cpu, &copies.common, extents).await {
                Ok(false) => {}
                Ok(true) => {
                    tracing::debug!(writes = extents.len(), "bits made durable");
                    queues.desk(cpu).note(cpu, |counts| counts.bitmap_flushes += 1).await;
                }
                Err(error) => result = Err(error),
            }
        }
        copies.barrier.submitted(cpu).await;
        result
    }

    /// Hands a write to the members. Its end comes on this core.
    async fn hand_over(self: &Arc<Self>, cpu: &P::Cpu, mut write: QueuedWrite<P>) {
        let (copies, ..) = self.copies_and_queues();
        let mut handed = Handed::new();
        for (piece, targets) in std::mem::take(&mut write.pieces) {
            let start = (piece.at - write.extent.at).bytes() as usize;
            let data = write.data.slice(start..start + piece.length.bytes() as usize);
            copies.hand_piece_over(cpu, piece, targets, &data, write.durability, &mut handed).await;
        }
        let (array, core) = (self.clone(), cpu.clone());
        tracing::debug!(at = write.extent.at.0, copies = handed.len(), "write handed over");
        cpu.spawn_waiting(Label::new("end of a write"), async move {
            array.end_write(&core, write, handed).await;
        });
    }

    /// The fault of [`Dispatch::Direct`]: data and bits go out together.
    async fn hand_over_direct(self: &Arc<Self>, cpu: &P::Cpu, write: QueuedWrite<P>) {
        let need_bits = write.needs_bits.then_some(write.in_sync_space);
        self.hand_over(cpu, write).await;
        if let Err(error) = self.flush_bits(cpu, need_bits.as_slice()).await {
            tracing::error!(%error, "bits of a write that went out are not durable");
        }
    }

    async fn end_write(&self, cpu: &P::Cpu, write: QueuedWrite<P>, handed: Handed<P>) {
        let (copies, queues, records) = self.copies_and_queues();
        let mut result = Ok(());
        for copy in handed {
            result = result.and(copies.finish_write(cpu, copy).await);
        }
        // Whoever submitted it may want its buffer back.
        let QueuedWrite { in_sync_space, receipt, data, .. } = write;
        drop(data);
        cpu.spend(Work::ArrayCompletion).await;
        copies.barrier.leave(cpu).await;
        let result = records.end_write(cpu, &copies.common, in_sync_space, result).await;
        queues.deliver(cpu, receipt, result).await;
    }

    /// No data of this write went out.
    async fn refuse(&self, cpu: &P::Cpu, write: QueuedWrite<P>, error: ArrayError) {
        let (copies, queues, records) = self.copies_and_queues();
        copies.barrier.leave(cpu).await;
        records.abandon_write(cpu, write.in_sync_space).await;
        queues.deliver(cpu, write.receipt, Err(error)).await;
    }

    async fn serve_desk(self: Arc<Self>, cpu: &P::Cpu) {
        let (_, queues, _) = self.copies_and_queues();
        loop {
            queues.desk(cpu).serve(cpu).await;
            if !queues.is_serving(cpu).await {
                return;
            }
        }
    }

    async fn serve_thread(self: Arc<Self>, cpu: &P::Cpu) {
        let (_, queues, _) = self.copies_and_queues();
        loop {
            queues.thread.sleep(cpu).await;
            if !queues.is_serving(cpu).await {
                return;
            }
            let look = async || match queues.form {
                Dispatch::PerCpu(_) => self.gather_and_schedule(cpu).await,
                _ => {
                    let writes = queues.pending.take(cpu).await;
                    self.send_off(cpu, writes).await;
                }
            };
            queues.thread.run(cpu, look).await;
        }
    }

    /// One round of the thread over the lists of all cores.
    async fn gather_and_schedule(&self, cpu: &P::Cpu) {
        let (_, queues, _) = self.copies_and_queues();
        let walk = queues.lists.gather(cpu).await;
        if !walk.found {
            return;
        }
        if let Err(error) = self.flush_bits(cpu, &walk.need_bits).await {
            for write in queues.lists.take_gathered(cpu).await {
                self.refuse(cpu, write, error.clone()).await;
            }
            return;
        }
        let scheduling_ns = queues.lists.schedule(cpu).await;
        let note = |counts: &mut DispatchCounts| {
            counts.walks += 1;
            counts.walks_ns += walk.took_ns + scheduling_ns;
        };
        queues.desk(cpu).note(cpu, note).await;
    }

    async fn serve_list(self: Arc<Self>, cpu: &P::Cpu) {
        let (_, queues, _) = self.copies_and_queues();
        loop {
            queues.lists.sleep(cpu).await;
            if !queues.is_serving(cpu).await {
                return;
            }
            loop {
                let writes = queues.lists.take(cpu).await;
                if writes.is_empty() {
                    break;
                }
                for write in writes {
                    self.hand_over(cpu, write).await;
                }
            }
        }
    }
}
