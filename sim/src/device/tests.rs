//! Drives as the engine sees them: what they do, refuse, and keep when the power fails.

use super::drive::SimDevice;
use super::media::Media;
use crate::machine::{Machine, MachineFile};
use crate::{Options, Outcome, Simulation};
use raid::buffer::Buffer;
use raid::device::{Device, Durability, Io, IoError};
use raid::platform::{Cpu, Label, Platform};
use raid::units::{CpuId, Sector, Sectors};

const SIZE: Sectors = Sectors(64);

fn machine() -> Machine {
    MachineFile::preset("desktop-4c").expect("a preset").nominal()
}

fn read(at: u64, length: Sectors) -> Io {
    Io::Read { at: Sector(at), into: Buffer::zeroed(length.bytes() as usize) }
}

/// Submits `io`, does `meanwhile`, and compares how the request ends.
fn check(
    io: Io,
    meanwhile: impl FnOnce(&SimDevice) + Send + 'static,
    expected: Result<(), IoError>,
) {
    let machine = machine();
    let mut simulation = Simulation::new(&machine, Options::default());
    let drive = simulation.drive("drive", &machine.drive, &Media::zeroed(SIZE));
    let reads = matches!(io, Io::Read { .. });
    let label = Label::new("submitter");
    simulation.platform().spawn_on(CpuId(0), label, move |cpu| async move {
        let completion = drive.submit(&cpu, io).await;
        meanwhile(&drive);
        let done = completion.await;
        assert_eq!(done.result, expected);
        assert_eq!(done.buffer.is_some(), reads, "a read gives its buffer back, come what may");
    });
    assert_eq!(simulation.run(), Outcome::Done);
}

#[test]
fn a_disconnect_fails_requests_under_way_and_later_ones() {
    check(read(0, Sectors(8)), SimDevice::disconnect, Err(IoError::Gone));
    check(read(0, Sectors(8)), |drive| drive.plug().pull(), Err(IoError::Gone));
    let machine = machine();
    let mut simulation = Simulation::new(&machine, Options::default());
    let drive = simulation.drive("drive", &machine.drive, &Media::zeroed(SIZE));
    drive.disconnect();
    simulation.platform().spawn_on(CpuId(0), Label::new("late"), move |cpu| async move {
        for io in [read(0, Sectors(8)), Io::Flush] {
            let done = drive.submit(&cpu, io).await.await;
            assert_eq!(done.result, Err(IoError::Gone));
        }
    });
    assert_eq!(simulation.run(), Outcome::Done);
}

#[test]
fn only_what_lies_on_the_drive_is_done() {
    let beyond = |at, length| {
        Err(IoError::OutOfRange { at: Sector(at), length: Sectors(length), size: SIZE })
    };
    check(read(56, Sectors(8)), |_| {}, Ok(()));
    check(read(57, Sectors(8)), |_| {}, beyond(57, 8));
    check(read(u64::MAX, Sectors(8)), |_| {}, beyond(u64::MAX, 8));
    let discard = |at, length| Io::Discard { at: Sector(at), length: Sectors(length) };
    check(discard(0, 64), |_| {}, Ok(()));
    check(discard(1, 64), |_| {}, beyond(1, 64));
}

/// On cores that copy a byte in a nanosecond, after 200 ns in the driver.
#[test]
fn a_ram_disk_costs_a_copy_on_the_core_that_submits_and_no_interrupt() {
    let mut machine = machine();
    machine.core.copy_bytes_per_us = 1000;
    machine.software.driver_submit_ns = 200;
    let mut simulation = Simulation::new(&machine, Options::default());
    let media = Media::zeroed(SIZE);
    let drive = simulation.ram_disk("ram0", SIZE, Some(&media));
    simulation.platform().spawn_on(CpuId(0), Label::new("writer"), move |cpu| async move {
        let begun_ns = cpu.now_ns();
        let data = Buffer::copy_of(&[7; 1024]).into_shared();
        let durability = Durability::Cached;
        let completion = drive.submit(&cpu, Io::Write { at: Sector(3), data, durability }).await;
        assert_eq!(cpu.now_ns() - begun_ns, 200 + 1024);
        assert_eq!(completion.await.result, Ok(()));
        assert_eq!(cpu.now_ns() - begun_ns, 200 + 1024, "it was done by then");
        let done = drive.submit(&cpu, read(2, Sectors(2))).await.await;
        let buffer = done.buffer.expect("a read gives its buffer back");
        assert_eq!((buffer[511], buffer[512]), (0, 7));
        let beyond = drive.submit(&cpu, read(64, Sectors(1))).await.await;
        assert!(matches!(beyond.result, Err(IoError::OutOfRange { .. })));
    });
    assert_eq!(simulation.run(), Outcome::Done);
}

/// Writes 64 sectors of ones and cuts the power at `cut_ns`. How many of them are ones then.
fn sectors_after_cut(durability: Durability, cut_ns: u64) -> usize {
    let machine = machine();
    let mut simulation = Simulation::new(&machine, Options::default());
    let media = Media::zeroed(SIZE);
    let drive = simulation.drive("drive", &machine.drive, &media);
    simulation.platform().spawn_on(CpuId(0), Label::new("writer"), move |cpu| async move {
        let mut data = Buffer::zeroed(SIZE.bytes() as usize);
        data.fill(1);
        let io = Io::Write { at: Sector(0), data: data.into_shared(), durability };
        let done = drive.submit(&cpu, io).await.await;
        assert_eq!(done.result, Ok(()));
        cpu.sleep_ns(u64::from(u32::MAX)).await;
    });
    let outcome = simulation.run_until(cut_ns);
    assert!(matches!(outcome, Outcome::TimeLimit { .. }), "{outcome:?}");
    simulation.cut_power();
    let content = media.peek(Sector(0), SIZE);
    let sectors: Vec<_> = content.chunks(512).collect();
    assert!(
        sectors.iter().all(|sector| [[0; 512], [1; 512]].iter().any(|whole| whole == sector)),
        "a sector is old or new, never a mixture"
    );
    sectors.iter().filter(|sector| sector[0] == 1).count()
}

#[test]
fn a_power_cut_tears_a_write_under_way_between_sectors() {
    // The writer wakes at 1000 ns and hands over by 1300; the drive needs 8000 at least.
    assert_eq!(sectors_after_cut(Durability::Fua, 900), 0, "not handed over yet");
    for durability in [Durability::Fua, Durability::Cached] {
        let kept = sectors_after_cut(durability, 5_000);
        assert!((1..64).contains(&kept), "{kept} of 64 sectors survived");
    }
}

#[test]
fn a_power_cut_spares_a_forced_write_and_tears_a_cached_one() {
    assert_eq!(sectors_after_cut(Durability::Fua, 10_000_000), 64);
    let kept = sectors_after_cut(Durability::Cached, 10_000_000);
    assert!((1..64).contains(&kept), "{kept} of 64 sectors survived");
}
