//! Random requests, background jobs and faults on random arrays against a flat reference.
//!
//! Each worker reads and writes its own part of the array and knows what each of its sectors may
//! hold: one tag, or several after a write that failed.

use crate::geometries::{
    Geometry, any_level, healths, redundant_level, with_one_unhealthy, with_options,
};
use crate::rig::{GUARD_SECTORS, Health, Rig, TestArray, read_tags, tagged};
use crate::support::{Outcome, TestCpu};
use proptest::prelude::*;
use raid::device::Durability;
use raid::layout::Location;
use raid::tuning::{ResyncLock, Tuning, Wake};
use raid::units::{MemberIndex, Sector, Sectors};
use raid::{ArrayError, ArrayOptions, CreateError, MemberState, RecoverOptions, ResyncOptions};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

const WORKERS: u64 = 3;

#[derive(Clone, Debug)]
struct Operation {
    write: bool,
    at: u64,
    length: u64,
}

#[derive(Clone, Debug)]
enum Fault {
    Gone { member: usize, after: u64 },
    BadSectors { member: usize, sectors: Vec<u64> },
    Unwritable { member: usize, sectors: Vec<u64> },
}

#[derive(Clone, Copy, Debug)]
enum Job {
    Resync,
    Check,
    /// Up to this sector of the members.
    Recover(u64),
}

#[derive(Clone, Debug)]
struct Case {
    geometry: Geometry,
    tuning: Tuning,
    operations: Vec<Vec<Operation>>,
    jobs: Vec<Job>,
    windows_in_flight: u32,
    faults: Vec<Fault>,
    seed: u64,
}

/// What each sector may hold.
type Model = Rc<RefCell<Vec<BTreeSet<u64>>>>;

/// Runs a case. `errors_allowed`: the faults may be more than the redundancy covers.
fn check(case: Case, errors_allowed: bool) {
    let Geometry { level, chunk, setups } = &case.geometry;
    let options = ArrayOptions { level: *level, chunk: Sectors(*chunk), tuning: case.tuning };
    let mut rig = match Rig::try_open(setups, options, case.seed) {
        Ok(rig) => rig,
        Err(CreateError::MembersMissing { .. }) if errors_allowed => return,
        Err(error) => panic!("{error}"),
    };
    for fault in &case.faults {
        inject(&rig, fault);
    }
    let capacity = rig.array.capacity().0;
    let model: Model = Rc::new(RefCell::new(vec![BTreeSet::from([0]); capacity as usize]));
    for (worker, operations) in (0..).zip(case.operations) {
        let model = model.clone();
        rig.spawn(worker as u32, "worker", async move |cpu, array| {
            for (number, operation) in (1..).zip(operations) {
                let tag = worker << 32 | number;
                perform(&cpu, &array, &operation, (worker, tag), &model, errors_allowed).await;
            }
        });
    }
    let resync = ResyncOptions {
        range: None,
        window: Sectors(12),
        windows_in_flight: case.windows_in_flight,
    };
    let last = resync.clone();
    rig.spawn(3, "jobs", async move |cpu, array| {
        for job in case.jobs {
            let ended = run_job(&cpu, &array, job, &resync).await;
            assert!(ended.is_ok() || errors_allowed, "{job:?}: {ended:?}");
        }
    });
    assert_eq!(rig.world.run(), Outcome::Done);

    if !errors_allowed {
        let mismatches = rig.run(async move |cpu, array| {
            for job in [Job::Recover(u64::MAX), Job::Resync] {
                let ended = run_job(&cpu, &array, job, &last).await;
                ended.expect("no fault beyond redundancy");
            }
            array.check(&cpu, last).await.expect("no other job").mismatches
        });
        assert_eq!(mismatches, Sectors(0));
        let recovering = |state: &MemberState| matches!(state, MemberState::Recovering { .. });
        assert!(!rig.states().iter().any(recovering));
    }
    members_hold_the_model(&mut rig, &model.borrow(), errors_allowed);
    rig.assert_guards_are_whole();
}

async fn run_job(
    cpu: &TestCpu,
    array: &TestArray,
    job: Job,
    resync: &ResyncOptions,
) -> Result<(), ArrayError> {
    match job {
        Job::Resync => {
            let report = array.resync(cpu, resync.clone()).await?;
            match report.sectors_unreadable {
                Sectors(0) => Ok(()),
                _ => Err(ArrayError::Empty { at: Sector(0) }),
            }
        }
        Job::Check => array.check(cpu, resync.clone()).await.map(drop),
        Job::Recover(until) => {
            let until = (until < u64::MAX).then_some(Sector(until));
            let options = RecoverOptions { window: Sectors(12), until };
            array.recover(cpu, options).await.map(drop)
        }
    }
}

fn inject(rig: &Rig, fault: &Fault) {
    let state = |member: usize| rig.drives[member % rig.drives.len()].state();
    let on_drive = |sectors: &[u64]| -> Vec<u64> {
        sectors.iter().map(|sector| sector + GUARD_SECTORS).collect()
    };
    match fault {
        Fault::Gone { member, after } => state(*member).gone_after = Some(*after),
        Fault::BadSectors { member, sectors } => {
            state(*member).bad_sectors.extend(on_drive(sectors));
        }
        Fault::Unwritable { member, sectors } => {
            state(*member).unwritable.extend(on_drive(sectors));
        }
    }
}

async fn perform(
    cpu: &TestCpu,
    array: &TestArray,
    operation: &Operation,
    (worker, tag): (u64, u64),
    model: &Model,
    errors_allowed: bool,
) {
    // The parts lie side by side, and their boundaries cut chunks.
    let share = array.capacity().0 / WORKERS;
    let at = operation.at % share;
    let length = operation.length.min(share - at);
    let sectors = (worker * share + at) as usize..(worker * share + at + length) as usize;
    let start = sectors.start as u64;
    let result = if operation.write {
        let data = tagged(&vec![tag; length as usize]);
        let result = array.write(cpu, Sector(start), data, Durability::Cached).await;
        for expected in &mut model.borrow_mut()[sectors] {
            if result.is_ok() {
                expected.clear();
            }
            expected.insert(tag);
        }
        result
    } else {
        read_tags(cpu, array, start, length).await.map(|tags| {
            for (expected, tag) in model.borrow()[sectors].iter().zip(tags) {
                assert!(expected.contains(&tag), "read {tag:#x}, expected {expected:x?}");
            }
        })
    };
    if !errors_allowed {
        result.expect("no fault beyond redundancy");
    }
}

/// Each sector that a member would serve is one of those that it may hold. After errors, copies of
/// a write that failed may be older than the model's oldest; who reads sees just one of them.
fn members_hold_the_model(rig: &mut Rig, model: &[BTreeSet<u64>], errors_allowed: bool) {
    if errors_allowed {
        return;
    }
    let layout = rig.array.copy_layout().expect("an array of copies").clone();
    for (index, state) in rig.states().into_iter().enumerate() {
        if state != MemberState::InSync {
            continue;
        }
        let bad = rig.bad_blocks(index as u32);
        // Replacements have no role of their own.
        let role = (0..layout.members()).map(MemberIndex).find(|role| {
            let replacement = rig.array.replacement_of(*role);
            role.0 as usize == index || replacement == Some(MemberIndex(index as u32))
        });
        let role = role.expect("every device has a role");
        let tags = rig.tags_of_member(index, layout.used_of_member(role).0);
        for (at, tag) in (0..).zip(tags) {
            let is_bad = bad.iter().any(|(start, length)| (*start..start + length).contains(&at));
            let sector = layout.array_sector(Location { member: role, at: Sector(at) });
            if let Some(sector) = sector.filter(|_| !is_bad) {
                let expected = &model[sector.0 as usize];
                assert!(expected.contains(&tag), "disk{index} holds {tag:#x} at {at}");
            }
        }
    }
}

fn operations() -> impl Strategy<Value = Vec<Vec<Operation>>> {
    let operation = (any::<bool>(), 0u64..1000, 1u64..30)
        .prop_map(|(write, at, length)| Operation { write, at, length });
    prop::collection::vec(prop::collection::vec(operation, 0..12), WORKERS as usize)
}

fn tunings() -> impl Strategy<Value = Tuning> {
    (any::<bool>(), any::<bool>()).prop_map(|(spin, always)| Tuning {
        resync_lock: if spin { ResyncLock::Spin } else { ResyncLock::Seqlock },
        wake: if always { Wake::Always } else { Wake::IfWaiting },
        ..Tuning::default()
    })
}

fn jobs() -> impl Strategy<Value = Vec<Job>> {
    let job = prop_oneof![
        Just(Job::Resync),
        Just(Job::Check),
        (0u64..100).prop_map(Job::Recover),
        Just(Job::Recover(u64::MAX)),
    ];
    prop::collection::vec(job, 0..4)
}

fn faults() -> impl Strategy<Value = Fault> {
    let sectors = || prop::collection::vec(0u64..80, 1..6);
    prop_oneof![
        (0usize..8, 0u64..60).prop_map(|(member, after)| Fault::Gone { member, after }),
        (0usize..8, sectors()).prop_map(|(member, sectors)| Fault::BadSectors { member, sectors }),
        (0usize..8, sectors()).prop_map(|(member, sectors)| Fault::Unwritable { member, sectors }),
    ]
}

fn cases(
    geometries: impl Strategy<Value = Geometry>,
    fault_count: impl Into<prop::collection::SizeRange>,
) -> impl Strategy<Value = Case> {
    let faults = prop::collection::vec(faults(), fault_count);
    let rest = (tunings(), operations(), jobs(), 1u32..4, any::<u64>());
    (geometries, faults, rest).prop_map(|(geometry, faults, rest)| {
        let (tuning, operations, jobs, windows_in_flight, seed) = rest;
        Case { geometry, tuning, operations, jobs, windows_in_flight, faults, seed }
    })
}

/// Anything wrong with any number of members.
fn wrecks() -> impl Strategy<Value = Geometry> {
    let unhealthy = prop::collection::vec((any::<usize>(), healths()), 0..3);
    (with_options(any_level()), unhealthy).prop_map(|(mut geometry, unhealthy)| {
        let count = geometry.setups.len();
        for (index, unhealthy) in unhealthy {
            unhealthy.apply(&mut geometry.setups[index % count]);
        }
        geometry
    })
}

/// One fault beside a replacement that is being filled is one fault.
fn with_a_replacement(
    geometries: impl Strategy<Value = Geometry>,
) -> impl Strategy<Value = Geometry> {
    (geometries, any::<usize>(), any::<bool>(), 0u64..40).prop_map(
        |(mut geometry, index, replaced, point)| {
            let count = geometry.setups.len();
            if replaced {
                geometry.setups[index % count].health = Health::Replaced(point);
            }
            assert!(geometry.copies() > 1, "some other member has the data");
            geometry
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn without_faults_every_read_sees_the_last_write(
        case in cases(with_options(any_level()), 0)
    ) {
        check(case, false);
    }

    #[test]
    fn one_fault_costs_nothing(
        case in cases(with_a_replacement(with_options(redundant_level())), 1)
    ) {
        check(case, false);
    }

    #[test]
    fn one_member_that_is_not_well_costs_nothing(
        case in cases(with_one_unhealthy(with_options(redundant_level())), 0)
    ) {
        check(case, false);
    }

    #[test]
    fn more_faults_than_redundancy_end_in_errors_and_never_in_wrong_data(
        case in cases(wrecks(), 0..6)
    ) {
        check(case, true);
    }
}
