//! Who an array and a device are, and when something happened to them: UUIDs and times as md
//! stores and prints them. Never draws one: both are passed in.

use std::fmt;
use std::str::FromStr;

/// An array's or a device's UUID: the 16 bytes in the order in which md prints them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    /// Whether it is all zero, which mdadm takes for none.
    pub fn is_zero(self) -> bool {
        self.0 == [0; 16]
    }
}

/// As mdadm prints it: four groups of eight hexadecimal digits.
impl fmt::Display for Uuid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            if index > 0 && index % 4 == 0 {
                formatter.write_str(":")?;
            }
            write!(formatter, "{byte:02x}")?;
        }
        Ok(())
    }
}

/// The text is no UUID.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no UUID: give 32 hexadecimal digits, in groups parted by ':' or '-' if you like")]
pub struct UuidSyntaxError(pub String);

impl FromStr for Uuid {
    type Err = UuidSyntaxError;
    fn from_str(text: &str) -> Result<Self, UuidSyntaxError> {
        let wrong = || UuidSyntaxError(text.to_owned());
        let mut digits = 0;
        let mut uuid = [0u8; 16];
        for character in text.chars().filter(|of| !matches!(of, ':' | '-' | '.' | ' ')) {
            let digit = character.to_digit(16).ok_or_else(wrong)? as u8;
            let byte = uuid.get_mut(digits / 2).ok_or_else(wrong)?;
            *byte = *byte << 4 | digit;
            digits += 1;
        }
        if digits == 32 { Ok(Self(uuid)) } else { Err(wrong()) }
    }
}

/// A time as a superblock stores it: seconds since 1970 in 40 bits, microseconds in 24. Version
/// 0.90 stores 32 bits of seconds only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time {
    /// Seconds since the beginning of 1970, UTC.
    pub seconds: u64,
    /// Microseconds within the second.
    pub microseconds: u32,
}

impl Time {
    const SECONDS_BITS: u32 = 40;

    /// From the word of a version 1 superblock.
    pub fn from_word(word: u64) -> Self {
        let seconds = word & ((1 << Self::SECONDS_BITS) - 1);
        Self { seconds, microseconds: (word >> Self::SECONDS_BITS) as u32 }
    }

    /// The word of a version 1 superblock. What does not fit its bits is cut off.
    pub fn to_word(self) -> u64 {
        let seconds = self.seconds & ((1 << Self::SECONDS_BITS) - 1);
        u64::from(self.microseconds) << Self::SECONDS_BITS | seconds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, printed: Option<&str>) {
        let found = text.parse::<Uuid>().map(|uuid| uuid.to_string());
        assert_eq!(found.ok().as_deref(), printed);
    }

    #[test]
    fn a_uuid_reads_and_prints_as_in_mdadm() {
        let printed = Some("c5d52f49:199b5542:81516e1c:d526eff2");
        check("c5d52f49:199b5542:81516e1c:d526eff2", printed);
        check("C5D52F49-199b-5542-8151-6e1cd526eff2", printed);
        check("c5d52f49199b554281516e1cd526eff2", printed);
    }

    #[test]
    fn what_is_no_uuid_is_refused() {
        check("c5d52f49:199b5542:81516e1c:d526eff", None);
        check("c5d52f49:199b5542:81516e1c:d526eff20", None);
        check("c5d52f49:199b5542:81516e1c:d526effg", None);
    }

    #[test]
    fn a_time_keeps_its_word() {
        for word in [0, 1_767_225_600, u64::MAX, 5 << 40 | 7] {
            assert_eq!(Time::from_word(word).to_word(), word);
        }
    }
}
