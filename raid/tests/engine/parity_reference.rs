//! Random requests, jobs and faults on arrays with parity, against a flat reference.
//!
//! Each worker reads and writes its own part of the array and knows what each of its sectors may
//! hold: one tag, or several after a write that failed. The parts lie side by side and share
//! stripes, so what one worker does to parity matters to the others.

use crate::geometries::{Unhealthy, healths};
use crate::parity_rig::{Geometry, geometries};
use crate::rig::{GUARD_SECTORS, Rig, Setup, TestArray, read_tags, tagged};
use crate::support::{Outcome, TestCpu};
use proptest::prelude::*;
use raid::device::Durability;
use raid::units::{Sector, Sectors};
use raid::{MemberState, RecoverOptions, ResyncOptions};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
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

#[derive(Clone, Debug)]
struct Case {
    geometry: Geometry,
    operations: Vec<Vec<Operation>>,
    resyncs: u32,
    faults: Vec<Fault>,
    /// What is wrong with some members from the start.
    unhealthy: Vec<(usize, Unhealthy)>,
    removed: [prop::sample::Index; 2],
    seed: u64,
}

/// What each sector may hold.
type Model = Rc<RefCell<Vec<BTreeSet<u64>>>>;

/// Runs a case. `errors_allowed`: the faults may be more than the redundancy covers.
fn check(case: Case, errors_allowed: bool) {
    let geometry = &case.geometry;
    let mut setups = vec![Setup::healthy(geometry.member_size); geometry.members];
    for (member, unhealthy) in case.unhealthy.iter().cloned() {
        unhealthy.apply(&mut setups[member % geometry.members]);
    }
    let Some(mut rig) = geometry.open(&setups, case.seed) else {
        assert!(errors_allowed, "one member for each parity may be missing");
        return;
    };
    for fault in &case.faults {
        inject(&rig, fault);
    }
    let capacity = rig.array.capacity().0;
    let model: Model = Rc::new(RefCell::new(vec![BTreeSet::from([0]); capacity as usize]));
    for (worker, operations) in (0..).zip(case.operations.clone()) {
        let model = model.clone();
        rig.spawn(worker as u32, "worker", async move |cpu, array| {
            for (number, operation) in (1..).zip(operations) {
                let tag = worker << 32 | number;
                perform(&cpu, &array, &operation, (worker, tag), &model, errors_allowed).await;
            }
        });
    }
    let window = Sectors(case.geometry.chunk + 4);
    let resync = ResyncOptions { window, ..ResyncOptions::default() };
    let again = resync.clone();
    let recover = RecoverOptions { window: Sectors(8), ..RecoverOptions::default() };
    let recover_again = recover.clone();
    rig.spawn(3, "jobs", async move |cpu, array| {
        for job in 0..case.resyncs {
            if job % 2 == 0 {
                let report = array.recover(&cpu, recover.clone()).await;
                assert!(report.is_ok() || errors_allowed, "{report:?}");
            }
            let report = array.resync(&cpu, resync.clone()).await;
            assert!(report.is_ok() || errors_allowed, "{report:?}");
        }
    });
    assert_eq!(rig.world.run(), Outcome::Done);

    read_all(&mut rig, &model, errors_allowed);
    if errors_allowed {
        return;
    }
    if case.faults.is_empty() {
        assert_eq!(rig.mismatches(), 0);
    }
    rig.run(async move |cpu, array| array.recover(&cpu, recover_again).await).expect("no fault");
    let report = rig.run(async move |cpu, array| array.resync(&cpu, again).await);
    assert_eq!(report.expect("no fault beyond redundancy").sectors_unreadable, Sectors(0));
    assert_eq!(rig.mismatches(), 0);
    remove(&mut rig, &case, &setups);
    read_all(&mut rig, &model, false);
    rig.assert_guards_are_whole();
}

/// Takes away as many members as redundancy allows.
fn remove(rig: &mut Rig, case: &Case, setups: &[Setup]) {
    let states = rig.states();
    let serves = |rig: &Rig, index: usize| {
        // A drive may have been set to go later than it was needed.
        states[index] == MemberState::InSync && rig.drives[index].state().gone_after.is_none()
    };
    let healthy = |rig: &Rig| -> Vec<usize> {
        let members = 0..case.geometry.members;
        members.filter(|role| serves(rig, *role) && setups[*role].bad.is_empty()).collect()
    };
    // A replacement that has taken over counts as well as its member.
    let replaced = (case.geometry.members..states.len()).filter(|index| serves(rig, *index));
    let lost = case.geometry.members - healthy(rig).len() - replaced.count();
    for index in case.removed.iter().take(case.geometry.parity_count().saturating_sub(lost)) {
        let healthy = healthy(rig);
        rig.drives[healthy[index.index(healthy.len())]].state().gone_after = Some(0);
    }
}

fn read_all(rig: &mut Rig, model: &Model, errors_allowed: bool) {
    for (at, expected) in (0..).step_by(8).zip(model.borrow().chunks(8)) {
        match rig.read(at, expected.len() as u64) {
            Ok(tags) => {
                for (expected, tag) in expected.iter().zip(tags) {
                    assert!(expected.contains(&tag), "read {tag:#x} at {at}, not {expected:x?}");
                }
            }
            Err(error) => assert!(errors_allowed, "{error}"),
        }
    }
}

fn inject(rig: &Rig, fault: &Fault) {
    let state = |member: usize| rig.drives[member % rig.drives.len()].state();
    match fault {
        Fault::Gone { member, after } => state(*member).gone_after = Some(*after),
        Fault::BadSectors { member, sectors } => {
            state(*member).bad_sectors.extend(sectors.iter().map(|at| GUARD_SECTORS + at));
        }
        Fault::Unwritable { member, sectors } => {
            state(*member).unwritable.extend(sectors.iter().map(|at| GUARD_SECTORS + at));
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

fn operations() -> impl Strategy<Value = Vec<Vec<Operation>>> {
    let operation = (any::<bool>(), 0u64..1000, 1u64..60)
        .prop_map(|(write, at, length)| Operation { write, at, length });
    prop::collection::vec(prop::collection::vec(operation, 0..12), WORKERS as usize)
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
    fault_count: impl Fn(&Geometry) -> RangeInclusive<usize> + 'static,
    unhealthy_count: impl Fn(&Geometry) -> RangeInclusive<usize> + 'static,
) -> impl Strategy<Value = Case> {
    geometries()
        .prop_flat_map(move |geometry| {
            let faults = prop::collection::vec(faults(), fault_count(&geometry));
            let unhealthy = (0usize..8, healths());
            let unhealthy = prop::collection::vec(unhealthy, unhealthy_count(&geometry));
            let removed = any::<[prop::sample::Index; 2]>();
            let rest = (operations(), 0u32..3, removed, any::<u64>());
            (Just(geometry), faults, unhealthy, rest)
        })
        .prop_map(|(geometry, faults, unhealthy, (operations, resyncs, removed, seed))| Case {
            geometry,
            operations,
            resyncs,
            faults,
            unhealthy,
            removed,
            seed,
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn without_faults_every_read_sees_the_last_write(case in cases(|_| 0..=0, |_| 0..=0)) {
        check(case, false);
    }

    #[test]
    fn as_many_faults_as_parity_cost_nothing(
        case in cases(|geometry| 1..=geometry.parity_count(), |_| 0..=0)
    ) {
        check(case, false);
    }

    #[test]
    fn more_faults_than_redundancy_end_in_errors_and_never_in_wrong_data(
        case in cases(|_| 1..=6, |_| 0..=2)
    ) {
        check(case, true);
    }

    #[test]
    fn as_many_unhealthy_members_as_parity_cost_nothing(
        case in cases(|_| 0..=0, |geometry| 1..=geometry.parity_count())
    ) {
        check(case, false);
    }
}
