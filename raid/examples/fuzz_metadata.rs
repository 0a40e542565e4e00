//! Fuzzes the metadata readers on a stable toolchain.
//!
//! ```text
//! cargo run -p raid --release --example fuzz_metadata -- --reader superblock --seconds 600 --seed 1
//! cargo run -p raid --release --example fuzz_metadata -- --reader superblock --seed 1 --case 4711
//! ```
//!
//! Without `--reader` all of them take turns, `--seconds` each. A case that panics, allocates too
//! much or takes longer than ten seconds ends the run with exit code 1 and the line that replays it.

#![expect(clippy::disallowed_types, reason = "the fuzzer is timed; the engine is not")]

#[path = "../tests/support_fixtures/mod.rs"]
mod support_fixtures;
#[path = "../tests/support_fuzz/mod.rs"]
mod support_fuzz;

use peak_alloc::PeakAlloc;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use support_fuzz::{Corpus, Failure, Reader, run_case};

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// No input is large enough to excuse more, even on a busy machine.
const CASE_TIME_MAX: Duration = Duration::from_secs(10);

struct Wishes {
    readers: Vec<Reader>,
    seconds: u64,
    seed: u64,
    case: Option<u64>,
}

fn parse(arguments: &[String]) -> Result<Wishes, String> {
    let mut wishes = Wishes { readers: Reader::ALL.to_vec(), seconds: 10, seed: 1, case: None };
    for pair in arguments.chunks(2) {
        let [option, value] = pair else { return Err(format!("{} needs a value", pair[0])) };
        let number = || value.parse().map_err(|_| format!("{option} '{value}' is no number"));
        match option.as_str() {
            "--reader" => {
                let reader = Reader::ALL.into_iter().find(|reader| reader.name() == value);
                let names = Reader::ALL.map(Reader::name).join(", ");
                let wrong = || format!("reader '{value}' is not known: give {names}");
                wishes.readers = vec![reader.ok_or_else(wrong)?];
            }
            "--seconds" => wishes.seconds = number()?,
            "--seed" => wishes.seed = number()?,
            "--case" => wishes.case = Some(number()?),
            _ => return Err(format!("{option} is not known: --reader --seconds --seed --case")),
        }
    }
    Ok(wishes)
}

/// Runs a reader until its time is up and says what came of it.
fn fuzz(reader: Reader, corpus: &Corpus, wishes: &Wishes) -> Result<String, Failure> {
    let start = Instant::now();
    let time = Duration::from_secs(wishes.seconds);
    let (mut cases, mut taken) = (0u64, 0u64);
    let mut slowest = Duration::ZERO;
    let range = wishes.case.map_or(0..u64::MAX, |case| case..case + 1);
    for case in range {
        let before = Instant::now();
        if before - start >= time && wishes.case.is_none() {
            break;
        }
        taken += u64::from(run_case(reader, corpus, &ALLOCATOR, wishes.seed, case)?);
        let took = before.elapsed();
        if took > CASE_TIME_MAX {
            return Err(Failure { case, what: format!("took {took:?}") });
        }
        (cases, slowest) = (cases + 1, slowest.max(took));
    }
    let seconds = start.elapsed().as_secs();
    Ok(format!("{cases} cases in {seconds} s, {taken} taken, the slowest took {slowest:?}"))
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let wishes = match parse(&arguments) {
        Ok(wishes) => wishes,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::from(2);
        }
    };
    let corpus = Corpus::load();
    for reader in &wishes.readers {
        match fuzz(*reader, &corpus, &wishes) {
            Ok(summary) => println!("{}: {summary}", reader.name()),
            Err(Failure { case, what }) => {
                let (name, seed) = (reader.name(), wishes.seed);
                eprintln!("{name} case {case}: {what}");
                eprintln!("replay: fuzz_metadata --reader {name} --seed {seed} --case {case}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
