//! A suspended array stands still: no request, no flush and no background job reaches a member.

use crate::rig::{Rig, read_tags, tagged};
use crate::support::Drive;
use raid::device::Durability;
use raid::platform::Cpu;
use raid::units::{Sector, Sectors};
use raid::{ResyncOptions, Tuning};

/// What the drives were asked so far.
fn asked(drives: &[Drive]) -> Vec<[u64; 3]> {
    let counts = |drive: &Drive| {
        let state = drive.state();
        [state.reads, state.writes, state.flushes]
    };
    drives.iter().map(counts).collect()
}

/// Suspends an array in the middle of requests, flushes, a repair and a resync.
fn check(seed: u64) {
    let mut rig = Rig::new(&[64, 64], 2, Tuning::default(), seed);
    rig.drives[0].state().bad_sectors.extend([4, 21]);
    rig.spawn(1, "writer", async |cpu, array| {
        for at in 0..10 {
            let write = array.write(&cpu, Sector(at), tagged(&[1, 2]), Durability::Fua);
            write.await.expect("no fault beyond redundancy");
        }
    });
    rig.spawn(2, "reader", async |cpu, array| {
        for at in [20, 0, 8] {
            read_tags(&cpu, &array, at, 8).await.expect("no fault beyond redundancy");
        }
    });
    rig.spawn(3, "flush", async |cpu, array| {
        for _ in 0..20 {
            array.flush(&cpu).await.expect("no fault");
        }
    });
    rig.spawn(3, "resync", async |cpu, array| {
        let options = ResyncOptions { window: Sectors(8), ..ResyncOptions::default() };
        array.resync(&cpu, options).await.expect("no fault");
    });
    let drives = rig.drives.clone();
    rig.run(async move |cpu, array| {
        for _ in 0..3 {
            array.suspend(&cpu).await;
            let before = asked(&drives);
            for _ in 0..500 {
                cpu.yield_now().await;
            }
            assert_eq!(asked(&drives), before);
            array.resume(&cpu).await;
        }
    });
    assert!(rig.drives[0].state().data == rig.drives[1].state().data);
}

#[test]
fn a_suspended_array_asks_nothing_of_its_members() {
    (0..3000).for_each(check);
}
