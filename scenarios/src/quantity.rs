//! Sizes and durations as people type and read them. A `k` is 1024, as in fio.

use std::fmt;
use std::str::FromStr;

/// A number of bytes, typed like `4k`, `64KiB`, `1G` or `512`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteCount(pub u64);

/// A number of bytes, typed as mdadm takes it: a bare number is KiB, and `s` stands for sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MdSize(pub u64);

/// A length of time, typed like `10s`, `500ms` or `2m`; a bare number is seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Duration {
    /// In nanoseconds.
    pub ns: u64,
}

/// Why a quantity was not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// No number, or an unknown unit.
    #[error("'{text}' is not {wanted}")]
    Malformed {
        /// What was typed.
        text: String,
        /// What it should look like.
        wanted: &'static str,
    },
    /// More than fits.
    #[error("'{text}' is too large")]
    TooLarge {
        /// What was typed.
        text: String,
    },
}

impl FromStr for ByteCount {
    type Err = QuantityError;
    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let wanted = "a size such as 4k, 64K, 1M or 10G";
        parse_scaled(text, wanted, |unit| match unit {
            "" | "b" => Some(1),
            "k" | "kb" | "kib" => Some(1 << 10),
            "m" | "mb" | "mib" => Some(1 << 20),
            "g" | "gb" | "gib" => Some(1 << 30),
            "t" | "tb" | "tib" => Some(1 << 40),
            _ => None,
        })
        .map(ByteCount)
    }
}

impl FromStr for MdSize {
    type Err = QuantityError;
    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let wanted = "a size such as 64 or 64K (KiB), 1M, 10G, or 2048s (sectors)";
        parse_scaled(text, wanted, |unit| match unit {
            "" | "k" | "kb" | "kib" => Some(1 << 10),
            "b" => Some(1),
            "s" => Some(512),
            "m" | "mb" | "mib" => Some(1 << 20),
            "g" | "gb" | "gib" => Some(1 << 30),
            "t" | "tb" | "tib" => Some(1 << 40),
            _ => None,
        })
        .map(MdSize)
    }
}

impl FromStr for Duration {
    type Err = QuantityError;
    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let wanted = "a duration such as 10s, 500ms or 2m";
        let ns = parse_scaled(text, wanted, |unit| match unit {
            "ns" => Some(1),
            "us" => Some(1_000),
            "ms" => Some(1_000_000),
            "" | "s" => Some(1_000_000_000),
            "m" => Some(60_000_000_000),
            "h" => Some(3_600_000_000_000),
            _ => None,
        })?;
        Ok(Duration { ns })
    }
}

/// A whole number followed by a unit, times the unit's factor.
fn parse_scaled(
    text: &str,
    wanted: &'static str,
    factor_of: impl Fn(&str) -> Option<u64>,
) -> Result<u64, QuantityError> {
    let malformed = || QuantityError::Malformed { text: text.to_owned(), wanted };
    let too_large = || QuantityError::TooLarge { text: text.to_owned() };
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    if number.is_empty() {
        return Err(malformed());
    }
    let factor = factor_of(&unit.trim().to_ascii_lowercase()).ok_or_else(malformed)?;
    let number: u64 = number.parse().map_err(|_| too_large())?;
    number.checked_mul(factor).ok_or_else(too_large)
}

impl fmt::Display for ByteCount {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (shift, unit) in [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")] {
            if self.0 != 0 && self.0.is_multiple_of(1 << shift) {
                return write!(formatter, "{} {unit}", self.0 >> shift);
            }
        }
        write!(formatter, "{} bytes", self.0)
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&nanoseconds(self.ns as f64))
    }
}

/// Nanoseconds in the unit that suits them, with three digits, such as `2.41 ms`.
pub fn nanoseconds(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns >= 1e9 => (ns / 1e9, "s"),
        ns if ns >= 1e6 => (ns / 1e6, "ms"),
        ns if ns >= 1e3 => (ns / 1e3, "us"),
        ns => (ns, "ns"),
    };
    format!("{} {unit}", three_digits(value))
}

/// A count with a unit prefix and three digits, such as `1.73 M`.
pub fn count(value: f64) -> String {
    match value {
        value if value >= 1e9 => format!("{} G", three_digits(value / 1e9)),
        value if value >= 1e6 => format!("{} M", three_digits(value / 1e6)),
        value if value >= 1e4 => format!("{} k", three_digits(value / 1e3)),
        value => format!("{value:.0}"),
    }
}

/// A positive number with three significant digits, without exponent.
pub fn three_digits(value: f64) -> String {
    match value {
        value if value >= 99.95 => format!("{value:.0}"),
        value if value >= 9.995 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, bytes: Result<u64, &str>) {
        let parsed = text.parse::<ByteCount>().map(|count| count.0).map_err(|e| e.to_string());
        assert_eq!(parsed, bytes.map_err(str::to_owned), "{text}");
    }

    #[test]
    fn sizes_are_powers_of_two() {
        check("512", Ok(512));
        check("4k", Ok(4096));
        check("64KiB", Ok(65_536));
        check("2 M", Ok(2 << 20));
        check("1t", Ok(1 << 40));
    }

    #[test]
    fn what_is_no_size_is_refused_with_what_would_be_right() {
        check("k", Err("'k' is not a size such as 4k, 64K, 1M or 10G"));
        check("4x", Err("'4x' is not a size such as 4k, 64K, 1M or 10G"));
        check("-4k", Err("'-4k' is not a size such as 4k, 64K, 1M or 10G"));
        check("99999999999999999999", Err("'99999999999999999999' is too large"));
        check("99999999999T", Err("'99999999999T' is too large"));
    }

    #[test]
    fn a_bare_size_of_mdadm_is_kib() {
        let parse = |text: &str| text.parse::<MdSize>().map(|size| size.0);
        assert_eq!(parse("64"), Ok(65_536));
        assert_eq!(parse("64K"), Ok(65_536));
        assert_eq!(parse("2048s"), Ok(1 << 20));
        assert!(parse("64x").is_err());
    }

    #[test]
    fn a_bare_duration_is_seconds() {
        assert_eq!("60".parse::<Duration>().expect("parses").ns, 60_000_000_000);
        assert_eq!("500ms".parse::<Duration>().expect("parses").ns, 500_000_000);
    }

    #[test]
    fn quantities_are_printed_with_three_digits() {
        assert_eq!(nanoseconds(2_412_345.0), "2.41 ms");
        assert_eq!(nanoseconds(81.0), "81.0 ns");
        assert_eq!(count(1_730_150.0), "1.73 M");
        assert_eq!(count(812.0), "812");
        assert_eq!(ByteCount(65_536).to_string(), "64 KiB");
        assert_eq!(ByteCount(1000).to_string(), "1000 bytes");
    }
}
