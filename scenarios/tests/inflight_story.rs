//! The read side of the count of requests under way: what the comparison says of the thread's claim
//! that per-CPU counters were a net loss on a quad core. Nothing in the model may be tuned to it.

use scenarios::catalogue::inflight_counter::InflightCounter;
use scenarios::catalogue::{Scenario, Setup, find_variant};
use scenarios::sweep::Changes;
use scenarios::verbs::compare_scenario;
use sim::machine::MachineFile;

fn nehalem() -> MachineFile {
    MachineFile::preset("nehalem-4").expect("a preset")
}

/// Requests a second, in millions, on the machine's nominal values.
fn rate(variant: &str, possible: u32) -> f64 {
    let machine = nehalem().nominal();
    let changes = Changes { possible: Some(possible), ..Changes::default() };
    let setup = Setup { changes, ..Setup::new(&machine, 2022) };
    let variant = find_variant(&InflightCounter, variant).expect("a variant");
    InflightCounter.run(variant, &setup).measured.expect("a rate")
}

/// `docs/COSTS.md` says that the claim is missed for four possible cores, and why that may be.
#[test]
fn of_the_claims_about_readers_the_tags_hold_and_the_net_loss_does_not() {
    let report = compare_scenario(&InflightCounter, &nehalem(), 3, 2022);
    let met = |id: &str| {
        let outcome = report.outcomes.iter().find(|outcome| outcome.id == id);
        outcome.expect("a figure about this machine").met
    };
    assert!(met("inflight-counter/tags-instead"));
    assert!(!met("inflight-counter/read-side"));
}

#[test]
fn a_pair_for_each_core_loses_once_thousands_are_possible_and_somebody_asks() {
    for (possible, loses) in [(4, false), (256, false), (4096, true)] {
        let (per_cpu, atomic) = (rate("per-cpu-tick", possible), rate("atomic-tick", possible));
        assert_eq!(per_cpu < atomic, loses, "{possible}: {per_cpu} and {atomic}");
    }
    assert!(rate("per-cpu", 4096) > rate("atomic", 4096), "nobody asks");
}
