//! Ten thousand cases of `array-promises`: every level and layout, with failing drives, background
//! jobs and power cuts. And the cases that once broke a promise.

use raid::tuning::HeadLookup;
use rayon::prelude::*;
use scenarios::catalogue::{self, Setup};
use scenarios::sweep::Changes;
use sim::machine::MachineFile;

/// Cases of each variant; there are 28 variants.
const CASES_EACH: u64 = 360;

/// Cases of each lookup of stripe heads on each level with parity.
const CASES_WITH_HEADS_EACH: u64 = 60;

/// Why a case violates a promise, if it does.
fn violation_of(variant: usize, seed: u64) -> Option<String> {
    violation_with(variant, seed, Changes::default())
}

fn violation_with(variant: usize, seed: u64, changes: Changes) -> Option<String> {
    let machine = MachineFile::preset("desktop-4c").expect("a preset").nominal();
    let scenario = catalogue::find("array-promises").expect("it is in the catalogue");
    let setup = Setup { changes, ..Setup::new(&machine, seed) };
    scenario.run(variant, &setup).violation
}

fn check(variant: &str, seed: u64) {
    let scenario = catalogue::find("array-promises").expect("it is in the catalogue");
    let index = catalogue::find_variant(scenario, variant).expect("a variant");
    assert_eq!(violation_of(index, seed), None, "{variant}, seed {seed}");
}

#[test]
fn every_level_and_layout_keeps_its_promises() {
    let scenario = catalogue::find("array-promises").expect("it is in the catalogue");
    let variants = scenario.variants();
    assert!(variants.len() as u64 * CASES_EACH >= 10_000);
    let cases: Vec<(usize, u64)> = (0..variants.len())
        .flat_map(|variant| (0..CASES_EACH).map(move |seed| (variant, seed)))
        .collect();
    let broken = cases.into_par_iter().find_map_first(|(variant, seed)| {
        violation_of(variant, seed).map(|why| (variants[variant].name.clone(), seed, why))
    });
    assert_eq!(broken, None);
}

#[test]
fn stripe_heads_looked_up_in_any_way_keep_the_promises() {
    let scenario = catalogue::find("array-promises").expect("it is in the catalogue");
    let variants: Vec<usize> = ["raid4", "raid5-ls", "raid5-pf", "raid6-ls", "raid6-ddf-nc"]
        .map(|name| catalogue::find_variant(scenario, name).expect("a variant"))
        .into();
    use HeadLookup::{BatchReference, Both, PerPage, Pivot};
    let cases: Vec<(HeadLookup, usize, u64)> = [PerPage, BatchReference, Pivot, Both]
        .into_iter()
        .flat_map(|lookup| variants.iter().map(move |variant| (lookup, *variant)))
        .flat_map(|(lookup, variant)| {
            (0..CASES_WITH_HEADS_EACH).map(move |seed| (lookup, variant, seed))
        })
        .collect();
    let broken = cases.into_par_iter().find_map_first(|(lookup, variant, seed)| {
        let changes = Changes { stripe_lookup: Some(lookup), ..Changes::default() };
        let why = violation_with(variant, seed, changes)?;
        Some((lookup, scenario.variants()[variant].name.clone(), seed, why))
    });
    assert_eq!(broken, None);
}

#[test]
fn a_bitmap_on_bad_sectors_is_read_from_another_member() {
    check("raid1", 40);
}

#[test]
fn a_member_without_its_bad_block_log_is_left_out() {
    check("raid4", 1094);
}

#[test]
fn zones_are_those_of_the_sizes_that_are_written_down() {
    check("raid0-original", 1320);
}

#[test]
fn sectors_of_copies_that_differ_come_from_the_first_that_has_them() {
    check("raid1", 318);
}
