//! What a run measured: counts and latencies of the requests, and the middle and spread of
//! repeated runs. Nothing here decides anything about a simulation.

use crate::quantity::{count, nanoseconds, three_digits};
use hdrhistogram::Histogram;
use serde::Serialize;

/// Requests of one job, or of all of them.
#[derive(Clone, Debug)]
pub struct IoStatistics {
    /// Reads that were counted.
    pub reads: u64,
    /// Writes that were counted.
    pub writes: u64,
    /// Bytes of both.
    pub bytes: u64,
    /// Blocks whose content was checked.
    pub blocks_verified: u64,
    latency_ns: Histogram<u64>,
}

/// What is reported of a run's requests.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct IoSummary {
    /// GiB a second.
    pub bandwidth_gib_per_s: f64,
    /// Requests a second.
    pub iops: f64,
    /// Requests that were counted.
    pub requests: u64,
    /// Mean time from submission to completion, as the application sees it.
    pub latency_ns_mean: f64,
    /// Half of the requests were faster.
    pub latency_ns_p50: u64,
    /// 99 of 100 requests were faster.
    pub latency_ns_p99: u64,
    /// 999 of 1000 requests were faster.
    pub latency_ns_p999: u64,
    /// The slowest request.
    pub latency_ns_max: u64,
}

impl Default for IoStatistics {
    fn default() -> Self {
        let latency_ns = Histogram::new(3).expect("three digits are within what it supports");
        Self { reads: 0, writes: 0, bytes: 0, blocks_verified: 0, latency_ns }
    }
}

impl IoStatistics {
    /// Counts one request.
    pub fn record(&mut self, is_write: bool, bytes: u64, latency_ns: u64) {
        match is_write {
            true => self.writes += 1,
            false => self.reads += 1,
        }
        self.bytes += bytes;
        self.latency_ns.record(latency_ns).expect("the histogram grows as needed");
    }

    /// Adds what another job counted.
    pub fn merge(&mut self, other: &IoStatistics) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.bytes += other.bytes;
        self.blocks_verified += other.blocks_verified;
        self.latency_ns.add(&other.latency_ns).expect("the histogram grows as needed");
    }

    /// The report for requests that were counted over `duration_ns`.
    ///
    /// # Panics
    /// If no time passed.
    pub fn summary(&self, duration_ns: u64) -> IoSummary {
        assert!(duration_ns > 0, "a rate needs time");
        let seconds = duration_ns as f64 / 1e9;
        let requests = self.reads + self.writes;
        IoSummary {
            bandwidth_gib_per_s: self.bytes as f64 / f64::from(1 << 30) / seconds,
            iops: requests as f64 / seconds,
            requests,
            latency_ns_mean: self.latency_ns.mean(),
            latency_ns_p50: self.latency_ns.value_at_quantile(0.5),
            latency_ns_p99: self.latency_ns.value_at_quantile(0.99),
            latency_ns_p999: self.latency_ns.value_at_quantile(0.999),
            latency_ns_max: self.latency_ns.max(),
        }
    }
}

impl IoSummary {
    /// Headings for [`cells`](Self::cells).
    pub const HEADINGS: [&str; 5] = ["GiB/s", "IOPS", "p50", "p99", "p99.9"];

    /// What a table shows.
    pub fn cells(&self) -> [String; 5] {
        let latency = |latency_ns: u64| nanoseconds(latency_ns as f64);
        [
            three_digits(self.bandwidth_gib_per_s),
            count(self.iops),
            latency(self.latency_ns_p50),
            latency(self.latency_ns_p99),
            latency(self.latency_ns_p999),
        ]
    }

    /// The median of each number over several runs.
    ///
    /// # Panics
    /// If there is no run.
    pub fn median_of(runs: &[&IoSummary]) -> Self {
        let median = |number: fn(&IoSummary) -> f64| {
            Spread::of(&runs.iter().map(|run| number(run)).collect::<Vec<_>>()).median
        };
        Self {
            bandwidth_gib_per_s: median(|run| run.bandwidth_gib_per_s),
            iops: median(|run| run.iops),
            requests: median(|run| run.requests as f64) as u64,
            latency_ns_mean: median(|run| run.latency_ns_mean),
            latency_ns_p50: median(|run| run.latency_ns_p50 as f64) as u64,
            latency_ns_p99: median(|run| run.latency_ns_p99 as f64) as u64,
            latency_ns_p999: median(|run| run.latency_ns_p999 as f64) as u64,
            latency_ns_max: median(|run| run.latency_ns_max as f64) as u64,
        }
    }
}

/// The middle of repeated runs, and the interval that 8 of 10 of them fall in.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Half of the samples are below.
    pub median: f64,
    /// A tenth of the samples is below.
    pub low: f64,
    /// A tenth of the samples is above.
    pub high: f64,
}

impl Spread {
    /// The spread of `samples`, in any order. Of ten samples the lowest and the highest are left
    /// out of the interval; of fewer than ten, none.
    ///
    /// # Panics
    /// If there is no sample, or one that is no number.
    pub fn of(samples: &[f64]) -> Self {
        assert!(!samples.is_empty(), "a spread needs samples");
        let mut sorted = samples.to_vec();
        sorted.sort_by(|a, b| a.partial_cmp(b).expect("samples are numbers"));
        let count = sorted.len();
        let left_out = count / 10;
        Self {
            median: (sorted[(count - 1) / 2] + sorted[count / 2]) / 2.0,
            low: sorted[left_out],
            high: sorted[count - 1 - left_out],
        }
    }

    /// Whether a value that is known to within `precision` may lie in the interval.
    pub fn contains_about(&self, value: f64, precision: f64) -> bool {
        self.low - precision <= value && value <= self.high + precision
    }
}

/// Root of the mean square of the natural logarithms of `simulated / measured`: 0.20 means that a
/// typical row is off by a fifth.
///
/// # Panics
/// If there is no pair, or one that is not positive.
pub fn log_error_root_mean_square(pairs: impl IntoIterator<Item = (f64, f64)>) -> f64 {
    let (mut sum, mut count) = (0.0, 0_u32);
    for (simulated, measured) in pairs {
        assert!(simulated > 0.0 && measured > 0.0, "{simulated} beside {measured}");
        sum += (simulated / measured).ln().powi(2);
        count += 1;
    }
    assert!(count > 0, "an error needs figures");
    (sum / f64::from(count)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(samples: &[f64], median: f64, low: f64, high: f64) {
        assert_eq!(Spread::of(samples), Spread { median, low, high }, "{samples:?}");
    }

    #[test]
    fn eight_of_ten_samples_lie_in_the_interval() {
        check(&[9.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 100.0], 5.5, 2.0, 9.0);
    }

    #[test]
    fn few_samples_are_all_in_the_interval() {
        check(&[3.0], 3.0, 3.0, 3.0);
        check(&[3.0, 1.0, 2.0], 2.0, 1.0, 3.0);
    }

    #[test]
    fn a_rounded_value_lies_inside_if_it_may_have_been_rounded_from_there() {
        let spread = Spread { median: 6.58, low: 6.57, high: 6.59 };
        assert!(spread.contains_about(6.6, 0.05));
        assert!(!spread.contains_about(6.6, 0.005));
    }

    #[test]
    fn rates_are_per_second_of_measured_time() {
        let mut statistics = IoStatistics::default();
        let mut other = IoStatistics::default();
        for latency_ns in [1_000, 2_000, 3_000] {
            statistics.record(false, 4096, latency_ns);
        }
        other.record(true, 4096, 9_000);
        statistics.merge(&other);
        let summary = statistics.summary(1_000_000);
        assert_eq!(summary.requests, 4);
        assert_eq!(summary.iops, 4_000.0);
        assert_eq!(summary.latency_ns_p50 / 10, 200);
        assert!(
            (summary.bandwidth_gib_per_s - 16_384.0 * 1000.0 / f64::from(1 << 30)).abs() < 1e-9
        );
    }

    #[test]
    fn log_error_treats_too_high_and_too_low_alike() {
        let error = log_error_root_mean_square([(2.0, 1.0), (1.0, 2.0)]);
        assert!((error - 2.0_f64.ln()).abs() < 1e-12);
    }
}
