//! What was published beside what the simulation gives, and whether the one meets the other: as
//! values for JSON, and as a table.

use super::comparison::VariantRuns;
use super::table::Table;
use crate::catalogue::{RunReport, Scenario};
use crate::figures::{Figure, LockCount, Measure, Published, Role, error_percent};
use crate::quantity::three_digits;
use crate::statistics::Spread;
use serde::Serialize;

/// A published figure and its simulation.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Scenario and figure.
    pub id: String,
    /// The machine file.
    pub machine: String,
    /// The unit; empty for ratios.
    pub unit: String,
    /// What its authors say.
    pub statement: String,
    /// What was published.
    pub published: Published,
    /// What was simulated; of an order, nothing.
    pub simulated: Option<Spread>,
    /// Of an order, the medians of its variants.
    pub medians: Vec<VariantMedian>,
    /// How far the median is from what was published or from the nearer end of its range.
    pub error_percent: Option<f64>,
    /// Whether what was published lies in the interval of 8 of 10 samples.
    pub inside: Option<bool>,
    /// What had to be reached.
    pub target: Target,
    /// Whether it was.
    pub met: bool,
    /// What the figure is used for.
    pub role: Role,
    /// Who published it.
    pub source: String,
}

/// The median of one variant.
#[derive(Clone, Debug, Serialize)]
pub struct VariantMedian {
    /// The variant.
    pub variant: String,
    /// Its median.
    pub median: f64,
}

/// When a figure counts as met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    /// The medians are in the order that was told.
    Order,
    /// A gain below the double: the median is within a third of the gain.
    ThirdOfTheGain,
    /// The median is at least what was told.
    AtLeast,
    /// It lies in the interval, which is no wider than 2.5 times its low end, and the median is off
    /// by less than 1.5 times.
    Interval,
}

impl Target {
    fn words(self) -> &'static str {
        match self {
            Target::Order => "order",
            Target::ThirdOfTheGain => "1/3 of gain",
            Target::AtLeast => "at least",
            Target::Interval => "interval",
        }
    }

    fn of(figure: &Figure) -> Self {
        let is_small_gain = |value: f64| value > 1.0 && value < 2.0;
        match (&figure.measure, figure.published) {
            (Measure::Rising(_), _) | (_, Published::Order) => Target::Order,
            (_, Published::AtLeast(_)) => Target::AtLeast,
            (Measure::Ratio { .. }, Published::Value { value, .. }) if is_small_gain(value) => {
                Target::ThirdOfTheGain
            }
            (_, Published::Range { .. }) => Target::ThirdOfTheGain,
            _ => Target::Interval,
        }
    }
}

const INTERVAL_WIDTH_MAX: f64 = 2.5;
const MEDIAN_FACTOR_MAX: f64 = 1.5;

impl Outcome {
    /// Holds `figure` against the runs of its scenario on its machine. `None` if a variant that it
    /// is about did not run or measured nothing.
    pub fn of(figure: &Figure, scenario: &dyn Scenario, runs: &[VariantRuns]) -> Option<Self> {
        let samples = |name: &str| samples_of(scenario, runs, name);
        let (mut simulated, mut medians) = (None, Vec::new());
        match &figure.measure {
            Measure::Of(variant) => simulated = Some(Spread::of(&samples(variant)?)),
            Measure::Ratio { of, to } => {
                let (of, to) = (samples(of)?, samples(to)?);
                let ratios: Vec<f64> = of.iter().zip(&to).map(|(of, to)| of / to).collect();
                simulated = Some(Spread::of(&ratios));
            }
            Measure::LockRatio { lock, count, of, to } => {
                let counts = |name: &str| lock_counts(scenario, runs, name, lock, *count);
                let (of, to) = (counts(of)?, counts(to)?);
                let ratios: Vec<f64> = of.iter().zip(&to).map(|(of, to)| of / to).collect();
                simulated = Some(Spread::of(&ratios));
            }
            Measure::Rising(variants) => {
                for variant in variants {
                    let median = Spread::of(&samples(variant)?).median;
                    medians.push(VariantMedian { variant: variant.clone(), median });
                }
            }
        }
        let target = Target::of(figure);
        let met = match simulated {
            Some(spread) => is_met(target, figure.published, spread),
            None => medians.is_sorted_by(|one, next| one.median < next.median),
        };
        let error = |spread: Spread| error_of(figure.published, spread.median);
        Some(Self {
            id: figure.id.clone(),
            machine: figure.machine.clone(),
            unit: figure.unit.clone(),
            statement: figure.statement.clone(),
            published: figure.published,
            error_percent: simulated.and_then(error),
            inside: simulated.and_then(|spread| is_inside(figure.published, spread)),
            simulated,
            medians,
            target,
            met,
            role: figure.role,
            source: figure.source.clone(),
        })
    }
}

/// What the runs of a variant measured, if all of them did.
fn samples_of(scenario: &dyn Scenario, runs: &[VariantRuns], name: &str) -> Option<Vec<f64>> {
    let variants = scenario.variants();
    let of = runs.iter().find(|runs| variants[runs.variant].name == name)?;
    of.runs.iter().map(|run| run.measured).collect()
}

/// How often each run of a variant took, or found taken, all locks of a name for each MiB.
fn lock_counts(
    scenario: &dyn Scenario,
    runs: &[VariantRuns],
    name: &str,
    lock: &str,
    count: LockCount,
) -> Option<Vec<f64>> {
    let variants = scenario.variants();
    let of = runs.iter().find(|runs| variants[runs.variant].name == name)?;
    let each_mib = |run: &RunReport| {
        let counts = run.contention.locks.get(lock)?;
        let count = match count {
            LockCount::Acquisitions => counts.acquisitions,
            LockCount::Contended => counts.contended,
        };
        Some(count as f64 / run.counted_mib?)
    };
    of.runs.iter().map(each_mib).collect()
}

fn is_met(target: Target, published: Published, spread: Spread) -> bool {
    let Spread { median, low, high } = spread;
    match (target, published) {
        (_, Published::AtLeast(least)) => median >= least,
        (Target::ThirdOfTheGain, Published::Value { value, .. }) => {
            (median - value).abs() <= (value - 1.0) / 3.0
        }
        (_, Published::Range { low: least, high: most }) => {
            median >= least - (least - 1.0) / 3.0 && median <= most + (most - 1.0) / 3.0
        }
        (_, Published::Value { value, .. }) => {
            let factor = (median / value).max(value / median);
            is_inside(published, spread) == Some(true)
                && high <= low * INTERVAL_WIDTH_MAX
                && factor <= MEDIAN_FACTOR_MAX
        }
        (_, Published::Order) => unreachable!("an order is no number"),
    }
}

fn is_inside(published: Published, spread: Spread) -> Option<bool> {
    match published {
        Published::Value { value, precision, .. } => Some(spread.contains_about(value, precision)),
        // Whether the intervals meet.
        Published::Range { low, high } => Some(spread.low <= high && low <= spread.high),
        Published::AtLeast(least) => Some(spread.high >= least),
        Published::Order => None,
    }
}

/// `None` where nothing can be off.
fn error_of(published: Published, median: f64) -> Option<f64> {
    match published {
        Published::Value { value, .. } => Some(error_percent(median, value)),
        Published::Range { low, high } => Some(error_percent(median, median.clamp(low, high))),
        Published::AtLeast(least) => Some(error_percent(median, median.max(least))),
        Published::Order => None,
    }
}

impl Published {
    fn words(self) -> String {
        match self {
            Published::Value { value, .. } => three_digits(value),
            Published::Range { low, high } => {
                format!("{} to {}", three_digits(low), three_digits(high))
            }
            Published::AtLeast(least) => format!(">= {}", three_digits(least)),
            Published::Order => "order".to_owned(),
        }
    }
}

/// The outcomes as a table. Below it the medians of each order.
pub fn render(outcomes: &[Outcome]) -> String {
    let headings = [
        "figure",
        "machine",
        "unit",
        "published",
        "simulated",
        "8 of 10 samples",
        "error",
        "inside",
        "target",
        "met",
        "role",
    ];
    let mut table = Table::new(headings).with_left_columns(3);
    let dash = || "-".to_owned();
    let yes_or_no = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
    for outcome in outcomes {
        let interval = |spread: Spread| {
            format!("{} to {}", three_digits(spread.low), three_digits(spread.high))
        };
        table.row([
            outcome.id.clone(),
            outcome.machine.clone(),
            if outcome.unit.is_empty() { "ratio".to_owned() } else { outcome.unit.clone() },
            outcome.published.words(),
            outcome.simulated.map_or_else(|| "below".to_owned(), |it| three_digits(it.median)),
            outcome.simulated.map_or_else(dash, interval),
            outcome.error_percent.map_or_else(dash, |error| format!("{error:+.0} %")),
            outcome.inside.map_or_else(dash, yes_or_no),
            outcome.target.words().to_owned(),
            yes_or_no(outcome.met),
            outcome.role.word().to_owned(),
        ]);
    }
    let orders = outcomes.iter().filter(|outcome| !outcome.medians.is_empty()).map(|outcome| {
        let medians: Vec<String> = outcome
            .medians
            .iter()
            .map(|of| format!("{} {}", of.variant, three_digits(of.median)))
            .collect();
        format!("{}: {}\n", outcome.id, medians.join(", then "))
    });
    table.render() + &orders.collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(value: f64) -> Published {
        Published::Value { value, precision: 0.0, second_machine: None }
    }

    fn spread(low: f64, median: f64, high: f64) -> Spread {
        Spread { median, low, high }
    }

    #[test]
    fn a_small_gain_is_met_within_a_third_of_it() {
        let met = |median| is_met(Target::ThirdOfTheGain, value(1.15), spread(1.0, median, 2.0));
        assert!(met(1.11) && met(1.19));
        assert!(!met(1.09) && !met(1.21));
        let range = Published::Range { low: 1.03, high: 1.2 };
        let met = |median| is_met(Target::ThirdOfTheGain, range, spread(1.0, median, 2.0));
        assert!(met(1.021) && met(1.26));
        assert!(!met(1.01) && !met(1.28));
    }

    #[test]
    fn a_collapse_is_met_inside_a_narrow_interval_with_its_median_near() {
        let met = |spread| is_met(Target::Interval, value(1.0), spread);
        assert!(met(spread(0.9, 1.4, 2.2)));
        assert!(!met(spread(0.9, 1.4, 2.3)), "too wide");
        assert!(!met(spread(0.9, 1.6, 2.0)), "the median is too far off");
        assert!(!met(spread(1.1, 1.2, 1.3)), "not inside");
    }

    #[test]
    fn the_error_of_a_range_is_from_its_nearer_end() {
        let range = Published::Range { low: 1.0, high: 2.0 };
        assert_eq!(error_of(range, 1.5), Some(0.0));
        assert_eq!(error_of(range, 3.0), Some(50.0));
        assert_eq!(error_of(Published::AtLeast(2.0), 1.0), Some(-50.0));
    }
}
