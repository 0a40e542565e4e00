//! What a machine in which nothing can happen any more tells about itself.

use crate::executor::{Step, TaskState};
use crate::world::State;
use std::collections::BTreeMap;
use std::fmt;

/// Tasks are left, and no event is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    /// When the last event was.
    pub at_ns: u64,
    /// The tasks, the like of them together.
    pub stuck: Vec<StuckTasks>,
}

/// Tasks of one name that are stuck in one way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StuckTasks {
    /// Their names with the cores that they are on.
    pub tasks: Vec<(String, u32)>,
    /// What they wait for.
    pub waits_for: String,
    /// Locks that they hold.
    pub holds: Vec<String>,
}

impl Deadlock {
    pub(crate) fn of(state: &State) -> Self {
        // By name, what they wait for, and what they hold.
        let mut groups = BTreeMap::<_, Vec<(String, u32)>>::new();
        for task in state.tasks.iter_alive() {
            let waits_for = match (task.state, task.step) {
                (TaskState::Running, Step::Watch { word, .. }) => {
                    format!("{} to change (spinning)", state.memory.label_of(word))
                }
                _ => match task.waits_for {
                    Some(label) => format!("{label} (asleep)"),
                    None => "something outside the machine".to_owned(),
                },
            };
            let holds =
                task.locks.iter().filter(|lock| lock.held).map(|lock| lock.label.to_string());
            let key = (task.label.name(), waits_for, holds.collect::<Vec<_>>());
            groups.entry(key).or_default().push((task.label.to_string(), task.cpu));
        }
        let stuck = groups
            .into_iter()
            .map(|((_, waits_for, holds), tasks)| StuckTasks { tasks, waits_for, holds })
            .collect();
        Self { at_ns: state.now_ns, stuck }
    }
}

/// As many of a group of tasks as a message names.
const NAMED_TASKS: usize = 4;

impl fmt::Display for Deadlock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "deadlock at {} ns: no event is left, but", self.at_ns)?;
        for group in &self.stuck {
            write!(formatter, "  ")?;
            for (index, (name, cpu)) in group.tasks.iter().take(NAMED_TASKS).enumerate() {
                let separator = if index == 0 { "" } else { ", " };
                write!(formatter, "{separator}{name} on cpu {cpu}")?;
            }
            if group.tasks.len() > NAMED_TASKS {
                write!(formatter, " and {} more", group.tasks.len() - NAMED_TASKS)?;
            }
            let verb = if group.tasks.len() == 1 { "waits" } else { "wait" };
            write!(formatter, " {verb} for {}", group.waits_for)?;
            if !group.holds.is_empty() {
                write!(formatter, ", holding {}", group.holds.join(", "))?;
            }
            writeln!(formatter)?;
        }
        Ok(())
    }
}
