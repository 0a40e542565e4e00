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

/// One published figure.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// Scenario and variant, such as `raid10-resync-lock/before`.
    pub id: String,
    /// The machine file that it was measured on a machine of.
    pub machine: String,
    /// What was measured.
    pub system: String,
    /// What its authors say of it.
    pub statement: String,
    /// The figure.
    pub value: f64,
    /// Half of the last digit that was published.
    pub precision: f64,
    /// The same on a second machine of the same model, where it was measured.
    pub second_machine: Option<f64>,
    /// Its unit.
    pub unit: String,
    /// What it is used for.
    pub role: Role,
    /// Who published it where and when.
    pub source: String,
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

/// All figures: those of mailing-list threads, and each row of the contended-lock table.
pub static FIGURES: LazyLock<Vec<Figure>> = LazyLock::new(|| {
    #[derive(Deserialize)]
    struct File {
        figure: Vec<Figure>,
    }
    let text = include_str!("../data/figures.toml");
    let mut figures = toml::from_str::<File>(text).expect("the figures that we ship parse").figure;
    figures.extend(LOCK_TABLE.rows.iter().map(figure_of_row));
    figures
});

/// The transfer costs of the machine are set from this table, so it is no prediction.
fn figure_of_row(row: &LockTableRow) -> Figure {
    let LockTable { source, program, machine, .. } = &*LOCK_TABLE;
    Figure {
        id: format!("lock-table/{}", row.name),
        machine: machine.clone(),
        system: program.clone(),
        statement: row.placement.clone(),
        value: row.measured_ns,
        precision: 0.5,
        second_machine: Some(row.second_machine_ns),
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

    #[test]
    fn every_figure_has_a_source_and_an_id_of_its_own() {
        let mut ids: Vec<&str> = FIGURES.iter().map(|figure| figure.id.as_str()).collect();
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count);
        assert!(FIGURES.iter().all(|figure| figure.source.len() > 20 && figure.value > 0.0));
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
