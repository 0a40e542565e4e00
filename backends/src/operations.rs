//! The requests of one core that are under way, and those that are done but not yet collected.
//!
//! A slot is freed only when both have happened: the system is done with the request, and whoever
//! waited has taken the result or given up. So memory that the kernel may still write to is never
//! freed, whatever happens to the future that waits for it.

use crate::transfer::Transfer;
use raid::device::IoDone;
use std::task::{Context, Poll, Waker};

/// A request that the system has.
struct Flight {
    /// Absent while a worker thread has it.
    transfer: Option<Transfer>,
    /// The file's number among the open files.
    file: u32,
    waker: Option<Waker>,
    /// Nobody waits for the result any more.
    abandoned: bool,
}

enum Slot {
    Free,
    InFlight(Flight),
    Done(IoDone),
}

#[derive(Default)]
pub(crate) struct Operations {
    slots: Vec<Slot>,
    free: Vec<u32>,
    in_flight: usize,
}

impl Operations {
    /// Takes note of a request that is about to be handed over.
    pub(crate) fn begin(&mut self, file: u32, transfer: Option<Transfer>) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::Free);
            u32::try_from(self.slots.len() - 1).expect("fewer than 2^32 requests at once")
        });
        self.slots[slot as usize] =
            Slot::InFlight(Flight { transfer, file, waker: None, abandoned: false });
        self.in_flight += 1;
        slot
    }

    /// How many requests the system has.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// A request under way: its transfer and the number of its file.
    pub(crate) fn flight(&mut self, slot: u32) -> (&mut Transfer, u32) {
        match &mut self.slots[slot as usize] {
            Slot::InFlight(Flight { transfer: Some(transfer), file, .. }) => (transfer, *file),
            _ => panic!("operation {slot} is not under way"),
        }
    }

    /// The system is done with a request of this core: its transfer.
    pub(crate) fn take_transfer(&mut self, slot: u32) -> Transfer {
        match &mut self.slots[slot as usize] {
            Slot::InFlight(flight) => flight.transfer.take().expect("a transfer ends once"),
            _ => panic!("operation {slot} is not under way"),
        }
    }

    /// Keeps the result for the waiter; the waker of the task that waits already.
    pub(crate) fn finish(&mut self, slot: u32, done: IoDone) -> Option<Waker> {
        let entry = &mut self.slots[slot as usize];
        let Slot::InFlight(flight) = entry else { panic!("operation {slot} is not under way") };
        assert!(flight.transfer.is_none(), "a result of a transfer that is still under way");
        self.in_flight -= 1;
        if flight.abandoned {
            *entry = Slot::Free;
            self.free.push(slot);
            return None;
        }
        let waker = flight.waker.take();
        *entry = Slot::Done(done);
        waker
    }

    /// Takes the result, or leaves the waker.
    pub(crate) fn poll(&mut self, slot: u32, context: &Context<'_>) -> Poll<IoDone> {
        let entry = &mut self.slots[slot as usize];
        if let Slot::InFlight(flight) = entry {
            match &mut flight.waker {
                Some(waker) => waker.clone_from(context.waker()),
                none => *none = Some(context.waker().clone()),
            }
            return Poll::Pending;
        }
        let Slot::Done(done) = std::mem::replace(entry, Slot::Free) else {
            panic!("operation {slot} was collected twice");
        };
        self.free.push(slot);
        Poll::Ready(done)
    }

    /// The waiter gives up. The request goes on. The waker that was left, to be dropped by a caller
    /// who has let go of this.
    pub(crate) fn abandon(&mut self, slot: u32) -> Option<Waker> {
        let entry = &mut self.slots[slot as usize];
        match entry {
            Slot::InFlight(flight) => {
                flight.abandoned = true;
                flight.waker.take()
            }
            Slot::Done(_) => {
                *entry = Slot::Free;
                self.free.push(slot);
                None
            }
            Slot::Free => panic!("operation {slot} was given up after its end"),
        }
    }
}

impl Drop for Operations {
    fn drop(&mut self) {
        if self.in_flight > 0 {
            // Only after a failure to drain: better to lose the memory than to let the kernel
            // write into what has become somebody else's.
            std::mem::forget(std::mem::take(&mut self.slots));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use raid::buffer::Buffer;
    use raid::device::Io;
    use raid::units::Sector;

    fn begun(operations: &mut Operations) -> u32 {
        let into = Buffer::zeroed(512);
        operations.begin(0, Some(Transfer::new(Io::Read { at: Sector(0), into })))
    }

    fn end(operations: &mut Operations, slot: u32) {
        let transfer = operations.take_transfer(slot);
        drop(operations.finish(slot, transfer.finish(Ok(()))));
    }

    #[test]
    fn an_abandoned_request_keeps_its_slot_until_the_system_is_done() {
        let mut operations = Operations::default();
        let first = begun(&mut operations);
        drop(operations.abandon(first));
        let second = begun(&mut operations);
        assert_ne!(first, second);
        end(&mut operations, first);
        assert_eq!(begun(&mut operations), first);
        for slot in [first, second] {
            end(&mut operations, slot);
        }
        assert_eq!(operations.in_flight(), 0);
    }

    #[test]
    fn a_result_waits_for_its_waiter() {
        let mut operations = Operations::default();
        let slot = begun(&mut operations);
        let context = Context::from_waker(Waker::noop());
        assert!(operations.poll(slot, &context).is_pending());
        end(&mut operations, slot);
        let Poll::Ready(done) = operations.poll(slot, &context) else { panic!("it has ended") };
        assert_eq!(done.buffer.expect("a read's").len(), 512);
    }
}
