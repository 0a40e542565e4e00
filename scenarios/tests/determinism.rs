//! One seed is one run: the same trace hash in every repetition, on whatever thread, whether a trace
//! is written or not. That builds agree is seen by the snapshots, which hold hashes and must pass in
//! every build.

use scenarios::catalogue::{self, RunReport, Setup, Size};
use sim::machine::MachineFile;

fn run(scenario: &str, variant: &str, setup: Setup<'_>) -> RunReport {
    let scenario = catalogue::find(scenario).expect("a scenario");
    scenario.run(catalogue::find_variant(scenario, variant).expect("a variant"), &setup)
}

/// Twenty runs in small, with and without a trace, on threads of their own, are one run.
fn check(scenario: &str, variant: &str) {
    let machine = MachineFile::preset("kunpeng920").expect("a preset").nominal();
    let run_with = |seed, trace| {
        let setup = Setup { size: Size::Small, trace, ..Setup::new(&machine, seed) };
        let report = run(scenario, variant, setup);
        (report.trace_hash, report.events, report.virtual_ns)
    };
    let first = run_with(7, false);
    let repeated: Vec<_> = std::thread::scope(|scope| {
        let run_with = &run_with;
        let start = |index| scope.spawn(move || run_with(7, index % 2 == 1));
        let runs: Vec<_> = (0..20).map(start).collect();
        runs.into_iter().map(|run| run.join().expect("no run panics")).collect()
    });
    assert!(repeated.iter().all(|run| *run == first), "{scenario} {variant}: {repeated:?}");
    assert_ne!(run_with(8, false).0, first.0, "{scenario} {variant}: another seed, the same run");
}

#[test]
fn every_variant_of_the_resync_lock_repeats() {
    let scenario = catalogue::find("raid10-resync-lock").expect("a scenario");
    for variant in scenario.variants() {
        check("raid10-resync-lock", &variant.name);
    }
}

#[test]
fn the_lost_wake_up_repeats() {
    check("raid10-lost-wakeup", "fixed");
    check("raid10-lost-wakeup", "faulty");
}

#[test]
fn stripe_heads_repeat() {
    check("raid5-stripe-lock", "per-page");
    check("raid5-stripe-lock", "nvme-both");
}

#[test]
fn the_lock_table_repeats() {
    check("lock-table", "2+2+2+2");
}
