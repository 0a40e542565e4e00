//! The command line as data. It knows the words and their defaults; what they do is in
//! [`crate::verbs`].

mod arrays;

pub use arrays::{
    AssembleArguments, CheckArguments, CopyInArguments, CopyOutArguments, CreateArguments,
    ExamineArguments, MemberArguments,
};

use crate::quantity::{ByteCount, Duration};
use crate::sweep::Sweep;
use crate::workload::Pattern;
use clap::{Args, Parser, Subcommand};

/// A RAID engine and the testbed to study it in: on a simulated NUMA machine, and on real drives.
#[derive(Debug, Parser)]
#[command(name = "raidbed", version, propagate_version = true, after_help = FIRST_STEPS)]
pub struct Cli {
    /// Print JSON instead of tables.
    #[arg(long, global = true)]
    pub json: bool,
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// Below the help: where to begin, and what the exit code says.
const FIRST_STEPS: &str = "\
To begin with:
  raidbed list
  raidbed compare raid10-resync-lock
  raidbed hunt raid10-lost-wakeup --variant faulty
  raidbed bench null null null null --runtime 3s

Exit code: 0 all held, 1 a property was violated, 2 could not run";

/// Below the help of verbs that print tables of locks and lines.
const HOW_TO_READ: &str = "\
published        what was measured elsewhere; role `predicted`: nothing was set from it,
                 `input`: the machine or the scenario was set up with it
8 of 10 samples  the interval that so many runs lie in, over seeds and the machine file's ranges
inside           whether the published figure lies in that interval
lock             `contended` is the share of acquisitions that found it taken; `mean wait` runs
                 from the attempt until it was had, so it holds waiting for the cache line too
line with        the words on one cache line; how often it moved, within a cluster, within a node,
                 to a node at a distance (SLIT), from memory; the five that moved most, --json all";

/// What the binary can do.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Name the scenarios and their variants.
    List,
    /// Run a scenario once, in one variant or in each.
    #[command(after_help = HOW_TO_READ)]
    Run(RunArguments),
    /// Run each variant over seeds and over the ranges in the machine file, beside what was
    /// published.
    #[command(after_help = HOW_TO_READ)]
    Compare(CompareArguments),
    /// Print the trace of one run of the scenario in small, the same for ever for the same seed.
    Trace(TraceArguments),
    /// Try many seeds on all cores until a property is violated.
    Hunt(HuntArguments),
    /// Run a workload on real files, block devices or stand-ins.
    Bench(BenchArguments),
    /// Show the simulated machines.
    #[command(subcommand)]
    Machine(MachineVerb),
    /// Tell what the md metadata on files and block devices says, as mdadm --examine does.
    Examine(ExamineArguments),
    /// Make an array that Linux md opens.
    Create(CreateArguments),
    /// Put an array together and say how it is; writes nothing without --run-writable.
    Assemble(AssembleArguments),
    /// Copy an array's content to a file or a pipe. Opens every member read-only.
    CopyOut(CopyOutArguments),
    /// Copy a file or a pipe into an array.
    CopyIn(CopyInArguments),
    /// Compare the redundancy of an array, and write nothing without --repair.
    Check(CheckArguments),
}

/// What can be asked about machines.
#[derive(Debug, Subcommand)]
pub enum MachineVerb {
    /// Name the machines that come with the program.
    List,
    /// Print a machine's numbers, each with its source.
    Show {
        /// One of `machine list`, or a machine file.
        #[arg(value_name = "NAME|FILE")]
        machine: String,
    },
}

/// Which machine to simulate.
#[derive(Args, Clone, Debug)]
pub struct MachineArguments {
    /// One of `machine list`, or a machine file; the scenario's own if left out.
    #[arg(long, value_name = "NAME|FILE")]
    pub machine: Option<String>,
}

/// Arguments of `run`.
#[derive(Args, Debug)]
pub struct RunArguments {
    /// A scenario that `list` names.
    pub scenario: String,
    /// One of the scenario's variants; each of them if left out.
    #[arg(long)]
    pub variant: Option<String>,
    /// Decides every random choice of the run.
    #[arg(long, default_value_t = 2022)]
    pub seed: u64,
    /// The machine.
    #[command(flatten)]
    pub machine: MachineArguments,
}

/// Arguments of `compare`.
#[derive(Args, Debug)]
pub struct CompareArguments {
    /// A scenario that `list` names.
    #[arg(required_unless_present = "all")]
    pub scenario: Option<String>,
    /// What the scenarios' threads published, beside its simulation, in one table.
    #[arg(long, conflicts_with_all = ["scenario", "explain", "sweep", "machine"])]
    pub all: bool,
    /// Print each variant's curve along cpus, drives, nodes, lock or possible, such as cpus=1..128
    /// (doubling), drives=4,8,24, lock=ticket,queued,numa-aware or possible=4..4096.
    #[arg(long, value_name = "AXIS=POINTS", conflicts_with = "explain")]
    pub sweep: Option<Sweep>,
    /// Print the curve as CSV.
    #[arg(long, requires = "sweep", conflicts_with = "json")]
    pub csv: bool,
    /// How many seeds, each with its own draw from the machine file's ranges.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub samples: u32,
    /// The first seed.
    #[arg(long, default_value_t = 2022)]
    pub seed: u64,
    /// Rank the machine's ranges by how much of the spread each causes.
    #[arg(long)]
    pub explain: bool,
    /// The machine.
    #[command(flatten)]
    pub machine: MachineArguments,
}

/// Arguments of `trace`.
#[derive(Args, Debug)]
pub struct TraceArguments {
    /// A scenario that `list` names.
    pub scenario: String,
    /// One of the scenario's variants; its first if left out.
    #[arg(long)]
    pub variant: Option<String>,
    /// Decides every random choice of the run.
    #[arg(long, default_value_t = 2022)]
    pub seed: u64,
    /// The machine.
    #[command(flatten)]
    pub machine: MachineArguments,
}

/// Arguments of `hunt`.
#[derive(Args, Debug)]
pub struct HuntArguments {
    /// A scenario that `list` names.
    pub scenario: String,
    /// One of the scenario's variants; each of them in turn if left out.
    #[arg(long)]
    pub variant: Option<String>,
    /// How many seeds to try.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// The machine.
    #[command(flatten)]
    pub machine: MachineArguments,
}

/// Arguments of `bench`, named as in fio where fio has the word.
#[derive(Args, Debug)]
pub struct BenchArguments {
    /// Files and block devices; `null` or `null:SIZE` (stores nothing), `memory:SIZE`.
    #[arg(required_unless_present = "counters", value_name = "PATH|null[:SIZE]|memory:SIZE")]
    pub devices: Vec<String>,
    /// Measure instead how fast requests under way are counted, in each way of the scenario
    /// inflight-counter, on one core up to all; --runtime is for all measurements together.
    #[arg(long, conflicts_with_all = [
        "devices", "level", "layout", "chunk", "near_copies", "rw", "bs", "iodepth", "numjobs",
        "rwmixread", "randseed", "number_ios", "size", "create_size", "destroy_data", "verify", "raw",
    ])]
    pub counters: bool,
    /// RAID level: linear, 0, 1, 4, 5, 6 or 10.
    #[arg(long, default_value = "10")]
    pub level: String,
    /// Layout, as mdadm names it: n2, f2, o2, left-symmetric, ...
    #[arg(long)]
    pub layout: Option<String>,
    /// One member's share of a stripe.
    #[arg(long, default_value = "64K")]
    pub chunk: ByteCount,
    /// How many copies of each chunk a RAID 10 keeps: the same as --layout nN.
    #[arg(long, conflicts_with = "layout")]
    pub near_copies: Option<u32>,
    /// read, write, readwrite, randread, randwrite or randrw.
    #[arg(long, default_value = "randread")]
    pub rw: Pattern,
    /// Bytes of a request.
    #[arg(long, default_value = "4k")]
    pub bs: ByteCount,
    /// Requests that each job keeps under way.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub iodepth: u32,
    /// Jobs, placed on the allowed cores in turn.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4_096))]
    pub numjobs: u32,
    /// Reads in a hundred requests of a mixed workload.
    #[arg(long, default_value_t = 70, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub rwmixread: u8,
    /// Decides which blocks are read and written, in which order.
    #[arg(long, default_value_t = 2022)]
    pub randseed: u64,
    /// How long to run, such as 500ms, 5s or 2m.
    #[arg(long, default_value = "10s")]
    pub runtime: Duration,
    /// End after so many requests of each job, if that is sooner.
    #[arg(long)]
    pub number_ios: Option<u64>,
    /// Stay within the first so many bytes.
    #[arg(long)]
    pub size: Option<ByteCount>,
    /// Make the files, which must not exist, with this size.
    #[arg(long)]
    pub create_size: Option<ByteCount>,
    /// Allow a workload that writes to destroy what is on existing files and devices.
    #[arg(long)]
    pub destroy_data: bool,
    /// Write blocks that say what they are, and check each block that is read.
    #[arg(long)]
    pub verify: bool,
    /// Run on the one device itself, without RAID, for comparison.
    #[arg(long)]
    pub raw: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definitions_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_help_says_what_the_program_is() {
        let help = Cli::command().render_help().to_string();
        assert!(help.starts_with("A RAID engine"), "{help}");
    }

    #[test]
    fn json_is_understood_before_and_after_the_verb() {
        for line in [["raidbed", "--json", "list"], ["raidbed", "list", "--json"]] {
            assert!(Cli::try_parse_from(line).expect("parses").json);
        }
    }
}
