//! A run of a simulated machine, from outside.

use crate::contention::ContentionTable;
use crate::deadlock::Deadlock;
use crate::device::{Media, SimDevice};
use crate::executor::{Perturbation, TieBreaker};
use crate::machine::{DriveModel, Machine};
use crate::platform::SimPlatform;
use crate::world::World;
use raid::units::Sectors;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

/// What makes one run differ from another on the same machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Everything random follows from it.
    pub seed: u64,
    /// How the schedule is disturbed.
    pub perturbation: Perturbation,
    /// Virtual time at which the machine starts.
    pub start_ns: u64,
}

/// How a run came to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every task has ended.
    Done,
    /// The time given is over; the next event is at this time.
    TimeLimit {
        /// When it is.
        next_event_ns: u64,
    },
    /// Tasks are left that nothing will ever wake.
    Deadlock(Deadlock),
}

/// A simulated machine and its run.
pub struct Simulation {
    platform: SimPlatform,
}

/// Random streams: the scheduler has 1; drives and the scenario's own draws have these.
const DRIVE_STREAMS: u64 = 1 << 32;
const SCENARIO_STREAMS: u64 = 2 << 32;
const POWER_STREAM: u64 = 2;

impl Simulation {
    /// A machine with nothing running and no drive.
    pub fn new(machine: &Machine, options: Options) -> Self {
        let ties = TieBreaker::new(options.perturbation, options.seed);
        let world = World::new(machine.clone(), options.seed, ties, options.start_ns);
        Self { platform: SimPlatform::new(world) }
    }

    /// The machine as the engine sees it.
    pub fn platform(&self) -> SimPlatform {
        self.platform.clone()
    }

    /// What the machine is made of.
    pub fn machine(&self) -> &Machine {
        &self.platform.world().machine
    }

    /// The scenario's own random stream number `index`. Streams are independent of each other and of
    /// who draws first.
    pub fn random(&self, index: u32) -> ChaCha8Rng {
        self.stream(SCENARIO_STREAMS + u64::from(index))
    }

    fn stream(&self, stream: u64) -> ChaCha8Rng {
        let mut random = ChaCha8Rng::seed_from_u64(self.platform.world().seed);
        random.set_stream(stream);
        random
    }

    /// Adds a drive that holds `media`.
    pub fn drive(&mut self, name: &str, model: &DriveModel, media: &Media) -> SimDevice {
        self.add_drive(name, Some(model), media.size(), Some(media.clone()))
    }

    /// Adds a drive without content: writes are forgotten, reads leave their buffers as they are.
    /// For measuring.
    pub fn drive_without_content(
        &mut self,
        name: &str,
        model: &DriveModel,
        size: Sectors,
    ) -> SimDevice {
        self.add_drive(name, Some(model), size, None)
    }

    /// Adds a RAM disk, as Linux's brd: the core that submits a request copies its bytes, and then it
    /// is done. Without `content` writes are forgotten.
    pub fn ram_disk(&mut self, name: &str, size: Sectors, content: Option<&Media>) -> SimDevice {
        self.add_drive(name, None, size, content.cloned())
    }

    fn add_drive(
        &mut self,
        name: &str,
        model: Option<&DriveModel>,
        size: Sectors,
        media: Option<Media>,
    ) -> SimDevice {
        let world = self.platform.world();
        let drives = &mut world.state.borrow_mut().drives;
        let random = self.stream(DRIVE_STREAMS + u64::from(drives.count()));
        let index = drives.add(model.map(|model| (model.clone(), random)), size, media);
        SimDevice::new(self.platform.clone(), index, name.to_owned(), size, model)
    }

    /// Runs until every task has ended, none can go on, or the next event is later than `until_ns`.
    pub fn run_until(&mut self, until_ns: u64) -> Outcome {
        let world = self.platform.world();
        if let Some(next_event_ns) = world.run_until(until_ns) {
            return Outcome::TimeLimit { next_event_ns };
        }
        let state = world.state.borrow();
        if state.tasks.alive_count() == 0 {
            return Outcome::Done;
        }
        Outcome::Deadlock(Deadlock::of(&state))
    }

    /// Runs until every task has ended or none can go on.
    pub fn run(&mut self) -> Outcome {
        self.run_until(u64::MAX)
    }

    /// The power fails: every task vanishes, and each drive keeps or loses what it had not made
    /// durable. The media live on.
    pub fn cut_power(self) {
        let mut random = self.stream(POWER_STREAM);
        let world = self.platform.world();
        world.state.borrow_mut().drives.cut_power(&mut random);
    }

    /// Virtual time.
    pub fn now_ns(&self) -> u64 {
        self.platform.world().state.borrow().now_ns
    }

    /// Events so far.
    pub fn events(&self) -> u64 {
        self.platform.world().state.borrow().events
    }

    /// One number for everything that happened and when. Listening to a trace does not change it.
    pub fn trace_hash(&self) -> u64 {
        self.platform.world().state.borrow().hash.value()
    }

    /// Who waited for what, since the start or the last reset.
    pub fn contention(&self) -> ContentionTable {
        self.platform.world().state.borrow().contention()
    }

    /// Starts the contention table anew, as after a warm-up.
    pub fn reset_contention(&mut self) {
        let state = &mut *self.platform.world().state.borrow_mut();
        state.lock_counts.reset();
        state.memory.reset_counts();
    }
}

impl Drop for Simulation {
    fn drop(&mut self) {
        // Tasks hold handles on the machine, and the machine holds the tasks.
        self.platform.world().drop_tasks();
    }
}
