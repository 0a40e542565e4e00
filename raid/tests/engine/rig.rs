//! An array on drives of the small world, with what every test of it needs.

use crate::support::{Drive, Outcome, TestCpu, TestPlatform, World};
use raid::buffer::{Buffer, SharedBuffer};
use raid::device::Durability;
use raid::request::Extent;
use raid::units::{MemberIndex, SECTOR_BYTES, Sector, Sectors};
use raid::{
    Array, ArrayError, ArrayOptions, BadBlocks, CreateError, Level, MemberDevice, MemberOptions,
    MemberState, Tuning,
};
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// The smallest chunk, so that small drives have many.
pub(crate) const CHUNK_SECTORS: u64 = 8;

pub(crate) type TestArray = Arc<Array<TestPlatform>>;

/// Around each member's data, so that a write beyond it is found.
pub(crate) const GUARD_SECTORS: u64 = 3;
const GUARD_BYTE: u8 = 0x5a;
/// What a drive holds where its member has nothing to say.
const GARBAGE_BYTE: u8 = 0xff;

pub(crate) struct Rig {
    pub(crate) world: World,
    /// Of the members in the order of their roles, then of the replacements.
    pub(crate) drives: Vec<Drive>,
    pub(crate) array: TestArray,
}

/// How a member is when the array is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    InSync,
    Missing,
    /// From this sector on it holds garbage.
    Recovering(u64),
    /// In sync, with a replacement that holds garbage from this sector on.
    Replaced(u64),
}

/// A member of the array to open, all zeros.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) size: u64,
    pub(crate) health: Health,
    pub(crate) write_mostly: bool,
    /// How many bad blocks can be noted.
    pub(crate) log: Option<usize>,
    /// First sector and length of bad blocks, which hold garbage. Needs a log.
    pub(crate) bad: Vec<(u64, u64)>,
}

impl Setup {
    pub(crate) fn healthy(size: u64) -> Self {
        let (health, write_mostly, log, bad) = (Health::InSync, false, None, Vec::new());
        Self { size, health, write_mostly, log, bad }
    }

    fn device(&self, drive: &Drive, recovery_point: Option<u64>) -> MemberDevice<TestPlatform> {
        let mut state = drive.state();
        let mut fill = |sectors: Range<u64>, byte: u8| {
            let bytes = sectors.start * SECTOR_BYTES..sectors.end * SECTOR_BYTES;
            state.data[bytes.start as usize..bytes.end as usize].fill(byte);
        };
        let end = GUARD_SECTORS + self.size;
        fill(0..GUARD_SECTORS, GUARD_BYTE);
        fill(end..end + GUARD_SECTORS, GUARD_BYTE);
        fill(GUARD_SECTORS + recovery_point.unwrap_or(self.size)..end, GARBAGE_BYTE);
        for (at, length) in &self.bad {
            fill(GUARD_SECTORS + at..GUARD_SECTORS + at + length, GARBAGE_BYTE);
        }
        let extent =
            |(at, length): &(u64, u64)| Extent { at: Sector(*at), length: Sectors(*length) };
        let bad = self.bad.iter().map(extent);
        MemberDevice {
            device: Arc::new(drive.clone()),
            data_start: Sector(GUARD_SECTORS),
            data_length: Sectors(self.size),
            recovery_point: recovery_point.map(Sector),
            write_mostly: self.write_mostly,
            bad_blocks: self.log.map(|entries| BadBlocks::with_extents(entries, bad)),
            patches: raid::patches::Patches::default(),
        }
    }
}

impl Rig {
    /// `near_copies` copies on whole drives of `sizes` sectors.
    pub(crate) fn new(sizes: &[u64], near_copies: u32, tuning: Tuning, seed: u64) -> Self {
        let world = World::new(4, seed);
        let drive = |(index, size): (usize, &u64)| world.drive(&format!("disk{index}"), *size);
        let drives: Vec<Drive> = sizes.iter().enumerate().map(drive).collect();
        let level = Level::raid10_near(near_copies);
        let options = ArrayOptions { level, chunk: Sectors(CHUNK_SECTORS), tuning };
        let array = Array::create(world.platform(), drives.clone(), options).expect("a fit array");
        Self { world, drives, array }
    }

    /// An array of members whose data starts [`GUARD_SECTORS`] into their drives.
    pub(crate) fn open(setups: &[Setup], options: ArrayOptions, seed: u64) -> Self {
        Self::try_open(setups, options, seed).expect("a fit array")
    }

    pub(crate) fn try_open(
        setups: &[Setup],
        options: ArrayOptions,
        seed: u64,
    ) -> Result<Self, CreateError> {
        let world = World::new(4, seed);
        let drive =
            |name: String, setup: &Setup| world.drive(&name, setup.size + 2 * GUARD_SECTORS);
        let mut drives = Vec::new();
        let mut replacements = Vec::new();
        let mut members = Vec::new();
        for (index, setup) in setups.iter().enumerate() {
            let of_member = drive(format!("disk{index}"), setup);
            let mut member = MemberOptions::missing();
            member.device = match setup.health {
                Health::Missing => None,
                Health::InSync | Health::Replaced(_) => Some(setup.device(&of_member, None)),
                Health::Recovering(point) => Some(setup.device(&of_member, Some(point))),
            };
            drives.push(of_member);
            if let Health::Replaced(point) = setup.health {
                let replacement = drive(format!("disk{index}'"), setup);
                let unmarked = Setup { bad: Vec::new(), ..setup.clone() };
                member.replacement = Some(unmarked.device(&replacement, Some(point)));
                replacements.push(replacement);
            }
            members.push(member);
        }
        drives.append(&mut replacements);
        let array = Array::open(world.platform(), members, options)?;
        Ok(Self { world, drives, array })
    }

    /// The tags of the sectors of a member's data.
    pub(crate) fn tags_of_member(&self, index: usize, sectors: u64) -> Vec<u64> {
        let state = self.drives[index].state();
        let start = (GUARD_SECTORS * SECTOR_BYTES) as usize;
        tags_of(&state.data[start..start + (sectors * SECTOR_BYTES) as usize])
    }

    /// Nobody wrote before or behind a member's data.
    pub(crate) fn assert_guards_are_whole(&self) {
        let guard = (GUARD_SECTORS * SECTOR_BYTES) as usize;
        for drive in &self.drives {
            let state = drive.state();
            let (start, end) = (&state.data[..guard], &state.data[state.data.len() - guard..]);
            let whole = start.iter().chain(end).all(|byte| *byte == GUARD_BYTE);
            // The drive of a missing member was never written at all.
            assert!(whole || state.data.iter().all(|byte| *byte == 0), "written beyond the data");
        }
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

    pub(crate) fn states(&mut self) -> Vec<MemberState> {
        self.run(async |cpu, array| array.member_states(&cpu).await)
    }

    /// First sector and length of a member's bad blocks.
    pub(crate) fn bad_blocks(&mut self, member: u32) -> Vec<(u64, u64)> {
        let member = MemberIndex(member);
        let bad = self.run(async move |cpu, array| array.bad_blocks(&cpu, member).await);
        bad.iter().map(|extent| (extent.at.0, extent.length.0)).collect()
    }

    /// Which members have failed.
    pub(crate) fn failed(&mut self) -> Vec<usize> {
        let states = self.states();
        let failed = states.iter().enumerate().filter(|(_, state)| **state == MemberState::Failed);
        failed.map(|(index, _)| index).collect()
    }
}

pub(crate) fn options(level: Level, chunk: u64) -> ArrayOptions {
    ArrayOptions { level, chunk: Sectors(chunk), tuning: Tuning::default() }
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
