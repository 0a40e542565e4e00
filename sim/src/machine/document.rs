//! A machine file's text as TOML: every value comes out checked, or as an error with its place.
//!
//! It knows what a number with a source looks like and nothing of what the numbers mean. It never
//! panics, whatever the text.

use super::error::{MachineFileError, Position, Problem, nearest};
use super::keys::unit_of;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeArray, DeInteger, DeTable, DeValue};

/// The longest text that is read.
pub(super) const FILE_BYTES_MAX: usize = 1 << 20;
/// The longest source, name or description.
const TEXT_CHARACTERS_MAX: usize = 1000;

const A_NUMBER: &str = "{ value = …, source = \"…\" }, or with `low` and `high` too";

/// Where a text is from and what it says, for messages.
#[derive(Clone, Copy)]
pub(super) struct Document<'a> {
    origin: &'a str,
    text: &'a str,
}

/// One table of a document.
#[derive(Clone)]
pub(super) struct Table<'a> {
    document: Document<'a>,
    path: String,
    entries: &'a DeTable<'a>,
    span: Option<Range<usize>>,
}

/// A value with its place.
pub(super) struct Placed<T> {
    pub(super) value: T,
    pub(super) key: String,
    pub(super) span: Range<usize>,
}

/// Rows of whole numbers.
pub(super) type Matrix = Vec<Vec<u64>>;

/// A number as a file gives it: `low` and `high` are `value` if it gives no range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sourced {
    pub(super) low: u64,
    pub(super) value: u64,
    pub(super) high: u64,
    pub(super) source: String,
}

impl<'a> Document<'a> {
    pub(super) fn new(origin: &'a str, text: &'a str) -> Self {
        Self { origin, text }
    }

    /// The text's tables and values.
    pub(super) fn parse(self) -> Result<Spanned<DeTable<'a>>, MachineFileError> {
        if self.text.len() > FILE_BYTES_MAX {
            return Err(self.error(None, None, Problem::TooLong { limit_bytes: FILE_BYTES_MAX }));
        }
        DeTable::parse(self.text).map_err(|error| {
            let problem = Problem::Syntax(error.message().replace('\n', " "));
            self.error(error.span(), None, problem)
        })
    }

    /// The whole file as a table.
    pub(super) fn root(self, parsed: &'a Spanned<DeTable<'a>>) -> Table<'a> {
        Table { document: self, path: String::new(), entries: parsed.get_ref(), span: None }
    }

    /// An error of this document.
    pub(super) fn error(
        self,
        span: Option<Range<usize>>,
        key: Option<String>,
        problem: Problem,
    ) -> MachineFileError {
        let position = span.map(|span| position_of(self.text, span.start));
        MachineFileError {
            origin: self.origin.to_owned(),
            position,
            key,
            problem: Box::new(problem),
        }
    }

    /// An error at a value.
    pub(super) fn error_at<T>(self, placed: &Placed<T>, problem: Problem) -> MachineFileError {
        self.error(Some(placed.span.clone()), Some(placed.key.clone()), problem)
    }
}

impl<'a> Table<'a> {
    /// The keys of this table with their places, in the order of their names.
    pub(super) fn keys(&self) -> impl Iterator<Item = Placed<&'a str>> + '_ {
        self.entries.keys().map(|name| {
            let value = name.get_ref().as_ref();
            Placed { value, key: self.dotted(value), span: name.span() }
        })
    }

    /// Refuses every key that is not in `known`, the first in the file first.
    pub(super) fn refuse_unknown(&self, known: &[&str]) -> Result<(), MachineFileError> {
        let unknown = self.keys().filter(|key| !known.contains(&key.value));
        match unknown.min_by_key(|key| key.span.start) {
            None => Ok(()),
            Some(key) => {
                let nearest = nearest(key.value, known.iter().copied());
                Err(self.document.error_at(&key, Problem::UnknownKey { nearest }))
            }
        }
    }

    /// Whether it has this key.
    pub(super) fn has(&self, name: &str) -> bool {
        self.entries.contains_key(name)
    }

    /// The table under `name`.
    pub(super) fn table(&self, name: &str) -> Result<Table<'a>, MachineFileError> {
        let entry = self.entry(name, "a table")?;
        match entry.get_ref() {
            DeValue::Table(entries) => Ok(Table {
                document: self.document,
                path: self.dotted(name),
                entries,
                span: Some(entry.span()),
            }),
            other => Err(self.wrong_type(name, entry, "a table", other)),
        }
    }

    /// The text under `name`.
    pub(super) fn text(&self, name: &str) -> Result<Placed<&'a str>, MachineFileError> {
        let entry = self.entry(name, "a text in quotes")?;
        let DeValue::String(text) = entry.get_ref() else {
            return Err(self.wrong_type(name, entry, "a text in quotes", entry.get_ref()));
        };
        let placed = Placed { value: text.as_ref(), key: self.dotted(name), span: entry.span() };
        let printable = !text.trim().is_empty() && !text.chars().any(char::is_control);
        if !printable || text.chars().nth(TEXT_CHARACTERS_MAX).is_some() {
            let problem = Problem::BadText { limit: TEXT_CHARACTERS_MAX };
            return Err(self.document.error_at(&placed, problem));
        }
        Ok(placed)
    }

    /// The number under `name`, within `bounds`.
    pub(super) fn number(
        &self,
        name: &str,
        bounds: (u64, u64),
        may_be_range: bool,
    ) -> Result<Placed<Sourced>, MachineFileError> {
        let fields = self.sourced_table(name, A_NUMBER)?;
        fields.refuse_unknown(&["low", "value", "high", "source"])?;
        let source = fields.text("source")?.value.to_owned();
        let unit = unit_of(self.unit_name(name));
        let value = fields.integer("value", bounds, unit)?;
        let (low, high) = match (fields.has("low"), fields.has("high")) {
            (false, false) => (value, value),
            (true, true) => {
                (fields.integer("low", bounds, unit)?, fields.integer("high", bounds, unit)?)
            }
            _ => return Err(self.error_of(name, Problem::HalfARange)),
        };
        if low > value || value > high {
            return Err(self.error_of(name, Problem::OutsideRange { value, low, high }));
        }
        if !may_be_range && fields.has("low") {
            return Err(self.error_of(name, Problem::NotARange));
        }
        let span = self.entry(name, A_NUMBER)?.span();
        Ok(Placed { value: Sourced { low, value, high, source }, key: self.dotted(name), span })
    }

    /// What the word under `name` stands for among the `known` ones, with the word and its source.
    pub(super) fn choice<T: Copy>(
        &self,
        name: &str,
        known: &[(&'static str, T)],
    ) -> Result<(T, &'static str, String), MachineFileError> {
        const EXPECTED: &str = "{ value = \"…\", source = \"…\" }";
        if let DeValue::String(_) = self.entry(name, EXPECTED)?.get_ref() {
            return Err(self.error_of(name, Problem::NoSource));
        }
        let fields = self.sourced_table(name, EXPECTED)?;
        fields.refuse_unknown(&["value", "source"])?;
        let source = fields.text("source")?.value.to_owned();
        let word = fields.text("value")?;
        match known.iter().find(|(known_word, _)| *known_word == word.value) {
            Some((known_word, meaning)) => Ok((*meaning, known_word, source)),
            None => {
                let words: Vec<_> = known.iter().map(|(word, _)| format!("`{word}`")).collect();
                let problem = Problem::UnknownWord { known: words.join(" or ") };
                Err(self.document.error_at(&word, problem))
            }
        }
    }

    /// The matrix under `name`, with its source. The rows may differ in length.
    pub(super) fn matrix(&self, name: &str) -> Result<(Placed<Matrix>, String), MachineFileError> {
        const EXPECTED: &str = "{ value = [[…], …], source = \"…\" }";
        let fields = self.sourced_table(name, EXPECTED)?;
        fields.refuse_unknown(&["value", "source"])?;
        let source = fields.text("source")?.value.to_owned();
        let entry = fields.entry("value", "rows of whole numbers")?;
        let rows = fields.array("value", entry)?;
        let value = rows
            .iter()
            .map(|row| {
                let row = fields.array("value", row)?;
                row.iter().map(|cell| fields.integer_in("value", cell, (0, 255), "")).collect()
            })
            .collect::<Result<Matrix, _>>()?;
        Ok((Placed { value, key: self.dotted(name), span: entry.span() }, source))
    }

    /// An error about the value under `name`, or about this table if there is none.
    pub(super) fn error_of(&self, name: &str, problem: Problem) -> MachineFileError {
        let span = self.entries.get(name).map(Spanned::span).or(self.span.clone());
        self.document.error(span, Some(self.dotted(name)), problem)
    }

    /// The inline table of a value with a source; a bare value is told what it lacks.
    fn sourced_table(
        &self,
        name: &str,
        expected: &'static str,
    ) -> Result<Table<'a>, MachineFileError> {
        let entry = self.entry(name, expected)?;
        match entry.get_ref() {
            DeValue::Table(_) => {
                let fields = self.table(name)?;
                if !fields.has("source") && fields.has("value") {
                    return Err(self.error_of(name, Problem::NoSource));
                }
                Ok(fields)
            }
            DeValue::Integer(_) | DeValue::Array(_) => Err(self.error_of(name, Problem::NoSource)),
            other => Err(self.wrong_type(name, entry, expected, other)),
        }
    }

    fn integer(&self, name: &str, bounds: (u64, u64), unit: &str) -> Result<u64, MachineFileError> {
        self.integer_in(name, self.entry(name, "a whole number")?, bounds, unit)
    }

    fn integer_in(
        &self,
        name: &str,
        entry: &Spanned<DeValue<'_>>,
        (minimum, maximum): (u64, u64),
        unit: &str,
    ) -> Result<u64, MachineFileError> {
        let DeValue::Integer(integer) = entry.get_ref() else {
            return Err(self.wrong_type(name, entry, "a whole number", entry.get_ref()));
        };
        match whole_number(integer) {
            Some(number) if (minimum..=maximum).contains(&number) => Ok(number),
            _ => {
                let unit = if unit.is_empty() { String::new() } else { format!(" {unit}") };
                let number = integer.to_string();
                let problem = Problem::OutOfBounds { number, minimum, maximum, unit };
                Err(self.document.error(Some(entry.span()), Some(self.dotted(name)), problem))
            }
        }
    }

    fn array(
        &self,
        name: &str,
        entry: &'a Spanned<DeValue<'a>>,
    ) -> Result<&'a DeArray<'a>, MachineFileError> {
        let expected = "rows of whole numbers";
        let found = entry.get_ref();
        found.as_array().ok_or_else(|| self.wrong_type(name, entry, expected, found))
    }

    fn entry(
        &self,
        name: &str,
        expected: &'static str,
    ) -> Result<&'a Spanned<DeValue<'a>>, MachineFileError> {
        let entry = self.entries.get(name);
        entry.ok_or_else(|| self.error_of(name, Problem::Missing { expected }))
    }

    fn wrong_type(
        &self,
        name: &str,
        entry: &Spanned<DeValue<'_>>,
        expected: &'static str,
        found: &DeValue<'_>,
    ) -> MachineFileError {
        let problem = Problem::WrongType { expected, found: kind_of(found) };
        self.document.error(Some(entry.span()), Some(self.dotted(name)), problem)
    }

    fn dotted(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    /// The name that carries the unit: the key itself, or the table's if the keys are numbers.
    fn unit_name<'n>(&'n self, name: &'n str) -> &'n str {
        if name.starts_with(|first: char| first.is_ascii_digit()) { &self.path } else { name }
    }
}

fn whole_number(integer: &DeInteger<'_>) -> Option<u64> {
    u64::from_str_radix(integer.as_str(), integer.radix()).ok()
}

fn kind_of(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "a truth value",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

fn position_of(text: &str, offset: usize) -> Position {
    // A span may end in the middle of a character that the parser did not expect.
    let offset = text.floor_char_boundary(offset.min(text.len()));
    let before = &text[..offset];
    let line = before.matches('\n').count() + 1;
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    Position { line, column: before[line_start..].chars().count() + 1 }
}
