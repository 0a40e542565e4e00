//! Recovery: filling a spare or a replacement, in one go or in several.

use crate::rig::{GUARD_SECTORS, Health, Rig, Setup, options, read_tags, tagged};
use raid::device::Durability;
use raid::levels::{Level, Raid10Layout};
use raid::units::{MemberIndex, Sector, Sectors};
use raid::{ArrayError, MemberState, RecoverOptions, RecoverReport};

const WINDOW: RecoverOptions = RecoverOptions { window: Sectors(12), until: None };

/// Three members of 64 sectors, of which member 1 is in this health.
fn open(level: Level, health: Health, log: Option<usize>) -> Rig {
    let mut setups = vec![Setup::healthy(64); 3];
    setups[1] = Setup { health, log, ..Setup::healthy(64) };
    Rig::open(&setups, options(level, 8), 7)
}

fn recover(rig: &mut Rig, options: RecoverOptions) -> Result<RecoverReport, ArrayError> {
    rig.run(async move |cpu, array| array.recover(&cpu, options).await)
}

/// Fills an array, recovers member 1 or its replacement, at `index`, and reads everything with
/// that one alone where the level allows it. How many sectors the recovery wrote.
fn check(level: Level, health: Health, index: u32, expected: u64) {
    let mut rig = open(level, health, None);
    let tags: Vec<u64> = (1..=rig.array.capacity().0).collect();
    rig.write(0, &tags).expect("no fault");
    let used = rig.array.copy_layout().expect("copies").used_of_member(MemberIndex(1)).0;
    let before = rig.tags_of_member(index as usize, used);
    rig.drives[index as usize].state().data[GUARD_SECTORS as usize * 512..][..512].fill(0);
    let report = recover(&mut rig, WINDOW).expect("no fault");
    assert_eq!(report.recovered, [MemberIndex(index)]);
    assert_eq!(report.sectors_written, Sectors(expected));
    assert_eq!(rig.states()[index as usize], MemberState::InSync);
    assert_eq!(rig.tags_of_member(index as usize, used)[1..], before[1..]);
    rig.assert_guards_are_whole();
}

#[test]
fn a_spare_is_filled_in_each_layout() {
    check(Level::Raid1, Health::Recovering(0), 1, 64);
    check(Level::raid10_near(2), Health::Recovering(0), 1, 64);
    for layout in [Raid10Layout::far(2), Raid10Layout::offset(2), Raid10Layout::far(3)] {
        let used = 64 / 8 / u64::from(layout.far_copies) * u64::from(layout.far_copies) * 8;
        check(Level::Raid10 { layout }, Health::Recovering(0), 1, used);
    }
}

#[test]
fn a_replacement_is_filled_and_takes_over() {
    check(Level::Raid1, Health::Replaced(0), 3, 64);
    let mut rig = open(Level::raid10_near(2), Health::Replaced(0), None);
    rig.write(0, &[5; 90]).expect("no fault");
    recover(&mut rig, WINDOW).expect("no fault");
    assert_eq!(rig.array.replacement_of(MemberIndex(1)), Some(MemberIndex(3)));
    assert_eq!(rig.failed(), [1]);
    for drive in [0, 2] {
        rig.drives[drive].state().gone_after = Some(0);
    }
    assert_eq!(rig.read(0, 8), Ok(vec![5; 8]), "member 1 holds the first chunk");
}

#[test]
fn a_recovery_that_was_cut_short_goes_on_from_its_point() {
    let mut rig = open(Level::Raid1, Health::Recovering(8), None);
    let part = RecoverOptions { until: Some(Sector(40)), ..WINDOW };
    let report = recover(&mut rig, part).expect("no fault");
    assert_eq!((report.sectors_written, report.recovered), (Sectors(32), vec![]));
    assert_eq!(rig.states()[1], MemberState::Recovering { point: Sector(40) });
    let report = recover(&mut rig, WINDOW).expect("no fault");
    assert_eq!(report.sectors_written, Sectors(24));
    assert_eq!(rig.states()[1], MemberState::InSync);
    assert_eq!(rig.tags_of_member(1, 64), [0; 64]);
}

#[test]
fn what_a_recovering_member_lacks_is_not_read_there() {
    let mut rig = open(Level::Raid1, Health::Recovering(24), None);
    for cpu in 0..4 {
        rig.spawn(cpu, "reader", async |cpu, array| {
            for at in 0..40 {
                assert_eq!(read_tags(&cpu, &array, at, 8).await, Ok(vec![0; 8]));
            }
        });
    }
    rig.run(async |_, _| {});
    assert!(rig.drives[1].state().reads > 0, "what it has is read");
}

#[test]
fn a_member_that_is_not_filled_in_cannot_stand_in() {
    let mut setups = vec![Setup::healthy(64); 2];
    setups[1].health = Health::Recovering(8);
    let mut rig = Rig::open(&setups, options(Level::Raid1, 0), 1);
    rig.drives[0].state().gone_after = Some(0);
    let refused = rig.write(0, &[1; 16]);
    assert!(matches!(refused, Err(ArrayError::Unwritable { .. })), "{refused:?}");
    assert_eq!(rig.read(0, 8).map(|tags| tags.len()), Ok(8), "the part that it has");
    let refused = rig.read(0, 9);
    assert!(matches!(refused, Err(ArrayError::Unreadable { .. })), "{refused:?}");
    assert_eq!(rig.failed(), [0; 0]);
}

#[test]
fn a_spare_that_fails_costs_nothing() {
    for after in 0..12 {
        let mut rig = open(Level::Raid1, Health::Recovering(0), None);
        rig.drives[1].state().gone_after = Some(after);
        let report = recover(&mut rig, WINDOW).expect("the others have the data");
        let failed = rig.failed() == [1];
        assert_eq!(report.failed.contains(&MemberIndex(1)), failed);
        assert_eq!(report.recovered.is_empty(), failed);
        assert_eq!(rig.read(0, 64), Ok(vec![0; 64]));
    }
}

/// Member 1 of a mirror of two is recovered though its source lacks sector 20.
fn recover_without_a_source(log: Option<usize>) -> (Rig, Result<RecoverReport, ArrayError>) {
    let mut setups = vec![Setup::healthy(64); 2];
    setups[1] = Setup { health: Health::Recovering(0), log, ..Setup::healthy(64) };
    let mut rig = Rig::open(&setups, options(Level::Raid1, 0), 1);
    rig.drives[0].state().bad_sectors.insert(20 + GUARD_SECTORS);
    let report = recover(&mut rig, WINDOW);
    (rig, report)
}

#[test]
fn sectors_that_nobody_has_are_noted_as_bad() {
    let (mut rig, report) = recover_without_a_source(Some(9));
    let report = report.expect("noted");
    assert_eq!((report.sectors_unreadable, report.sectors_written), (Sectors(8), Sectors(56)));
    assert_eq!(rig.bad_blocks(1), [(16, 8)], "the page that holds it");
    assert_eq!(rig.states()[1], MemberState::InSync);
    assert!(rig.read(20, 1).is_err());
}

#[test]
fn where_nothing_can_be_noted_the_recovery_stops() {
    let (mut rig, report) = recover_without_a_source(None);
    assert!(matches!(report, Err(ArrayError::Unreadable { .. })), "{report:?}");
    assert_eq!(rig.states()[1], MemberState::Recovering { point: Sector(12) });
}

#[test]
fn requests_run_beside_a_recovery() {
    for seed in 0..200 {
        let setup = Setup { health: Health::Recovering(0), ..Setup::healthy(64) };
        let setups = [Setup::healthy(64), setup, Setup::healthy(64)];
        let level = Level::Raid10 { layout: Raid10Layout::offset(2) };
        let mut rig = Rig::open(&setups, options(level, 8), seed);
        rig.spawn(1, "writer", async |cpu, array| {
            for at in [0, 30, 60, 5, 90] {
                let write = array.write(&cpu, Sector(at), tagged(&[7; 6]), Durability::Cached);
                write.await.expect("no fault");
                assert_eq!(read_tags(&cpu, &array, at, 6).await, Ok(vec![7; 6]));
            }
        });
        recover(&mut rig, WINDOW).expect("no fault");
        for drive in [0, 2] {
            rig.drives[drive].state().gone_after = Some(0);
        }
        assert_eq!(rig.read(0, 8).expect("member 1 has it")[..6], [7; 6], "seed {seed}");
    }
}
