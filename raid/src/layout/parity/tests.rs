//! Tests of the parity layouts: tables as md's documentation draws them, and properties.

use super::*;
use crate::units::MemberIndex;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Every layout, by md's level and number.
fn kinds() -> Vec<ParityKind> {
    let raid5 = (0..6).filter_map(Raid5Layout::from_number).map(ParityKind::Raid5);
    let raid6 = (0..21).filter_map(Raid6Layout::from_number).map(ParityKind::Raid6);
    [ParityKind::Raid4].into_iter().chain(raid5).chain(raid6).collect()
}

/// The blocks of each stripe by member, data as chunks of the array.
#[track_caller]
fn check(kind: ParityKind, members: u32, expected: &[&str]) {
    let layout = ParityLayout::new(kind, members, Sectors(8), Sectors(8 * expected.len() as u64));
    let cell = |stripe: usize, member: u32| {
        let at = layout.member_sector(stripe as u64, Sectors(0));
        match layout.content(Location { member: MemberIndex(member), at }) {
            Some(Content::Data(sector)) => (sector.0 / 8).to_string(),
            Some(Content::P) => "P".to_owned(),
            Some(Content::Q) => "Q".to_owned(),
            None => "-".to_owned(),
        }
    };
    let row =
        |stripe| (0..members).map(|member| cell(stripe, member)).collect::<Vec<_>>().join(" ");
    let table: Vec<String> = (0..expected.len()).map(row).collect();
    assert_eq!(table, expected);
}

#[test]
fn raid4_keeps_parity_last() {
    check(ParityKind::Raid4, 3, &["0 1 P", "2 3 P"]);
}

#[test]
fn raid5_moves_parity_as_its_layout_says() {
    use Raid5Layout::*;
    let check = |layout, expected: &[&str]| check(ParityKind::Raid5(layout), 3, expected);
    check(LeftAsymmetric, &["0 1 P", "2 P 3", "P 4 5", "6 7 P"]);
    check(RightAsymmetric, &["P 0 1", "2 P 3", "4 5 P", "P 6 7"]);
    check(LeftSymmetric, &["0 1 P", "3 P 2", "P 4 5", "6 7 P"]);
    check(RightSymmetric, &["P 0 1", "3 P 2", "4 5 P", "P 6 7"]);
    check(ParityFirst, &["P 0 1", "P 2 3"]);
    check(ParityLast, &["0 1 P", "2 3 P"]);
}

#[test]
fn raid6_moves_p_and_q_as_its_layout_says() {
    use Raid5Layout::*;
    let check = |layout, expected: &[&str]| check(ParityKind::Raid6(layout), 4, expected);
    check(Raid6Layout::Rotating(LeftAsymmetric), &["Q 0 1 P", "2 3 P Q", "4 P Q 5", "P Q 6 7"]);
    check(Raid6Layout::Rotating(RightAsymmetric), &["P Q 0 1", "2 P Q 3", "4 5 P Q", "Q 6 7 P"]);
    check(Raid6Layout::Rotating(LeftSymmetric), &["Q 0 1 P", "2 3 P Q", "5 P Q 4", "P Q 6 7"]);
    check(Raid6Layout::Rotating(RightSymmetric), &["P Q 0 1", "3 P Q 2", "4 5 P Q", "Q 6 7 P"]);
    check(Raid6Layout::Rotating(ParityFirst), &["P Q 0 1", "P Q 2 3"]);
    check(Raid6Layout::Rotating(ParityLast), &["0 1 P Q", "2 3 P Q"]);
    check(Raid6Layout::DdfZeroRestart, &["P Q 0 1", "2 P Q 3", "4 5 P Q", "Q 6 7 P"]);
    check(Raid6Layout::DdfNRestart, &["0 1 P Q", "2 P Q 3", "P Q 4 5", "Q 6 7 P"]);
    check(Raid6Layout::DdfNContinue, &["0 1 Q P", "3 Q P 2", "Q P 4 5", "P 6 7 Q"]);
    check(Raid6Layout::QLast(LeftSymmetric), &["0 1 P Q", "3 P 2 Q", "P 4 5 Q", "6 7 P Q"]);
    check(Raid6Layout::QLast(RightAsymmetric), &["P 0 1 Q", "2 P 3 Q", "4 5 P Q", "P 6 7 Q"]);
}

/// Exponents of the data blocks of a stripe, by member.
#[track_caller]
fn check_exponents(layout: Raid6Layout, stripe: u64, expected: &[(u32, u32)]) {
    let kind = ParityKind::Raid6(layout);
    let map = ParityLayout::new(kind, 5, Sectors(8), Sectors(80)).stripe(stripe);
    let of_data = |data| (map.member(Block::Data(data)).0, map.exponent(data));
    let mut exponents: Vec<_> = (0..map.data_count()).map(of_data).collect();
    exponents.sort_unstable();
    assert_eq!(exponents, expected);
}

#[test]
fn exponents_count_from_behind_q_and_in_ddf_from_the_first_member() {
    let left = Raid5Layout::LeftAsymmetric;
    // D D P Q D: data is numbered from member 0 on, exponents from member 4 on.
    check_exponents(Raid6Layout::Rotating(left), 2, &[(0, 1), (1, 2), (4, 0)]);
    check_exponents(Raid6Layout::DdfNRestart, 1, &[(0, 0), (1, 1), (4, 4)]);
    check_exponents(Raid6Layout::QLast(left), 1, &[(0, 0), (1, 1), (3, 2)]);
}

#[test]
fn the_size_is_that_of_whole_chunks_without_parity() {
    let size = |kind, members, member_size| {
        ParityLayout::new(kind, members, Sectors(16), Sectors(member_size)).capacity().0
    };
    assert_eq!(size(ParityKind::Raid4, 2, 100), 6 * 16);
    assert_eq!(size(ParityKind::Raid5(Raid5Layout::LeftSymmetric), 5, 160), 10 * 16 * 4);
    assert_eq!(size(ParityKind::Raid6(Raid6Layout::DdfZeroRestart), 5, 175), 10 * 16 * 3);
}

#[test]
fn numbers_are_those_of_md() {
    for number in 0..40 {
        let raid5 = Raid5Layout::from_number(number);
        assert_eq!(raid5.map(Raid5Layout::number), (number < 6).then_some(number));
        let raid6 = Raid6Layout::from_number(number);
        let known = number < 6 || (8..11).contains(&number) || (16..21).contains(&number);
        assert_eq!(raid6.map(Raid6Layout::number), known.then_some(number));
    }
}

fn layouts() -> impl Strategy<Value = ParityLayout> {
    let kind = prop::sample::select(kinds());
    (kind, 1u32..6, 0u32..4, 1u64..200).prop_map(|(kind, data, chunk_log2, member_size)| {
        let chunk = Sectors(1 << chunk_log2);
        let members = data + kind.parity_count();
        ParityLayout::new(kind, members, chunk, Sectors(member_size + chunk.0))
    })
}

proptest! {
    #[test]
    fn the_map_is_a_bijection((layout, beyond) in (layouts(), 1u64..20)) {
        let mut taken = BTreeSet::new();
        for sector in (0..layout.capacity().0).map(Sector) {
            let location = layout.location(sector);
            prop_assert!(location.at.0 < layout.used_of_member().0);
            prop_assert!(taken.insert(location), "each place is used once");
            prop_assert_eq!(layout.content(location), Some(Content::Data(sector)));
        }
        let used = layout.used_of_member().0;
        for member in (0..layout.members()).map(MemberIndex) {
            for at in (0..used).map(Sector) {
                let content = layout.content(Location { member, at });
                let is_data = matches!(content, Some(Content::Data(_)));
                prop_assert_eq!(is_data, taken.contains(&Location { member, at }));
            }
            let at = Sector(used + beyond - 1);
            prop_assert_eq!(layout.content(Location { member, at }), None);
        }
    }

    #[test]
    fn the_blocks_of_a_stripe_lie_on_members_of_their_own(
        layout in layouts(), stripe in 0u64..1 << 40
    ) {
        let map = layout.stripe(stripe);
        let members: BTreeSet<_> = map.blocks().map(|block| map.member(block)).collect();
        prop_assert_eq!(members.len() as u32, layout.members());
        for block in map.blocks() {
            prop_assert_eq!(map.block(map.member(block)), block);
        }
        let exponents: BTreeSet<_> = (0..map.data_count()).map(|data| map.exponent(data)).collect();
        prop_assert_eq!(exponents.len() as u32, map.data_count(), "exponents all differ");
        prop_assert!(exponents.iter().all(|exponent| *exponent < layout.members()));
    }
}
