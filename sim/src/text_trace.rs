//! The text trace: what the engine tells of a run, each line with the virtual time, the core and the
//! task. One seed gives one text.
//!
//! It listens to the engine's `tracing` spans and events, and changes nothing: the trace hash of a
//! run is the same whether anybody listens or not. A span is a line when it begins and one when it
//! ends; polls in between are not shown.

use crate::platform::SimPlatform;
use std::fmt::{self, Write};
use std::sync::{Arc, Mutex};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Subscriber};
use tracing_subscriber::Registry;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

/// Calls `run`, which runs the machine of `platform`, and keeps what the engine tells meanwhile.
///
/// Whether anybody listens is settled when a place in the code is first passed. So that no line is
/// lost, no other thread of the process should run a machine unheard meanwhile.
pub fn record_trace<R>(platform: &SimPlatform, run: impl FnOnce() -> R) -> (R, String) {
    let text = Arc::new(Mutex::new(String::new()));
    let layer = TextLayer { platform: platform.clone(), text: text.clone() };
    let result = tracing::subscriber::with_default(Registry::default().with(layer), run);
    let text = std::mem::take(&mut *text.lock().expect("nobody panics while writing a line"));
    (result, text)
}

struct TextLayer {
    platform: SimPlatform,
    text: Arc<Mutex<String>>,
}

/// What a span was opened with, kept for the line at its end.
struct SpanText(String);

impl TextLayer {
    /// Adds a line, if a task of the machine is running.
    fn line(&self, what: fmt::Arguments<'_>) {
        let Some(moment) = self.platform.moment() else { return };
        let (time_ns, cpu, task) = (moment.time_ns, moment.cpu.0, moment.task);
        let mut text = self.text.lock().expect("nobody panics while writing a line");
        writeln!(text, "{time_ns:>10} cpu {cpu:<3} {task}: {what}")
            .expect("writing to a string succeeds");
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for TextLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = FieldText::default();
        attributes.record(&mut fields);
        let text = format!("{}{}", attributes.metadata().name(), fields.rest);
        self.line(format_args!("{text} begins"));
        let span = context.span(id).expect("a new span is registered");
        span.extensions_mut().insert(SpanText(text));
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut fields = FieldText::default();
        event.record(&mut fields);
        self.line(format_args!("{}{}", fields.message, fields.rest));
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let span = context.span(&id).expect("a span is registered until it has closed");
        if let Some(SpanText(text)) = span.extensions().get() {
            self.line(format_args!("{text} ends"));
        }
    }
}

/// The fields of a span or event: the message by itself, the rest as ` name=value`.
#[derive(Default)]
struct FieldText {
    message: String,
    rest: String,
}

impl Visit for FieldText {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let written = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.rest, " {name}={value:?}"),
        };
        written.expect("writing to a string succeeds");
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::MachineFile;
    use crate::{Options, Outcome, Simulation};
    use raid::platform::{Cpu, Label, Platform};
    use raid::units::CpuId;

    /// The two tests pass the same places in the code.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

    /// A machine with one task that says two things and has a span.
    fn simulation() -> Simulation {
        let machine = MachineFile::preset("desktop-4c").expect("a preset").nominal();
        let world = Simulation::new(&machine, Options::default());
        world.platform().spawn_on(CpuId(2), Label::new("speaker"), |cpu| async move {
            let span = tracing::info_span!("read", at = 8_u64);
            cpu.sleep_ns(1_000).await;
            tracing::warn!(member = 1_u64, "member failed");
            drop(span);
        });
        world
    }

    #[test]
    fn lines_carry_time_core_and_task() {
        let _guard = ONE_AT_A_TIME.lock().expect("the other test holds");
        let mut world = simulation();
        let (outcome, text) = record_trace(&world.platform(), || world.run());
        assert_eq!(outcome, Outcome::Done);
        let told: Vec<&str> = text.lines().map(|line| &line[11..]).collect();
        assert_eq!(
            told,
            [
                "cpu 2   speaker: read at=8 begins",
                "cpu 2   speaker: member failed member=1",
                "cpu 2   speaker: read at=8 ends",
            ]
        );
        let failed = text.lines().nth(1).expect("three lines");
        let time_ns: u64 = failed[..10].trim().parse().expect("a time");
        assert!(time_ns >= 1_000, "{failed}");
    }

    #[test]
    fn listening_changes_nothing() {
        let _guard = ONE_AT_A_TIME.lock().expect("the other test holds");
        let (mut heard, mut unheard) = (simulation(), simulation());
        record_trace(&heard.platform(), || heard.run());
        unheard.run();
        assert_eq!(heard.trace_hash(), unheard.trace_hash());
        assert_eq!(heard.events(), unheard.events());
    }
}
