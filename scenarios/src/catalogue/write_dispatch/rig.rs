//! An array with a write-intent bitmap on simulated drives: made as `mdadm --create` would, opened as
//! an assembly would. Never runs a workload.

use raid::Array;
use raid::assemble::{AssembleOptions, assemble, make};
use raid::metadata::create::{NewArray, NewConsistency, NewMember};
use raid::metadata::geometry::{Geometry, Level, Raid10Layout};
use raid::metadata::{Time, Uuid, Version};
use raid::platform::{Label, Platform};
use raid::tuning::Tuning;
use raid::units::{CpuId, Sector, Sectors};
use sim::device::SimDevice;
use sim::{Outcome, SimPlatform, Simulation};
use std::sync::{Arc, Mutex};

/// Where the data of a member starts.
const DATA_OFFSET: Sector = Sector(2048);

/// Which array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mirror {
    Raid1,
    Raid10,
}

/// How large it is.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    /// Of the data on each member.
    pub(super) component: Sectors,
    /// What a bit of the bitmap stands for on each member that the array has, the count of members
    /// rounded up to a power of two; mdadm's choice if `None`.
    pub(super) bitmap_chunk_bytes: Option<u64>,
}

impl Sizes {
    /// How large a drive has to be for it.
    pub(super) fn drive(self) -> Sectors {
        self.component + Sectors(DATA_OFFSET.0)
    }
}

/// The array that the devices are to make.
pub(super) fn new_array(mirror: Mirror, members: u32, sizes: Sizes) -> NewArray {
    let (level, chunk) = match mirror {
        Mirror::Raid1 => (Level::Raid1, Sectors(0)),
        // md's default chunk.
        Mirror::Raid10 => (Level::Raid10(Raid10Layout::near(2)), Sectors(1024)),
    };
    let member = |index: u32| NewMember {
        name: format!("drive{index}"),
        size: sizes.drive(),
        uuid: Uuid([index as u8 + 1; 16]),
        write_mostly: false,
    };
    NewArray {
        version: Version::V1_2,
        geometry: Geometry::new(level, chunk, members).expect("a fit geometry"),
        name: "dispatch".to_owned(),
        uuid: Uuid([0xd1; 16]),
        created: Time::default(),
        members: (0..members).map(|index| Some(member(index))).collect(),
        spares: Vec::new(),
        component_size: Some(sizes.component),
        data_offset: Some(DATA_OFFSET),
        consistency: NewConsistency::Bitmap {
            chunk_bytes: sizes
                .bitmap_chunk_bytes
                .map(|bytes| bytes * u64::from(members.next_power_of_two())),
        },
        // The drives are blank.
        assume_clean: true,
        bad_block_log: false,
    }
}

/// Makes the array if `new` says which, and opens it.
///
/// # Panics
/// If that fails: the drives are sound and fit.
pub(super) fn open(
    world: &mut Simulation,
    drives: Vec<Arc<SimDevice>>,
    new: Option<NewArray>,
    tuning: Tuning,
) -> Arc<Array<SimPlatform>> {
    let opened = Arc::new(Mutex::new(None));
    let into = opened.clone();
    world.platform().spawn_on(CpuId(0), Label::new("open"), move |cpu| async move {
        if let Some(new) = new {
            make::<SimPlatform>(&cpu, &drives, &new).await.expect("sound drives that fit");
        }
        let options = AssembleOptions { writable: true, tuning, ..AssembleOptions::default() };
        let assembled =
            assemble::<SimPlatform>(&cpu, drives, options).await.expect("a whole array");
        let array = assembled.array().expect("it is in no reshape").clone();
        *into.lock().expect("nobody panicked") = Some(array);
    });
    let outcome = world.run();
    assert_eq!(outcome, Outcome::Done, "opening an array ends");
    let array = opened.lock().expect("nobody panicked").take();
    array.expect("it was opened")
}
