//! What one variant of a scenario gains over another, seed by seed: as values for JSON, and as a
//! table.

use super::comparison::VariantRuns;
use super::table::Table;
use crate::catalogue::Scenario;
use crate::statistics::Spread;
use serde::Serialize;

/// One gain.
#[derive(Clone, Debug, Serialize)]
pub struct GainReport {
    /// What it is the gain of.
    pub about: &'static str,
    /// The one variant.
    pub variant: String,
    /// The other, which it is measured against.
    pub against: String,
    /// What the one measures over what the other does, on the same machine with the same seed.
    pub ratio: Spread,
}

/// The gains of which both variants ran.
pub fn gains(scenario: &dyn Scenario, runs: &[VariantRuns]) -> Vec<GainReport> {
    let variants = scenario.variants();
    let measured = |name: &str| -> Option<Vec<f64>> {
        let of = runs.iter().find(|runs| variants[runs.variant].name == name)?;
        of.runs.iter().map(|run| run.measured).collect()
    };
    let report = |gain: crate::catalogue::Gain| {
        let (of, over) = (measured(&gain.variant)?, measured(&gain.against)?);
        let ratios: Vec<f64> = of.iter().zip(&over).map(|(of, over)| of / over).collect();
        let ratio = Spread::of(&ratios);
        Some(GainReport { about: gain.about, variant: gain.variant, against: gain.against, ratio })
    };
    scenario.gains().into_iter().filter_map(report).collect()
}

/// The gains as a table.
pub fn render(gains: &[GainReport]) -> String {
    let headings = ["gain of", "over", "", "times", "8 of 10 samples"];
    let mut table = Table::new(headings).with_left_columns(3);
    for GainReport { about, variant, against, ratio } in gains {
        let Spread { median, low, high } = ratio;
        table.row([
            variant.clone(),
            against.clone(),
            (*about).to_owned(),
            format!("{median:.2}"),
            format!("{low:.2} to {high:.2}"),
        ]);
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::dax_rwsem::DaxRwSem;
    use crate::catalogue::{Setup, find_variant};
    use sim::machine::MachineFile;

    #[test]
    fn a_gain_needs_both_of_its_variants() {
        let machine = MachineFile::preset("desktop-4c").expect("a preset").nominal();
        let run = |name: &str| {
            let variant = find_variant(&DaxRwSem, name).expect("a variant");
            let report = DaxRwSem.run(variant, &Setup::new(&machine, 1));
            VariantRuns { variant, runs: vec![report] }
        };
        let (off, on) = (run("randrw-off"), run("randrw-on"));
        let expected = on.runs[0].measured.expect("a rate") / off.runs[0].measured.expect("a rate");
        let both = gains(&DaxRwSem, &[off, on]);
        assert_eq!(both.len(), 1);
        assert_eq!(both[0].ratio.median, expected);
        assert!(gains(&DaxRwSem, &[run("randrw-on")]).is_empty());
    }
}
