//! Mutation fuzzing of the metadata readers on a stable toolchain: bytes of real arrays, bent at
//! random, are read. A reader may refuse them; it may not panic, nor allocate more than a small
//! multiple of the bytes that it was given, nor write back something else than it read.
//!
//! A case is a function of reader, seed and case number alone, so that those replay it.

#![allow(dead_code, reason = "each program uses its own part")]

mod corpus;
mod mutate;
mod readers;

pub(crate) use corpus::Corpus;
pub(crate) use readers::Reader;

use peak_alloc::PeakAlloc;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A case that went wrong.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) case: u64,
    pub(crate) what: String,
}

/// Runs one case and says whether the input was taken.
pub(crate) fn run_case(
    reader: Reader,
    corpus: &Corpus,
    allocator: &PeakAlloc,
    seed: u64,
    case: u64,
) -> Result<bool, Failure> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(case);
    let input = mutate::case(reader, corpus, &mut random);
    let before = allocator.current_usage();
    allocator.reset_peak_usage();
    let taken = catch_unwind(AssertUnwindSafe(|| reader.read(&input)));
    let peak_bytes = allocator.peak_usage().saturating_sub(before);
    let fail = |what| Err(Failure { case, what });
    let allowed_bytes = reader.allowed_bytes(input.bytes.len());
    match taken {
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|of| (*of).to_owned()));
            fail(format!("panicked: {}", text.unwrap_or_default()))
        }
        Ok(_) if peak_bytes > allowed_bytes => fail(format!(
            "allocated {peak_bytes} bytes for {} bytes of input, more than {allowed_bytes}",
            input.bytes.len()
        )),
        Ok(taken) => Ok(taken),
    }
}
