//! Writes that leave their pages at stripe heads: what becomes of batches, of too few heads, and of
//! writes that meet at a head. That data and parity stay right through faults and jobs is tried at
//! random in `parity_reference.rs`.

use crate::parity_rig::{Geometry, LOOKUPS, levels, raid5, raid6};
use crate::rig::{Rig, tagged};
use raid::device::Durability;
use raid::tuning::StripeLookup;
use raid::units::Sector;

fn heads() -> impl Iterator<Item = StripeLookup> {
    LOOKUPS.into_iter().filter(|lookup| *lookup != StripeLookup::Claims)
}

fn writes(rig: &Rig) -> Vec<u64> {
    rig.drives.iter().map(|drive| drive.state().writes).collect()
}

#[test]
fn a_whole_stripe_is_one_batch_with_one_write_to_each_member() {
    for (lookup, level) in heads().flat_map(|lookup| [(lookup, raid5()), (lookup, raid6())]) {
        // Four heads in a chunk.
        let geometry = Geometry { chunk: 32, lookup, ..Geometry::of(level) };
        let mut rig = geometry.rig(1);
        let stripe = 32 * (5 - geometry.parity_count() as u64);
        let tags: Vec<u64> = (1..=stripe).collect();
        rig.write(stripe, &tags).expect("no fault");
        assert_eq!(writes(&rig), [1; 5], "{lookup:?}");
        let reads: u64 = rig.drives.iter().map(|drive| drive.state().reads).sum();
        assert_eq!(reads, 0, "{lookup:?}: all of it is new");
        assert_eq!(rig.read(stripe, stripe), Ok(tags));
        assert_eq!(rig.mismatches(), 0);
    }
}

#[test]
fn a_write_larger_than_all_heads_together_ends() {
    for (lookup, level) in
        heads().flat_map(|lookup| levels().into_iter().map(move |it| (lookup, it)))
    {
        let geometry = Geometry { lookup, heads_max: 1, ..Geometry::of(level) };
        let mut rig = geometry.rig(2);
        let tags: Vec<u64> = (1..=rig.array.capacity().0).collect();
        rig.write(0, &tags).expect("no fault");
        assert_eq!(rig.read(0, tags.len() as u64), Ok(tags), "{lookup:?} {level:?}");
        assert_eq!(rig.mismatches(), 0);
    }
}

/// Four writers write all of the array again and again, each in pieces of its own size. Each sector
/// is what one of them wrote last, and parity fits it.
#[test]
fn writes_that_meet_at_a_head_follow_each_other() {
    for (seed, lookup) in (0..5).flat_map(|seed| heads().map(move |lookup| (seed, lookup))) {
        let geometry = Geometry { lookup, heads_max: 16, threads: 2, ..Geometry::of(raid5()) };
        let mut rig = geometry.rig(seed);
        let capacity = rig.array.capacity().0;
        for writer in 0..4u64 {
            let piece = 13 + 20 * writer;
            rig.spawn(writer as u32, "writer", async move |cpu, array| {
                for round in 0..3 {
                    for at in (0..capacity).step_by(piece as usize) {
                        let tag = (writer + 1) << 8 | round;
                        let data = tagged(&vec![tag; piece.min(capacity - at) as usize]);
                        let write = array.write(&cpu, Sector(at), data, Durability::Cached);
                        write.await.expect("no fault");
                    }
                }
            });
        }
        rig.run(async |_, _| {});
        let tags = rig.read(0, capacity).expect("no fault");
        assert!(tags.iter().all(|tag| tag & 0xff == 2), "{lookup:?}: an old sector came back");
        assert_eq!(rig.mismatches(), 0, "{lookup:?}");
        rig.drives[1].state().gone_after = Some(0);
        assert_eq!(rig.read(0, capacity), Ok(tags));
    }
}
