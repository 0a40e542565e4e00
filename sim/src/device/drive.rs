//! A simulated drive as the engine sees it, and its requests under way.

use super::media::Media;
use super::timing::{Command, DriveTiming};
use crate::executor::{Kind, TaskId};
use crate::machine::{DriveModel, Machine};
use crate::platform::{SimCpu, SimPlatform};
use crate::world::State;
use raid::device::{Device, Io, IoDone, IoError};
use raid::platform::{Cpu, Label, Work};
use raid::units::{Sector, Sectors};
use rand_chacha::ChaCha8Rng;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// As Linux's brd has it.
const RAM_DISK_BLOCK_BYTES: u32 = 512;

/// One drive of the machine.
struct Drive {
    /// `None` for a RAM disk, which is done with a request when that has been handed over.
    timing: Option<DriveTiming>,
    media: Option<Media>,
    size: Sectors,
    gone: bool,
}

/// A request under way.
struct Request {
    drive: u32,
    cpu: u32,
    io: Option<Io>,
    done: Option<IoDone>,
    waiting: Option<TaskId>,
    /// The interrupt was handled; nobody has taken the outcome yet.
    completed: bool,
    /// Nobody will.
    abandoned: bool,
}

/// All drives and their requests.
#[derive(Default)]
pub(crate) struct Drives {
    drives: Vec<Drive>,
    requests: Vec<Request>,
    free: Vec<u32>,
}

impl Drives {
    pub(crate) fn add(
        &mut self,
        timing: Option<(DriveModel, ChaCha8Rng)>,
        size: Sectors,
        media: Option<Media>,
    ) -> u32 {
        let timing = timing.map(|(model, random)| DriveTiming::new(model, random));
        self.drives.push(Drive { timing, media, size, gone: false });
        self.drives.len() as u32 - 1
    }

    pub(crate) fn count(&self) -> u32 {
        self.drives.len() as u32
    }

    fn insert(&mut self, request: Request) -> u32 {
        if let Some(index) = self.free.pop() {
            self.requests[index as usize] = request;
            return index;
        }
        self.requests.push(request);
        self.requests.len() as u32 - 1
    }

    /// The interrupt of a request was handled. The task that waits for it, if one does.
    pub(crate) fn complete(&mut self, index: u32) -> Option<TaskId> {
        let request = &mut self.requests[index as usize];
        request.completed = true;
        if request.abandoned {
            self.free.push(index);
            return None;
        }
        request.waiting
    }

    /// The content of each drive and the writes that it is working on.
    pub(crate) fn cut_power(&mut self, random: &mut ChaCha8Rng) {
        for (index, drive) in self.drives.iter().enumerate() {
            let Some(media) = &drive.media else { continue };
            let in_flight: Vec<(Sector, &[u8])> = self
                .requests
                .iter()
                .filter(|request| request.drive as usize == index && request.done.is_none())
                .filter_map(|request| match &request.io {
                    Some(Io::Write { at, data, .. }) => Some((*at, &data[..])),
                    _ => None,
                })
                .collect();
            media.power_cut(&in_flight, random);
        }
    }
}

impl State {
    fn submit_io(&mut self, drive_index: u32, cpu: u32, io: Io) -> u32 {
        let now_ns = self.now_ns;
        let drive = &mut self.drives.drives[drive_index as usize];
        let refusal = refusal(drive, &io);
        let done_ns = match (&refusal, &mut drive.timing) {
            (None, Some(timing)) => Some(timing.completion_ns(command(&io), now_ns)),
            (Some(_), Some(_)) => Some(now_ns),
            (_, None) => None,
        };
        let index = self.drives.insert(Request {
            drive: drive_index,
            cpu,
            done: None,
            io: Some(io),
            waiting: None,
            completed: false,
            abandoned: false,
        });
        if let Some(error) = refusal {
            self.drives.requests[index as usize].finish(Err(error));
        }
        match done_ns {
            Some(done_ns) => self.schedule(done_ns - now_ns, Kind::DriveDone, index),
            None => {
                self.perform(index);
                self.drives.complete(index);
            }
        }
        index
    }

    /// A drive is done with a request: its effect takes place, and an interrupt goes to the core
    /// that submitted it.
    pub(crate) fn drive_done(&mut self, machine: &Machine, index: u32) {
        self.perform(index);
        let cpu = self.drives.requests[index as usize].cpu;
        self.raise_interrupt(machine, cpu, index);
    }

    /// The effect of a request takes place, unless it was refused.
    fn perform(&mut self, index: u32) {
        let request = &mut self.drives.requests[index as usize];
        if request.done.is_none() {
            let drive = &self.drives.drives[request.drive as usize];
            let result = request.perform(drive);
            request.finish(result);
        }
    }
}

impl Request {
    fn perform(&mut self, drive: &Drive) -> Result<(), IoError> {
        if drive.gone {
            return Err(IoError::Gone);
        }
        let Some(media) = &drive.media else { return Ok(()) };
        let outcome = match self.io.as_mut().expect("a request is performed once") {
            Io::Read { at, into } => media.read(*at, into),
            Io::Write { at, data, durability } => media.write(*at, data, *durability),
            Io::Flush => {
                media.flush();
                Ok(())
            }
            Io::Discard { .. } => Ok(()),
        };
        outcome.map_err(|at| IoError::Media { at })
    }

    fn finish(&mut self, result: Result<(), IoError>) {
        let buffer = match self.io.take() {
            Some(Io::Read { into, .. }) => Some(into),
            _ => None,
        };
        self.done = Some(IoDone { result, buffer });
    }
}

fn transferred_bytes(io: &Io) -> u64 {
    match io {
        Io::Read { into, .. } => into.len() as u64,
        Io::Write { data, .. } => data.len() as u64,
        Io::Flush | Io::Discard { .. } => 0,
    }
}

fn command(io: &Io) -> Command {
    match io {
        Io::Read { into, .. } => Command::Read { bytes: into.len() as u64 },
        Io::Write { data, .. } => Command::Write { bytes: data.len() as u64 },
        Io::Flush => Command::Flush,
        Io::Discard { .. } => Command::Discard,
    }
}

fn refusal(drive: &Drive, io: &Io) -> Option<IoError> {
    if drive.gone {
        return Some(IoError::Gone);
    }
    let (at, length) = match io {
        Io::Read { at, into } => (*at, Sectors::from_bytes_rounded_up(into.len() as u64)),
        Io::Write { at, data, .. } => (*at, Sectors::from_bytes_rounded_up(data.len() as u64)),
        Io::Discard { at, length } => (*at, *length),
        Io::Flush => return None,
    };
    let beyond = at.0.checked_add(length.0).is_none_or(|end| end > drive.size.0);
    beyond.then_some(IoError::OutOfRange { at, length, size: drive.size })
}

/// A drive of a simulated machine.
pub struct SimDevice {
    platform: SimPlatform,
    index: u32,
    name: String,
    size: Sectors,
    logical_block_bytes: u32,
    /// Whether the core that submits a request copies its bytes.
    is_ram: bool,
}

impl SimDevice {
    pub(crate) fn new(
        platform: SimPlatform,
        index: u32,
        name: String,
        size: Sectors,
        model: Option<&DriveModel>,
    ) -> Self {
        let logical_block_bytes =
            model.map_or(RAM_DISK_BLOCK_BYTES, |model| model.logical_block_bytes);
        Self { platform, index, name, size, logical_block_bytes, is_ram: model.is_none() }
    }

    /// Takes the drive away for good: requests under way and all later ones fail.
    pub fn disconnect(&self) {
        self.plug().pull();
    }

    /// A handle that can take the drive away after the device itself was given to an array.
    pub fn plug(&self) -> DrivePlug {
        DrivePlug { platform: self.platform.clone(), index: self.index }
    }
}

/// The plug of a drive, to be pulled.
#[derive(Clone)]
pub struct DrivePlug {
    platform: SimPlatform,
    index: u32,
}

impl DrivePlug {
    /// As [`SimDevice::disconnect`].
    pub fn pull(&self) {
        self.platform.world().state.borrow_mut().drives.drives[self.index as usize].gone = true;
    }
}

impl Device<SimPlatform> for SimDevice {
    type Completion = SimCompletion;

    fn name(&self) -> &str {
        &self.name
    }

    fn size(&self) -> Sectors {
        self.size
    }

    fn logical_block_bytes(&self) -> u32 {
        self.logical_block_bytes
    }

    async fn submit(&self, cpu: &SimCpu, io: Io) -> SimCompletion {
        let world = self.platform.world();
        cpu.work(world.machine.software.driver_submit_ns).await;
        if self.is_ram {
            cpu.spend(Work::Copy(transferred_bytes(&io))).await;
        }
        let submitting_cpu = cpu.current_cpu();
        let request = world.state.borrow_mut().submit_io(self.index, submitting_cpu, io);
        SimCompletion { platform: self.platform.clone(), request: Some(request) }
    }
}

/// Resolves when the completion interrupt of a request was handled.
pub struct SimCompletion {
    platform: SimPlatform,
    request: Option<u32>,
}

const WAITS_FOR_DRIVE: Label = Label::new("drive");

impl Future for SimCompletion {
    type Output = IoDone;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<IoDone> {
        let index = self.request.expect("a completion is taken once");
        let mut borrowed = self.platform.world().state.borrow_mut();
        let state = &mut *borrowed;
        let current = state.current.expect("a completion is waited for by a task");
        let request = &mut state.drives.requests[index as usize];
        if !request.completed || state.tasks[current].is_starting {
            request.waiting = Some(current);
            let already = request.completed;
            let task = &mut state.tasks[current];
            task.wake_pending = already;
            task.waits_for = Some(WAITS_FOR_DRIVE);
            return Poll::Pending;
        }
        let done = request.done.take().expect("a completed request has an outcome");
        state.drives.free.push(index);
        drop(borrowed);
        self.request = None;
        Poll::Ready(done)
    }
}

impl Drop for SimCompletion {
    fn drop(&mut self) {
        let Some(index) = self.request else { return };
        // While a machine is torn down its state may be borrowed; then nothing is left to free.
        let Ok(mut state) = self.platform.world().state.try_borrow_mut() else { return };
        let request = &mut state.drives.requests[index as usize];
        if request.completed {
            request.done = None;
            state.drives.free.push(index);
        } else {
            request.abandoned = true;
        }
    }
}
