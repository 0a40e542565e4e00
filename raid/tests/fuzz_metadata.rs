//! A short, seeded run of the fuzzer over every reader; `examples/fuzz_metadata.rs` runs it for as
//! long as you like. Alone in its program, as it counts what is allocated.

mod support_fixtures;
mod support_fuzz;

use peak_alloc::PeakAlloc;
use support_fuzz::{Corpus, Reader, run_case};

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

const CASES: u64 = 4000;

#[test]
fn readers_hold_on_mutated_metadata() {
    let corpus = Corpus::load();
    for reader in Reader::ALL {
        let mut taken = 0;
        for case in 0..CASES {
            match run_case(reader, &corpus, &ALLOCATOR, 1, case) {
                Ok(was_taken) => taken += u64::from(was_taken),
                Err(failure) => panic!("{} case {}: {}", reader.name(), failure.case, failure.what),
            }
        }
        // A fuzzer whose inputs are all refused at the door, or all taken, tests nothing.
        assert!((CASES / 50..CASES).contains(&taken), "{}: {taken} taken", reader.name());
    }
}
