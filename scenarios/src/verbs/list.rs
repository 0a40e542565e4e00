//! `raidbed list`: the scenarios and their variants.

use super::{Finished, Verdict, finish};
use crate::catalogue::{self, Kind};
use crate::report::table::Table;
use anyhow::Result;
use serde::Serialize;

#[derive(Serialize)]
struct Entry {
    name: &'static str,
    about: &'static str,
    tells: String,
    machine: &'static str,
    variants: Vec<VariantEntry>,
}

#[derive(Serialize)]
struct VariantEntry {
    name: String,
    about: String,
}

pub(super) fn list(json: bool) -> Result<Finished> {
    let entries: Vec<Entry> = catalogue::all()
        .into_iter()
        .map(|scenario| Entry {
            name: scenario.name(),
            about: scenario.about(),
            tells: match scenario.kind() {
                Kind::Measures { quantity, unit } => format!("measures {quantity} in {unit}"),
                Kind::Property { statement } => format!("checks that {statement}"),
            },
            machine: scenario.machine(),
            variants: scenario
                .variants()
                .into_iter()
                .map(|variant| VariantEntry { name: variant.name, about: variant.about })
                .collect(),
        })
        .collect();
    finish(json, &entries, Verdict::Held, |entries| {
        entries.iter().map(render).collect::<Vec<_>>().join("\n")
    })
}

fn render(entry: &Entry) -> String {
    let mut table = Table::new(["  variant", "what is different"]).with_left_columns(2);
    for variant in &entry.variants {
        table.row([format!("  {}", variant.name), variant.about.clone()]);
    }
    let Entry { name, about, tells, machine, .. } = entry;
    format!("{name}: {about}\n  {tells}, on {machine} if not told otherwise\n{}", table.render())
}
