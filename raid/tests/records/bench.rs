//! An array of drives with volatile caches, made, assembled, written to and cut off.

use crate::support::{Drive, Outcome, TestCpu, TestPlatform, World};
use raid::assemble::{AssembleOptions, Assembled, OpenError, assemble, make};
use raid::buffer::{Buffer, SharedBuffer};
use raid::metadata::assembly::Options as Rules;
use raid::metadata::create::{NewArray, NewConsistency, NewMember};
use raid::metadata::superblock::{Superblock, find};
use raid::metadata::{Geometry, Level, Time, Uuid, Version};
use raid::units::{SECTOR_BYTES, Sector, Sectors};
use raid::{Array, ArrayError};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

pub(crate) const NOW: Time = Time { seconds: 1_800_000_000, microseconds: 0 };
/// Where data starts: early, so that drives can be small.
const DATA_OFFSET: u64 = 64;

pub(crate) type TestAssembled = Rc<Assembled<TestPlatform>>;
pub(crate) type TestArray = Arc<Array<TestPlatform>>;

/// What array to make.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    pub(crate) level: Level,
    pub(crate) members: u32,
    pub(crate) spares: u32,
    pub(crate) bitmap: bool,
    pub(crate) version: Version,
    /// Sectors of data on each member.
    pub(crate) size: u64,
}

impl Wish {
    /// Superblocks at the end and their logs take some, too.
    pub(crate) fn drive_bytes(&self) -> usize {
        ((DATA_OFFSET + self.size + 128).next_multiple_of(128) * SECTOR_BYTES) as usize
    }

    pub(crate) fn array(&self, uuid: Uuid, created: Time) -> NewArray {
        let member = |number: u32| NewMember {
            name: format!("disk{number}"),
            size: Sectors::from_bytes_rounded_down(self.drive_bytes() as u64),
            uuid: Uuid([number as u8 + 1; 16]),
            write_mostly: false,
        };
        let chunk = Sectors(if self.level == Level::Raid1 { 0 } else { 8 });
        let at_start = matches!(self.version, Version::V1_1 | Version::V1_2);
        NewArray {
            version: self.version,
            geometry: Geometry::new(self.level, chunk, self.members).expect("a fit geometry"),
            name: if self.version == Version::V0_90 { String::new() } else { "test".to_owned() },
            uuid,
            created,
            members: (0..self.members).map(|number| Some(member(number))).collect(),
            spares: (self.members..self.members + self.spares).map(member).collect(),
            component_size: Some(Sectors(self.size)),
            data_offset: at_start.then_some(Sector(DATA_OFFSET)),
            consistency: match self.bitmap {
                true => NewConsistency::Bitmap { chunk_bytes: Some(4096) },
                false => NewConsistency::Resync,
            },
            assume_clean: true,
            bad_block_log: self.version != Version::V0_90,
        }
    }
}

/// Drives and the world that they are in.
pub(crate) struct Bench {
    pub(crate) world: World,
    pub(crate) drives: Vec<Drive>,
}

impl Bench {
    /// Drives that hold these images.
    pub(crate) fn boot(images: Vec<Vec<u8>>, seed: u64) -> Self {
        let world = World::new(4, seed);
        let drives = (0..).zip(images).map(|(index, image)| {
            let drive = world.drive(&format!("disk{index}"), 0);
            drive.state().data = image;
            drive.state().with_volatile_cache();
            drive
        });
        Self { drives: drives.collect(), world }
    }

    /// Blank drives with a fresh array.
    pub(crate) fn make(wish: &Wish, seed: u64) -> Self {
        let bytes = wish.drive_bytes();
        let count = (wish.members + wish.spares) as usize;
        let mut bench = Self::boot(vec![vec![0; bytes]; count], seed);
        let (array, devices) = (wish.array(Uuid([9; 16]), NOW), bench.devices());
        bench.run(async move |cpu| {
            make::<TestPlatform>(&cpu, &devices, &array).await.expect("made")
        });
        bench
    }

    pub(crate) fn devices(&self) -> Vec<Arc<Drive>> {
        self.drives.iter().cloned().map(Arc::new).collect()
    }

    /// Runs one task to its end, with all that it starts.
    pub(crate) fn run<T: 'static>(&mut self, task: impl AsyncFnOnce(TestCpu) -> T + 'static) -> T {
        let result = Rc::new(RefCell::new(None));
        let into = result.clone();
        self.world.spawn(0, "test", |cpu| async move {
            let value = task(cpu).await;
            into.replace(Some(value));
        });
        assert_eq!(self.world.run(), Outcome::Done);
        result.take().expect("the task has ended")
    }

    /// Assembles the array of all drives but those in `without`.
    pub(crate) fn assemble(
        &mut self,
        options: AssembleOptions,
        without: &[usize],
    ) -> TestAssembled {
        let assembled = self.try_assemble(options, without);
        assembled.unwrap_or_else(|error| panic!("assemble: {error}"))
    }

    /// The same where it may be refused.
    pub(crate) fn try_assemble(
        &mut self,
        options: AssembleOptions,
        without: &[usize],
    ) -> Result<TestAssembled, OpenError> {
        let left = self.drives.iter().enumerate().filter(|(index, _)| !without.contains(index));
        let devices: Vec<_> = left.map(|(_, drive)| Arc::new(drive.clone())).collect();
        let assembled =
            self.run(async move |cpu| assemble::<TestPlatform>(&cpu, devices, options).await);
        assembled.map(Rc::new)
    }

    /// As they are on the drives now.
    pub(crate) fn superblocks(&self) -> Vec<Superblock> {
        self.drives.iter().map(|drive| find(&drive.state().data).expect("a superblock")).collect()
    }

    /// What the drives hold after the power is cut now.
    pub(crate) fn cut(&self) -> Vec<Vec<u8>> {
        // Mostly one way on a drive: whole caches are lost or not.
        let bias = self.world.draw(3);
        let draw = || match bias {
            0 => self.world.draw(8) == 0,
            1 => self.world.draw(2) == 0,
            _ => self.world.draw(8) != 0,
        };
        self.drives.iter().map(|drive| drive.state().after_power_cut(draw)).collect()
    }
}

pub(crate) fn writable() -> AssembleOptions {
    AssembleOptions { writable: true, now: NOW, ..AssembleOptions::default() }
}

pub(crate) fn degraded(options: AssembleOptions) -> AssembleOptions {
    AssembleOptions { rules: Rules { degraded: true, ..options.rules }, ..options }
}

/// One sector for each tag, filled with it.
pub(crate) fn tagged(tags: &[u64]) -> SharedBuffer {
    let bytes: Vec<u8> = tags
        .iter()
        .flat_map(|tag| std::iter::repeat_n(tag.to_le_bytes(), SECTOR_BYTES as usize / 8))
        .flatten()
        .collect();
    Buffer::copy_of(&bytes).into_shared()
}

/// The tag of each sector of the whole array.
pub(crate) async fn read_all(cpu: &TestCpu, array: &TestArray) -> Result<Vec<u64>, ArrayError> {
    let into = Buffer::zeroed(array.capacity().bytes() as usize);
    let done = array.read(cpu, Sector(0), into).await;
    let tag = |sector: &[u8]| {
        let first = &sector[..8];
        assert!(sector.chunks(8).all(|part| part == first), "a torn sector");
        u64::from_le_bytes(first.try_into().expect("8 bytes"))
    };
    done.result.map(|()| done.buffer.chunks_exact(SECTOR_BYTES as usize).map(tag).collect())
}
