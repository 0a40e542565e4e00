//! Does an array keep its promises? Writers, failing drives, background jobs and power cuts meet on
//! small arrays of every level and layout, and an oracle knows what each sector may hold.
//!
//! The promises: a read finds what was written last; what was flushed, or written with force unit
//! access, survives a power cut; a member that fails costs nothing while redundancy covers it, and
//! beyond it the array answers with errors, never with wrong data; when all is quiet, redundancy
//! agrees; and everybody ends.
//!
//! Each seed is another case (`case.rs`): geometry, sizes, workload, faults, boots. Variants are the
//! levels and layouts. Cases that md cannot keep either are not drawn: parity that may be stale after
//! a power cut has to be made to agree before a member may fail (the write hole).

mod boot;
mod case;
mod levels;
mod oracle;
mod run;

use super::{Kind, RunReport, Scenario, Setup, Variant};
use case::Case;
use levels::FAMILIES;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use sim::machine::Shape;

/// The scenario.
pub struct ArrayPromises;

/// The random stream of a case, beside those of its machines.
const CASE_STREAM: u64 = 3 << 32;

impl Scenario for ArrayPromises {
    fn name(&self) -> &'static str {
        "array-promises"
    }

    fn about(&self) -> &'static str {
        "what was acknowledged, through failing drives, jobs and power cuts, on every level"
    }

    fn variants(&self) -> Vec<Variant> {
        let variant = |family: &levels::Family| Variant {
            name: family.name.to_owned(),
            about: family.about.to_owned(),
        };
        FAMILIES.iter().map(variant).collect()
    }

    fn kind(&self) -> Kind {
        Kind::Property { statement: "reads find what was promised, and redundancy agrees" }
    }

    fn fits(&self, _: &Shape) -> Result<(), String> {
        Ok(())
    }

    fn run(&self, variant: usize, setup: &Setup<'_>) -> RunReport {
        let mut random = ChaCha8Rng::seed_from_u64(setup.seed);
        random.set_stream(CASE_STREAM);
        let case = Case::draw(&FAMILIES[variant], &mut random);
        let report = run::Life::new(setup, &case).live();
        let violation = report.violation.map(|why| format!("{why}\ncase: {case:?}"));
        RunReport { violation, ..report }
    }
}
