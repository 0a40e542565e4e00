//! The numbers and words that a machine file holds: where each stands, what is sane, where it goes.
//!
//! These tables are the only list of them; reading, sampling and showing all follow them, in their
//! order. They know nothing of how a file is written.

use super::model::{Atomics, Machine};

/// One number of a machine file.
pub(super) struct NumberKey {
    /// The table that it stands in, dotted from the top.
    pub(super) table: &'static str,
    /// Its key there; the unit is its end.
    pub(super) name: &'static str,
    /// The least and the most that can be meant.
    pub(super) bounds: (u64, u64),
    /// Whether a file may give it as a range.
    pub(super) may_be_range: bool,
    /// Puts it into a machine.
    pub(super) set: fn(&mut Machine, u64),
}

/// The table whose keys are distances of the SLIT instead of names.
pub(super) const REMOTE_TABLE: &str = "line.remote_ns";
/// What a transfer between two cores may cost, nanoseconds.
pub(super) const TRANSFER_BOUNDS_NS: (u64, u64) = (1, 1_000_000);

/// The tables that a file must have besides the keys at its top.
pub(super) const TABLES: [&str; 8] = [
    "shape",
    "core",
    "line",
    "scheduler",
    "software",
    "drive",
    "drive.read_latency",
    "drive.write_latency",
];

/// The table and the key that say how cores change words atomically.
pub(super) const ATOMICS_TABLE: &str = "core";
/// As [`ATOMICS_TABLE`].
pub(super) const ATOMICS_KEY: &str = "atomics";
/// The words that may stand there.
pub(super) const ATOMICS_WORDS: [(&str, Atomics); 2] =
    [("single-instruction", Atomics::SingleInstruction), ("load-linked", Atomics::LoadLinked)];

const SECOND_NS: u64 = 1_000_000_000;

macro_rules! keys {
    ($([$table:literal] $($name:literal $bounds:expr, $may_be_range:literal => $($field:ident).+;)+)+) => {
        /// Every number, in the order in which files show them.
        pub(super) const NUMBER_KEYS: &[NumberKey] = &[$($(NumberKey {
            table: $table,
            name: $name,
            bounds: $bounds,
            may_be_range: $may_be_range,
            set: |machine, number| machine.$($field).+ = narrow(number),
        },)+)+];
    };
}

keys! {
    ["core"]
        "instruction_ps" (1, 1_000_000), true => core.instruction_ps;
        "load_hit_ns" (1, 10_000), true => core.load_hit_ns;
        "rmw_hit_ns" (1, 10_000), true => core.rmw_hit_ns;
        "store_ns" (1, 10_000), true => core.store_ns;
        "copy_bytes_per_us" (1, 10_000_000), true => core.copy_bytes_per_us;
    ["line"]
        "cluster_ns" TRANSFER_BOUNDS_NS, true => line.cluster_ns;
        "node_ns" TRANSFER_BOUNDS_NS, true => line.node_ns;
        "memory_ns" TRANSFER_BOUNDS_NS, true => line.memory_ns;
        "snoop_point_percent" (0, 100), true => line.snoop_point_percent;
        "home_detour_percent" (0, 100), true => line.home_detour_percent;
        "shared_read_ns" (0, 1_000_000), true => line.shared_read_ns;
    ["scheduler"]
        "wake_ns" (0, SECOND_NS), true => scheduler.wake_ns;
        "wake_latency_ns" (0, SECOND_NS), true => scheduler.wake_latency_ns;
        "context_switch_ns" (0, SECOND_NS), true => scheduler.context_switch_ns;
        "interrupt_ns" (0, SECOND_NS), true => scheduler.interrupt_ns;
    ["software"]
        "application_submit_ns" (0, SECOND_NS), true => software.application_submit_ns;
        "application_reap_ns" (0, SECOND_NS), true => software.application_reap_ns;
        "array_request_ns" (0, SECOND_NS), true => software.array_request_ns;
        "array_completion_ns" (0, SECOND_NS), true => software.array_completion_ns;
        "driver_submit_ns" (0, SECOND_NS), true => software.driver_submit_ns;
        "driver_complete_ns" (0, SECOND_NS), true => software.driver_complete_ns;
    ["drive"]
        "parallelism" (1, 65_536), true => drive.parallelism;
        "read_iops_max" (1, SECOND_NS), true => drive.read_iops_max;
        "write_iops_max" (1, SECOND_NS), true => drive.write_iops_max;
        "read_bytes_per_us" (1, 10_000_000), true => drive.read_bytes_per_us;
        "write_bytes_per_us" (1, 10_000_000), true => drive.write_bytes_per_us;
        "flush_ns" (0, 60 * SECOND_NS), true => drive.flush_ns;
        "logical_block_bytes" (512, 65_536), false => drive.logical_block_bytes;
    ["drive.read_latency"]
        "minimum_ns" (0, 60 * SECOND_NS), true => drive.read_latency.minimum_ns;
        "median_ns" (0, 60 * SECOND_NS), true => drive.read_latency.median_ns;
        "p99_ns" (0, 60 * SECOND_NS), true => drive.read_latency.p99_ns;
        "maximum_ns" (0, 60 * SECOND_NS), true => drive.read_latency.maximum_ns;
    ["drive.write_latency"]
        "minimum_ns" (0, 60 * SECOND_NS), true => drive.write_latency.minimum_ns;
        "median_ns" (0, 60 * SECOND_NS), true => drive.write_latency.median_ns;
        "p99_ns" (0, 60 * SECOND_NS), true => drive.write_latency.p99_ns;
        "maximum_ns" (0, 60 * SECOND_NS), true => drive.write_latency.maximum_ns;
}

/// A number that has passed its bounds, in the width of its field.
fn narrow<T: TryFrom<u64, Error: std::fmt::Debug>>(number: u64) -> T {
    T::try_from(number).expect("a number's bounds fit its field")
}

/// The unit that a key's name ends in, as people write it; empty for a mere count.
pub(super) fn unit_of(name: &str) -> &'static str {
    const UNITS: [(&str, &str); 6] = [
        ("_bytes_per_us", "B/µs"),
        ("_bytes", "B"),
        ("_ns", "ns"),
        ("_ps", "ps"),
        ("_percent", "%"),
        ("_iops_max", "IOPS"),
    ];
    UNITS.iter().find(|(end, _)| name.ends_with(end)).map_or("", |(_, unit)| unit)
}
