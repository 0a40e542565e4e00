//! The `raidbed` binary: parses the command line, prints what the verb has to say, and exits with
//! 0 (done, every property held), 1 (a property was violated), 2 (could not run), 130
//! (interrupted) or 141 (the reader of a pipe has gone).

use clap::Parser;
use clap::error::ContextKind;
use scenarios::arrays::interrupt::{EXIT_INTERRUPTED, Interrupted};
use scenarios::cli::Cli;
use scenarios::verbs::{self, Verdict};
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

/// What a shell reports of a program that a closed pipe has ended.
const EXIT_BROKEN_PIPE: u8 = 128 + 13;

fn main() -> ExitCode {
    match verbs::dispatch(&parse()) {
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
        // Whoever read the content from the pipe had enough; as from `cat`, there is nothing to say.
        Err(error) if is_broken_pipe(&error) => ExitCode::from(EXIT_BROKEN_PIPE),
        Err(error) => {
            eprintln!("raidbed: {error:#}");
            match error.downcast_ref::<Interrupted>() {
                Some(_) => ExitCode::from(EXIT_INTERRUPTED),
                None => ExitCode::from(2),
            }
        }
    }
}

/// The command line. An unknown option is not to be tried as the name of a file, which is what clap
/// would advise where files may be named.
fn parse() -> Cli {
    Cli::try_parse().unwrap_or_else(|mut error| {
        error.remove(ContextKind::TrailingArg);
        error.remove(ContextKind::Suggested);
        error.exit()
    })
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|of| of.kind() == ErrorKind::BrokenPipe)
    })
}
