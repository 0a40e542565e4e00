//! How long a drive takes: a queue pair for each core in front of one controller.
//!
//! A command waits for a free unit of the drive (`parallelism` of them), for the controller (which
//! starts no more commands in a second than the drive's IOPS limit) and for the drive's transfer
//! rate; the medium then takes a time drawn from the latency distribution.

use crate::machine::{DriveModel, LatencyQuantiles};
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

const PICOSECONDS_PER_SECOND: u64 = 1_000_000_000_000;
/// The request size that IOPS limits and latencies are given for.
const REFERENCE_BYTES: u64 = 4096;

/// What kind of work a command is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Read { bytes: u64 },
    Write { bytes: u64 },
    Flush,
    Discard,
}

/// When the drive's parts are free. Picoseconds, so that limits above a million a second stay exact.
pub(super) struct DriveTiming {
    model: DriveModel,
    random: ChaCha8Rng,
    controller_free_ps: u64,
    bus_free_ps: u64,
    units_busy_until_ns: BinaryHeap<Reverse<u64>>,
}

impl DriveTiming {
    pub(super) fn new(model: DriveModel, random: ChaCha8Rng) -> Self {
        Self {
            model,
            random,
            controller_free_ps: 0,
            bus_free_ps: 0,
            units_busy_until_ns: BinaryHeap::new(),
        }
    }

    /// When a command that comes in now is done.
    pub(super) fn completion_ns(&mut self, command: Command, now_ns: u64) -> u64 {
        let (iops_max, bytes_per_us, latency, bytes) = match command {
            Command::Read { bytes } => (
                self.model.read_iops_max,
                self.model.read_bytes_per_us,
                self.model.read_latency,
                bytes,
            ),
            Command::Write { bytes } => (
                self.model.write_iops_max,
                self.model.write_bytes_per_us,
                self.model.write_latency,
                bytes,
            ),
            Command::Flush => return now_ns + self.model.flush_ns,
            Command::Discard => (
                self.model.write_iops_max,
                self.model.write_bytes_per_us,
                self.model.write_latency,
                REFERENCE_BYTES,
            ),
        };
        let controller_ps = PICOSECONDS_PER_SECOND / iops_max;
        self.controller_free_ps = self.controller_free_ps.max(now_ns * 1000) + controller_ps;
        let bus_ps = bytes * 1_000_000 / bytes_per_us;
        self.bus_free_ps = self.bus_free_ps.max(now_ns * 1000) + bus_ps;
        let unit_free_ns = self.take_unit(now_ns);
        let start_ns = unit_free_ns.max(self.controller_free_ps / 1000);
        let media_ns = draw(latency, &mut self.random);
        let done_ns = (start_ns + media_ns).max(self.bus_free_ps / 1000);
        self.units_busy_until_ns.push(Reverse(done_ns));
        done_ns
    }

    /// Takes the unit that is free first; when it is.
    fn take_unit(&mut self, now_ns: u64) -> u64 {
        if self.units_busy_until_ns.len() < self.model.parallelism as usize {
            return now_ns;
        }
        let Reverse(free_ns) = self.units_busy_until_ns.pop().expect("a drive has a unit");
        free_ns.max(now_ns)
    }
}

/// Draws from a distribution that is straight between its quantiles.
fn draw(latency: LatencyQuantiles, random: &mut ChaCha8Rng) -> u64 {
    const MEDIAN: u64 = 500_000;
    const P99: u64 = 990_000;
    const ALL: u64 = 1_000_000;
    let rank = (u64::from(random.next_u32()) * ALL) >> 32;
    let between = |from_ns: u64, to_ns: u64, part: u64, whole: u64| {
        from_ns + to_ns.saturating_sub(from_ns) * part / whole
    };
    if rank < MEDIAN {
        between(latency.minimum_ns, latency.median_ns, rank, MEDIAN)
    } else if rank < P99 {
        between(latency.median_ns, latency.p99_ns, rank - MEDIAN, P99 - MEDIAN)
    } else {
        between(latency.p99_ns, latency.maximum_ns, rank - P99, ALL - P99)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::rand_core::SeedableRng;

    fn model() -> DriveModel {
        DriveModel {
            parallelism: 64,
            read_iops_max: 1_000_000,
            write_iops_max: 500_000,
            read_bytes_per_us: 8_192,
            write_bytes_per_us: 4_096,
            read_latency: LatencyQuantiles {
                minimum_ns: 50_000,
                median_ns: 50_000,
                p99_ns: 50_000,
                maximum_ns: 50_000,
            },
            write_latency: LatencyQuantiles {
                minimum_ns: 10_000,
                median_ns: 10_000,
                p99_ns: 10_000,
                maximum_ns: 10_000,
            },
            flush_ns: 5_000,
            logical_block_bytes: 512,
        }
    }

    /// Hands over `count` commands at once; when the last is done.
    fn check(command: Command, count: u64, expected_ns: u64) {
        let mut timing = DriveTiming::new(model(), ChaCha8Rng::seed_from_u64(1));
        let last_ns = (0..count).map(|_| timing.completion_ns(command, 0)).max();
        assert_eq!(last_ns, Some(expected_ns));
    }

    #[test]
    fn one_read_takes_the_latency_and_its_turn() {
        check(Command::Read { bytes: 4096 }, 1, 51_000);
    }

    #[test]
    fn parallel_units_limit_reads() {
        // 8 units of 50 us each would do 160,000 reads a second; the controller is not the limit.
        let model = DriveModel { parallelism: 8, ..model() };
        let mut timing = DriveTiming::new(model, ChaCha8Rng::seed_from_u64(1));
        let read = Command::Read { bytes: 4096 };
        let last_ns = (0..80).map(|_| timing.completion_ns(read, 0)).max();
        // Ten rounds; within each, the first controller slots stagger the eight units.
        assert_eq!(last_ns, Some(10 * 50_000 + 8 * 1_000));
    }

    #[test]
    fn the_controller_limits_reads() {
        check(Command::Read { bytes: 4096 }, 640, 640 * 1_000 + 50_000);
    }

    #[test]
    fn large_writes_are_limited_by_the_transfer_rate() {
        check(Command::Write { bytes: 1 << 20 }, 8, 8 * (1 << 20) / 4096 * 1000);
    }

    #[test]
    fn latencies_stay_between_the_extremes() {
        let mut random = ChaCha8Rng::seed_from_u64(3);
        let latency =
            LatencyQuantiles { minimum_ns: 70, median_ns: 80, p99_ns: 120, maximum_ns: 300 };
        let mut draws: Vec<_> = (0..10_000).map(|_| draw(latency, &mut random)).collect();
        draws.sort_unstable();
        assert!(draws[0] >= 70 && draws[9_999] <= 300);
        assert!((79..=81).contains(&draws[5_000]), "median {}", draws[5_000]);
    }
}
