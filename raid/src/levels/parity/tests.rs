//! Tests of the planner of parity levels: what is read in which case, and that no plan
//! needs what is lost or leaves parity behind.

use super::ParityLevel;
use super::blocks::{BlockSet, Rows};
use super::plan::{Access, ParityStep, Recovery, StripePlan, plan_read, plan_write};
use crate::layout::parity::{Block, ParityKind, ParityLayout, Raid5Layout, Raid6Layout, StripeMap};
use crate::levels::DeviceFacts;
use crate::units::Sectors;
use proptest::prelude::*;

fn map(parity: u32, data: u32) -> StripeMap {
    let kind = match parity {
        1 => ParityKind::Raid5(Raid5Layout::LeftSymmetric),
        _ => ParityKind::Raid6(Raid6Layout::Rotating(Raid5Layout::LeftSymmetric)),
    };
    ParityLayout::new(kind, parity + data, Sectors(8), Sectors(80)).stripe(3)
}

fn set(names: &str) -> BlockSet {
    let block = |name: &str| match name {
        "P" => Block::P,
        "Q" => Block::Q,
        data => Block::Data(data[1..].parse().expect("a data block such as D1")),
    };
    names.split_whitespace().map(block).collect()
}

/// Members of `lost` are gone; the others work.
fn without(map: StripeMap, lost: &str, cached: &str) -> Access {
    let left = map.blocks().collect::<BlockSet>().difference(set(lost));
    Access { readable: left, cached: set(cached), writable: left }
}

/// A write of `new`; the steps in short: reads / recovered / how parity is made / writes.
#[track_caller]
fn check(parity: u32, data: u32, new: &str, lost: &str, cached: &str, expected: &str) {
    let map = map(parity, data);
    let made = plan_write(map, Rows::new(0, 8), set(new), without(map, lost, cached));
    assert_eq!(made.map_or_else(|lost| lost.to_string(), |plan| short(&plan)), expected);
}

fn short(plan: &StripePlan) -> String {
    let recovered = plan.recovery.map_or(String::new(), |recovery| recovery.lost().to_string());
    let parity = match plan.parity {
        ParityStep::Nothing => String::new(),
        ParityStep::Compute(parity) => format!("compute {parity}"),
        ParityStep::Update(parity) => format!("update {parity}"),
    };
    format!("{} / {recovered} / {parity} / {}", plan.reads, plan.writes)
}

#[test]
fn a_full_stripe_write_reads_nothing() {
    check(1, 3, "D0 D1 D2", "", "", " /  / compute P / D0 D1 D2 P");
    check(2, 3, "D0 D1 D2", "", "", " /  / compute P Q / D0 D1 D2 P Q");
    check(2, 3, "D0 D1 D2", "D1 P", "", " /  / compute Q / D0 D2 Q");
}

#[test]
fn a_partial_write_takes_the_cheaper_way() {
    check(1, 4, "D1", "", "", "D1 P /  / update P / D1 P");
    check(1, 4, "D0 D1 D2", "", "", "D3 /  / compute P / D0 D1 D2 P");
    check(1, 3, "D1", "", "", "D0 D2 /  / compute P / D1 P");
    check(2, 6, "D1", "", "", "D1 P Q /  / update P Q / D1 P Q");
    check(1, 4, "D1 D2", "", "", "D0 D3 /  / compute P / D1 D2 P");
}

#[test]
fn what_is_cached_costs_nothing() {
    check(1, 4, "D1", "", "D0 D2 D3", " /  / compute P / D1 P");
    check(1, 4, "D0 D1 D2", "", "P D0 D1 D2", " /  / update P / D0 D1 D2 P");
}

#[test]
fn with_the_target_lost_parity_is_computed_anew() {
    check(1, 4, "D1", "D1", "", "D0 D2 D3 /  / compute P / P");
    check(2, 4, "D1", "D1", "", "D0 D2 D3 /  / compute P Q / P Q");
}

#[test]
fn with_a_neighbour_lost_parity_is_updated() {
    check(1, 3, "D1", "D0", "", "D1 P /  / update P / D1 P");
    check(2, 3, "D1", "D0", "", "D1 P Q /  / update P Q / D1 P Q");
}

#[test]
fn with_parity_lost_only_the_other_is_kept() {
    check(1, 4, "D1", "P", "", " /  /  / D1");
    check(2, 6, "D1", "P", "", "D1 Q /  / update Q / D1 Q");
    check(2, 6, "D1", "Q", "", "D1 P /  / update P / D1 P");
    check(2, 6, "D1", "P Q", "", " /  /  / D1");
}

#[test]
fn with_the_target_and_another_lost_data_is_put_together_first() {
    check(2, 4, "D1", "D1 D3", "", "D0 D2 P Q / D1 D3 / compute P Q / P Q");
    check(2, 4, "D1", "D1 P", "", "D0 D2 D3 /  / compute Q / Q");
    check(2, 4, "D1 D2", "D1 D0", "", "D2 D3 P Q / D0 D1 / compute P Q / D2 P Q");
}

#[test]
fn beyond_redundancy_the_plan_says_what_is_lost() {
    check(1, 4, "D1", "D1 D2", "", "D1 D2 are lost, more than parity can replace");
    check(1, 4, "D1", "D1 P", "", "D1 P are lost, more than parity can replace");
    check(2, 4, "D1", "D1 P Q", "", "D1 P Q are lost, more than parity can replace");
}

#[test]
fn bad_parity_is_computed_if_that_is_free_and_needed_if_data_has_no_other_place() {
    let map = map(1, 3);
    let mut access = without(map, "", "");
    access.readable = access.readable.difference(set("P"));
    let plan = |new, access| plan_write(map, Rows::new(0, 8), set(new), access);
    assert_eq!(short(&plan("D1", access).unwrap()), " /  /  / D1");
    let full = plan("D0 D1 D2", access).unwrap();
    assert_eq!(short(&full), " /  / compute P / D0 D1 D2 P");
    access.readable = access.readable.difference(set("D1"));
    access.writable = access.writable.difference(set("D1"));
    assert_eq!(short(&plan("D1", access).unwrap()), "D0 D2 /  / compute P / P");
}

/// Capacity in sectors or the message; `None` is a missing member.
#[track_caller]
fn check_made(kind: ParityKind, sizes: &[Option<u64>], expected: Result<u64, &str>) {
    let fact = |size: &Option<u64>| {
        size.map(|size| DeviceFacts {
            name: "disk".to_owned(),
            size: Sectors(size),
            logical_block_bytes: 512,
        })
    };
    let facts: Vec<_> = sizes.iter().map(fact).collect();
    let made = ParityLevel::new(&facts, kind, Sectors(16));
    let made = made.map(|level| level.layout().capacity().0).map_err(|error| error.to_string());
    assert_eq!(made, expected.map_err(str::to_owned));
}

#[test]
fn an_array_has_the_size_of_its_smallest_member_times_its_data_members() {
    let raid5 = ParityKind::Raid5(Raid5Layout::LeftSymmetric);
    let raid6 = ParityKind::Raid6(Raid6Layout::DdfNRestart);
    check_made(ParityKind::Raid4, &[Some(100), Some(99)], Ok(6 * 16));
    check_made(raid5, &[Some(100), None, Some(1000)], Ok(6 * 16 * 2));
    check_made(raid6, &[Some(100), None, None, Some(160)], Ok(6 * 16 * 2));
}

#[test]
fn what_cannot_be_is_refused_with_one_message() {
    let raid5 = ParityKind::Raid5(Raid5Layout::LeftSymmetric);
    let raid6 = ParityKind::Raid6(Raid6Layout::DdfNRestart);
    let few = "RAID 6 needs at least 4 members, but there are only 3";
    check_made(raid6, &[Some(100); 3], Err(few));
    let many = "RAID 6 has at most 255 members, but there are 256";
    check_made(raid6, &[Some(100); 256], Err(many));
    let missing = "RAID 5 cannot do without members 0, 1, which are missing";
    check_made(raid5, &[None, None, Some(100)], Err(missing));
    let small = "disk is too small: it has 7680 bytes, and one chunk has 8192";
    check_made(raid5, &[Some(100), Some(15)], Err(small));
}

proptest! {
    #[test]
    fn a_plan_needs_only_what_can_be_known_and_leaves_no_parity_behind(
        parity in 1u32..3, data in 1u32..6, bits in prop::array::uniform4(any::<u8>()), write: bool
    ) {
        let map = map(parity, data.max(parity));
        let of = |bits: u8| -> BlockSet {
            let blocks = map.blocks().zip(0..);
            blocks.filter(|(_, bit)| bits >> bit & 1 == 1).map(|(block, _)| block).collect()
        };
        let all: BlockSet = map.blocks().collect();
        let data = BlockSet::data(map.data_count());
        let writable = all.difference(of(bits[0] & bits[1]));
        let readable = writable.difference(of(bits[1] & bits[2]));
        let access = Access { readable, cached: of(bits[2] & bits[3]), writable };
        let asked = of(bits[3]);
        let known = access.readable.union(access.cached);
        if write {
            let new = asked.intersection(data);
            prop_assume!(!new.is_empty());
            let Ok(plan) = plan_write(map, Rows::new(0, 8), new, access) else {
                // Only if more blocks are lost than there is parity.
                prop_assert!(all.difference(known.intersection(writable)).count() > parity);
                return Ok(());
            };
            prop_assert!(plan.reads.is_subset_of(access.readable));
            prop_assert!(plan.writes.is_subset_of(access.writable));
            let stale = access.readable.intersection(access.writable).difference(data)
                .difference(plan.writes);
            prop_assert!(stale.is_empty(), "{} would be stale", stale);
            let used = plan.reads.union(plan.cached).union(new);
            let recovered = plan.recovery.map_or(BlockSet::EMPTY, Recovery::lost);
            if matches!(plan.parity, ParityStep::Compute(_)) {
                prop_assert!(data.is_subset_of(used.union(recovered)));
            }
        } else {
            prop_assume!(!asked.is_empty());
            let Ok(plan) = plan_read(map, Rows::new(0, 8), asked, access) else {
                prop_assert!(all.difference(known).count() > parity);
                return Ok(());
            };
            let recovered = plan.recovery.map_or(BlockSet::EMPTY, Recovery::lost);
            let found = plan.reads.union(plan.cached).union(recovered).union(plan.parity.blocks());
            prop_assert!(asked.is_subset_of(found));
            prop_assert!(plan.reads.is_subset_of(access.readable));
        }
    }
}
