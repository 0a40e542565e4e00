//! Snapshots of plans: what the levels with parity do for a read, a partial write in both ways and
//! a full-stripe write, on healthy members and degraded. They document the levels.

use raid::layout::parity::{Block, ParityKind, ParityLayout, Raid5Layout, Raid6Layout, StripeMap};
use raid::levels::parity::blocks::{BlockSet, Rows};
use raid::levels::parity::segments::{Part, StripeFacts, plan_reads, plan_writes};
use raid::units::Sectors;
use std::fmt::Write as _;

/// One chunk, in sectors.
const CHUNK: u64 = 8;
/// Data blocks in each stripe.
const DATA: u32 = 4;
/// The stripe that plans are made for.
const STRIPE: u64 = 1;

/// Holds the plans of a level against the snapshot `name`.
fn check(name: &str, kind: ParityKind, title: &str) {
    let members = DATA + kind.parity_count();
    let layout = ParityLayout::new(kind, members, Sectors(CHUNK), Sectors(8 * CHUNK));
    let map = layout.stripe(STRIPE);
    let mut text = format!("{title}, {members} members in chunks of {CHUNK} sectors\n");
    write!(text, "stripe {STRIPE}:").expect("memory");
    for member in (0..members).map(raid::units::MemberIndex) {
        write!(text, " {}", map.block(member)).expect("memory");
    }
    text.push('\n');
    for degraded in degradations(map) {
        writeln!(text, "\n{}\n", degraded.title).expect("memory");
        text.push_str(&plans_of(map, &degraded.facts));
    }
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(".");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.set_description(
        "D0 to D3 are the data blocks of a stripe in the order of the array's sectors; \
         4+2 are two sectors of each chunk from its sector 4 on",
    );
    settings.bind(|| insta::assert_snapshot!(format!("plans-{name}"), text));
}

struct Degradation {
    title: String,
    facts: StripeFacts,
}

fn degradations(map: StripeMap) -> Vec<Degradation> {
    let whole = Rows::new(0, CHUNK);
    let without = |lost: &[Block]| {
        let lost: Vec<Block> = lost.to_vec();
        let names: Vec<String> = lost.iter().map(Block::to_string).collect();
        let unreadable: Vec<Part> = lost.iter().map(|block| (*block, whole)).collect();
        let unwritable: BlockSet = lost.into_iter().collect();
        let title = format!("== without the members of {} ==", names.join(" and "));
        Degradation {
            title,
            facts: StripeFacts { unreadable, unwritable, ..StripeFacts::default() },
        }
    };
    let [target, neighbour] = [1, 3].map(Block::Data);
    let healthy = Degradation { title: "== healthy ==".to_owned(), facts: StripeFacts::default() };
    let cached = Degradation {
        title: "== healthy, D0 and D2 cached ==".to_owned(),
        facts: StripeFacts {
            cached: [0, 2].map(|data| (Block::Data(data), whole)).to_vec(),
            ..StripeFacts::default()
        },
    };
    let bad = Degradation {
        title: "== D1 with bad sectors 2+3 ==".to_owned(),
        facts: StripeFacts {
            unreadable: vec![(target, Rows::new(2, 5))],
            ..StripeFacts::default()
        },
    };
    let mut all = vec![healthy, cached, bad];
    all.push(without(&[target]));
    all.push(without(&[neighbour]));
    all.push(without(&[Block::P]));
    if map.has_q() {
        all.push(without(&[Block::Q]));
        all.push(without(&[target, Block::P]));
        all.push(without(&[neighbour, Block::Q]));
        all.push(without(&[Block::P, Block::Q]));
    }
    all.push(without(&[target, neighbour]));
    all
}

fn plans_of(map: StripeMap, facts: &StripeFacts) -> String {
    let whole = Rows::new(0, CHUNK);
    let of = |blocks: std::ops::Range<u32>, rows: Rows| -> Vec<Part> {
        blocks.map(|data| (Block::Data(data), rows)).collect()
    };
    let target = of(1..2, whole);
    let across: Vec<Part> =
        vec![(Block::Data(1), Rows::new(6, 8)), (Block::Data(2), Rows::new(0, 4))];
    let mut text = String::new();
    let mut add = |title: &str, plans: Result<Vec<_>, _>| {
        writeln!(text, "{title}").expect("memory");
        match plans {
            Ok(plans) => {
                for plan in plans {
                    let plan: raid::levels::parity::plan::StripePlan = plan;
                    writeln!(text, "{}", indented(&plan.to_string())).expect("memory");
                }
            }
            Err(lost) => {
                let lost: raid::levels::parity::segments::LostRows = lost;
                writeln!(text, "  refused: {lost}").expect("memory");
            }
        }
    };
    add("read of one chunk", plan_reads(map, &target, facts));
    add("write of one chunk", plan_writes(map, &target, facts));
    add("write of three chunks", plan_writes(map, &of(0..3, whole), facts));
    add("write across the boundary of two chunks", plan_writes(map, &across, facts));
    add("write of the full stripe", plan_writes(map, &of(0..DATA, whole), facts));
    text
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

#[test]
fn raid4() {
    check("raid4", ParityKind::Raid4, "RAID 4");
}

#[test]
fn raid5() {
    let kind = ParityKind::Raid5(Raid5Layout::LeftSymmetric);
    check("raid5", kind, "RAID 5, left-symmetric");
}

#[test]
fn raid6() {
    let kind = ParityKind::Raid6(Raid6Layout::Rotating(Raid5Layout::LeftSymmetric));
    check("raid6", kind, "RAID 6, left-symmetric");
}

#[test]
fn raid6_as_ddf_counts() {
    let kind = ParityKind::Raid6(Raid6Layout::DdfNContinue);
    check("raid6-ddf-n-continue", kind, "RAID 6, ddf-N-continue");
}
