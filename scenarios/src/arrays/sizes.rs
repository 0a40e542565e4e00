//! Sizes as mdadm prints them, and how large an array of equal members is.

use raid::metadata::{Geometry, assembly};
use raid::units::Sectors;

/// As mdadm prints a size beside its number: in binary and in decimal units, such as
/// `(7.00 MiB 7.34 MB)`; empty below 5000 KiB.
pub fn in_two_units(size: Sectors) -> String {
    let bytes = size.bytes();
    let hundredths = |unit: u64| {
        let value = (u128::from(bytes) * 100 + u128::from(unit) / 2) / u128::from(unit);
        format!("{}.{:02}", value / 100, value % 100)
    };
    let (binary, decimal) = match bytes {
        bytes if bytes < 5000 << 10 => return String::new(),
        bytes if bytes < 2 << 30 => ((1 << 20, "MiB"), (1_000_000, "MB")),
        bytes if bytes < 2 << 40 => ((1 << 30, "GiB"), (1_000_000_000, "GB")),
        _ => ((1 << 40, "TiB"), (1_000_000_000_000, "TB")),
    };
    format!(" ({} {} {} {})", hundredths(binary.0), binary.1, hundredths(decimal.0), decimal.1)
}

/// How much an array holds that uses `component_size` of each member; `None` for linear and RAID 0,
/// which use all that each member has.
pub fn array_size(geometry: Geometry, component_size: Sectors) -> Option<Sectors> {
    let redundant = geometry.level.is_redundant();
    redundant.then(|| assembly::array_size(geometry, component_size, &[]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sectors: u64, expected: &str) {
        assert_eq!(in_two_units(Sectors(sectors)), expected);
    }

    #[test]
    fn sizes_stand_in_two_units() {
        check(0, "");
        check(9_999, "");
        check(14_336, " (7.00 MiB 7.34 MB)");
        check(16_352, " (7.98 MiB 8.37 MB)");
        check(976_773_120, " (465.76 GiB 500.11 GB)");
        check(15_627_790_336, " (7.28 TiB 8.00 TB)");
    }
}
