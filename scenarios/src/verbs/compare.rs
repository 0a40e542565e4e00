//! `raidbed compare`: each variant over seeds and over samples of the machine file's ranges, on all
//! cores of the host. The results do not depend on how many there are.

use super::figures::compare_all;
use super::sampling::{Batch, Sampling};
use super::sweep::{Form, sweep};
use super::{Finished, Verdict, finish, open};
use crate::catalogue::{Kind, Scenario, Setup};
use crate::cli::CompareArguments;
use crate::report::comparison::{Comparison, ParameterReport};
use crate::report::progress::Progress;
use crate::sweep::Changes;
use anyhow::{Result, bail};
use rayon::prelude::*;
use sim::machine::{Level, MachineFile, Parameter};

pub(super) fn compare(arguments: &CompareArguments, json: bool) -> Result<Finished> {
    let sampling = Sampling { samples: arguments.samples, seed: arguments.seed };
    let Some(name) = &arguments.scenario else {
        return compare_all(sampling, json);
    };
    let (scenario, file) = open(name, &arguments.machine)?;
    if let Kind::Property { statement } = scenario.kind() {
        bail!("{name} checks that {statement}: there is nothing to compare; try `hunt {name}`");
    }
    if let Some(along) = &arguments.sweep {
        let form = match (json, arguments.csv) {
            (true, _) => Form::Json,
            (false, true) => Form::Csv,
            (false, false) => Form::Table,
        };
        return sweep(scenario, &file, along, sampling, form);
    }
    let report = sample(scenario, &file, sampling, arguments.explain);
    let held = report.violations.is_empty();
    let verdict = if held { Verdict::Held } else { Verdict::Violated };
    finish(json, &report, verdict, Comparison::render)
}

/// The comparison of `scenario`'s variants on the machines of `file`: `samples` runs of each, from
/// `seed` on. The scenario may be one that the catalogue does not know.
///
/// # Panics
/// If the scenario measures nothing, or `samples` is 0.
pub fn compare_scenario(
    scenario: &dyn Scenario,
    file: &MachineFile,
    samples: u32,
    seed: u64,
) -> Comparison {
    sample(scenario, file, Sampling { samples, seed }, false)
}

/// Runs everything that was asked for.
fn sample(
    scenario: &dyn Scenario,
    file: &MachineFile,
    sampling: Sampling,
    is_explained: bool,
) -> Comparison {
    let variants = (0..scenario.variants().len()).collect();
    let batch = Batch { scenario, file, variants, changes: Changes::default() };
    let sampled = sampling.run(&[batch], "sampling");
    let runs = &sampled.batches[0];
    let mut comparison = Comparison::of(scenario, file.name(), sampling.seed, runs);
    comparison.events_per_second = sampled.events_per_second;
    if is_explained {
        comparison.explanation = explain(scenario, file, sampling.seed, &comparison);
    }
    comparison
}

/// Moves one parameter at a time to the ends of its range, in each variant of which something was
/// published (in all, if nothing was), and ranks the parameters by how far that moves the result.
fn explain(
    scenario: &dyn Scenario,
    file: &MachineFile,
    seed: u64,
    comparison: &Comparison,
) -> Vec<ParameterReport> {
    let parameters = file.ranged_parameters();
    let described = scenario.variants();
    let id = |variant: usize| format!("{}/{}", scenario.name(), described[variant].name);
    let published = |variant: &usize| {
        comparison.figures.is_empty()
            || comparison.figures.iter().any(|figure| figure.id == id(*variant))
    };
    let variants: Vec<usize> = (0..described.len()).filter(published).collect();
    let runs = variants.len() * parameters.len() * 2;
    let progress = Progress::new("explaining", runs as u64);
    let measure = |variant: usize, parameter: &Parameter, level: Level| {
        let machine = file.with(&parameter.key, level);
        let report = scenario.run(variant, &Setup::new(&machine, seed));
        progress.advance(1);
        report.measured.unwrap_or(f64::NAN)
    };
    variants
        .into_iter()
        .flat_map(|variant| {
            let mut ranked: Vec<ParameterReport> = parameters
                .par_iter()
                .map(|parameter| {
                    let (at_low, at_high) = rayon::join(
                        || measure(variant, parameter, Level::Low),
                        || measure(variant, parameter, Level::High),
                    );
                    parameter_report(&described[variant].name, parameter, at_low, at_high)
                })
                .collect();
            rank(&mut ranked);
            ranked
        })
        .collect()
}

fn parameter_report(
    variant: &str,
    parameter: &Parameter,
    at_low: f64,
    at_high: f64,
) -> ParameterReport {
    let Parameter { key, low, high, unit, .. } = parameter;
    ParameterReport {
        variant: variant.to_owned(),
        key: key.clone(),
        range: format!("{low} to {high} {unit}").trim_end().to_owned(),
        at_low,
        at_high,
        share_percent: 0.0,
    }
}

/// Sets the shares, and puts the widest first.
fn rank(reports: &mut [ParameterReport]) {
    let width = |report: &ParameterReport| (report.at_high - report.at_low).abs();
    let total: f64 = reports.iter().map(width).sum();
    for report in reports.iter_mut() {
        let share = width(report) / total;
        report.share_percent = if share.is_finite() { 100.0 * share } else { 0.0 };
    }
    reports.sort_by(|a, b| b.share_percent.total_cmp(&a.share_percent));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(key: &str, at_low: f64, at_high: f64) -> ParameterReport {
        let source = String::new();
        let (key, unit) = (key.to_owned(), "ns");
        let parameter = Parameter { key, low: 1, value: 2, high: 3, unit, source };
        parameter_report("before", &parameter, at_low, at_high)
    }

    #[test]
    fn the_parameter_that_moves_most_comes_first_whichever_way_it_moves() {
        let mut reports = [report("a", 2.0, 2.5), report("b", 3.0, 1.5), report("c", 2.0, 2.0)];
        rank(&mut reports);
        let ranked: Vec<(&str, f64)> =
            reports.iter().map(|it| (it.key.as_str(), it.share_percent)).collect();
        assert_eq!(ranked, [("b", 75.0), ("a", 25.0), ("c", 0.0)]);
        assert_eq!(reports[0].range, "1 to 3 ns");
    }

    #[test]
    fn no_spread_has_no_shares() {
        let mut reports = [report("a", 2.0, 2.0)];
        rank(&mut reports);
        assert_eq!(reports[0].share_percent, 0.0);
    }
}
