//! Snapshots of plans: what each level of copies does for a read, a partial write and a write of a
//! whole rows, on healthy members and without one of them. They document the levels.

use raid::CreateError;
use raid::layout::Location;
use raid::levels::{CopyLevel, DeviceFacts, FarPlacement, Raid0Layout, Raid10Layout};
use raid::request::Extent;
use raid::units::{MemberIndex, Sector, Sectors};
use std::fmt::Write as _;

/// One chunk, in sectors.
const CHUNK: u64 = 8;

/// An array to make plans for.
struct Example {
    title: &'static str,
    /// What the members offer, in sectors.
    members: &'static [u64],
    level: CopyLevel,
}

type Made = Result<CopyLevel, CreateError>;

impl Example {
    fn new(
        title: &'static str,
        members: &'static [u64],
        make: impl Fn(&[Option<DeviceFacts>]) -> Made,
    ) -> Self {
        let fact = |(index, size): (usize, &u64)| {
            let (name, size) = (format!("disk{index}"), Sectors(*size));
            Some(DeviceFacts { name, size, logical_block_bytes: 512 })
        };
        let facts: Vec<_> = members.iter().enumerate().map(fact).collect();
        Self { title, members, level: make(&facts).expect("an array that can be") }
    }
}

/// Holds the plans of some arrays against the snapshot `name`.
fn check(name: &str, examples: &[Example]) {
    let plans: Vec<String> = examples.iter().map(plans_of).collect();
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(".");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings
        .set_description("m1@8 is sector 8 of member 1; 5+3 are three sectors from sector 5 on");
    settings.bind(|| insta::assert_snapshot!(format!("plans-{name}"), plans.join("\n")));
}

fn plans_of(example: &Example) -> String {
    let level = &example.level;
    let layout = level.layout();
    let mut text = format!("{}\n", example.title);
    let sizes: Vec<String> = example.members.iter().map(u64::to_string).collect();
    let capacity = layout.capacity();
    writeln!(text, "  members of {} sectors: {capacity} sectors", sizes.join(", "))
        .expect("memory");
    let rows = 2 * CHUNK * example.members.len() as u64;
    let requests = [("read", 2, CHUNK), ("partial write", 5, 6), ("write of whole rows", 0, rows)];
    for lost in [None, Some(1)] {
        for (what, at, length) in requests {
            let (at, length) = (Sector(at), Sectors(length.min(capacity.0 - at)));
            let degraded = lost.map_or(String::new(), |member| format!(" without member {member}"));
            writeln!(text, "  {what}, {at}+{length}{degraded}").expect("memory");
            for piece in layout.split(Extent { at, length }) {
                let usable = |location: Location| Some(location.member.0) != lost;
                let plan = match what {
                    "read" => level.plan_read(piece).only(usable).to_string(),
                    _ => level.plan_write(piece).only(usable).to_string(),
                };
                writeln!(text, "    {}+{}: {plan}", piece.at, piece.length).expect("memory");
            }
        }
    }
    let members = (0..layout.members()).map(MemberIndex);
    let spared = members.filter(|lost| level.survives_on(|member| member != *lost));
    let spared: Vec<String> = spared.map(|member| member.to_string()).collect();
    let spared = if spared.is_empty() { "none".to_owned() } else { spared.join(", ") };
    writeln!(text, "  any one of these members can be spared: {spared}").expect("memory");
    text
}

fn linear_rounded(title: &'static str, rounding: u64) -> Example {
    Example::new(title, &[6, 12, 24], |facts| CopyLevel::linear(facts, Sectors(rounding)))
}

fn raid0(title: &'static str, layout: Raid0Layout, members: &'static [u64]) -> Example {
    Example::new(title, members, |facts| CopyLevel::raid0(facts, layout, Sectors(CHUNK)))
}

fn raid10(title: &'static str, layout: Raid10Layout, members: &'static [u64]) -> Example {
    Example::new(title, members, |facts| CopyLevel::raid10(facts, layout, Sectors(CHUNK)))
}

#[test]
fn linear_with_and_without_rounding() {
    let rounded = linear_rounded("linear, rounded to 4 sectors", 4);
    check("linear", &[linear_rounded("linear", 0), rounded]);
}

#[test]
fn raid0_of_one_zone_and_of_two() {
    let zones = &[16, 8, 16];
    check(
        "raid0",
        &[
            raid0("RAID 0", Raid0Layout::Alternate, &[16, 16, 16]),
            raid0("RAID 0 of two zones, original", Raid0Layout::Original, zones),
            raid0("RAID 0 of two zones, alternate", Raid0Layout::Alternate, zones),
        ],
    );
}

#[test]
fn raid1_of_three() {
    check("raid1", &[Example::new("RAID 1", &[16, 16, 16], CopyLevel::raid1)]);
}

#[test]
fn raid10_of_all_layouts() {
    let both = Raid10Layout { near_copies: 2, ..Raid10Layout::far(2) };
    let far_sets = Raid10Layout { far_sets: true, ..Raid10Layout::far(2) };
    let offset = Raid10Layout { placement: FarPlacement::Offset, ..both };
    check(
        "raid10",
        &[
            raid10("RAID 10, near=2", Raid10Layout::near(2), &[16; 4]),
            raid10("RAID 10, near=2, an odd number of members", Raid10Layout::near(2), &[16; 3]),
            raid10("RAID 10, far=2", Raid10Layout::far(2), &[32; 3]),
            raid10("RAID 10, far=2 within sets", far_sets, &[32; 4]),
            raid10("RAID 10, offset=2", Raid10Layout::offset(2), &[32; 3]),
            raid10("RAID 10, near=2, far=2", both, &[32; 5]),
            raid10("RAID 10, near=2, offset=2", offset, &[32; 4]),
        ],
    );
}
