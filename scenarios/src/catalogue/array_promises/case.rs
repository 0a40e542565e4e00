//! What one seed tries: which array, who writes where, what fails when, when the power goes. Drawn
//! before the run, so that a case can be printed and nothing that happens can change it.
//!
//! Within the redundancy (`Budget::Within`) every promise has to be kept. Beyond it an array may
//! answer with errors, but never with wrong data.

use super::levels::{self, Family};
use raid::metadata::Version;
use raid::metadata::geometry::{Geometry, Level};
use raid::units::{SECTOR_BYTES, Sectors};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeSet;

/// How long a machine stays up, on the simulated clock.
const BOOT_NS: std::ops::Range<u64> = 200_000..3_000_000;
/// Sectors of a member's data: some stripes, and some sectors that fill none.
const DATA_SECTORS: std::ops::Range<u64> = 48..160;
/// Sectors that a device has beside: room for the metadata of any version.
const METADATA_SECTORS: u64 = 256;

/// One array and its life.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) geometry: Geometry,
    pub(super) version: Version,
    pub(super) bitmap: bool,
    pub(super) bad_block_log: bool,
    /// The members' devices, then the spares'.
    pub(super) device_sizes: Vec<Sectors>,
    pub(super) block_bytes: u32,
    pub(super) writers: u32,
    pub(super) budget: Budget,
    pub(super) boots: Vec<Boot>,
}

/// Whether the faults are more than the array has to stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Budget {
    Within,
    Beyond,
}

/// The machine from one start to its end.
#[derive(Clone, Debug)]
pub(super) struct Boot {
    pub(super) up_ns: u64,
    pub(super) end: End,
    /// In the order of their times, which count from the end of the recovery.
    pub(super) faults: Vec<(u64, Fault)>,
    /// A job that runs beside the writers, and when it begins.
    pub(super) job: Option<(u64, Job)>,
}

/// How a boot ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The power fails.
    Cut,
    /// Writers end, the array is flushed.
    Stop,
}

/// What a drive suffers.
#[derive(Clone, Debug)]
pub(super) enum Fault {
    /// It is gone for good.
    Gone { member: u32 },
    /// Sectors of its device cannot be read until they are written.
    Spoiled { member: u32, at: u64, length: u64 },
    /// Sectors of its device refuse writes.
    WornOut { member: u32, at: u64, length: u64 },
}

/// What runs beside the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Job {
    Resync,
    Check,
    Housekeeping,
}

impl Case {
    /// Draws a case of one family.
    pub(super) fn draw(family: &Family, random: &mut ChaCha8Rng) -> Self {
        let members = random.random_range(family.members.clone());
        let level = family.level(members, random);
        let chunk = Sectors(8 << random.random_range(0..3));
        let tolerance = levels::tolerance(level, members);
        let redundant = tolerance > 0;
        let spares = if redundant { random.random_range(0..3) } else { 0 };
        let size = random.random_range(DATA_SECTORS) + chunk.0 + METADATA_SECTORS;
        let versions = [Version::V0_90, Version::V1_0, Version::V1_1, Version::V1_2];
        let version = versions[random.random_range(0..versions.len())];
        // Version 0.90 cannot say how a RAID 0 of several zones is dealt out.
        let one_zone = version == Version::V0_90 && matches!(level, Level::Raid0(_));
        let even = one_zone || random.random_range(0..2) == 0;
        let block_bytes = if random.random_range(0..4) == 0 { 4096 } else { 512 };
        let block = u64::from(block_bytes) / SECTOR_BYTES;
        let device_sizes = (0..members + spares)
            .map(|_| if even { size } else { size + random.random_range(0..64) })
            .map(|size: u64| Sectors(size.next_multiple_of(block)))
            .collect();
        let budget = match random.random_range(0..4) {
            0 => Budget::Beyond,
            _ => Budget::Within,
        };
        let victims = victims(members, tolerance, budget, random);
        let mut boots: Vec<Boot> = Vec::new();
        for _ in 0..random.random_range(1..4) {
            let sound = boots.iter().all(|boot| boot.faults.is_empty());
            boots.push(Boot::draw(level.has_parity(), sound, &victims, size, random));
        }
        let has_chunk = !matches!(level, Level::Linear | Level::Raid1);
        let chunk = if has_chunk { chunk } else { Sectors(0) };
        Self {
            geometry: Geometry { level, chunk, raid_disks: members },
            version,
            bitmap: redundant && random.random_range(0..2) == 0,
            bad_block_log: version != Version::V0_90 && random.random_range(0..2) == 0,
            device_sizes,
            block_bytes,
            writers: random.random_range(1..4),
            budget,
            boots,
        }
    }
}

impl Boot {
    fn draw(
        parity: bool,
        sound: bool,
        victims: &[u32],
        size: u64,
        random: &mut ChaCha8Rng,
    ) -> Self {
        let up_ns = random.random_range(BOOT_NS);
        let fault_count = if victims.is_empty() { 0 } else { random.random_range(0..4) };
        let mut faults: Vec<(u64, Fault)> = (0..fault_count)
            .map(|_| (random.random_range(0..up_ns), Fault::draw(victims, size, random)))
            .collect();
        faults.sort_by_key(|(at_ns, _)| *at_ns);
        // An array whose parity may be stale has no redundancy to fall back on (the write hole):
        // there a power cut after a fault is beyond what can be promised.
        let cut_is_fair = !parity || (sound && faults.is_empty());
        let cut = cut_is_fair && random.random_range(0..3) > 0;
        let jobs = [None, Some(Job::Resync), Some(Job::Check), Some(Job::Housekeeping)];
        let job = jobs[random.random_range(0..jobs.len())];
        Self {
            up_ns,
            end: if cut { End::Cut } else { End::Stop },
            faults,
            job: job.map(|job| (random.random_range(0..up_ns), job)),
        }
    }
}

impl Fault {
    fn draw(victims: &[u32], size: u64, random: &mut ChaCha8Rng) -> Self {
        let member = victims[random.random_range(0..victims.len())];
        let at = random.random_range(0..size);
        let length = random.random_range(1..12);
        match random.random_range(0..5) {
            0 => Self::Gone { member },
            1 | 2 => Self::WornOut { member, at, length },
            _ => Self::Spoiled { member, at, length },
        }
    }
}

/// The members that may fail: as many as the array tolerates, or any.
fn victims(members: u32, tolerance: u32, budget: Budget, random: &mut ChaCha8Rng) -> Vec<u32> {
    if budget == Budget::Beyond {
        return (0..members).collect();
    }
    let mut chosen = BTreeSet::new();
    while (chosen.len() as u32) < tolerance {
        chosen.insert(random.random_range(0..members));
    }
    chosen.into_iter().collect()
}
