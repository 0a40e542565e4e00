//! What can be made of copies, what cannot, and the plans of what was made.

use super::*;
use crate::layout::Location;
use crate::units::Sector;

fn devices(sizes: &[u64], logical_block_bytes: u32) -> Vec<Option<DeviceFacts>> {
    let facts = |(index, size): (usize, &u64)| {
        Some(DeviceFacts {
            name: format!("disk{index}"),
            size: Sectors(*size),
            logical_block_bytes,
        })
    };
    sizes.iter().enumerate().map(facts).collect()
}

fn make(level: Level, devices: &[Option<DeviceFacts>], chunk: u64) -> Result<CopyLevel, String> {
    let chunk = Sectors(chunk);
    let made = match level {
        Level::Linear => CopyLevel::linear(devices, chunk),
        Level::Raid0 { layout } => CopyLevel::raid0(devices, layout, chunk),
        Level::Raid1 => CopyLevel::raid1(devices),
        Level::Raid10 { layout } => CopyLevel::raid10(devices, layout, chunk),
        parity => panic!("{} stores no copies", parity.name()),
    };
    made.map_err(|error| error.to_string())
}

/// Capacity in sectors or the message, for a chunk of `chunk` sectors.
fn check(level: Level, sizes: &[u64], chunk: u64, expected: Result<u64, &str>) {
    let made = make(level, &devices(sizes, 512), chunk);
    let made = made.map(|level| level.layout.capacity().0);
    assert_eq!(made, expected.map_err(str::to_owned), "{level:?}");
}

const RAID0: Level = Level::Raid0 { layout: Raid0Layout::Alternate };

fn near(copies: u32) -> Level {
    Level::raid10_near(copies)
}

fn raid10(layout: Raid10Layout) -> Level {
    Level::Raid10 { layout }
}

#[test]
fn size_is_that_of_the_smallest_member_in_whole_chunks() {
    check(near(2), &[100, 99, 100, 1000], 16, Ok(6 * 16 * 4 / 2));
    check(Level::Raid1, &[100, 99, 1000], 0, Ok(99));
}

#[test]
fn size_of_an_odd_array_is_rounded_down_to_chunks() {
    check(near(2), &[80, 80, 80], 16, Ok(7 * 16));
    check(near(3), &[80, 80, 80], 16, Ok(5 * 16));
    check(near(1), &[80, 80, 80], 16, Ok(15 * 16));
}

#[test]
fn far_copies_share_whole_rows_of_the_members() {
    check(raid10(Raid10Layout::far(2)), &[80; 3], 16, Ok(2 * 3 * 16));
    check(raid10(Raid10Layout::offset(2)), &[80; 3], 16, Ok(2 * 3 * 16));
    let both = Raid10Layout { near_copies: 2, ..Raid10Layout::far(2) };
    check(raid10(both), &[112; 5], 16, Ok(7 * 16));
}

#[test]
fn what_is_stored_once_uses_all_members() {
    check(RAID0, &[80, 47, 90], 16, Ok((5 + 2 + 5) * 16));
    check(RAID0, &[80, 47], 9, Ok((8 + 5) * 9));
    check(Level::Linear, &[80, 47, 1], 0, Ok(128));
    check(Level::Linear, &[80, 47], 16, Ok(80 + 32));
}

#[test]
fn too_few_members_or_copies_are_refused_with_one_message() {
    check(near(1), &[80], 16, Err("RAID 10 needs at least 2 members, but there are only 1"));
    check(Level::Raid1, &[], 16, Err("RAID 1 needs at least 1 members, but there are only 0"));
    check(near(4), &[80; 3], 16, Err("4 near copies need as many members, but there are 3"));
    check(near(0), &[80; 3], 16, Err("zero near copies would store nothing: give 1 to 3"));
    let both = Raid10Layout { near_copies: 2, ..Raid10Layout::offset(3) };
    let message = "2 near and 3 far copies of each need 6 members, but there are 5";
    check(raid10(both), &[80; 5], 16, Err(message));
    let both = Raid10Layout { near_copies: 2, ..Raid10Layout::offset(2) };
    let message = "on 5 members this layout puts two chunks in one place: take another number of \
                   members or of copies";
    check(raid10(both), &[80; 5], 16, Err(message));
}

#[test]
fn chunks_that_cannot_be_are_refused_with_one_message() {
    check(near(2), &[80; 4], 24, Err("a chunk of 12288 bytes is no power of two"));
    check(near(2), &[80; 4], 0, Err("a chunk of 0 bytes is no power of two"));
    let out_of_range = |bytes: &str| {
        format!("a chunk of {bytes} bytes is out of range: give 4096 (4 KiB) to 1073741824 (1 GiB)")
    };
    check(near(2), &[80; 4], 4, Err(&out_of_range("2048")));
    check(near(2), &[1 << 40; 4], 1 << 22, Err(&out_of_range("2147483648")));
    check(RAID0, &[80; 4], 6, Err(&out_of_range("3072")));
    check(near(2), &[1 << 40; 4], 1 << 21, Ok(2 << 40));
}

#[test]
fn members_of_no_use_are_refused_with_one_message() {
    let small = "disk1 is too small: it has 7680 bytes, and one chunk has 8192";
    check(near(2), &[80, 15], 16, Err(small));
    check(RAID0, &[80, 15], 16, Err(small));
    check(Level::Linear, &[80, 15], 16, Err(small));
    let message = "disk0 is too small: it has 15360 bytes, and a chunk of 8192 bytes for each of 2 \
                   far copies has to fit";
    check(raid10(Raid10Layout::far(2)), &[30, 80], 16, Err(message));
    let large = "4 members of 36028797018963968 sectors are more than 64-bit addresses reach";
    check(near(2), &[1 << 55; 4], 16, Err(large));
    check(RAID0, &[1 << 55; 4], 16, Err(large));
}

#[test]
fn missing_members_are_named_where_each_is_needed() {
    let mut members = devices(&[80; 3], 512);
    members[1] = None;
    let message = "RAID 0 cannot do without member 1, which is missing";
    assert_eq!(make(RAID0, &members, 16), Err(message.to_owned()));
    assert!(make(Level::Raid1, &members, 16).is_ok());
    members[2] = None;
    let message = "linear cannot do without members 1, 2, which are missing";
    assert_eq!(make(Level::Linear, &members, 16), Err(message.to_owned()));
}

#[test]
fn a_chunk_holds_whole_blocks() {
    let made = make(near(2), &devices(&[80, 80], 8192), 8);
    let message = "a chunk of 4096 bytes is smaller than a block of disk0, 8192 bytes";
    assert_eq!(made, Err(message.to_owned()));
    let made = make(RAID0, &devices(&[80, 80], 4096), 9);
    let message = "a chunk of 4608 bytes is no whole number of blocks of disk0, 4096 bytes each";
    assert_eq!(made, Err(message.to_owned()));
    let made = make(Level::Linear, &devices(&[80, 81], 4096), 0);
    let message = "disk1 would end within a block: it offers 41472 bytes, and the array's blocks \
                   have 4096";
    assert_eq!(made, Err(message.to_owned()));
}

#[test]
fn a_read_may_go_to_either_copy_and_a_write_goes_to_both() {
    let level = make(near(2), &devices(&[80; 4], 512), 16).unwrap();
    let piece = Extent { at: Sector(16 * 3 + 5), length: Sectors(2) };
    let at = |member| Location { member: MemberIndex(member), at: Sector(16 + 5) };
    let both = || [at(2), at(3)].into_iter().collect();
    assert_eq!(level.plan_read(piece), ReadPlan::OneOf { candidates: both() });
    assert_eq!(level.plan_write(piece), WritePlan::AllOf { targets: both() });
}

#[test]
#[should_panic(expected = "within one chunk")]
fn a_piece_across_chunks_is_a_mistake() {
    let level = make(near(2), &devices(&[80; 4], 512), 16).unwrap();
    level.plan_read(Extent { at: Sector(15), length: Sectors(2) });
}
