//! The `raidbed` binary: parses the command line, prints what the verb has to say, and exits with
//! 0 (done, every property held), 1 (a property was violated), 2 (could not run) or 130
//! (interrupted).

use clap::Parser;
use scenarios::arrays::interrupt::{EXIT_INTERRUPTED, Interrupted};
use scenarios::cli::Cli;
use scenarios::verbs::{self, Verdict};
use std::io::{ErrorKind, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    match verbs::dispatch(&Cli::parse()) {
        Ok(finished) => {
            let mut out = std::io::stdout().lock();
            let printed = out.write_all(finished.output.as_bytes()).and_then(|()| out.flush());
            // A reader that closes the pipe early, such as `head`, is no failure of ours.
            if let Err(error) = printed
                && error.kind() != ErrorKind::BrokenPipe
            {
                eprintln!("raidbed: cannot print the result: {error}");
                return ExitCode::from(2);
            }
            match finished.verdict {
                Verdict::Held => ExitCode::SUCCESS,
                Verdict::Violated => ExitCode::from(1),
            }
        }
        Err(error) => {
            eprintln!("raidbed: {error:#}");
            match error.downcast_ref::<Interrupted>() {
                Some(_) => ExitCode::from(EXIT_INTERRUPTED),
                None => ExitCode::from(2),
            }
        }
    }
}
