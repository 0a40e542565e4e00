//! The names that a person gives a level and a layout: those of mdadm's `--level` and `--layout`,
//! with its defaults where no layout is given.

use super::geometry::{Level, Raid0Layout, Raid5Layout, Raid6Layout, Raid10Layout};

const RAID5_NAMES: &str = "left-symmetric (ls, the default), left-asymmetric (la), right-symmetric \
     (rs), right-asymmetric (ra), parity-first or parity-last";
const RAID6_NAMES: &str = "left-symmetric (ls, the default), left-asymmetric (la), right-symmetric \
     (rs), right-asymmetric (ra), parity-first, parity-last, ddf-zero-restart, ddf-N-restart, \
     ddf-N-continue, left-symmetric-6, left-asymmetric-6, right-symmetric-6, right-asymmetric-6 or \
     parity-first-6";
const RAID10_NAMES: &str = "n2 (the default), f2 or o2, or another number of copies, or near and \
     far together such as n2f2";

fn raid5_layout(name: &str) -> Option<Raid5Layout> {
    Some(match name {
        "left-asymmetric" | "la" => Raid5Layout::LeftAsymmetric,
        "right-asymmetric" | "ra" => Raid5Layout::RightAsymmetric,
        "left-symmetric" | "ls" | "default" => Raid5Layout::LeftSymmetric,
        "right-symmetric" | "rs" => Raid5Layout::RightSymmetric,
        "parity-first" | "parity_first" => Raid5Layout::ParityFirst,
        "parity-last" | "parity_last" => Raid5Layout::ParityLast,
        _ => return None,
    })
}

fn raid6_layout(name: &str) -> Option<Raid6Layout> {
    Some(match name {
        "ddf-zero-restart" => Raid6Layout::DdfZeroRestart,
        "ddf-n-restart" => Raid6Layout::DdfNRestart,
        "ddf-n-continue" => Raid6Layout::DdfNContinue,
        _ => match name.strip_suffix("-6") {
            None => Raid6Layout::Rotating(raid5_layout(name)?),
            Some("parity-last" | "parity_last") => return None,
            Some(of) => Raid6Layout::QLast(raid5_layout(of)?),
        },
    })
}

/// `n2`, `f3`, `o2`, or near and far copies together: `n2f2`, `n2o2`.
fn raid10_layout(name: &str) -> Option<Raid10Layout> {
    let mut layout = Raid10Layout { near: 1, far: 1, offset: false, far_sets: false };
    if !name.is_ascii() {
        return None;
    }
    let (mut rest, mut seen) = (name, (false, false));
    while let Some(letter) = rest.chars().next() {
        let end = rest[1..].find(|of: char| !of.is_ascii_digit()).map_or(rest.len(), |at| at + 1);
        let copies = rest[1..end].parse().ok().filter(|copies| *copies >= 1)?;
        match letter {
            'n' if !seen.0 => (layout.near, seen.0) = (copies, true),
            'f' | 'o' if !seen.1 => {
                (layout.far, layout.offset, seen.1) = (copies, letter == 'o', true);
            }
            _ => return None,
        }
        rest = &rest[end..];
    }
    (seen.0 || seen.1).then_some(layout)
}

pub(super) fn level_from_names(level: &str, layout: Option<&str>) -> Result<Level, String> {
    let lower = level.to_ascii_lowercase();
    let number = lower.strip_prefix("raid").unwrap_or(&lower);
    let layout_lower = layout.map(str::to_ascii_lowercase);
    let layout = layout_lower.as_deref();
    let wrong = |names: &str| {
        format!("layout '{}' is none of level {level}: give {names}", layout.unwrap_or_default())
    };
    let none = |of: Level| match layout {
        None => Ok(of),
        Some(layout) => Err(format!("level {level} has no layout, but '{layout}' was given")),
    };
    match (number, lower.as_str()) {
        ("linear", _) => none(Level::Linear),
        ("0", _) | (_, "stripe") => match layout {
            None => Ok(Level::Raid0(Raid0Layout::Alternate)),
            Some("original") => Ok(Level::Raid0(Raid0Layout::Original)),
            Some("alternate" | "alternative" | "default") => {
                Ok(Level::Raid0(Raid0Layout::Alternate))
            }
            Some("dangerous") => Ok(Level::Raid0(Raid0Layout::Unstated)),
            Some(_) => Err(wrong("alternate (the default) or original")),
        },
        ("1", _) | (_, "mirror") => none(Level::Raid1),
        ("4", _) => none(Level::Raid4),
        ("5", _) => {
            let named = layout.map_or(Some(Raid5Layout::LeftSymmetric), raid5_layout);
            named.map(Level::Raid5).ok_or_else(|| wrong(RAID5_NAMES))
        }
        ("6", _) => {
            let default = Raid6Layout::Rotating(Raid5Layout::LeftSymmetric);
            let named = layout.map_or(Some(default), raid6_layout);
            named.map(Level::Raid6).ok_or_else(|| wrong(RAID6_NAMES))
        }
        ("10", _) => {
            let named = layout.map_or(Some(Raid10Layout::near(2)), raid10_layout);
            named.map(Level::Raid10).ok_or_else(|| wrong(RAID10_NAMES))
        }
        _ => Err(format!("level '{level}' is not known: give linear, 0, 1, 4, 5, 6 or 10")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::geometry::{Geometry, GeometryError};
    use super::*;
    use crate::units::Sectors;

    /// A name's numbers, and mdadm's name of them.
    fn check(level: &str, layout: Option<&str>, numbers: (i32, u32), printed: &str) {
        let found = level_from_names(level, layout).expect("a name of mdadm");
        assert_eq!((found.level_number(), found.layout_number()), numbers);
        assert_eq!(found.to_string(), printed);
        assert_eq!(Level::from_numbers(numbers.0, numbers.1, true), Ok(found));
    }

    #[test]
    fn names_and_numbers_are_mdadms() {
        check("linear", None, (-1, 0), "");
        check("raid0", None, (0, 2), "alternate");
        check("stripe", Some("original"), (0, 1), "original");
        check("mirror", None, (1, 0), "");
        check("4", None, (4, 0), "");
        check("5", None, (5, 2), "left-symmetric");
        check("raid5", Some("parity-first"), (5, 4), "parity-first");
        check("raid6", Some("ddf-N-restart"), (6, 9), "ddf-N-restart");
        check("6", Some("right-asymmetric-6"), (6, 17), "right-asymmetric-6");
        check("RAID10", None, (10, 0x102), "near=2");
        check("10", Some("f2"), (10, 0x201), "far=2");
        check("10", Some("o3"), (10, 0x10301), "offset=3");
        check("10", Some("n2f2"), (10, 0x202), "near=2, far=2");
    }

    #[test]
    fn every_number_of_a_layout_comes_back() {
        for layout in Raid6Layout::all() {
            let level = Level::Raid6(layout);
            assert_eq!(Level::from_numbers(6, level.layout_number(), false), Ok(level));
            assert_eq!(level_from_names("6", Some(&level.to_string())), Ok(level));
        }
    }

    #[test]
    fn names_that_mdadm_does_not_know_are_refused() {
        for (level, layout) in [
            ("7", None),
            ("5", Some("ddf-zero-restart")),
            ("6", Some("parity-last-6")),
            ("1", Some("n2")),
            ("10", Some("n0")),
            ("10", Some("n2n2")),
            ("10", Some("n")),
            ("10", Some("é2")),
        ] {
            assert!(level_from_names(level, layout).is_err(), "{level} {layout:?}");
        }
    }

    #[test]
    fn numbers_that_md_does_not_run_are_refused() {
        assert_eq!(Level::from_numbers(7, 0, false), Err(GeometryError::Level(7)));
        assert!(Level::from_numbers(6, 7, false).is_err());
        assert!(Level::from_numbers(5, 8, false).is_err());
        assert!(Level::from_numbers(10, 0x2_0102, false).is_err(), "the draft's far sets");
        let raid5 = Level::Raid5(Raid5Layout::LeftSymmetric);
        let three_kib = Sectors(6);
        assert_eq!(
            Geometry::new(raid5, three_kib, 4),
            Err(GeometryError::Chunk { level: "raid5", chunk: three_kib })
        );
        assert!(Geometry::new(Level::Raid1, Sectors(3), 2).is_ok(), "md looks at no chunk there");
        assert!(Geometry::new(Level::Raid0(Raid0Layout::Unstated), Sectors(24), 2).is_ok());
        assert!(Geometry::new(raid5, Sectors(128), 1921).is_err());
        assert!(Geometry::new(raid5, Sectors(128), 0).is_err());
        assert!(Geometry::new(Level::Raid10(Raid10Layout::near(3)), Sectors(8), 2).is_err());
    }
}
