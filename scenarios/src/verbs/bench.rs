//! `raidbed bench`: a workload on real drives, through the array or on one drive without RAID.

use super::counters::counters;
use super::create::level;
use super::{Finished, Verdict, finish};
use crate::cli::BenchArguments;
use crate::drives::{DriveName, Drives, Use};
use crate::job::{self, Failure, Outcome};
use crate::quantity::ByteCount;
use crate::report::contention::{self, ContentionReport, LockReport};
use crate::report::progress::Progress;
use crate::report::table::Table;
use crate::statistics::IoSummary;
use crate::target::Target;
use crate::workload::{Schedule, Workload};
use anyhow::{Context, Result, bail, ensure};
use backends::{Cpus, Options, RealCpu, RealMachine, RealPlatform, allowed_cpus};
use raid::assemble::engine_level;
use raid::buffer::Buffer;
use raid::metadata::{Geometry, Level as MdLevel};
use raid::platform::Cpu;
use raid::units::{CpuId, SECTOR_BYTES, Sectors};
use raid::{Array, ArrayOptions, Level, MemberState, Tuning};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::{Arc, mpsc};
use std::time::Duration;

#[derive(Serialize)]
struct Report {
    target: String,
    devices: Vec<String>,
    rw: &'static str,
    bs: u64,
    iodepth: u32,
    numjobs: u32,
    cores: u32,
    io_uring: bool,
    measured_ns: u64,
    reads: u64,
    writes: u64,
    blocks_verified: u64,
    io: IoSummary,
    failed_members: Vec<usize>,
    mismatches: Vec<String>,
    contention: ContentionReport,
}

/// What the run itself brings back from its cores.
struct Ran {
    outcome: Outcome,
    failed_members: Vec<usize>,
    io_uring: bool,
}

/// Memory that all requests together may use.
const BUFFER_BYTES_MAX: u64 = 8 << 30;

/// Blocks of which the jobs may remember what was written: up to 21 bytes each, so 1.4 GB.
const VERIFIED_BLOCKS_MAX: u64 = 64 << 20;

pub(super) fn bench(arguments: &BenchArguments, json: bool) -> Result<Finished> {
    if arguments.counters {
        return counters(arguments, json);
    }
    let names = check(arguments)?;
    let permitted = Use {
        writes: arguments.rw.writes(),
        create_size: arguments.create_size,
        destroy_data: arguments.destroy_data,
    };
    let mut drives = Drives::open(&names, permitted)?;
    let cores = arguments.numjobs.min(allowed_cpus()?.len() as u32);
    let machine = RealMachine::start(Cpus::Count(cores), Options::from_environment())?;
    let target = target(&machine.platform(), &drives, arguments)?;
    let workload = workload(&target, arguments)?;
    drives.keep();
    let ran = run(&machine, target, workload, arguments)?;
    let report = report(&machine, &names, cores, arguments, ran)?;
    let held = report.mismatches.is_empty();
    finish(json, &report, if held { Verdict::Held } else { Verdict::Violated }, render)
}

/// Refuses what needs no look at a drive.
fn check(arguments: &BenchArguments) -> Result<Vec<DriveName>> {
    let names: Vec<DriveName> = arguments
        .devices
        .iter()
        .map(|name| name.parse().with_context(|| format!("device '{name}'")))
        .collect::<Result<_>>()?;
    let level = level(&arguments.level, arguments.layout.as_deref())?;
    ensure!(
        arguments.near_copies.is_none() || matches!(level, MdLevel::Raid10(_)),
        "--near-copies is for level 10; {} has none",
        level.name()
    );
    if arguments.raw {
        ensure!(names.len() == 1, "--raw takes one device, not {}", names.len());
    }
    let stores_nothing = names.iter().any(|name| matches!(name, DriveName::Null(_)));
    ensure!(!(arguments.verify && stores_nothing), "a null device cannot be verified");
    for (option, size) in [("--bs", arguments.bs), ("--chunk", arguments.chunk)] {
        let whole = size.0 != 0 && size.0.is_multiple_of(SECTOR_BYTES);
        ensure!(whole, "{option} of {size} is no positive multiple of {SECTOR_BYTES} bytes");
    }
    let slots = u64::from(arguments.iodepth) * u64::from(arguments.numjobs);
    let buffers = ByteCount(arguments.bs.0.saturating_mul(slots));
    let limit = ByteCount(BUFFER_BYTES_MAX);
    ensure!(buffers <= limit, "bs x iodepth x numjobs is {buffers}; the limit is {limit}");
    ensure!(arguments.number_ios != Some(0), "--number-ios must be at least 1");
    Ok(names)
}

fn target(
    platform: &RealPlatform,
    drives: &Drives,
    arguments: &BenchArguments,
) -> Result<Target<RealPlatform>> {
    if arguments.raw {
        return Ok(Target::Raw(Arc::new(drives.devices()[0].clone())));
    }
    // As it was asked for: what cannot be is refused by the engine.
    let geometry = Geometry {
        level: level(&arguments.level, arguments.layout.as_deref())?,
        chunk: Sectors::from_bytes_rounded_down(arguments.chunk.0),
        raid_disks: drives.devices().len() as u32,
    };
    let (level, chunk) = engine_level(geometry);
    let level = arguments.near_copies.map_or(level, Level::raid10_near);
    let options = ArrayOptions { level, chunk, tuning: Tuning::default() };
    Ok(Target::Array(Array::create(platform, drives.devices().to_vec(), options)?))
}

fn workload(target: &Target<RealPlatform>, arguments: &BenchArguments) -> Result<Workload> {
    let capacity = ByteCount(target.capacity().bytes());
    let size = arguments.size.unwrap_or(capacity);
    ensure!(size <= capacity, "--size of {size} is more than the {capacity} that there are");
    let unit = u64::from(target.logical_block_bytes());
    let bs = arguments.bs;
    ensure!(bs.0.is_multiple_of(unit), "--bs of {bs} is no multiple of the drives' block, {unit}");
    let jobs = u64::from(arguments.numjobs);
    let blocks_of_job = size.0 / bs.0 / jobs;
    let blocks = size.0 / bs.0;
    ensure!(
        !arguments.verify || blocks <= VERIFIED_BLOCKS_MAX,
        "--verify keeps account of {VERIFIED_BLOCKS_MAX} blocks at most, and {size} have {blocks} \
         of {bs}; give a smaller --size"
    );
    // A verified block takes one request at a time, so each job needs one block for each slot.
    let needed = if arguments.verify { u64::from(arguments.iodepth) } else { 1 };
    if blocks_of_job < needed {
        bail!(
            "{size} have {blocks_of_job} blocks of {bs} for each of {jobs} jobs; \
             {needed} are needed"
        );
    }
    Ok(Workload {
        pattern: arguments.rw,
        read_percent: arguments.rwmixread,
        block: Sectors::from_bytes_rounded_down(bs.0),
        io_depth: arguments.iodepth,
        jobs: arguments.numjobs,
        random_seed: arguments.randseed,
        extent: Sectors::from_bytes_rounded_down(size.0),
        verify: arguments.verify,
        // The run sets the times when it starts.
        schedule: Schedule {
            measure_from_ns: 0,
            end_ns: u64::MAX,
            ios_per_job: arguments.number_ios,
        },
    })
}

fn run(
    machine: &RealMachine,
    target: Target<RealPlatform>,
    workload: Workload,
    arguments: &BenchArguments,
) -> Result<Ran> {
    let runtime_ns = arguments.runtime.ns;
    let cores = arguments.numjobs.min(allowed_cpus()?.len() as u32);
    let cpus = (0..arguments.numjobs).map(|job| CpuId(job % cores)).collect();
    let (ended, is_running) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || show_progress(&is_running, runtime_ns));
        let ran = machine
            .block_on(CpuId(0), move |cpu| run_jobs(cpu, target, workload, cpus, runtime_ns));
        drop(ended);
        ran
    })
}

async fn run_jobs(
    cpu: RealCpu,
    target: Target<RealPlatform>,
    mut workload: Workload,
    cpus: Vec<CpuId>,
    runtime_ns: u64,
) -> Result<Ran> {
    let writes = workload.pattern.writes();
    workload.schedule.measure_from_ns = cpu.now_ns();
    workload.schedule.end_ns = cpu.now_ns().saturating_add(runtime_ns);
    let running = job::start(cpu.platform(), &target, workload, &cpus, register);
    running.ended(&cpu).await;
    let outcome = running.outcome().expect("every job has ended");
    let mut failed_members = Vec::new();
    if let Target::Array(array) = &target {
        if writes {
            array.flush(&cpu).await?;
        }
        let states = array.member_states(&cpu).await;
        let failed = states.iter().enumerate().filter(|(_, state)| **state == MemberState::Failed);
        failed_members = failed.map(|(member, _)| member).collect();
    }
    Ok(Ran { outcome, failed_members, io_uring: cpu.uses_io_uring() })
}

/// A limit of the system may leave some unregistered: those are only a little slower.
fn register(cpu: &RealCpu, buffers: &mut [Buffer]) {
    cpu.register_buffers(buffers);
}

/// Shows how much of the time is over, until the run has ended.
fn show_progress(is_running: &mpsc::Receiver<()>, runtime_ns: u64) {
    const STEP: Duration = Duration::from_millis(200);
    let steps = runtime_ns / STEP.as_nanos() as u64;
    let progress = Progress::new("running", steps);
    for _ in 0..steps {
        match is_running.recv_timeout(STEP) {
            Err(mpsc::RecvTimeoutError::Timeout) => progress.advance(1),
            _ => return,
        }
    }
    // Requests under way and the verification at the end take their time; then the sender goes.
    let _ = is_running.recv();
}

fn report(
    machine: &RealMachine,
    names: &[DriveName],
    cores: u32,
    arguments: &BenchArguments,
    ran: Ran,
) -> Result<Report> {
    let (mut mismatches, mut errors) = (Vec::new(), Vec::new());
    for failure in ran.outcome.failures {
        match failure {
            Failure::Io(error) => errors.push(error),
            Failure::Mismatch(mismatch) => mismatches.push(mismatch.to_string()),
        }
    }
    // Wrong data in one job is the worse news, whatever stopped the others.
    if let (Some(error), true) = (errors.first(), mismatches.is_empty()) {
        bail!("{error}");
    }
    let statistics = &ran.outcome.statistics;
    Ok(Report {
        target: match arguments.raw {
            true => "raw device".to_owned(),
            false => {
                let level = level(&arguments.level, arguments.layout.as_deref())?;
                let (name, layout) = (level.name(), level.to_string());
                let usual = layout.is_empty() || arguments.layout.is_none();
                let layout = if usual { String::new() } else { format!(" {layout}") };
                format!("{name}{layout} of {}", names.len())
            }
        },
        devices: names.iter().map(DriveName::to_string).collect(),
        rw: arguments.rw.word(),
        bs: arguments.bs.0,
        iodepth: arguments.iodepth,
        numjobs: arguments.numjobs,
        cores,
        io_uring: ran.io_uring,
        measured_ns: ran.outcome.measured_ns,
        reads: statistics.reads,
        writes: statistics.writes,
        blocks_verified: statistics.blocks_verified,
        io: statistics.summary(ran.outcome.measured_ns),
        failed_members: ran.failed_members,
        mismatches,
        contention: contention_of(&machine.platform()),
    })
}

/// Real cores count acquisitions; how long they waited is not measured.
fn contention_of(platform: &RealPlatform) -> ContentionReport {
    let mut by_name: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for (label, counts) in platform.lock_counts() {
        let sum = by_name.entry(label.name()).or_default();
        *sum = (sum.0 + counts.acquisitions, sum.1 + counts.contended);
    }
    let locks = by_name
        .into_iter()
        .filter(|(_, (acquisitions, _))| *acquisitions > 0)
        .map(|(name, (acquisitions, contended))| LockReport {
            name: name.to_owned(),
            acquisitions,
            contended,
            acquisitions_per_mib: None,
            contended_per_mib: None,
            wait_ns_mean: None,
            hold_ns_mean: None,
        })
        .collect();
    ContentionReport { locks, lines: Vec::new() }
}

pub(super) fn counted(count: u32, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn render(report: &Report) -> String {
    let Report { target, rw, bs, iodepth, numjobs, cores, .. } = report;
    let path = if report.io_uring { "io_uring" } else { "threads" };
    let bs = ByteCount(*bs);
    let devices = report.devices.join(", ");
    let (jobs, cores) = (counted(*numjobs, "job"), counted(*cores, "core"));
    let title =
        format!("{target} ({devices}), {rw}, {bs}, depth {iodepth}, {jobs} on {cores}, {path}");
    let mut table =
        Table::new_of(["target"].into_iter().chain(IoSummary::HEADINGS).map(str::to_owned));
    table.row([target.clone()].into_iter().chain(report.io.cells()));
    let mut text = format!("{title}\n\n{}\n", table.render());
    text += &format!("{} reads, {} writes\n", report.reads, report.writes);
    if report.blocks_verified > 0 || !report.mismatches.is_empty() {
        let wrong = report.mismatches.len();
        text += &format!("{} blocks verified, {wrong} wrong\n", report.blocks_verified);
    }
    for mismatch in &report.mismatches {
        text += &format!("violated: {mismatch}\n");
    }
    for member in &report.failed_members {
        text += &format!("member {member} failed: {}\n", report.devices[*member]);
    }
    let contention = contention::render(&[(target, &report.contention)]);
    if contention.is_empty() { text } else { format!("{text}\n{contention}") }
}
