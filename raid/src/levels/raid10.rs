//! RAID 10: every chunk on several members. A read needs one copy, a write goes to all.

use super::{DeviceFacts, check_chunk};
use crate::error::CreateError;
use crate::layout::near::NearLayout;
use crate::plan::{ReadPlan, WritePlan};
use crate::request::Extent;
use crate::units::{MemberIndex, SECTOR_BYTES, Sectors};

/// The planner of one RAID 10.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raid10 {
    layout: NearLayout,
}

impl Raid10 {
    /// A RAID 10 of `near_copies` copies of chunks of `chunk` sectors on `devices`. Each member
    /// offers as much as the smallest.
    ///
    /// # Errors
    /// Any [`CreateError`]; the first that applies, from the count of members to their sizes.
    pub fn new(
        devices: &[DeviceFacts],
        near_copies: u32,
        chunk: Sectors,
    ) -> Result<Self, CreateError> {
        let members = devices.len() as u32;
        if members < 2 {
            return Err(CreateError::TooFewMembers { members, level: "RAID 10", members_min: 2 });
        }
        if near_copies == 0 {
            return Err(CreateError::NoCopies { members });
        }
        if near_copies > members {
            return Err(CreateError::MoreCopiesThanMembers { near_copies, members });
        }
        let member_size = check_chunk(devices, chunk)?;
        let bytes_max = u128::from(member_size.0) * u128::from(members) * u128::from(SECTOR_BYTES);
        if bytes_max > u128::from(u64::MAX) {
            return Err(CreateError::TooLarge { members, member_size });
        }
        Ok(Self { layout: NearLayout::new(members, near_copies, chunk, member_size) })
    }

    /// The address map.
    pub fn layout(&self) -> &NearLayout {
        &self.layout
    }

    /// How to read `piece`.
    pub fn plan_read(&self, piece: Extent) -> ReadPlan {
        self.check_piece(piece);
        ReadPlan::OneOf { candidates: self.layout.locations(piece.at).collect() }
    }

    /// How to write `piece`.
    pub fn plan_write(&self, piece: Extent) -> WritePlan {
        self.check_piece(piece);
        WritePlan::AllOf { targets: self.layout.locations(piece.at).collect() }
    }

    /// Whether all data is still there if just the members for which `live` says yes work.
    pub fn survives_on(&self, live: impl Fn(MemberIndex) -> bool) -> bool {
        self.layout.covers(live)
    }

    fn check_piece(&self, piece: Extent) {
        let chunk = self.layout.chunk().0;
        let (first, last) = (piece.at.0, piece.end().0 - 1);
        assert_eq!(first / chunk, last / chunk, "a piece lies within one chunk");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Location;
    use crate::units::Sector;

    fn devices(sizes: &[u64], logical_block_bytes: u32) -> Vec<DeviceFacts> {
        let facts = |(index, size): (usize, &u64)| DeviceFacts {
            name: format!("disk{index}"),
            size: Sectors(*size),
            logical_block_bytes,
        };
        sizes.iter().enumerate().map(facts).collect()
    }

    /// Capacity in sectors or the message, for a chunk of `chunk` sectors.
    fn check(sizes: &[u64], near_copies: u32, chunk: u64, expected: Result<u64, &str>) {
        let made = Raid10::new(&devices(sizes, 512), near_copies, Sectors(chunk));
        let made = made.map(|level| level.layout.capacity().0).map_err(|error| error.to_string());
        assert_eq!(made, expected.map_err(str::to_owned));
    }

    #[test]
    fn size_is_that_of_the_smallest_member_in_whole_chunks() {
        check(&[100, 99, 100, 1000], 2, 16, Ok(6 * 16 * 4 / 2));
    }

    #[test]
    fn size_of_an_odd_array_is_rounded_down_to_chunks() {
        check(&[80, 80, 80], 2, 16, Ok(7 * 16));
        check(&[80, 80, 80], 3, 16, Ok(5 * 16));
        check(&[80, 80, 80], 1, 16, Ok(15 * 16));
    }

    #[test]
    fn what_cannot_be_is_refused_with_one_message() {
        check(&[80], 1, 16, Err("RAID 10 needs at least 2 members, but there are only 1"));
        check(&[80; 3], 4, 16, Err("4 near copies need as many members, but there are 3"));
        check(&[80; 3], 0, 16, Err("zero near copies would store nothing: give 1 to 3"));
        check(&[80; 4], 2, 24, Err("a chunk of 12288 bytes is no power of two"));
        check(&[80; 4], 2, 0, Err("a chunk of 0 bytes is no power of two"));
        check(
            &[80; 4],
            2,
            4,
            Err("a chunk of 2048 bytes is out of range: give 4096 (4 KiB) to 16777216 (16 MiB)"),
        );
        check(
            &[1 << 40; 4],
            2,
            1 << 16,
            Err(
                "a chunk of 33554432 bytes is out of range: give 4096 (4 KiB) to 16777216 (16 MiB)",
            ),
        );
        check(
            &[80, 15],
            2,
            16,
            Err("disk1 is too small: it has 7680 bytes, and one chunk has 8192"),
        );
        check(
            &[1 << 55; 4],
            2,
            16,
            Err("4 members of 36028797018963968 sectors are more than 64-bit addresses reach"),
        );
    }

    #[test]
    fn a_chunk_holds_a_block() {
        let error = Raid10::new(&devices(&[80, 80], 8192), 2, Sectors(8)).unwrap_err();
        let message = "a chunk of 4096 bytes is smaller than a block of disk0, 8192 bytes";
        assert_eq!(error.to_string(), message);
    }

    #[test]
    fn a_read_may_go_to_either_copy_and_a_write_goes_to_both() {
        let level = Raid10::new(&devices(&[80; 4], 512), 2, Sectors(16)).unwrap();
        let piece = Extent { at: Sector(16 * 3 + 5), length: Sectors(2) };
        let at = |member| Location { member: MemberIndex(member), at: Sector(16 + 5) };
        let both = || [at(2), at(3)].into_iter().collect();
        assert_eq!(level.plan_read(piece), ReadPlan::OneOf { candidates: both() });
        assert_eq!(level.plan_write(piece), WritePlan::AllOf { targets: both() });
    }

    #[test]
    #[should_panic(expected = "within one chunk")]
    fn a_piece_across_chunks_is_a_mistake() {
        let level = Raid10::new(&devices(&[80; 4], 512), 2, Sectors(16)).unwrap();
        level.plan_read(Extent { at: Sector(15), length: Sectors(2) });
    }
}
