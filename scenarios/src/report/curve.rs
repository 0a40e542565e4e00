//! The curve of a sweep: as values for JSON, as a table, and as CSV.

use super::table::Table;
use crate::quantity::three_digits;
use crate::statistics::Spread;
use serde::Serialize;

/// What a sweep measured.
#[derive(Debug, Serialize)]
pub struct Curve {
    /// The scenario.
    pub scenario: &'static str,
    /// The machine file.
    pub machine: String,
    /// The first seed.
    pub seed: u64,
    /// Runs of each variant at each point.
    pub samples: u32,
    /// What is measured.
    pub quantity: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// What was turned.
    pub axis: String,
    /// The variants, in the order of each point's values.
    pub variants: Vec<String>,
    /// The points, in the order in which they were asked for.
    pub points: Vec<CurvePoint>,
    /// Violations of what must hold in any run.
    pub violations: Vec<String>,
}

/// The variants at one point.
#[derive(Debug, Serialize)]
pub struct CurvePoint {
    /// Where.
    pub point: String,
    /// What each variant measured there, if it measured anything.
    pub measured: Vec<Option<Spread>>,
}

impl Curve {
    /// A row for each point, a column for each variant.
    pub fn render(&self) -> String {
        let headings = [&self.axis].into_iter().chain(&self.variants).cloned();
        let mut table = Table::new_of(headings);
        for at in &self.points {
            let median = |spread: &Option<Spread>| {
                spread.map_or_else(|| "-".to_owned(), |spread| three_digits(spread.median))
            };
            table.row([at.point.clone()].into_iter().chain(at.measured.iter().map(median)));
        }
        let Self { scenario, machine, seed, quantity, unit, samples, .. } = self;
        let runs = match samples {
            1 => "one run of each".to_owned(),
            samples => format!("median of {samples} runs of each"),
        };
        let title = format!("{scenario} on {machine}, seed {seed}: {quantity} in {unit}, {runs}");
        let violations = self.violations.iter().map(|why| format!("violated: {why}\n"));
        format!("{title}\n\n{}{}", table.render(), violations.collect::<String>())
    }

    /// A line for each point and variant. No cell holds a comma or a quote.
    pub fn csv(&self) -> String {
        let mut text = "scenario,machine,axis,point,variant,unit,median,low,high\n".to_owned();
        let Self { scenario, machine, axis, unit, .. } = self;
        for CurvePoint { point, measured } in &self.points {
            for (variant, spread) in self.variants.iter().zip(measured) {
                let Some(Spread { median, low, high }) = spread else { continue };
                text += &format!(
                    "{scenario},{machine},{axis},{point},{variant},{unit},{median},{low},{high}\n"
                );
            }
        }
        text
    }
}
