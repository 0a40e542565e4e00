//! Random requests, resyncs and faults against a flat reference.
//!
//! Each worker reads and writes its own part of the array and knows what each of its sectors may
//! hold: one tag, or several after a write that failed.

use crate::rig::{CHUNK_SECTORS, Rig, TestArray, read_tags, tagged, tags_of};
use crate::support::{Outcome, TestCpu};
use proptest::prelude::*;
use raid::device::Durability;
use raid::layout::Location;
use raid::tuning::{ResyncLock, Tuning, Wake};
use raid::units::{MemberIndex, SECTOR_BYTES, Sector, Sectors};
use raid::{MemberState, ResyncOptions};
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

#[derive(Clone, Debug)]
struct Case {
    sizes: Vec<u64>,
    copies: u32,
    tuning: Tuning,
    operations: Vec<Vec<Operation>>,
    resyncs: u32,
    windows_in_flight: u32,
    faults: Vec<Fault>,
    seed: u64,
}

/// What each sector may hold.
type Model = Rc<RefCell<Vec<BTreeSet<u64>>>>;

/// Runs a case. `errors_allowed`: the faults may be more than the redundancy covers.
fn check(case: Case, errors_allowed: bool) {
    let mut rig = Rig::new(&case.sizes, case.copies, case.tuning, case.seed);
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
        window: Sectors(CHUNK_SECTORS + 4),
        windows_in_flight: case.windows_in_flight,
    };
    let again = resync.clone();
    rig.spawn(3, "resync", async move |cpu, array| {
        for _ in 0..case.resyncs {
            let report = array.resync(&cpu, resync.clone()).await;
            assert!(report.is_ok() || errors_allowed, "{report:?}");
        }
    });
    assert_eq!(rig.world.run(), Outcome::Done);

    if !errors_allowed {
        let report = rig.run(async move |cpu, array| array.resync(&cpu, again).await);
        assert_eq!(report.expect("no fault beyond redundancy").sectors_unreadable, Sectors(0));
        copies_hold_the_model(&mut rig, &model.borrow());
    }
}

fn inject(rig: &Rig, fault: &Fault) {
    let state = |member: usize| rig.drives[member % rig.drives.len()].state();
    match fault {
        Fault::Gone { member, after } => state(*member).gone_after = Some(*after),
        Fault::BadSectors { member, sectors } => state(*member).bad_sectors.extend(sectors),
        Fault::Unwritable { member, sectors } => state(*member).unwritable.extend(sectors),
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

fn copies_hold_the_model(rig: &mut Rig, model: &[BTreeSet<u64>]) {
    let states = rig.run(async |cpu, array| array.member_states(&cpu).await);
    let layout = rig.array.copy_layout().expect("an array of copies").clone();
    for (index, drive) in rig.drives.iter().enumerate() {
        if states[index] == MemberState::Failed {
            continue;
        }
        let used = layout.used_of_member(MemberIndex(index as u32));
        let used = (used.0 * SECTOR_BYTES) as usize;
        for (at, tag) in (0..).zip(tags_of(&drive.state().data[..used])) {
            let location = Location { member: MemberIndex(index as u32), at: Sector(at) };
            if let Some(sector) = layout.array_sector(location) {
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

fn faults() -> impl Strategy<Value = Fault> {
    let sectors = || prop::collection::vec(0u64..80, 1..6);
    prop_oneof![
        (0usize..8, 0u64..60).prop_map(|(member, after)| Fault::Gone { member, after }),
        (0usize..8, sectors()).prop_map(|(member, sectors)| Fault::BadSectors { member, sectors }),
        (0usize..8, sectors()).prop_map(|(member, sectors)| Fault::Unwritable { member, sectors }),
    ]
}

/// Arrays that differ in all that the layout knows; `fault_count` faults.
fn cases(
    copies_min: u32,
    fault_count: impl Into<prop::collection::SizeRange>,
) -> impl Strategy<Value = Case> {
    let fault_count = fault_count.into();
    (2usize..6)
        .prop_flat_map(move |members| {
            (
                prop::collection::vec(40u64..80, members),
                copies_min..=members as u32,
                prop::collection::vec(faults(), fault_count.clone()),
                (tunings(), operations(), 0u32..3, 1u32..4, any::<u64>()),
            )
        })
        .prop_map(|(sizes, copies, faults, rest)| {
            let (tuning, operations, resyncs, windows_in_flight, seed) = rest;
            Case { sizes, copies, tuning, operations, resyncs, windows_in_flight, faults, seed }
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn without_faults_every_read_sees_the_last_write(case in cases(1, 0)) {
        check(case, false);
    }

    #[test]
    fn one_fault_costs_nothing(case in cases(2, 1)) {
        check(case, false);
    }

    #[test]
    fn more_faults_than_redundancy_end_in_errors_and_never_in_wrong_data(case in cases(1, 1..6)) {
        check(case, true);
    }
}
