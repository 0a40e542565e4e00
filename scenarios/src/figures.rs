//! What others measured and published, as data with its source. Read only: no figure whose role is
//! `predicted` flows into a simulation.

use serde::{Deserialize, Serialize};
use std::sync::LazyLock;

/// What a figure is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Sets the scenario or the machine up, so that meeting it proves little.
    Input,
    /// Must come out of the simulation.
    Predicted,
}

impl Role {
    /// The role as reports show it.
    pub fn word(self) -> &'static str {
        match self {
            Role::Input => "input",
            Role::Predicted => "predicted",
        }
    }
}

/// One published figure, or a statement about several.
#[derive(Clone, Debug)]
pub struct Figure {
    /// The scenario and what is said of it, such as `raid10-resync-lock/before`.
    pub id: String,
    /// The scenario that shows it.
    pub scenario: String,
    /// The machine file that it was measured on a machine of.
    pub machine: String,
    /// What was measured.
    pub system: String,
    /// What its authors say of it.
    pub statement: String,
    /// What of the simulation it is held against.
    pub measure: Measure,
    /// The figure.
    pub published: Published,
    /// Its unit; empty for a ratio.
    pub unit: String,
    /// What it is used for.
    pub role: Role,
    /// Who published it where and when.
    pub source: String,
}

/// What of a scenario's variants a figure is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Measure {
    /// What one variant measures.
    Of(String),
    /// What one measures over what another does, on the same machine with the same seed.
    Ratio {
        /// The one.
        of: String,
        /// The other.
        to: String,
    },
    /// How often one takes, or finds taken, all locks of a name for each MiB, over how often another
    /// does.
    LockRatio {
        /// The locks.
        lock: String,
        /// What is counted of them.
        count: LockCount,
        /// The one.
        of: String,
        /// The other.
        to: String,
    },
    /// The variants, from the one that measures least to the one that measures most.
    Rising(Vec<String>),
}

/// What is counted of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LockCount {
    /// How often it was taken.
    Acquisitions,
    /// How often it was found taken.
    Contended,
}

impl Measure {
    /// The variants that must run.
    pub fn variants(&self) -> Vec<&str> {
        match self {
            Measure::Of(variant) => vec![variant],
            Measure::Ratio { of, to } | Measure::LockRatio { of, to, .. } => vec![of, to],
            Measure::Rising(variants) => variants.iter().map(String::as_str).collect(),
        }
    }
}

/// What was published.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Published {
    /// A number.
    Value {
        /// The number.
        value: f64,
        /// Half of the last digit that was published.
        precision: f64,
        /// The same on a second machine of the same model, where it was measured.
        second_machine: Option<f64>,
    },
    /// Two numbers that it lies between.
    Range {
        /// The least.
        low: f64,
        /// The most.
        high: f64,
    },
    /// A number that it reaches or passes.
    AtLeast(f64),
    /// An order without numbers.
    Order,
}

/// A figure as the file has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    id: String,
    machine: String,
    system: String,
    statement: String,
    #[serde(default)]
    unit: String,
    role: Role,
    source: String,
    /// The part of the id before the slash if left out; likewise the variant, the part after it.
    scenario: Option<String>,
    variant: Option<String>,
    against: Option<String>,
    value: Option<f64>,
    #[serde(default)]
    precision: f64,
    range: Option<[f64; 2]>,
    at_least: Option<f64>,
    rising: Option<Vec<String>>,
    lock: Option<String>,
    count: Option<LockCount>,
}

impl Entry {
    /// # Panics
    /// If the entry gives not exactly one kind of figure: the file is part of the program.
    fn figure(self) -> Figure {
        let (scenario, name) = self.id.split_once('/').expect("an id names scenario and figure");
        let of = self.variant.unwrap_or_else(|| name.to_owned());
        let (measure, published) = match (self.value, self.range, self.at_least, self.rising) {
            (None, None, None, Some(rising)) => (Measure::Rising(rising), Published::Order),
            (value, range, at_least, None) => {
                let published = match (value, range, at_least) {
                    (Some(value), None, None) => {
                        let precision = self.precision;
                        Published::Value { value, precision, second_machine: None }
                    }
                    (None, Some([low, high]), None) => Published::Range { low, high },
                    (None, None, Some(least)) => Published::AtLeast(least),
                    _ => panic!("{}: one of value, range and at_least", self.id),
                };
                let measure = match (self.against, self.lock, self.count) {
                    (Some(to), None, None) => Measure::Ratio { of, to },
                    (None, None, None) => Measure::Of(of),
                    (Some(to), Some(lock), Some(count)) => {
                        Measure::LockRatio { lock, count, of, to }
                    }
                    _ => panic!("{}: a lock and what is counted, of two variants", self.id),
                };
                (measure, published)
            }
            _ => panic!("{}: an order has no number", self.id),
        };
        Figure {
            scenario: self.scenario.unwrap_or_else(|| scenario.to_owned()),
            machine: self.machine,
            system: self.system,
            statement: self.statement,
            measure,
            published,
            unit: self.unit,
            role: self.role,
            source: self.source,
            id: self.id,
        }
    }
}

/// A contended user-space lock in many placements, on one machine.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockTable {
    /// Who published it.
    pub source: String,
    /// The program that measured.
    pub program: String,
    /// The machine file for the machine.
    pub machine: String,
    /// The placements.
    #[serde(rename = "row")]
    pub rows: Vec<LockTableRow>,
}

/// One placement of a contended user-space lock.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockTableRow {
    /// A short name, used as the variant's.
    pub name: String,
    /// Threads and where they run.
    pub placement: String,
    /// The cores, one thread each.
    pub cpus: Vec<u32>,
    /// Nanoseconds an acquisition.
    pub measured_ns: f64,
    /// The same on a second machine of the same model.
    pub second_machine_ns: f64,
}

/// What the threads published that the scenarios are from.
pub static THREAD_FIGURES: LazyLock<Vec<Figure>> = LazyLock::new(|| {
    #[derive(Deserialize)]
    struct File {
        figure: Vec<Entry>,
    }
    let text = include_str!("../data/figures.toml");
    let entries = toml::from_str::<File>(text).expect("the figures that we ship parse").figure;
    entries.into_iter().map(Entry::figure).collect()
});

/// All figures: those of the threads, and each row of the contended-lock table.
pub static FIGURES: LazyLock<Vec<Figure>> = LazyLock::new(|| {
    let rows = LOCK_TABLE.rows.iter().map(figure_of_row);
    THREAD_FIGURES.iter().cloned().chain(rows).collect()
});

/// The transfer costs of the machine are set from this table, so it is no prediction.
fn figure_of_row(row: &LockTableRow) -> Figure {
    let LockTable { source, program, machine, .. } = &*LOCK_TABLE;
    Figure {
        id: format!("lock-table/{}", row.name),
        scenario: "lock-table".to_owned(),
        machine: machine.clone(),
        system: program.clone(),
        statement: row.placement.clone(),
        measure: Measure::Of(row.name.clone()),
        published: Published::Value {
            value: row.measured_ns,
            precision: 0.5,
            second_machine: Some(row.second_machine_ns),
        },
        unit: "ns".to_owned(),
        role: Role::Input,
        source: source.clone(),
    }
}

/// The contended-lock table of the Kunpeng 920.
pub static LOCK_TABLE: LazyLock<LockTable> = LazyLock::new(|| {
    toml::from_str(include_str!("../data/lock_table.toml")).expect("the table that we ship parses")
});

/// A published figure beside what the simulation says, as `--json` prints it.
#[derive(Clone, Debug, Serialize)]
pub struct FigureReport {
    /// Scenario and variant.
    pub id: String,
    /// The unit of the numbers below.
    pub unit: String,
    /// What was published.
    pub published: f64,
    /// What was measured on a second machine of the same model, where it was.
    pub second_machine: Option<f64>,
    /// The median of the simulated samples.
    pub simulated: f64,
    /// 8 of 10 samples lie between this …
    pub low: f64,
    /// … and this.
    pub high: f64,
    /// How far the median is from what was published.
    pub error_percent: f64,
    /// Whether what was published lies in the interval, within the digits that were published.
    pub inside: bool,
    /// What the figure is used for.
    pub role: Role,
    /// Who published it.
    pub source: String,
}

/// The deviation of `simulated` from `published`, in per cent of the latter.
pub fn error_percent(simulated: f64, published: f64) -> f64 {
    (simulated / published - 1.0) * 100.0
}

/// Two machines of one model that differ by more than this factor bound a range: neither of them is
/// the model's figure.
const SPREAD_OF_A_RANGE: f64 = 1.5;

impl FigureReport {
    /// What the simulated figure is measured against: the published one or, where two machines of
    /// the model differ widely, whatever between the two is nearest.
    pub fn reference(&self) -> f64 {
        let Some(second) = self.second_machine else { return self.published };
        let (low, high) = (second.min(self.published), second.max(self.published));
        if high > low * SPREAD_OF_A_RANGE {
            self.simulated.clamp(low, high)
        } else {
            self.published
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue;
    use sim::machine::MachineFile;

    #[test]
    fn every_figure_has_a_source_and_an_id_of_its_own() {
        let mut ids: Vec<&str> = FIGURES.iter().map(|figure| figure.id.as_str()).collect();
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count);
        assert!(FIGURES.iter().all(|figure| figure.source.len() > 20));
    }

    #[test]
    fn every_figure_is_about_a_scenario_a_machine_and_variants_that_there_are() {
        for Figure { id, scenario, machine, measure, .. } in &*FIGURES {
            let found = catalogue::find(scenario).unwrap_or_else(|error| panic!("{id}: {error}"));
            assert!(MachineFile::preset(machine).is_ok(), "{id}: {machine}");
            for variant in measure.variants() {
                catalogue::find_variant(found, variant)
                    .unwrap_or_else(|error| panic!("{id}: {error}"));
            }
        }
    }

    #[test]
    fn the_lock_table_has_a_core_for_each_thread_of_its_rows() {
        assert_eq!(LOCK_TABLE.rows.len(), 11);
        for row in &LOCK_TABLE.rows {
            assert!(row.cpus.iter().all(|cpu| *cpu < 128), "{}", row.name);
            assert!(row.cpus.is_sorted(), "{}", row.name);
            assert!(row.measured_ns > 0.0 && row.second_machine_ns > 0.0, "{}", row.name);
        }
    }

    #[test]
    fn error_is_relative_to_what_was_published() {
        assert_eq!(error_percent(3.0, 2.0), 50.0);
        assert_eq!(error_percent(1.0, 2.0), -50.0);
    }
}
