//! What each word of the command line does. A verb returns its output; the binary prints it.

mod assemble;
mod bench;
mod check;
mod compare;
mod copy_in;
mod copy_out;
mod counters;
mod create;
mod examine;
mod figures;
mod hunt;
mod list;
mod machine;
mod run;
mod sampling;
mod sweep;
mod trace;

pub use compare::compare_scenario;

use crate::arrays::opening::{Permission, raid0_layout};
use crate::catalogue::{self, Scenario};
use crate::cli::{Cli, MachineArguments, MemberArguments, Verb};
use anyhow::Result;
use serde::Serialize;
use sim::machine::MachineFile;

/// What a verb has to say.
#[derive(Clone, Debug)]
pub struct Finished {
    /// For stdout.
    pub output: String,
    /// Decides the exit code.
    pub verdict: Verdict,
}

/// Whether everything that had to hold held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It did, or nothing had to.
    Held,
    /// Something did not.
    Violated,
}

/// Does what the command line asks.
///
/// # Errors
/// If it could not be done, in one message for the person who typed it.
pub fn dispatch(cli: &Cli) -> Result<Finished> {
    match &cli.verb {
        Verb::List => list::list(cli.json),
        Verb::Run(arguments) => run::run(arguments, cli.json),
        Verb::Compare(arguments) => compare::compare(arguments, cli.json),
        Verb::Trace(arguments) => trace::trace(arguments, cli.json),
        Verb::Hunt(arguments) => hunt::hunt(arguments, cli.json),
        Verb::Bench(arguments) => bench::bench(arguments, cli.json),
        Verb::Machine(verb) => machine::machine(verb, cli.json),
        Verb::Examine(arguments) => examine::examine(arguments, cli.json),
        Verb::Create(arguments) => create::create(arguments, cli.json),
        Verb::Assemble(arguments) => assemble::assemble(arguments, cli.json),
        Verb::CopyOut(arguments) => copy_out::copy_out(arguments, cli.json),
        Verb::CopyIn(arguments) => copy_in::copy_in(arguments, cli.json),
        Verb::Check(arguments) => check::check(arguments, cli.json),
    }
}

/// The report as JSON or as text.
fn finish<Report: Serialize>(
    json: bool,
    report: &Report,
    verdict: Verdict,
    text: impl FnOnce(&Report) -> String,
) -> Result<Finished> {
    let output = match json {
        true => serde_json::to_string_pretty(report)? + "\n",
        false => text(report),
    };
    Ok(Finished { output, verdict })
}

/// What a person allows to be done with an array's members.
fn permission(arguments: &MemberArguments, writable: bool) -> Result<Permission> {
    Ok(Permission {
        members: arguments.members.clone(),
        degraded: arguments.degraded,
        force: arguments.force,
        raid0_layout: raid0_layout(arguments.layout.as_deref())?,
        writable,
        take_spares: false,
    })
}

/// The scenario and the machine that were asked for, or the scenario's own, if they fit together.
fn open(
    scenario: &str,
    machine: &MachineArguments,
) -> Result<(&'static dyn Scenario, MachineFile)> {
    let scenario = catalogue::find(scenario)?;
    let file = MachineFile::open(machine.machine.as_deref().unwrap_or(scenario.machine()))?;
    if let Err(needs) = scenario.fits(&file.nominal().shape) {
        anyhow::bail!("{} does not run on {}: it needs {needs}", scenario.name(), file.name());
    }
    Ok((scenario, file))
}

/// The variants that were asked for: one by name, or all.
fn chosen_variants(scenario: &dyn Scenario, name: Option<&str>) -> Result<Vec<usize>> {
    match name {
        Some(name) => Ok(vec![catalogue::find_variant(scenario, name)?]),
        None => Ok((0..scenario.variants().len()).collect()),
    }
}
