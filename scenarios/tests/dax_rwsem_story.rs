//! The story of the semaphores of a file on an NVDIMM: what the comparison must show. Nothing in the
//! model may be tuned to make these pass.

use scenarios::catalogue::dax_rwsem::DaxRwSem;
use scenarios::report::comparison::Comparison;
use scenarios::verbs::compare_scenario;
use sim::machine::MachineFile;
use std::sync::LazyLock;

static HASWELL: LazyLock<Comparison> = LazyLock::new(|| {
    let machine = MachineFile::preset("haswell-ex-4s").expect("a preset");
    compare_scenario(&DaxRwSem, &machine, 3, 2022)
});

/// How many times as fast as with readers that sleep at once.
fn gain(variant: &str) -> f64 {
    let found = HASWELL.gains.iter().find(|gain| gain.variant == variant);
    found.expect("a variant of that name").ratio.median
}

#[test]
fn readers_that_spin_gain_where_time_stamps_are_written() {
    for story in ["randrw", "randwrite"] {
        for how in ["on", "adaptive"] {
            let gain = gain(&format!("{story}-{how}"));
            assert!(gain > 1.3, "{story}-{how}: {gain:.2}");
        }
    }
}

/// The question that the thread leaves open. What its writes take alone is the `ilock`, and the
/// `iolock` only since writes exclude each other.
#[test]
fn the_whole_gain_comes_from_the_lock_that_writes_take_alone() {
    for (story, other_locks, lock) in [
        ("randrw", ["iolock", "mmaplock"].as_slice(), "ilock"),
        ("randwrite", ["iolock", "mmaplock"].as_slice(), "ilock"),
        ("exclusive-randrw", ["ilock"].as_slice(), "iolock"),
    ] {
        let whole = gain(&format!("{story}-on"));
        assert_eq!(gain(&format!("{story}-{lock}-only")), whole, "{story}");
        for other in other_locks {
            assert_eq!(gain(&format!("{story}-{other}-only")), 1.0, "{story}, {other}");
        }
    }
}

#[test]
fn beside_long_writers_plain_spinning_loses_and_the_adaptive_form_stops() {
    let (on, adaptive) = (gain("long-writers-on"), gain("long-writers-adaptive"));
    assert!(on < 0.88, "on: {on:.2}");
    assert!(adaptive > 0.92, "adaptive: {adaptive:.2}");
}
