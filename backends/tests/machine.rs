//! What this machine does when things go wrong: wrong paths, panicking tasks, requests that outlive
//! whoever asked for them.

use backends::{Access, Cpus, Options, RealDevice, RealMachine, RealPlatform};
use raid::buffer::Buffer;
use raid::device::{Device, Durability, Io, IoError};
use raid::lock::{SpinKind, SpinLock};
use raid::platform::{Cpu, Label, Ordering, Place, Platform, Word};
use raid::units::{CpuId, Sector, Sectors};
use std::fs;
use std::os::unix::fs::symlink;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

const BLOCK_BYTES: usize = 4096;

fn directory() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory")
}

fn machine() -> RealMachine {
    RealMachine::start(Cpus::All, Options::default()).expect("a machine starts")
}

/// The message with which opening `path` fails.
fn refusal(path: &Path) -> String {
    let opened = RealDevice::open_existing(path, Access::ReadWrite);
    opened.err().expect("refused").to_string()
}

/// A file of four blocks, each filled with its number from 1.
fn numbered_file(directory: &Path) -> PathBuf {
    let path = directory.join("numbered");
    let bytes: Vec<u8> = (1..=4_u8).flat_map(|number| [number; BLOCK_BYTES]).collect();
    fs::write(&path, bytes).expect("written");
    path
}

fn panic_message(run: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(run)).expect_err("it panics");
    *payload.downcast::<String>().expect("a formatted message")
}

#[test]
fn each_refusal_says_what_is_in_the_way() {
    let directory = directory();
    let path = directory.path().join("nothing");
    let place = directory.path().display();
    assert_eq!(refusal(&path), format!("{place}/nothing: no such file or device"));
    let kind = "is a directory; a regular file or a block device is needed";
    assert_eq!(refusal(directory.path()), format!("{place}: {kind}"));
    fs::write(&path, b"short").expect("written");
    let small = refusal(&path);
    assert!(small.starts_with(&format!("{place}/nothing: holds 5 bytes, less than")), "{small}");
    let inside = path.join("member");
    let created = RealDevice::create_file(&inside, Sectors(8)).err().expect("refused");
    assert!(created.to_string().ends_with("no such file or device"), "{created}");
}

#[test]
fn what_exists_is_not_touched() {
    let directory = directory();
    let path = numbered_file(directory.path());
    let before = fs::read(&path).expect("read");
    let refused = RealDevice::create_file(&path, Sectors(8)).err().expect("refused");
    assert!(refused.to_string().ends_with("exists already; it was not touched"), "{refused}");
    // A link to nowhere counts as something that exists.
    let link = directory.path().join("link");
    symlink(directory.path().join("nowhere"), &link).expect("linked");
    assert!(RealDevice::create_file(&link, Sectors(8)).is_err());
    assert!(!directory.path().join("nowhere").exists());
    assert_eq!(fs::read(&path).expect("read"), before);
}

#[test]
fn a_file_that_cannot_be_made_leaves_nothing_behind() {
    let directory = directory();
    for sectors in [0, 1 << 50] {
        let path = directory.path().join("member");
        assert!(RealDevice::create_file(&path, Sectors(sectors)).is_err());
        assert!(!path.exists(), "{sectors} sectors");
    }
}

#[test]
fn a_file_has_one_writer_until_it_is_closed() {
    let directory = directory();
    let path = numbered_file(directory.path());
    let machine = machine();
    for _ in 0..3 {
        let first = RealDevice::open_existing(&path, Access::ReadWrite).expect("opened");
        assert!(refusal(&path).ends_with("opened by another process)"));
        assert!(RealDevice::open_existing(&path, Access::ReadOnly).is_err());
        // Used, so that the core's ring has it among its registered files.
        machine.block_on(CpuId(0), move |cpu| async move {
            let io = Io::Read { at: Sector(8), into: Buffer::zeroed(BLOCK_BYTES) };
            let done = first.submit(&cpu, io).await.await;
            assert_eq!(done.buffer.expect("given back")[0], 2);
        });
    }
    let readers = [(); 2].map(|()| RealDevice::open_existing(&path, Access::ReadOnly));
    assert!(readers.iter().all(Result::is_ok));
}

#[test]
fn a_machine_that_has_ended_keeps_no_file_open() {
    let directory = directory();
    let path = numbered_file(directory.path());
    // A new opening finds out at once if the kernel still has the old one open for writing.
    for _ in 0..3 {
        let device =
            RealDevice::open_existing(&path, Access::ReadWrite).expect("nobody has it open");
        let machine = machine();
        let used = device.clone();
        machine.block_on(CpuId(0), move |cpu| async move {
            let io = Io::Read { at: Sector(8), into: Buffer::zeroed(BLOCK_BYTES) };
            let done = used.submit(&cpu, io).await.await;
            assert_eq!(done.result, Ok(()));
        });
        drop(machine);
        drop(device);
    }
}

#[test]
fn a_device_opened_for_reading_takes_no_write() {
    let directory = directory();
    let path = numbered_file(directory.path());
    let device = RealDevice::open_existing(&path, Access::ReadOnly).expect("opened");
    machine().block_on(CpuId(0), move |cpu| async move {
        let data = Buffer::zeroed(BLOCK_BYTES).into_shared();
        let write = Io::Write { at: Sector(0), data, durability: Durability::Cached };
        let done = device.submit(&cpu, write).await.await;
        assert_eq!(done.result, Err(IoError::Unsupported { operation: "write" }));
        assert_eq!(device.submit(&cpu, Io::Flush).await.await.result, Ok(()));
    });
    assert_eq!(fs::read(path).expect("read")[0], 1);
}

#[test]
fn a_file_cut_behind_our_back_is_an_error_and_not_data() {
    for io_uring in [true, false] {
        let directory = directory();
        let path = numbered_file(directory.path());
        let device = RealDevice::open_existing(&path, Access::ReadOnly).expect("opened");
        fs::OpenOptions::new()
            .write(true)
            .open(&path)
            .and_then(|file| file.set_len(BLOCK_BYTES as u64))
            .expect("cut");
        let machine = RealMachine::start(Cpus::Count(1), Options { io_uring }).expect("starts");
        machine.block_on(CpuId(0), move |cpu| async move {
            let io = Io::Read { at: Sector(0), into: Buffer::zeroed(2 * BLOCK_BYTES) };
            let done = device.submit(&cpu, io).await.await;
            assert_eq!(done.result, Err(IoError::System { errno: 5 }));
        });
    }
}

#[test]
fn registered_buffers_carry_the_same_data() {
    let directory = directory();
    let path = directory.path().join("member");
    let device = Arc::new(RealDevice::create_file(&path, Sectors(64)).expect("created"));
    let machine = machine();
    for cpu in machine.platform().topology().cpus_of(raid::units::NodeId(0)).take(2) {
        let device = device.clone();
        machine.block_on(cpu, move |cpu| async move {
            let mut buffers = [Buffer::zeroed(BLOCK_BYTES), Buffer::zeroed(2 * BLOCK_BYTES)];
            let registered = cpu.register_buffers(&mut buffers);
            assert_eq!(registered, if cpu.uses_io_uring() { 2 } else { 0 });
            let [mut source, target] = buffers;
            source.fill(cpu.id().0 as u8 + 1);
            let data = source.into_shared();
            let write = Io::Write { at: Sector(8), data, durability: Durability::Fua };
            assert_eq!(device.submit(&cpu, write).await.await.result, Ok(()));
            // The second half of a registered buffer.
            let (_, half) = target.split_at(BLOCK_BYTES);
            let done = device.submit(&cpu, Io::Read { at: Sector(8), into: half }).await.await;
            let found = done.buffer.expect("given back");
            assert!(found.iter().all(|byte| *byte == cpu.id().0 as u8 + 1));
        });
    }
}

#[test]
fn a_machine_can_end_with_requests_under_way() {
    for io_uring in [true, false] {
        let directory = directory();
        let path = directory.path().join("member");
        let device = Arc::new(RealDevice::create_file(&path, Sectors(2048)).expect("created"));
        let machine = RealMachine::start(Cpus::All, Options { io_uring }).expect("starts");
        for cpu in (0..machine.platform().topology().cpu_count()).map(CpuId) {
            let device = device.clone();
            machine.block_on(cpu, move |cpu| async move {
                for block in 0..64 {
                    let (device, me) = (device.clone(), cpu.clone());
                    cpu.spawn(Label::new("reader"), async move {
                        loop {
                            let into = Buffer::zeroed(BLOCK_BYTES);
                            let io = Io::Read { at: Sector(block * 8), into };
                            device.submit(&me, io).await.await.result.expect("read");
                        }
                    });
                }
                cpu.yield_now().await;
            });
        }
        machine.shutdown();
        assert_eq!(Arc::strong_count(&device), 1, "a task was left behind");
    }
}

#[test]
fn a_panic_reaches_whoever_waits() {
    let machine = machine();
    let message = panic_message(|| {
        machine.block_on(CpuId(0), |_| async { panic!("a broken invariant") });
    });
    assert!(message.ends_with("on core 0 panicked: a broken invariant"), "{message}");
    // The machine is of no more use, and says so instead of waiting.
    let again = panic_message(|| machine.block_on(CpuId(0), |_| async {}));
    assert_eq!(again, message);
}

#[test]
fn a_core_that_spins_learns_that_the_holder_is_gone() {
    let machine = machine();
    let platform = machine.platform();
    let last = CpuId(platform.topology().cpu_count() - 1);
    if last == CpuId(0) {
        // On a single core nobody fails while it spins.
        return;
    }
    let flag = Arc::new(platform.word(Label::new("flag"), Place::Alone, 0));
    let never = flag.clone();
    platform.spawn_on(last, Label::new("spinner"), move |cpu| async move {
        never.store(&cpu, 1, Ordering::Release).await;
        never.spin_until(&cpu, Ordering::Acquire, |value| value == 2).await;
    });
    let message = panic_message(|| {
        machine.block_on(CpuId(0), move |cpu| async move {
            flag.spin_until(&cpu, Ordering::Acquire, |value| value == 1).await;
            panic!("the holder fails");
        });
    });
    assert!(message.ends_with("the holder fails"), "{message}");
}

#[test]
fn sleeping_in_an_atomic_stretch_is_a_bug_that_shows() {
    let machine = machine();
    let platform = machine.platform();
    let lock = SpinLock::new(&platform, Label::new("lock"), SpinKind::Queued, Place::Alone, ());
    let message = panic_message(|| {
        machine.block_on(CpuId(0), move |cpu| async move {
            lock.with(&cpu, async |()| cpu.yield_now().await).await;
        });
    });
    assert!(message.contains("sleeps in an atomic stretch"), "{message}");
}

#[test]
fn locks_are_counted_under_their_labels() {
    let machine = machine();
    let label = Label::new("counted");
    let platform = machine.platform();
    for _ in 0..2 {
        let lock = SpinLock::new(&platform, label, SpinKind::Ticket, Place::Alone, ());
        machine.block_on(CpuId(0), move |cpu: backends::RealCpu| async move {
            for _ in 0..5 {
                lock.with(&cpu, async |()| {}).await;
            }
        });
    }
    let counts = RealPlatform::lock_counts(&platform)[&label];
    assert_eq!((counts.acquisitions, counts.contended), (10, 0));
}
