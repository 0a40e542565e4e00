//! What can be wrong with a machine file: always one message with the place, the key and what would
//! be right.

use std::fmt;
use std::io;

/// A machine file that cannot be used, and why.
#[derive(Debug)]
pub struct MachineFileError {
    /// The file's path, or the name that was asked for.
    pub origin: String,
    /// Where in the file, unless it is about something that is not there.
    pub position: Option<Position>,
    /// The key, dotted from the top of the file, such as `line.remote_ns.12`.
    pub key: Option<String>,
    /// What is wrong.
    pub problem: Box<Problem>,
}

/// A place in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The line, from 1.
    pub line: usize,
    /// The character in the line, from 1.
    pub column: usize,
}

/// What is wrong.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// There is no preset of this name.
    #[error(
        "no machine has this name{}{}There are {known}",
        did_you_mean(nearest),
        separator(nearest)
    )]
    NoSuchPreset {
        /// The preset whose name is most like it.
        nearest: Option<String>,
        /// All of them.
        known: String,
    },
    /// The operating system does not give the file.
    #[error("cannot read the file: {0}")]
    Unreadable(#[source] io::Error),
    /// Nobody writes a machine that long.
    #[error("the file has more than {limit_bytes} bytes, so it is no machine file")]
    TooLong {
        /// The longest that is read.
        limit_bytes: usize,
    },
    /// Text that is not TOML.
    #[error("not valid TOML: {0}")]
    Syntax(String),
    /// A key that means nothing here.
    #[error("unknown key{}", did_you_mean(nearest))]
    UnknownKey {
        /// The known key that is most like it.
        nearest: Option<String>,
    },
    /// A key that a machine needs.
    #[error("missing; expected {expected}")]
    Missing {
        /// What to write there.
        expected: &'static str,
    },
    /// A value of another kind.
    #[error("expected {expected}, found {found}")]
    WrongType {
        /// What to write there.
        expected: &'static str,
        /// What is there.
        found: &'static str,
    },
    /// A bare value, or one whose source is missing or empty.
    #[error("has no source: say where the value is from, as in {{ value = …, source = \"…\" }}")]
    NoSource,
    /// An empty or overlong text, or one with control characters.
    #[error("expected 1 to {limit} printable characters")]
    BadText {
        /// The longest that is taken.
        limit: usize,
    },
    /// A number that cannot be meant.
    #[error("{number} is outside {minimum} to {maximum}{unit}")]
    OutOfBounds {
        /// As written.
        number: String,
        /// The least that is taken.
        minimum: u64,
        /// The most that is taken.
        maximum: u64,
        /// The unit with a space before it, or nothing.
        unit: String,
    },
    /// A word that stands for nothing here.
    #[error("unknown word; expected {known}")]
    UnknownWord {
        /// Those that stand for something.
        known: String,
    },
    /// Half a range.
    #[error("a range needs both `low` and `high`")]
    HalfARange,
    /// A value that its own range excludes.
    #[error("value {value} lies outside its range, low {low} to high {high}")]
    OutsideRange {
        /// The value.
        value: u64,
        /// The low end.
        low: u64,
        /// The high end.
        high: u64,
    },
    /// A range where the simulator needs one number.
    #[error("cannot be a range: give only `value` and `source`")]
    NotARange,
    /// A number that must be a power of two.
    #[error("{number} is not a power of two")]
    NotAPowerOfTwo {
        /// As written.
        number: u64,
    },
    /// Quantiles that could come out in the wrong order.
    #[error("its range must lie above that of `{below}`, which reaches to {below_high} ns")]
    QuantilesCross {
        /// The quantile below.
        below: String,
        /// The highest that it may be.
        below_high: u64,
    },
    /// More cores than the simulator takes.
    #[error("{cores} cores in all, more than {limit}")]
    TooManyCores {
        /// The product of the shape's numbers.
        cores: u64,
        /// The most.
        limit: u64,
    },
    /// A distance matrix of another size than the machine.
    #[error("expected {nodes} rows of {nodes} distances, one for each node; {found}")]
    SlitNotSquare {
        /// How many nodes the machine has.
        nodes: u32,
        /// What is there.
        found: String,
    },
    /// A distance that the firmware's table cannot hold.
    #[error("row {row}, column {column} is {distance}; expected {expected}")]
    SlitDistance {
        /// From this node, from 0.
        row: usize,
        /// To this node, from 0.
        column: usize,
        /// As written.
        distance: u64,
        /// What may stand there.
        expected: &'static str,
    },
    /// A distance without a price.
    #[error(
        "distance {distance} from node {row} to node {column} has no transfer cost; \
         add `{distance} = {{ value = …, source = \"…\" }}` to [line.remote_ns]"
    )]
    NoTransferCost {
        /// From this node, from 0.
        row: usize,
        /// To this node, from 0.
        column: usize,
        /// The distance.
        distance: u32,
    },
    /// A price for a distance that the machine does not have.
    #[error("no two nodes are at distance {distance} in `shape.slit`")]
    UnusedTransferCost {
        /// The distance.
        distance: u32,
    },
}

fn did_you_mean(nearest: &Option<String>) -> String {
    nearest.as_ref().map(|name| format!("; did you mean `{name}`?")).unwrap_or_default()
}

/// What stands before the list of names: a question mark has ended the sentence already, or not.
fn separator(nearest: &Option<String>) -> &'static str {
    if nearest.is_some() { " " } else { ". " }
}

impl fmt::Display for MachineFileError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.origin)?;
        if let Some(Position { line, column }) = self.position {
            write!(formatter, ":{line}:{column}")?;
        }
        if let Some(key) = &self.key {
            write!(formatter, ": `{key}`")?;
        }
        write!(formatter, ": {}", self.problem)
    }
}

impl std::error::Error for MachineFileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &*self.problem {
            Problem::Unreadable(cause) => Some(cause),
            _ => None,
        }
    }
}

/// The candidate most like `word`, if any is like it at all.
pub(super) fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    // A word as long as a whole sentence is no misspelling, and comparing it takes long.
    if word.len() > 64 {
        return None;
    }
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(word, candidate), candidate))
        .filter(|(edits, candidate)| *edits <= 1 + candidate.len() / 3)
        .min()
        .map(|(_, candidate)| candidate.to_owned())
}
