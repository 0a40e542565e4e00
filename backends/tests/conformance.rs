//! This machine passes the suite that every platform and device must pass, over io_uring and
//! without it.

use backends::{Access, Cpus, Options, RealDevice, RealMachine, RealPlatform, allowed_cpus};
use raid::conformance;
use raid::device::Device;
use raid::lock::{ReaderSpin, SpinKind};
use raid::units::{CpuId, Sectors};
use std::path::Path;
use std::sync::Arc;

const SPIN_KINDS: [SpinKind; 4] =
    [SpinKind::TestAndSet, SpinKind::Ticket, SpinKind::Queued, SpinKind::NumaQueued];

/// Sections per task: enough for the cores to meet many times.
const ROUNDS: u64 = 20_000;

fn machine(io_uring: bool) -> RealMachine {
    let cores = allowed_cpus().expect("the system tells").len().min(4) as u32;
    RealMachine::start(Cpus::Count(cores), Options { io_uring }).expect("a machine starts")
}

fn check_device(io_uring: bool, device: RealDevice) {
    let device = Arc::new(device);
    machine(io_uring).block_on(CpuId(0), move |cpu| async move {
        conformance::device::<RealPlatform>(&cpu, &device).await;
    });
}

fn check_file(io_uring: bool, directory: &Path) {
    let directory = tempfile::tempdir_in(directory).expect("a directory");
    let path = directory.path().join("member");
    let created = RealDevice::create_file(&path, Sectors(4096)).expect("created");
    assert_eq!(created.size(), Sectors(4096));
    check_device(io_uring, created);
    let opened = RealDevice::open_existing(&path, Access::ReadWrite).expect("opened again");
    check_device(io_uring, opened);
}

#[test]
fn words_cores_and_parkers_keep_their_contracts() {
    for io_uring in [true, false] {
        machine(io_uring).block_on(CpuId(0), |cpu| async move {
            conformance::words::<RealPlatform>(&cpu).await;
            conformance::cores::<RealPlatform>(&cpu).await;
            conformance::parkers::<RealPlatform>(&cpu).await;
        });
    }
}

#[test]
fn spin_locks_exclude_each_other_on_real_cores() {
    machine(true).block_on(CpuId(0), |cpu| async move {
        for kind in SPIN_KINDS {
            conformance::spin_lock::<RealPlatform>(&cpu, kind, ROUNDS).await;
        }
    });
}

#[test]
fn sequence_locks_show_no_half_write_on_real_cores() {
    machine(true).block_on(CpuId(0), |cpu| async move {
        for kind in SPIN_KINDS {
            conformance::sequence_lock::<RealPlatform>(&cpu, kind, ROUNDS).await;
        }
    });
}

#[test]
fn wait_queues_lose_no_wake_up_on_real_cores() {
    machine(true).block_on(CpuId(0), |cpu| async move {
        for kind in SPIN_KINDS {
            conformance::wait_queue::<RealPlatform>(&cpu, kind, ROUNDS / 10).await;
        }
    });
}

#[test]
fn reader_writer_semaphores_exclude_and_wake_on_real_cores() {
    machine(true).block_on(CpuId(0), |cpu| async move {
        for reader_spin in [ReaderSpin::Off, ReaderSpin::On, ReaderSpin::Adaptive] {
            conformance::reader_writer::<RealPlatform>(&cpu, reader_spin, ROUNDS / 10).await;
        }
    });
}

#[test]
fn files_over_io_uring_keep_the_contract() {
    check_file(true, Path::new(env!("CARGO_TARGET_TMPDIR")));
}

#[test]
fn files_without_io_uring_keep_the_contract() {
    check_file(false, Path::new(env!("CARGO_TARGET_TMPDIR")));
}

/// A file system in memory; before Linux 6.6 it has no direct I/O, and the page cache serves.
#[test]
fn files_in_memory_keep_the_contract() {
    if Path::new("/dev/shm").is_dir() {
        check_file(true, Path::new("/dev/shm"));
    }
}

#[test]
fn the_memory_device_keeps_the_contract() {
    check_device(true, RealDevice::memory("memory", Sectors(4096)));
}
