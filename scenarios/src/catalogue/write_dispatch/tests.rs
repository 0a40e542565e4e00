//! What the thread says of the forms, as far as the model shows it; what it misses stands in
//! `docs/COSTS.md`. Nothing in the model may be tuned to make these pass.

use super::*;
use crate::sweep::Changes;
use sim::machine::MachineFile;

fn report(scenario: &dyn Scenario, machine: &str, variant: &str, drives: u32) -> RunReport {
    let machine = MachineFile::preset(machine).expect("a preset").nominal();
    let index = CHOICES.iter().position(|choice| choice.name == variant).expect("a variant");
    let changes = Changes { drives: Some(drives), ..Changes::default() };
    let report = scenario.run(index, &Setup { changes, ..Setup::new(&machine, 2022) });
    assert_eq!(report.violation, None, "{variant} on {drives} drives");
    report
}

fn gain(scenario: &dyn Scenario, machine: &str, drives: u32) -> f64 {
    let bandwidth =
        |variant| report(scenario, machine, variant, drives).measured.expect("a bandwidth");
    bandwidth("per-cpu") / bandwidth("raid-thread")
}

fn note(report: &RunReport, name: &str) -> f64 {
    let note = report.notes.iter().find(|note| note.name.contains(name));
    note.unwrap_or_else(|| panic!("{name} is counted: {:?}", report.notes)).value
}

#[test]
fn the_more_drives_the_more_lists_for_each_core_gain() {
    let gains = [2, 4, 8, 16].map(|drives| gain(&Raid10WriteDispatch, MACHINE, drives));
    let never_falls = gains.windows(2).all(|pair| pair[1] >= pair[0] * 0.99);
    assert!(never_falls && gains[3] > gains[0] * 1.5, "{gains:?}");
}

#[test]
fn hard_disks_are_not_harmed() {
    for (scenario, drives) in [(&Raid1WriteDispatch as &dyn Scenario, 2), (&Raid10WriteDispatch, 4)]
    {
        let gain = gain(scenario, "sandy-bridge-2s-disks", drives);
        assert!((gain - 1.0).abs() <= 0.02, "{}: x{gain:.3}", scenario.name());
    }
}

#[test]
fn writes_that_the_thread_hands_over_end_on_its_core_and_others_on_their_own() {
    for (variant, share) in [("raid-thread-bound", 1.0), ("per-cpu", 0.0), ("plug", 0.0)] {
        let report = report(&Raid10WriteDispatch, MACHINE, variant, 4);
        assert_eq!(note(&report, "ends on another core"), share, "{variant}");
    }
}

#[test]
fn the_scheduler_hardly_ever_unplugs() {
    let report = report(&Raid1WriteDispatch, MACHINE, "plug", 2);
    assert!(note(&report, "unplugs from the scheduler") < 0.01);
}

#[test]
fn lists_for_1024_cores_have_their_price() {
    let of = |machine| report(&Raid10WriteDispatch, machine, "per-cpu", 4);
    let (small, large) = (of(MACHINE), of("altix-1024"));
    let bytes = [&small, &large].map(|report| note(report, "bytes of lists"));
    assert_eq!(bytes, [16.0 * 88.0, 1024.0 * 88.0]);
    let [walk_small, walk_large] = [&small, &large].map(|report| note(report, "walk the lists"));
    assert!(walk_large > walk_small * 10.0, "{walk_small} and {walk_large} ns");
}
