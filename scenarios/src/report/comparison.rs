//! The comparison of a scenario's variants, from the runs of each: as values for JSON, and as text.
//!
//! Everything but the events a second follows from the runs alone, in their order.

use super::contention::{self, ContentionReport};
use super::gains::{self, GainReport};
use super::outcomes::{self, Outcome};
use super::table::Table;
use crate::catalogue::{Kind, Note, RunReport, Scenario};
use crate::figures::{FIGURES, Figure, FigureReport, Measure, Published, Role, error_percent};
use crate::quantity::{count, nanoseconds, three_digits};
use crate::statistics::{IoSummary, Spread, log_error_root_mean_square};
use serde::Serialize;

/// Parameters that cause less of the spread are in JSON only.
const SHARE_SHOWN_PERCENT: f64 = 2.0;

/// The runs of one variant, in the order of their seeds.
pub struct VariantRuns {
    /// As in the scenario's list.
    pub variant: usize,
    /// The first ran on the machine's nominal values.
    pub runs: Vec<RunReport>,
}

/// All variants side by side.
#[derive(Debug, Serialize)]
pub struct Comparison {
    /// The scenario.
    pub scenario: &'static str,
    /// The machine file.
    pub machine: String,
    /// The first seed.
    pub seed: u64,
    /// Runs of each variant.
    pub samples: usize,
    /// What is compared.
    pub quantity: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// What was published, beside the simulation.
    pub figures: Vec<FigureReport>,
    /// What was published of several variants together: ratios and orders.
    pub outcomes: Vec<Outcome>,
    /// What variants gain over others.
    pub gains: Vec<GainReport>,
    /// Root of the mean square of the logarithms of simulated over published, if there are many.
    pub log_error_root_mean_square: Option<f64>,
    /// The variants.
    pub variants: Vec<VariantReport>,
    /// Which ranges of the machine file the spread comes from, if that was asked for.
    pub explanation: Vec<ParameterReport>,
    /// Violations of what must hold in any run.
    pub violations: Vec<String>,
    /// Simulated events a second and core, on the clock of the host.
    pub events_per_second: f64,
}

/// One variant.
#[derive(Debug, Serialize)]
pub struct VariantReport {
    /// Its name.
    pub name: String,
    /// What is different in it.
    pub about: String,
    /// What was measured.
    pub measured: Option<Spread>,
    /// Requests a second and their latencies, the median of the samples each.
    pub io: Option<IoSummary>,
    /// What the first run counted beside.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Note>,
    /// Of the first run.
    pub contention: ContentionReport,
    /// Of the first run.
    pub trace_hash: String,
}

/// How much one range of the machine file moves one variant.
#[derive(Clone, Debug, Serialize)]
pub struct ParameterReport {
    /// The variant.
    pub variant: String,
    /// The key in the machine file.
    pub key: String,
    /// Its range, with the unit.
    pub range: String,
    /// What is measured with the parameter at its low end, the others at their values.
    pub at_low: f64,
    /// The same at its high end.
    pub at_high: f64,
    /// Its share of the widths of all parameters, in per cent.
    pub share_percent: f64,
}

impl Comparison {
    /// Puts the runs side by side. `machine` is the name in the machine file.
    ///
    /// # Panics
    /// If the scenario measures nothing, or a variant has no run.
    pub fn of(scenario: &dyn Scenario, machine: &str, seed: u64, variants: &[VariantRuns]) -> Self {
        let Kind::Measures { quantity, unit } = scenario.kind() else {
            panic!("{} measures nothing", scenario.name());
        };
        let described = scenario.variants();
        let reports: Vec<VariantReport> = variants
            .iter()
            .map(|runs| VariantReport::of(&described[runs.variant], &runs.runs))
            .collect();
        let figures: Vec<FigureReport> = reports
            .iter()
            .filter_map(|report| figure_beside(scenario.name(), machine, report))
            .collect();
        let is_of_several = |figure: &&Figure| {
            figure.scenario == scenario.name()
                && figure.machine == machine
                && !matches!(figure.measure, Measure::Of(_))
        };
        let outcomes = FIGURES
            .iter()
            .filter(is_of_several)
            .filter_map(|figure| Outcome::of(figure, scenario, variants))
            .collect();
        let pairs = figures.iter().map(|figure| (figure.simulated, figure.reference()));
        let log_error = (figures.len() >= 5).then(|| log_error_root_mean_square(pairs));
        let violations = variants
            .iter()
            .flat_map(|runs| runs.runs.iter().map(|run| (runs.variant, run)))
            .filter_map(|(variant, run)| Some((variant, run.violation.as_ref()?)))
            .map(|(variant, why)| format!("{}: {why}", described[variant].name))
            .collect();
        Self {
            scenario: scenario.name(),
            machine: machine.to_owned(),
            seed,
            samples: variants.iter().map(|runs| runs.runs.len()).max().unwrap_or(0),
            quantity,
            unit,
            figures,
            outcomes,
            gains: gains::gains(scenario, variants),
            log_error_root_mean_square: log_error,
            variants: reports,
            explanation: Vec::new(),
            violations,
            events_per_second: 0.0,
        }
    }

    /// The comparison as tables.
    pub fn render(&self) -> String {
        let mut parts = vec![self.render_variants()];
        if !self.outcomes.is_empty() {
            parts.push(outcomes::render(&self.outcomes));
        }
        if !self.gains.is_empty() {
            parts.push(gains::render(&self.gains));
        }
        if self.variants.iter().any(|variant| !variant.notes.is_empty()) {
            parts.push(self.render_notes());
        }
        let runs: Vec<(&str, &ContentionReport)> =
            self.variants.iter().map(|it| (it.name.as_str(), &it.contention)).collect();
        let contention = contention::render(&runs);
        if !contention.is_empty() {
            let which = "Contention, one run of each variant on the machine's nominal values:";
            parts.push(format!("{which}\n{contention}"));
        }
        if !self.explanation.is_empty() {
            parts.push(self.render_explanation());
        }
        parts.extend(self.violations.iter().map(|why| format!("violated: {why}\n")));
        parts.push(format!("{} events a second and core\n", count(self.events_per_second)));
        parts.join("\n")
    }

    fn render_variants(&self) -> String {
        let columns = self.columns();
        let headings = columns.iter().map(|column| column.heading.to_owned());
        let mut table = Table::new_of(headings);
        for variant in &self.variants {
            let id = format!("{}/{}", self.scenario, variant.name);
            let figure = self.figures.iter().find(|figure| figure.id == id);
            let cell =
                |column: &Column| (column.cell)(variant, figure).unwrap_or_else(|| "-".to_owned());
            table.row(columns.iter().map(cell));
        }
        let runs = match self.samples {
            1 => "one run of each variant".to_owned(),
            samples => format!("median of {samples} runs of each variant"),
        };
        let Self { scenario, machine, seed, quantity, unit, .. } = self;
        let title = format!("{scenario} on {machine}, seed {seed}: {quantity} in {unit}, {runs}");
        let mut text = format!("{title}\n\n{}", table.render());
        if self.figures.iter().any(|figure| figure.role == Role::Input) {
            text +=
                "input: set the machine or the scenario up with it, so meeting it proves little\n";
        }
        if let Some(error) = self.log_error_root_mean_square {
            text += &format!("root of the mean square of ln(simulated / published): {error:.3}\n");
        }
        text
    }

    /// The columns of which there is anything to show.
    fn columns(&self) -> Vec<Column> {
        let mut columns = vec![
            column("variant", |variant, _| Some(variant.name.clone())),
            column(self.unit, |variant, _| Some(three_digits(variant.measured?.median))),
        ];
        if self.samples > 1 {
            columns.push(column("8 of 10 samples", |variant, _| {
                let Spread { low, high, .. } = variant.measured?;
                Some(format!("{} to {}", three_digits(low), three_digits(high)))
            }));
        }
        if self.variants.iter().any(|variant| variant.io.is_some()) {
            // The bandwidth has a column of its own, with its spread.
            columns.extend([
                column("IOPS", |variant, _| Some(count(variant.io.as_ref()?.iops))),
                column("p50", |variant, _| latency(variant, |io| io.latency_ns_p50)),
                column("p99", |variant, _| latency(variant, |io| io.latency_ns_p99)),
                column("p99.9", |variant, _| latency(variant, |io| io.latency_ns_p999)),
            ]);
        }
        if self.figures.is_empty() {
            return columns;
        }
        columns.push(column("published", |_, figure| Some(three_digits(figure?.published))));
        if self.figures.iter().any(|figure| figure.second_machine.is_some()) {
            let second = |_: &_, figure: Option<&FigureReport>| figure?.second_machine;
            columns.push(column("second machine", move |variant, figure| {
                second(variant, figure).map(three_digits)
            }));
        }
        columns.push(column("error", |_, figure| Some(format!("{:+.0} %", figure?.error_percent))));
        if self.samples > 1 {
            let yes_or_no = |inside: bool| if inside { "yes" } else { "no" };
            columns.push(column("inside", move |_, figure| Some(yes_or_no(figure?.inside).into())));
        }
        columns.push(column("role", |_, figure| Some(figure?.role.word().to_owned())));
        columns
    }

    /// A row for each thing that was counted, a column for each variant.
    fn render_notes(&self) -> String {
        let counting = || self.variants.iter().filter(|variant| !variant.notes.is_empty());
        let mut names: Vec<&str> = Vec::new();
        for note in counting().flat_map(|variant| &variant.notes) {
            if !names.contains(&note.name) {
                names.push(note.name);
            }
        }
        let headings = ["variant".to_owned()].into_iter();
        let numbers = (1..=names.len()).map(|number| format!("({number})"));
        let mut table = Table::new_of(headings.chain(numbers));
        for variant in counting() {
            let cell = |name: &&str| {
                let note = variant.notes.iter().find(|note| note.name == *name);
                note.map_or_else(|| "-".to_owned(), |note| three_digits(note.value))
            };
            let cells = names.iter().map(cell);
            table.row([variant.name.clone()].into_iter().chain(cells));
        }
        let legend: Vec<String> =
            (1..).zip(&names).map(|(number, name)| format!("({number}) {name}")).collect();
        let which = "Counted in one run of each variant on the machine's nominal values:";
        format!("{which}\n{}{}\n", table.render(), legend.join("\n"))
    }

    fn render_explanation(&self) -> String {
        let headings = ["variant", "parameter", "range", "at low", "at high", "share"];
        let mut table = Table::new(headings).with_left_columns(3);
        for row in self.explanation.iter().filter(|row| row.share_percent >= SHARE_SHOWN_PERCENT) {
            table.row([
                row.variant.clone(),
                row.key.clone(),
                row.range.clone(),
                three_digits(row.at_low),
                three_digits(row.at_high),
                format!("{:.0} %", row.share_percent),
            ]);
        }
        let unit = self.unit;
        format!(
            "Where the spread comes from, one parameter at a time ({unit}):\n{}",
            table.render()
        )
    }
}

impl VariantReport {
    fn of(variant: &crate::catalogue::Variant, runs: &[RunReport]) -> Self {
        let first = runs.first().expect("a variant was run");
        let measured: Vec<f64> = runs.iter().filter_map(|run| run.measured).collect();
        let summaries: Vec<&IoSummary> = runs.iter().filter_map(|run| run.io.as_ref()).collect();
        Self {
            name: variant.name.clone(),
            about: variant.about.clone(),
            measured: (!measured.is_empty()).then(|| Spread::of(&measured)),
            io: (!summaries.is_empty()).then(|| IoSummary::median_of(&summaries)),
            notes: first.notes.clone(),
            contention: ContentionReport::of(&first.contention, first.counted_mib),
            trace_hash: format!("{:016x}", first.trace_hash),
        }
    }
}

/// A column of the table of variants: its heading, and its cell for a variant and what was published
/// of it; `None` is shown as a dash.
struct Column {
    heading: &'static str,
    cell: Box<Cell>,
}

type Cell = dyn Fn(&VariantReport, Option<&FigureReport>) -> Option<String>;

fn column(
    heading: &'static str,
    cell: impl Fn(&VariantReport, Option<&FigureReport>) -> Option<String> + 'static,
) -> Column {
    Column { heading, cell: Box::new(cell) }
}

fn latency(variant: &VariantReport, latency_ns: fn(&IoSummary) -> u64) -> Option<String> {
    Some(nanoseconds(latency_ns(variant.io.as_ref()?) as f64))
}

/// What was published of this variant on this machine, beside what was simulated.
fn figure_beside(scenario: &str, machine: &str, report: &VariantReport) -> Option<FigureReport> {
    let is_of = |figure: &&Figure| {
        let Measure::Of(variant) = &figure.measure else { return false };
        figure.scenario == scenario && *variant == report.name && figure.machine == machine
    };
    let figure = FIGURES.iter().find(is_of)?;
    let Published::Value { value, precision, second_machine } = figure.published else {
        return None;
    };
    let spread = report.measured?;
    Some(FigureReport {
        id: format!("{scenario}/{}", report.name),
        unit: figure.unit.clone(),
        published: value,
        second_machine,
        simulated: spread.median,
        low: spread.low,
        high: spread.high,
        error_percent: error_percent(spread.median, value),
        inside: spread.contains_about(value, precision),
        role: figure.role,
        source: figure.source.clone(),
    })
}
