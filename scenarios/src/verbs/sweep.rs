//! `raidbed compare NAME --sweep AXIS=POINTS`: each variant at several points of one dimension.

use super::sampling::{Batch, Sampling};
use super::{Finished, Verdict, finish};
use crate::catalogue::{Kind, Scenario};
use crate::report::comparison::VariantRuns;
use crate::report::curve::{Curve, CurvePoint};
use crate::statistics::Spread;
use crate::sweep::{Axis, Changes, Point, Sweep};
use anyhow::{Result, anyhow, bail};
use sim::machine::MachineFile;

/// How the curve is printed.
#[derive(Clone, Copy)]
pub(super) enum Form {
    Json,
    Csv,
    Table,
}

pub(super) fn sweep(
    scenario: &dyn Scenario,
    file: &MachineFile,
    sweep: &Sweep,
    sampling: Sampling,
    form: Form,
) -> Result<Finished> {
    let name = scenario.name();
    let axis = sweep.axis;
    if !scenario.axes().contains(&axis) {
        let axes: Vec<String> = scenario.axes().iter().map(Axis::to_string).collect();
        match axes.is_empty() {
            true => bail!("{name} has nothing to sweep"),
            false => bail!("{name} has no {axis} to sweep; it has {}", axes.join(", ")),
        }
    }
    let points = sweep
        .points(&file.nominal().shape)
        .map_err(|lacks| anyhow!("--sweep {axis} on {}: {lacks}", file.name()))?;
    let variants: Vec<usize> = (0..scenario.variants().len()).collect();
    let batches: Vec<Batch<'_>> = points
        .iter()
        .map(|point| {
            let changes = Changes::at(axis, *point);
            Batch { scenario, file, variants: variants.clone(), changes }
        })
        .collect();
    if let Some(why) = batches.iter().find_map(|batch| scenario.can_change(&batch.changes).err()) {
        bail!("--sweep {axis}: {name} needs {why}");
    }
    let sampled = sampling.run(&batches, "sweeping");
    let curve = curve(scenario, file.name(), sampling, axis, &points, &sampled.batches);
    let verdict = match curve.violations.is_empty() {
        true => Verdict::Held,
        false => Verdict::Violated,
    };
    match form {
        Form::Csv => Ok(Finished { output: curve.csv(), verdict }),
        Form::Json => finish(true, &curve, verdict, Curve::render),
        Form::Table => finish(false, &curve, verdict, Curve::render),
    }
}

fn curve(
    scenario: &dyn Scenario,
    machine: &str,
    sampling: Sampling,
    axis: Axis,
    points: &[Point],
    runs: &[Vec<VariantRuns>],
) -> Curve {
    let Kind::Measures { quantity, unit } = scenario.kind() else {
        unreachable!("what measures nothing has no axis");
    };
    let variants: Vec<String> = scenario.variants().into_iter().map(|it| it.name).collect();
    let violations = runs
        .iter()
        .zip(points)
        .flat_map(|(runs, point)| runs.iter().map(move |of| (point, of)))
        .flat_map(|(point, of)| of.runs.iter().map(move |run| (point, of.variant, run)))
        .filter_map(|(point, variant, run)| {
            let why = run.violation.as_ref()?;
            Some(format!("{axis}={point}, {}: {why}", variants[variant]))
        })
        .collect();
    let measured = |of: &VariantRuns| {
        let samples: Vec<f64> = of.runs.iter().filter_map(|run| run.measured).collect();
        (!samples.is_empty()).then(|| Spread::of(&samples))
    };
    Curve {
        scenario: scenario.name(),
        machine: machine.to_owned(),
        seed: sampling.seed,
        samples: sampling.samples,
        quantity,
        unit,
        axis: axis.to_string(),
        points: points
            .iter()
            .zip(runs)
            .map(|(point, runs)| CurvePoint {
                point: point.to_string(),
                measured: runs.iter().map(measured).collect(),
            })
            .collect(),
        variants,
        violations,
    }
}
