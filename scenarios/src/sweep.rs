//! What a sweep turns: one dimension of a scenario, at several points, all else as the story has it.

use raid::lock::SpinKind;
use raid::tuning::HeadLookup;
use sim::machine::Shape;
use std::fmt;
use std::str::FromStr;

/// A dimension that a scenario may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// How many cores work, one job each.
    Cpus,
    /// How many drives the array has.
    Drives,
    /// On how many NUMA nodes, from the first, jobs may run.
    Nodes,
    /// The algorithm of the spin locks.
    Lock,
    /// How many cores the machine may ever have, those that it has among them.
    Possible,
}

/// What a run does otherwise than its story; nothing if all are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// So many jobs, each on a core of its own.
    pub cpus: Option<u32>,
    /// So many members.
    pub drives: Option<u32>,
    /// Unbound jobs run on the first so many nodes.
    pub nodes: Option<u32>,
    /// Every spin lock that the story is about.
    pub lock: Option<SpinKind>,
    /// Writes to arrays with parity leave their pages at stripe heads, looked up so; not swept.
    pub stripe_lookup: Option<HeadLookup>,
    /// So many cores are possible.
    pub possible: Option<u32>,
}

/// An axis and the points on it, as typed: `cpus=1..128`, `drives=4,8,24`, `lock=ticket,queued`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sweep {
    /// What is turned.
    pub axis: Axis,
    points: Points,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Points {
    /// From the first, doubled again and again, to the last.
    Doubling(u32, u32),
    Counts(Vec<u32>),
    Locks(Vec<SpinKind>),
}

/// One point of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// Cores, drives, nodes or possible cores.
    Count(u32),
    /// A spin lock.
    Lock(SpinKind),
}

/// Why a sweep was not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SweepError {
    /// No axis of that name.
    #[error(
        "'{0}' is no axis; a sweep is cpus=1..128, drives=2..24, nodes=1..8, lock=ticket,queued or \
         possible=4..4096"
    )]
    Axis(String),
    /// A point that is none.
    #[error("'{point}' is no point of {axis}; it takes {wanted}")]
    Point {
        /// What is turned.
        axis: Axis,
        /// What was typed.
        point: String,
        /// What it takes.
        wanted: String,
    },
}

const AXES: [(&str, Axis); 5] = [
    ("cpus", Axis::Cpus),
    ("drives", Axis::Drives),
    ("nodes", Axis::Nodes),
    ("lock", Axis::Lock),
    ("possible", Axis::Possible),
];

const LOCKS: [(&str, SpinKind); 4] = [
    ("test-and-set", SpinKind::TestAndSet),
    ("ticket", SpinKind::Ticket),
    ("queued", SpinKind::Queued),
    ("numa-aware", SpinKind::NumaQueued),
];

/// More points than anybody reads, or more drives or cores than a machine has.
const COUNT_MAX: u32 = 4096;

impl fmt::Display for Axis {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, _) = AXES.iter().find(|(_, axis)| axis == self).expect("each axis has a name");
        formatter.write_str(name)
    }
}

impl fmt::Display for Point {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Point::Count(count) => write!(formatter, "{count}"),
            Point::Lock(kind) => {
                let (name, _) =
                    LOCKS.iter().find(|(_, lock)| lock == kind).expect("each lock has a name");
                formatter.write_str(name)
            }
        }
    }
}

impl FromStr for Sweep {
    type Err = SweepError;
    fn from_str(text: &str) -> Result<Self, SweepError> {
        let unknown = || SweepError::Axis(text.to_owned());
        let (name, points) = text.split_once('=').ok_or_else(unknown)?;
        let (_, axis) = *AXES.iter().find(|(axis, _)| *axis == name).ok_or_else(unknown)?;
        let points = match axis {
            Axis::Lock => Points::Locks(points.split(',').map(lock).collect::<Result<_, _>>()?),
            _ => match points.split_once("..") {
                Some((first, last)) => {
                    let (first, last) = (count(axis, first)?, count(axis, last)?);
                    if first > last {
                        return Err(no_count(axis, points));
                    }
                    Points::Doubling(first, last)
                }
                None => Points::Counts(
                    points.split(',').map(|point| count(axis, point)).collect::<Result<_, _>>()?,
                ),
            },
        };
        Ok(Self { axis, points })
    }
}

fn count(axis: Axis, text: &str) -> Result<u32, SweepError> {
    match text.parse() {
        Ok(count) if (1..=COUNT_MAX).contains(&count) => Ok(count),
        _ => Err(no_count(axis, text)),
    }
}

fn no_count(axis: Axis, text: &str) -> SweepError {
    let wanted = format!("whole numbers from 1 to {COUNT_MAX}, as a list or as FIRST..LAST");
    SweepError::Point { axis, point: text.to_owned(), wanted }
}

fn lock(text: &str) -> Result<SpinKind, SweepError> {
    LOCKS.iter().find(|(name, _)| *name == text).map(|(_, kind)| *kind).ok_or_else(|| {
        let known: Vec<&str> = LOCKS.iter().map(|(name, _)| *name).collect();
        let wanted = known.join(", ");
        SweepError::Point { axis: Axis::Lock, point: text.to_owned(), wanted }
    })
}

impl Sweep {
    /// The points on a machine of this shape. A range ends where the machine ends; one of possible
    /// cores begins with those that it has.
    ///
    /// # Errors
    /// What the machine lacks, if a point that was asked for by itself is beyond it.
    pub fn points(&self, shape: &Shape) -> Result<Vec<Point>, String> {
        let most = match self.axis {
            Axis::Cpus => shape.cpu_count(),
            Axis::Nodes => shape.socket_of_node.len() as u32,
            Axis::Drives | Axis::Lock | Axis::Possible => COUNT_MAX,
        };
        let least = if self.axis == Axis::Possible { shape.cpu_count() } else { 1 };
        let lacks = |count: u32| match count < least {
            true => format!("it has {least} cores already, so {count} possible ones are too few"),
            false => format!("it has {most} {}, not {count}", self.axis),
        };
        match &self.points {
            Points::Locks(kinds) => Ok(kinds.iter().map(|kind| Point::Lock(*kind)).collect()),
            Points::Counts(counts) => match counts.iter().find(|it| !(least..=most).contains(it)) {
                Some(count) => Err(lacks(*count)),
                None => Ok(counts.iter().map(|count| Point::Count(*count)).collect()),
            },
            Points::Doubling(first, _) if *first > most => Err(lacks(*first)),
            Points::Doubling(_, last) if *last < least => Err(lacks(*last)),
            Points::Doubling(first, last) => {
                let (first, last) = (*first.max(&least), *last.min(&most));
                let below = std::iter::successors(Some(first), |count| Some(count * 2));
                let below = below.take_while(|count| *count < last);
                Ok(below.chain([last]).map(Point::Count).collect())
            }
        }
    }
}

impl Changes {
    /// One point of a sweep along `axis`.
    pub fn at(axis: Axis, point: Point) -> Self {
        let none = Self::default();
        match (axis, point) {
            (Axis::Cpus, Point::Count(count)) => Self { cpus: Some(count), ..none },
            (Axis::Drives, Point::Count(count)) => Self { drives: Some(count), ..none },
            (Axis::Nodes, Point::Count(count)) => Self { nodes: Some(count), ..none },
            (Axis::Possible, Point::Count(count)) => Self { possible: Some(count), ..none },
            (_, Point::Lock(kind)) => Self { lock: Some(kind), ..none },
            (Axis::Lock, Point::Count(_)) => unreachable!("the points of a lock axis are locks"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::machine::MachineFile;

    fn points(text: &str) -> Result<Vec<String>, String> {
        let shape = MachineFile::preset("kunpeng920").expect("a preset").nominal().shape;
        let sweep: Sweep = text.parse().map_err(|error: SweepError| error.to_string())?;
        Ok(sweep.points(&shape)?.iter().map(Point::to_string).collect())
    }

    #[test]
    fn a_range_doubles_and_ends_where_it_or_the_machine_ends() {
        assert_eq!(points("cpus=1..6").expect("a range"), ["1", "2", "4", "6"]);
        assert_eq!(points("drives=3..24").expect("a range"), ["3", "6", "12", "24"]);
        assert_eq!(points("nodes=1..8").expect("a range"), ["1", "2", "4"]);
        assert_eq!(points("cpus=5..5").expect("a range"), ["5"]);
        assert_eq!(points("possible=4..512").expect("a range"), ["128", "256", "512"]);
    }

    #[test]
    fn a_list_is_taken_as_it_is() {
        assert_eq!(points("drives=4,24,8").expect("a list"), ["4", "24", "8"]);
        let locks = points("lock=ticket,queued,numa-aware").expect("a list");
        assert_eq!(locks, ["ticket", "queued", "numa-aware"]);
    }

    #[test]
    fn what_cannot_be_is_refused_with_what_can() {
        let refused = |text| points(text).expect_err("refused");
        assert_eq!(refused("nodes=8"), "it has 4 nodes, not 8");
        let too_few = "it has 128 cores already, so 64 possible ones are too few";
        assert_eq!(refused("possible=64"), too_few);
        assert_eq!(refused("possible=4..64"), too_few);
        assert!(refused("cpu=1").contains("cpus=1..128"));
        assert!(refused("cpus").contains("is no axis"));
        assert!(refused("lock=qspin").contains("test-and-set, ticket, queued, numa-aware"));
        for text in ["cpus=0", "cpus=4..2", "cpus=", "cpus=1..", "cpus=1,,2", "drives=-1"] {
            assert!(refused(text).contains("whole numbers from 1"), "{text}");
        }
    }
}
