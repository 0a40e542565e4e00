//! The scenarios: each is one story about one system, in several variants.
//!
//! A scenario builds a simulated machine, runs it, and says what it measured and whether its
//! property held. It prints nothing and knows no verb.

pub mod array_promises;
pub mod dax_rwsem;
pub mod inflight_counter;
pub mod inflight_readers;
pub mod lock_table;
pub mod raid10_lost_wakeup;
pub mod raid10_resync_lock;
pub mod raid5_stripe_lock;
pub mod write_dispatch;

use crate::statistics::IoSummary;
use crate::sweep::{Axis, Changes};
use serde::Serialize;
use sim::contention::ContentionTable;
use sim::machine::{Machine, Shape};
use sim::{Simulation, record_trace};

/// A story.
pub trait Scenario: Sync {
    /// What people type.
    fn name(&self) -> &'static str;
    /// The story in a sentence.
    fn about(&self) -> &'static str;
    /// What is varied; the first is the one that the story begins with.
    fn variants(&self) -> Vec<Variant>;
    /// What a run tells.
    fn kind(&self) -> Kind;
    /// The machine file that the story is told on, if no other is asked for.
    fn machine(&self) -> &'static str {
        "kunpeng920"
    }
    /// What a sweep may turn.
    fn axes(&self) -> &'static [Axis] {
        &[]
    }
    /// Whether a run can be changed like that, along axes that there are.
    ///
    /// # Errors
    /// What it would need, in words.
    fn can_change(&self, _changes: &Changes) -> Result<(), String> {
        Ok(())
    }
    /// What `compare` prints as the gain of one variant over another.
    fn gains(&self) -> Vec<Gain> {
        Vec::new()
    }
    /// Whether the machine is large enough.
    ///
    /// # Errors
    /// What it would need, in words.
    fn fits(&self, shape: &Shape) -> Result<(), String>;
    /// Runs variant `variant`, counted as in [`variants`](Self::variants).
    fn run(&self, variant: usize, setup: &Setup<'_>) -> RunReport;
}

/// One way to build the system.
#[derive(Clone, Debug)]
pub struct Variant {
    /// What people type.
    pub name: String,
    /// What is different.
    pub about: String,
}

/// A pair of variants whose quotient is worth a line.
#[derive(Clone, Debug)]
pub struct Gain {
    /// What it is the gain of.
    pub about: &'static str,
    /// The one.
    pub variant: String,
    /// The other, which it is measured against.
    pub against: String,
}

/// What a scenario's runs tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A quantity, which `compare` sets beside what was published.
    Measures {
        /// Such as `bandwidth`.
        quantity: &'static str,
        /// Such as `GiB/s`.
        unit: &'static str,
    },
    /// Whether a property holds, which `hunt` tries to refute.
    Property {
        /// What must hold, in a few words.
        statement: &'static str,
    },
}

/// What one run is given.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    /// The machine, every number settled.
    pub machine: &'a Machine,
    /// Decides every random choice.
    pub seed: u64,
    /// How much of the system there is.
    pub size: Size,
    /// Whether the text trace is kept.
    pub trace: bool,
    /// What is otherwise than in the story.
    pub changes: Changes,
}

/// How much of the system a run builds, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// As the story has it.
    Full,
    /// The same in small, so that a person can read the trace. What it measures means nothing.
    Small,
}

/// What one run says.
#[derive(Clone, Debug)]
pub struct RunReport {
    /// Why the property was violated, if it was.
    pub violation: Option<String>,
    /// The quantity that the scenario measures.
    pub measured: Option<f64>,
    /// The requests, if the scenario runs a workload.
    pub io: Option<IoSummary>,
    /// What the scenario counted beside.
    pub notes: Vec<Note>,
    /// Who waited for what.
    pub contention: ContentionTable,
    /// How long the run was, on the simulated clock.
    pub virtual_ns: u64,
    /// MiB of requests while the contention was counted, if the scenario tells of locks by the MiB.
    pub counted_mib: Option<f64>,
    /// Events that the simulator carried out.
    pub events: u64,
    /// One number that differs if anything happened otherwise.
    pub trace_hash: u64,
    /// The text trace, if it was asked for.
    pub trace: Option<String>,
}

/// Something that a scenario counted.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Note {
    /// What it is, with its unit.
    pub name: &'static str,
    /// How much of it.
    pub value: f64,
}

impl<'a> Setup<'a> {
    /// The story as it is, in full, without a trace.
    pub fn new(machine: &'a Machine, seed: u64) -> Self {
        Self { machine, seed, size: Size::Full, trace: false, changes: Changes::default() }
    }

    /// Calls `run`, which runs `world`; its result and, if it was asked for, the text trace.
    fn run<R>(
        &self,
        world: &mut Simulation,
        run: impl FnOnce(&mut Simulation) -> R,
    ) -> (R, Option<String>) {
        if !self.trace {
            return (run(world), None);
        }
        let (result, text) = record_trace(&world.platform(), || run(world));
        (result, Some(text))
    }
}

impl RunReport {
    /// What the simulator itself knows of a run that has ended.
    fn of(world: &Simulation, violation: Option<String>, trace: Option<String>) -> Self {
        Self {
            violation,
            measured: None,
            io: None,
            notes: Vec::new(),
            contention: world.contention(),
            counted_mib: None,
            virtual_ns: world.now_ns(),
            events: world.events(),
            trace_hash: world.trace_hash(),
            trace,
        }
    }
}

/// Every scenario, in the order in which `list` names them.
pub fn all() -> [&'static dyn Scenario; 11] {
    [
        &raid10_resync_lock::Raid10ResyncLock { own: None },
        &lock_table::ContendedLockTable,
        &inflight_counter::InflightCounter,
        &inflight_readers::InflightReaders,
        &dax_rwsem::DaxRwSem,
        &write_dispatch::Raid1WriteDispatch,
        &write_dispatch::Raid10WriteDispatch,
        &write_dispatch::promises::WriteDispatchPromises,
        &raid5_stripe_lock::Raid5StripeLock,
        &raid10_lost_wakeup::Raid10LostWakeup,
        &array_promises::ArrayPromises,
    ]
}

/// The scenario of that name.
///
/// # Errors
/// A message that names those that there are.
pub fn find(name: &str) -> anyhow::Result<&'static dyn Scenario> {
    all().into_iter().find(|scenario| scenario.name() == name).ok_or_else(|| {
        let known: Vec<&str> = all().iter().map(|scenario| scenario.name()).collect();
        anyhow::anyhow!("no scenario is called '{name}'; there are {}", known.join(", "))
    })
}

/// The index of the variant of that name.
///
/// # Errors
/// A message that names those that there are.
pub fn find_variant(scenario: &dyn Scenario, name: &str) -> anyhow::Result<usize> {
    let variants = scenario.variants();
    variants.iter().position(|variant| variant.name == name).ok_or_else(|| {
        let known: Vec<&str> = variants.iter().map(|variant| variant.name.as_str()).collect();
        let scenario = scenario.name();
        anyhow::anyhow!("{scenario} has no variant '{name}'; there are {}", known.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_typeable() {
        let is_typeable = |name: &str| {
            name.bytes().all(|byte| byte.is_ascii_lowercase() || b"0123456789-+".contains(&byte))
        };
        for scenario in all() {
            assert!(is_typeable(scenario.name()));
            let variants = scenario.variants();
            let names: BTreeSet<&str> = variants.iter().map(|it| it.name.as_str()).collect();
            assert_eq!(names.len(), variants.len(), "{}", scenario.name());
            assert!(names.iter().all(|name| is_typeable(name)), "{names:?}");
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let message = find("raid10").map(|it| it.name()).expect_err("unknown").to_string();
        assert!(message.contains("raid10-resync-lock"), "{message}");
        let scenario = find("raid10-resync-lock").expect("known");
        let message = find_variant(scenario, "x").expect_err("unknown").to_string();
        assert!(message.contains("before"), "{message}");
    }
}
