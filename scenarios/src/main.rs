//! The `raidbed` binary: parses the command line, prints what the verb has to say, and exits with
//! 0 (done, every property held), 1 (a property was violated) or 2 (could not run).

use clap::Parser;
use scenarios::cli::Cli;
use scenarios::verbs::{self, Verdict};
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    match verbs::dispatch(&Cli::parse()) {
        Ok(finished) => {
            // A reader that closes the pipe early, such as `head`, is no failure of ours.
            let _ = std::io::stdout().lock().write_all(finished.output.as_bytes());
            match finished.verdict {
                Verdict::Held => ExitCode::SUCCESS,
                Verdict::Violated => ExitCode::from(1),
            }
        }
        Err(error) => {
            eprintln!("raidbed: {error:#}");
            ExitCode::from(2)
        }
    }
}
