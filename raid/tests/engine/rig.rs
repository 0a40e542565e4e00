//! An array on drives of the small world, with what every test of it needs.

use crate::support::{Drive, Outcome, TestCpu, TestPlatform, World};
use raid::buffer::{Buffer, SharedBuffer};
use raid::device::Durability;
use raid::units::{SECTOR_BYTES, Sector, Sectors};
use raid::{Array, ArrayError, ArrayOptions, Level, MemberState, Tuning};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// The smallest chunk, so that small drives have many.
pub(crate) const CHUNK_SECTORS: u64 = 8;

pub(crate) type TestArray = Arc<Array<TestPlatform>>;

pub(crate) struct Rig {
    pub(crate) world: World,
    pub(crate) drives: Vec<Drive>,
    pub(crate) array: TestArray,
}

impl Rig {
    /// `near_copies` copies on drives of `sizes` sectors.
    pub(crate) fn new(sizes: &[u64], near_copies: u32, tuning: Tuning, seed: u64) -> Self {
        let world = World::new(4, seed);
        let drive = |(index, size): (usize, &u64)| world.drive(&format!("disk{index}"), *size);
        let drives: Vec<Drive> = sizes.iter().enumerate().map(drive).collect();
        let level = Level::raid10_near(near_copies);
        let options = ArrayOptions { level, chunk: Sectors(CHUNK_SECTORS), tuning };
        let array = Array::create(world.platform(), drives.clone(), options).expect("a fit array");
        Self { world, drives, array }
    }

    /// Runs one task to its end, with all that it starts.
    pub(crate) fn run<T: 'static>(
        &mut self,
        task: impl AsyncFnOnce(TestCpu, TestArray) -> T + 'static,
    ) -> T {
        let result = Rc::new(RefCell::new(None));
        let (into, array) = (result.clone(), self.array.clone());
        self.world.spawn(0, "test", |cpu| async move {
            let value = task(cpu, array).await;
            into.replace(Some(value));
        });
        assert_eq!(self.world.run(), Outcome::Done);
        result.take().expect("the task has ended")
    }

    /// Starts a task beside others.
    pub(crate) fn spawn(
        &mut self,
        cpu: u32,
        label: &'static str,
        task: impl AsyncFnOnce(TestCpu, TestArray) + 'static,
    ) {
        let array = self.array.clone();
        self.world.spawn(cpu, label, |cpu| task(cpu, array));
    }

    pub(crate) fn write(&mut self, at: u64, tags: &[u64]) -> Result<(), ArrayError> {
        let data = tagged(tags);
        self.run(async move |cpu, array| {
            array.write(&cpu, Sector(at), data, Durability::Cached).await
        })
    }

    pub(crate) fn read(&mut self, at: u64, sectors: u64) -> Result<Vec<u64>, ArrayError> {
        self.run(async move |cpu, array| read_tags(&cpu, &array, at, sectors).await)
    }

    /// Which members have failed.
    pub(crate) fn failed(&mut self) -> Vec<usize> {
        let states = self.run(async |cpu, array| array.member_states(&cpu).await);
        let failed = states.iter().enumerate().filter(|(_, state)| **state == MemberState::Failed);
        failed.map(|(index, _)| index).collect()
    }
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

/// The tag of each sector.
///
/// # Panics
/// If a sector is torn.
pub(crate) fn tags_of(bytes: &[u8]) -> Vec<u64> {
    let tag = |sector: &[u8]| {
        let first = &sector[..8];
        assert!(sector.chunks(8).all(|part| part == first), "a torn sector");
        u64::from_le_bytes(first.try_into().expect("8 bytes"))
    };
    bytes.chunks_exact(SECTOR_BYTES as usize).map(tag).collect()
}

pub(crate) async fn read_tags(
    cpu: &TestCpu,
    array: &TestArray,
    at: u64,
    sectors: u64,
) -> Result<Vec<u64>, ArrayError> {
    let into = Buffer::zeroed((sectors * SECTOR_BYTES) as usize);
    let done = array.read(cpu, Sector(at), into).await;
    assert_eq!(done.buffer.len() as u64, sectors * SECTOR_BYTES, "the whole buffer comes back");
    done.result.map(|()| tags_of(&done.buffer))
}
