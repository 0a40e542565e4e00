//! A drive in memory. The world picks the moment at which a request happens, so requests under way
//! at once have any order. Faults are set by the test.

use super::{TestCpu, TestPlatform};
use raid::buffer::Buffer;
use raid::device::{Device, Durability, Io, IoDone, IoError};
use raid::units::{SECTOR_BYTES, Sector, Sectors};
use std::collections::BTreeSet;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

/// What the drive holds, what is wrong with it, and what it was asked.
#[derive(Default)]
pub(crate) struct DriveState {
    pub(crate) data: Vec<u8>,
    /// Sectors that cannot be read until they are written.
    pub(crate) bad_sectors: BTreeSet<u64>,
    /// Writes that touch these sectors fail, and leave some sectors old and some new.
    pub(crate) unwritable: BTreeSet<u64>,
    /// Requests until the drive no longer answers.
    pub(crate) gone_after: Option<u64>,
    /// With a volatile cache: what a power cut leaves for certain. Without, everything survives.
    pub(crate) durable: Option<Vec<u8>>,
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    pub(crate) flushes: u64,
}

/// A handle; clones are the same drive.
#[derive(Clone)]
pub(crate) struct Drive {
    platform: TestPlatform,
    name: Arc<str>,
    state: Arc<Mutex<DriveState>>,
}

/// A request that was submitted and has not happened.
pub(super) struct Request {
    drive: Drive,
    io: Io,
    completion: Arc<Mutex<Pending>>,
}

#[derive(Default)]
struct Pending {
    done: Option<IoDone>,
    waker: Option<Waker>,
}

pub(crate) struct Completion {
    platform: TestPlatform,
    pending: Arc<Mutex<Pending>>,
}

impl Drive {
    pub(super) fn new(platform: TestPlatform, name: &str, sectors: u64) -> Self {
        let data = vec![0; (sectors * SECTOR_BYTES) as usize];
        let state = DriveState { data, ..DriveState::default() };
        Self { platform, name: name.into(), state: Arc::new(Mutex::new(state)) }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, DriveState> {
        self.state.lock().expect("no test goes on after a panic")
    }
}

impl Device<TestPlatform> for Drive {
    type Completion = Completion;

    fn name(&self) -> &str {
        &self.name
    }

    fn size(&self) -> Sectors {
        Sectors::from_bytes_rounded_down(self.state().data.len() as u64)
    }

    fn logical_block_bytes(&self) -> u32 {
        SECTOR_BYTES as u32
    }

    async fn submit(&self, _: &TestCpu, io: Io) -> Completion {
        self.platform.assert_may_sleep();
        self.platform.switch_point().await;
        let pending = Arc::<Mutex<Pending>>::default();
        let request = Request { drive: self.clone(), io, completion: pending.clone() };
        self.platform.state().requests.push(request);
        Completion { platform: self.platform.clone(), pending }
    }
}

impl Future for Completion {
    type Output = IoDone;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<IoDone> {
        self.platform.assert_may_sleep();
        let mut pending = self.pending.lock().expect("no panic");
        match pending.done.take() {
            Some(done) => Poll::Ready(done),
            None => {
                pending.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Request {
    pub(super) fn finish(self, random: u64) {
        let (result, buffer) = self.drive.state().carry_out(self.io, random);
        let mut pending = self.completion.lock().expect("no panic");
        pending.done = Some(IoDone { result, buffer });
        if let Some(waker) = pending.waker.take() {
            waker.wake();
        }
    }
}

impl DriveState {
    fn carry_out(&mut self, io: Io, random: u64) -> (Result<(), IoError>, Option<Buffer>) {
        let gone = self.gone_after.as_mut().is_some_and(|left| {
            *left = left.saturating_sub(1);
            *left == 0
        });
        let answer = if gone { Err(IoError::Gone) } else { Ok(()) };
        match io {
            Io::Read { at, mut into } => {
                self.reads += 1;
                let result = answer.and_then(|()| self.read(at, &mut into));
                (result, Some(into))
            }
            Io::Write { at, data, durability } => {
                self.writes += 1;
                // Of a write that fails, any sectors may have been written.
                let kept = if gone { random } else { u64::MAX };
                let result = answer.and(self.write(at, &data, kept, random));
                if let (Ok(()), Durability::Fua, Some(durable)) =
                    (&result, durability, &mut self.durable)
                {
                    let start = at.byte_offset() as usize;
                    durable[start..start + data.len()].copy_from_slice(&data);
                }
                (result, None)
            }
            Io::Flush => {
                self.flushes += 1;
                if let (Ok(()), Some(durable)) = (&answer, &mut self.durable) {
                    durable.clone_from(&self.data);
                }
                (answer, None)
            }
            Io::Discard { .. } => panic!("the engine does not discard"),
        }
    }

    /// From now on a power cut takes what was not made durable.
    pub(crate) fn with_volatile_cache(&mut self) {
        self.durable = Some(self.data.clone());
    }

    /// What the drive holds after a power cut: of each sector that was not durable the old or the
    /// new content, as `draw` says.
    pub(crate) fn after_power_cut(&self, mut draw: impl FnMut() -> bool) -> Vec<u8> {
        let Some(durable) = &self.durable else { return self.data.clone() };
        let mut left = durable.clone();
        let sector = SECTOR_BYTES as usize;
        for (left, new) in left.chunks_mut(sector).zip(self.data.chunks(sector)) {
            if left != new && draw() {
                left.copy_from_slice(new);
            }
        }
        left
    }

    fn read(&mut self, at: Sector, into: &mut [u8]) -> Result<(), IoError> {
        let range = sectors_of(at, into.len());
        if let Some(bad) = self.bad_sectors.range(range).next() {
            return Err(IoError::Media { at: Sector(*bad) });
        }
        let start = at.byte_offset() as usize;
        into.copy_from_slice(&self.data[start..start + into.len()]);
        Ok(())
    }

    fn write(&mut self, at: Sector, data: &[u8], kept: u64, random: u64) -> Result<(), IoError> {
        let fault = self.unwritable.range(sectors_of(at, data.len())).next().copied();
        let kept = if fault.is_some() { random } else { kept };
        for (index, sector) in data.chunks_exact(SECTOR_BYTES as usize).enumerate() {
            if kept >> (index % 64) & 1 == 1 {
                let number = at.0 + index as u64;
                let start = (number * SECTOR_BYTES) as usize;
                self.data[start..start + sector.len()].copy_from_slice(sector);
                self.bad_sectors.remove(&number);
            }
        }
        fault.map_or(Ok(()), |bad| Err(IoError::Media { at: Sector(bad) }))
    }
}

fn sectors_of(at: Sector, bytes: usize) -> Range<u64> {
    at.0..at.0 + bytes as u64 / SECTOR_BYTES
}
