//! `raidbed machine list|show`: the simulated machines, each number with its source.

use super::{Finished, Verdict, finish};
use crate::cli::MachineVerb;
use crate::report::table::Table;
use anyhow::Result;
use serde::Serialize;
use sim::machine::MachineFile;

#[derive(Serialize)]
struct Preset {
    name: &'static str,
    description: String,
}

#[derive(Serialize)]
struct Details {
    name: String,
    description: String,
    cores: u32,
    ranges: Vec<Range>,
    file: String,
}

#[derive(Serialize)]
struct Range {
    key: String,
    low: u64,
    value: u64,
    high: u64,
    unit: &'static str,
    source: String,
}

pub(super) fn machine(verb: &MachineVerb, json: bool) -> Result<Finished> {
    match verb {
        MachineVerb::List => list(json),
        MachineVerb::Show { machine } => show(machine, json),
    }
}

fn list(json: bool) -> Result<Finished> {
    let presets: Vec<Preset> = MachineFile::presets()
        .into_iter()
        .map(|(name, description)| Preset { name, description })
        .collect();
    finish(json, &presets, Verdict::Held, |presets| {
        let mut table = Table::new(["machine", ""]).with_left_columns(2);
        for preset in presets {
            table.row([preset.name.to_owned(), preset.description.clone()]);
        }
        table.render()
    })
}

fn show(machine: &str, json: bool) -> Result<Finished> {
    let file = MachineFile::open(machine)?;
    let ranges = file
        .ranged_parameters()
        .into_iter()
        .map(|range| Range {
            key: range.key,
            low: range.low,
            value: range.value,
            high: range.high,
            unit: range.unit,
            source: range.source,
        })
        .collect();
    let details = Details {
        name: file.name().to_owned(),
        description: file.description().to_owned(),
        cores: file.nominal().shape.cpu_count(),
        ranges,
        file: file.text().to_owned(),
    };
    finish(json, &details, Verdict::Held, |_| file.to_string())
}
