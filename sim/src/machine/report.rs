//! A machine file shown to people: every number with its range, unit and source.

use super::file::{MachineFile, Number};
use std::fmt;

/// The machine's name and description, then each table with a line for each number.
impl fmt::Display for MachineFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{}: {}", self.name, self.description)?;
        let mut rows: Vec<(String, String, &str)> = Vec::new();
        for fact in &self.facts {
            rows.push((fact.key.clone(), fact.text.clone(), &fact.source));
        }
        for number in &self.numbers {
            rows.push((number.key.clone(), level_text(number), &number.sourced.source));
        }
        let width_of = |text: fn(&(String, String, &str)) -> usize| rows.iter().map(text).max();
        let key_width = width_of(|(key, ..)| last_part(key).chars().count()).unwrap_or(0);
        let level_width = width_of(|(_, level, _)| level.chars().count()).unwrap_or(0);
        let mut table = "";
        for (key, level, source) in &rows {
            let key_table = &key[..key.len() - last_part(key).len() - 1];
            if key_table != table {
                writeln!(formatter, "\n[{key_table}]")?;
                table = key_table;
            }
            let name = last_part(key);
            writeln!(formatter, "{name:key_width$}  {level:level_width$}  {source}")?;
        }
        Ok(())
    }
}

/// Value, unit and range, such as `36 ns (33 to 38)`.
fn level_text(number: &Number) -> String {
    let sourced = &number.sourced;
    let mut text = sourced.value.to_string();
    if !number.unit.is_empty() {
        text = format!("{text} {}", number.unit);
    }
    if sourced.low < sourced.high {
        text = format!("{text} ({} to {})", sourced.low, sourced.high);
    }
    text
}

fn last_part(key: &str) -> &str {
    key.rsplit('.').next().unwrap_or(key)
}
