//! Snapshots of traces of small runs, one for each variant, and of comparison tables. A change of
//! any of them is a change of behaviour, to be reviewed like code.

use clap::Parser;
use scenarios::catalogue::Scenario;
use scenarios::catalogue::dax_rwsem::DaxRwSem;
use scenarios::cli::Cli;
use scenarios::verbs;
use std::sync::{Mutex, PoisonError};

/// One run at a time. `tracing` settles whether anybody listens when a place in the code is first
/// passed; a run on another thread that passes it at that very moment, and to which nobody listens,
/// can make it stay silent.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Runs a command line and holds its output against the snapshot `name`.
fn check(name: &str, line: &str) {
    let words = ["raidbed"].into_iter().chain(line.split_whitespace());
    let cli = Cli::try_parse_from(words).unwrap_or_else(|error| panic!("{line}: {error}"));
    let guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let finished = verbs::dispatch(&cli).unwrap_or_else(|error| panic!("{line}: {error:#}"));
    drop(guard);
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(".");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.set_description(format!("raidbed {line}"));
    // The one number that depends on the host.
    settings
        .add_filter(r"[0-9.]+ [kMG]? ?events a second and core", "[rate] events a second and core");
    settings.bind(|| insta::assert_snapshot!(name, finished.output));
}

fn check_trace(scenario: &str, variant: &str) {
    let name = format!("trace-{scenario}-{variant}");
    check(&name, &format!("trace {scenario} --variant {variant} --seed 2022"));
}

#[test]
fn resync_lock_as_it_was() {
    check_trace("raid10-resync-lock", "before");
}

#[test]
fn resync_lock_that_wakes_only_who_waits() {
    check_trace("raid10-resync-lock", "wake-if-waiting");
}

#[test]
fn resync_lock_as_a_seqlock() {
    check_trace("raid10-resync-lock", "seqlock");
}

#[test]
fn resync_lock_as_it_became() {
    check_trace("raid10-resync-lock", "after");
}

#[test]
fn resync_lock_with_its_words_apart() {
    check_trace("raid10-resync-lock", "before-apart");
    check_trace("raid10-resync-lock", "after-apart");
}

#[test]
fn resync_lock_that_prefers_its_own_node() {
    check_trace("raid10-resync-lock", "before-numa-queued");
}

#[test]
fn resync_lock_bound_to_one_node() {
    check_trace("raid10-resync-lock", "before-bound");
    check_trace("raid10-resync-lock", "after-bound");
}

#[test]
fn lost_wake_up_fixed_and_faulty() {
    check_trace("raid10-lost-wakeup", "fixed");
    check_trace("raid10-lost-wakeup", "faulty");
}

#[test]
fn lock_table_of_one_cluster() {
    check_trace("lock-table", "4-in-one-cluster");
}

#[test]
fn requests_under_way_counted_in_every_way() {
    for variant in ["atomic", "per-cpu", "per-node", "tags", "none"] {
        check_trace("inflight-counter", variant);
    }
    for variant in ["atomic", "per-cpu", "per-node", "tags"] {
        check_trace("inflight-counter", &format!("{variant}-tick"));
        check_trace("inflight-counter", &format!("{variant}-polled"));
        check_trace("inflight-readers", &format!("{variant}-idle"));
    }
}

#[test]
fn files_on_an_nvdimm_in_every_story() {
    for variant in DaxRwSem.variants() {
        check_trace("dax-rwsem", &variant.name);
    }
}

#[test]
fn writes_of_raid1_dispatched_in_every_form() {
    for variant in ["raid-thread", "raid-thread-bound", "per-cpu", "plug", "direct", "own-task"] {
        check_trace("raid1-write-dispatch", variant);
    }
}

#[test]
fn writes_of_raid10_dispatched_from_one_node_and_with_fresh_bits() {
    for form in ["raid-thread", "per-cpu", "plug"] {
        check_trace("raid10-write-dispatch", &format!("{form}-one-node"));
        check_trace("raid10-write-dispatch", &format!("{form}-fresh-bits"));
    }
}

#[test]
fn dispatch_that_breaks_its_promises_as_the_hunt_reports_it() {
    for variant in ["direct", "per-cpu-loses-offline"] {
        let name = format!("hunt-write-dispatch-promises-{variant}");
        check(&name, &format!("hunt write-dispatch-promises --variant {variant}"));
    }
}

#[test]
fn stripe_heads_looked_up_in_every_way() {
    for variant in ["per-page", "batch-reference", "pivot", "both", "nvme-per-page", "nvme-both"] {
        check_trace("raid5-stripe-lock", variant);
    }
}

#[test]
fn comparison_of_the_lock_table() {
    check("compare-lock-table", "compare lock-table --samples 2");
}

#[test]
fn comparison_of_the_resync_lock() {
    check("compare-raid10-resync-lock", "compare raid10-resync-lock --samples 1");
}

#[test]
fn the_hang_as_the_hunt_reports_it() {
    check("hunt-raid10-lost-wakeup-faulty", "hunt raid10-lost-wakeup --variant faulty");
}
