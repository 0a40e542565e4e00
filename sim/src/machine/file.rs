//! A machine file: reading and checking it, and the machines that it allows.
//!
//! A file gives some numbers as ranges. The nominal machine has each number's value; a sample draws
//! each from its range; `with` moves one alone, to learn what depends on it.

use super::document::{Document, FILE_BYTES_MAX, Sourced, Table};
use super::error::{MachineFileError, Problem, nearest};
use super::keys::{
    ATOMICS_KEY, ATOMICS_TABLE, ATOMICS_WORDS, NUMBER_KEYS, REMOTE_TABLE, TABLES,
    TRANSFER_BOUNDS_NS, unit_of,
};
use super::model::{
    Atomics, CoreCosts, DriveModel, LatencyQuantiles, LineCosts, Machine, SchedulerCosts, Shape,
    SoftwareCosts,
};
use super::presets::PRESETS;
use super::shape::{self, CheckedShape, Fact};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// A checked machine file. Every machine that it hands out is complete and consistent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineFile {
    text: String,
    pub(super) name: String,
    pub(super) description: String,
    pub(super) facts: Vec<Fact>,
    pub(super) numbers: Vec<Number>,
    shape: Shape,
    atomics: Atomics,
}

/// Which end of a number's range, or the value between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The least that the file allows.
    Low,
    /// What the file holds most likely.
    Value,
    /// The most that the file allows.
    High,
}

/// A number that a file gives as a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Dotted from the top of the file, such as `line.remote_ns.12`.
    pub key: String,
    /// The low end of the range.
    pub low: u64,
    /// What it is most likely.
    pub value: u64,
    /// The high end of the range.
    pub high: u64,
    /// The unit of the three; empty for a count.
    pub unit: &'static str,
    /// Where the numbers are from.
    pub source: String,
}

/// A number of the file and what it sets in a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Number {
    pub(super) key: String,
    pub(super) unit: &'static str,
    pub(super) sourced: Sourced,
    target: Target,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    /// The entry of this index in the list of keys.
    Key(usize),
    /// Transfers over this distance.
    Remote(u32),
}

impl MachineFile {
    /// One of the files that come with the program.
    ///
    /// # Errors
    /// If there is none of this name; the error names those that there are.
    pub fn preset(name: &str) -> Result<Self, MachineFileError> {
        match PRESETS.iter().find(|(known, _)| *known == name) {
            Some((_, text)) => Self::parse(text, &format!("{name}.toml")),
            None => {
                let names = || PRESETS.iter().map(|(known, _)| *known);
                let problem = Problem::NoSuchPreset {
                    nearest: nearest(name, names()),
                    known: names().collect::<Vec<_>>().join(", "),
                };
                Err(error_about(name, problem))
            }
        }
    }

    /// Name and description of each preset.
    pub fn presets() -> Vec<(&'static str, String)> {
        let described = |(name, text): &(&'static str, &str)| {
            let preset = Self::parse(text, name).expect("the presets are correct");
            (*name, preset.description)
        };
        PRESETS.iter().map(described).collect()
    }

    /// What a person means by `name_or_path`: a preset, unless it looks like a path or is no preset's
    /// name but a file's.
    ///
    /// # Errors
    /// As [`preset`](Self::preset) or [`read`](Self::read).
    pub fn open(name_or_path: &str) -> Result<Self, MachineFileError> {
        let path = Path::new(name_or_path);
        let looks_like_path =
            path.components().count() > 1 || path.extension().is_some() || path.is_absolute();
        let is_preset = PRESETS.iter().any(|(name, _)| *name == name_or_path);
        if looks_like_path || (!is_preset && path.is_file()) {
            Self::read(path)
        } else {
            Self::preset(name_or_path)
        }
    }

    /// Reads and checks a file.
    ///
    /// # Errors
    /// If it cannot be read or is wrong: the first thing that is, with line, column and key.
    pub fn read(path: &Path) -> Result<Self, MachineFileError> {
        let origin = path.display().to_string();
        let mut text = String::new();
        // One byte more than allowed, so that the check of the length sees what is too long.
        let limit = FILE_BYTES_MAX as u64 + 1;
        File::open(path)
            .and_then(|file| file.take(limit).read_to_string(&mut text))
            .map_err(|cause| error_about(&origin, Problem::Unreadable(cause)))?;
        Self::parse(&text, &origin)
    }

    /// Checks a file's text. `origin` is what messages call it.
    ///
    /// # Errors
    /// If it is wrong: the first thing that is, with line, column and key.
    pub fn parse(text: &str, origin: &str) -> Result<Self, MachineFileError> {
        let document = Document::new(origin, text);
        let parsed = document.parse()?;
        let root = document.root(&parsed);
        root.refuse_unknown(&known_keys(""))?;
        let name = root.text("name")?.value.to_owned();
        let description = root.text("description")?.value.to_owned();
        let mut shape = shape::read(document, &root.table("shape")?)?;
        let atomics = read_atomics(&find_table(&root, ATOMICS_TABLE)?, &mut shape.facts)?;
        let mut numbers = Vec::new();
        for path in &TABLES[1..] {
            let table = find_table(&root, path)?;
            table.refuse_unknown(&known_keys(path))?;
            read_numbers(&table, path, &mut numbers)?;
            if *path == "line" {
                read_remote(&table, &shape, &mut numbers)?;
            }
            if path.ends_with("_latency") {
                check_quantiles(&table, &numbers)?;
            }
        }
        let CheckedShape { shape, facts, .. } = shape;
        Ok(Self { text: text.to_owned(), name, description, facts, numbers, shape, atomics })
    }

    /// What the file calls the machine.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the file says that the machine is, in a sentence.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// The file as it was read.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The machine with each number at its value.
    pub fn nominal(&self) -> Machine {
        self.machine(|number| number.sourced.value)
    }

    /// A machine that the file allows: each number drawn evenly from its range. A number's draw
    /// depends on the seed, its key and its range alone, not on the other numbers of the file.
    pub fn sample(&self, seed: u64) -> Machine {
        self.machine(|number| draw(seed, number))
    }

    /// The nominal machine, but for the number `key`.
    ///
    /// # Panics
    /// If the file has no such number; [`ranged_parameters`](Self::ranged_parameters) lists those
    /// that matter.
    pub fn with(&self, key: &str, level: Level) -> Machine {
        assert!(self.numbers.iter().any(|number| number.key == key), "no number `{key}`");
        self.machine(|number| match level {
            Level::Low if number.key == key => number.sourced.low,
            Level::High if number.key == key => number.sourced.high,
            _ => number.sourced.value,
        })
    }

    /// The numbers that are known as ranges, in the order of the file.
    pub fn ranged_parameters(&self) -> Vec<Parameter> {
        let ranged = self.numbers.iter().filter(|number| number.sourced.low < number.sourced.high);
        ranged
            .map(|number| {
                let Sourced { low, value, high, source } = number.sourced.clone();
                Parameter { key: number.key.clone(), low, value, high, unit: number.unit, source }
            })
            .collect()
    }

    fn machine(&self, level: impl Fn(&Number) -> u64) -> Machine {
        let mut machine = unset_machine(self.name.clone(), self.shape.clone(), self.atomics);
        for number in &self.numbers {
            match number.target {
                Target::Key(index) => (NUMBER_KEYS[index].set)(&mut machine, level(number)),
                Target::Remote(distance) => {
                    machine.line.remote_ns.push((distance, level(number)));
                }
            }
        }
        machine
    }
}

/// An error about a file as a whole.
fn error_about(origin: &str, problem: Problem) -> MachineFileError {
    let problem = Box::new(problem);
    MachineFileError { origin: origin.to_owned(), position: None, key: None, problem }
}

/// The keys that the table `path` may hold; the distances of `line.remote_ns` are none of them.
fn known_keys(path: &str) -> Vec<&'static str> {
    let numbers = NUMBER_KEYS.iter().filter(|key| key.table == path).map(|key| key.name);
    let tables = TABLES.iter().chain([&REMOTE_TABLE]).filter_map(|table| match path {
        "" if !table.contains('.') => Some(*table),
        _ => table.strip_prefix(path)?.strip_prefix('.'),
    });
    let texts: &[&str] = match path {
        "" => &["name", "description"],
        ATOMICS_TABLE => &[ATOMICS_KEY],
        _ => &[],
    };
    texts.iter().copied().chain(numbers).chain(tables).collect()
}

fn find_table<'a>(root: &Table<'a>, path: &str) -> Result<Table<'a>, MachineFileError> {
    path.split('.').try_fold(root.clone(), |table, name| table.table(name))
}

/// How the cores change words, which is also noted among the facts to show.
fn read_atomics(core: &Table<'_>, facts: &mut Vec<Fact>) -> Result<Atomics, MachineFileError> {
    // Before the key itself: a misspelt one is told as such, not as missing.
    core.refuse_unknown(&known_keys(ATOMICS_TABLE))?;
    let (atomics, word, source) = core.choice(ATOMICS_KEY, &ATOMICS_WORDS)?;
    let key = format!("{ATOMICS_TABLE}.{ATOMICS_KEY}");
    facts.push(Fact { key, text: word.to_owned(), source });
    Ok(atomics)
}

fn read_numbers(
    table: &Table<'_>,
    path: &str,
    numbers: &mut Vec<Number>,
) -> Result<(), MachineFileError> {
    for (index, key) in NUMBER_KEYS.iter().enumerate().filter(|(_, key)| key.table == path) {
        let number = table.number(key.name, key.bounds, key.may_be_range)?;
        if key.name == "logical_block_bytes" && !number.value.value.is_power_of_two() {
            let problem = Problem::NotAPowerOfTwo { number: number.value.value };
            return Err(table.error_of(key.name, problem));
        }
        numbers.push(Number {
            key: number.key,
            unit: unit_of(key.name),
            sourced: number.value,
            target: Target::Key(index),
        });
    }
    Ok(())
}

/// The transfer costs between nodes, ascending by distance: one for each distance of the SLIT.
fn read_remote(
    line: &Table<'_>,
    shape: &CheckedShape<'_>,
    numbers: &mut Vec<Number>,
) -> Result<(), MachineFileError> {
    if !shape.has_remote_nodes() && !line.has("remote_ns") {
        return Ok(());
    }
    let table = line.table("remote_ns")?;
    let mut priced = Vec::new();
    for key in table.keys() {
        // A number written otherwise, such as `012`, would be a second name of the same distance.
        let distance = key.value.parse::<u32>().ok().filter(|it| it.to_string() == key.value);
        let Some(distance) = distance else {
            return Err(table.error_of(key.value, Problem::UnknownKey { nearest: None }));
        };
        let number = table.number(key.value, TRANSFER_BOUNDS_NS, true)?;
        if !shape.has_distance(distance) {
            return Err(table.error_of(key.value, Problem::UnusedTransferCost { distance }));
        }
        priced.push((distance, number));
    }
    priced.sort_by_key(|(distance, _)| *distance);
    let distances: Vec<u32> = priced.iter().map(|(distance, _)| *distance).collect();
    shape.require_transfer_costs(&distances)?;
    numbers.extend(priced.into_iter().map(|(distance, number)| Number {
        key: number.key,
        unit: unit_of("remote_ns"),
        sourced: number.value,
        target: Target::Remote(distance),
    }));
    Ok(())
}

/// Refuses quantiles whose ranges overlap: a sample could have its median below its minimum.
fn check_quantiles(table: &Table<'_>, numbers: &[Number]) -> Result<(), MachineFileError> {
    let quantiles = &numbers[numbers.len() - 4..];
    for pair in quantiles.windows(2) {
        let [below, above] = pair else { unreachable!("windows of two") };
        if below.sourced.high > above.sourced.low {
            let last = |key: &str| key.rsplit('.').next().unwrap_or_default().to_owned();
            let problem =
                Problem::QuantilesCross { below: last(&below.key), below_high: below.sourced.high };
            return Err(table.error_of(&last(&above.key), problem));
        }
    }
    Ok(())
}

/// A machine whose numbers are all still to be set.
fn unset_machine(name: String, shape: Shape, atomics: Atomics) -> Machine {
    let latency = LatencyQuantiles { minimum_ns: 0, median_ns: 0, p99_ns: 0, maximum_ns: 0 };
    Machine {
        name,
        shape,
        core: CoreCosts {
            atomics,
            instruction_ps: 0,
            load_hit_ns: 0,
            rmw_hit_ns: 0,
            store_ns: 0,
            copy_bytes_per_us: 0,
        },
        line: LineCosts {
            cluster_ns: 0,
            node_ns: 0,
            remote_ns: Vec::new(),
            memory_ns: 0,
            snoop_point_percent: 0,
            home_detour_percent: 0,
            shared_read_ns: 0,
        },
        scheduler: SchedulerCosts {
            wake_ns: 0,
            wake_latency_ns: 0,
            context_switch_ns: 0,
            interrupt_ns: 0,
        },
        software: SoftwareCosts {
            application_submit_ns: 0,
            application_reap_ns: 0,
            array_request_ns: 0,
            array_completion_ns: 0,
            driver_submit_ns: 0,
            driver_complete_ns: 0,
        },
        drive: DriveModel {
            parallelism: 0,
            read_iops_max: 0,
            write_iops_max: 0,
            read_bytes_per_us: 0,
            write_bytes_per_us: 0,
            read_latency: latency,
            write_latency: latency,
            flush_ns: 0,
            logical_block_bytes: 0,
        },
    }
}

/// An even draw from a number's range, from a stream of its key's own.
fn draw(seed: u64, number: &Number) -> u64 {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let mut stream = ChaCha8Rng::from_seed(bytes);
    stream.set_stream(fnv1a_64(number.key.as_bytes()));
    let Sourced { low, high, .. } = number.sourced;
    let width = u128::from(high - low) + 1;
    // Scaling instead of a remainder: for these widths its bias is below one in a thousand million.
    low + ((u128::from(stream.next_u64()) * width) >> 64) as u64
}

/// The hash of Fowler, Noll and Vo (1991): small, and the same for ever.
fn fnv1a_64(bytes: &[u8]) -> u64 {
    const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    bytes.iter().fold(OFFSET_BASIS, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME))
}
