//! Finds out whether somebody else uses a regular file that is to be written. The kernel protects
//! block devices that are in use; a file it lets anyone write to, even one that holds a mounted file
//! system.
//!
//! Only looks; and where the system does not tell, says no.

use rustix::fs::{Stat, fstat, stat};
use rustix::io::Errno;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where the kernel lists block devices and what they are made of.
const BLOCK_DEVICES: &str = "/sys/block";

/// From Linux's `asm-generic/fcntl.h`; the crate `libc` has it not for every target.
const F_SETSIG: libc::c_int = 10;

/// Whether the file, which is open for writing, is a block device's content or is open for writing
/// elsewhere: by a virtual machine, a database, or under a name of its own by us.
pub(crate) fn is_used_elsewhere(fd: &OwnedFd) -> bool {
    let Ok(file) = fstat(fd) else { return false };
    backs_a_loop_device(Path::new(BLOCK_DEVICES), &file) || stays_open_for_writing(fd)
}

/// Whether a loop device has the file as its content, even one that only reads it.
fn backs_a_loop_device(block_devices: &Path, file: &Stat) -> bool {
    let Ok(devices) = std::fs::read_dir(block_devices) else { return false };
    devices
        .filter_map(|device| {
            std::fs::read_to_string(device.ok()?.path().join("loop/backing_file")).ok()
        })
        .map(|line| PathBuf::from(line.strip_suffix('\n').unwrap_or(&line)))
        .filter_map(|backing| stat(&backing).ok())
        .any(|backing| (backing.st_dev, backing.st_ino) == (file.st_dev, file.st_ino))
}

/// Whether others have it open for writing, now and for a while: rings of this process close a file
/// some moments after its last use.
fn stays_open_for_writing(fd: &OwnedFd) -> bool {
    const LOOKS: u32 = 20;
    const PAUSE: Duration = Duration::from_millis(5);
    (0..LOOKS).all(|look| {
        if look > 0 {
            std::thread::sleep(PAUSE);
        }
        has_other_writers(fd)
    })
}

/// The kernel gives a lease for writing to the only one who has a file open for writing.
fn has_other_writers(fd: &OwnedFd) -> bool {
    let fd = fd.as_raw_fd();
    // Who opens the file while the lease is held waits for its end, and the kernel tells the holder
    // by a signal: one that does nothing by default, unlike SIGIO.
    // SAFETY: the calls take no pointers, and the descriptor is open.
    let refused = unsafe {
        libc::fcntl(fd, F_SETSIG, libc::SIGURG) == -1
            || libc::fcntl(fd, libc::F_SETLEASE, libc::F_WRLCK) == -1
    };
    if refused {
        return std::io::Error::last_os_error().raw_os_error() == Some(Errno::AGAIN.raw_os_error());
    }
    // SAFETY: as above. Failure is possible only without a lease.
    let _ = unsafe { libc::fcntl(fd, libc::F_SETLEASE, libc::F_UNLCK) };
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, OpenOptions};

    /// Looks for `file` among devices of which `loop1` has the content `backing`.
    fn check(backing: &str, file: &str, expected: bool) {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name);
        fs::write(at("image"), b"a file system").expect("written");
        fs::hard_link(at("image"), at("same")).expect("linked");
        fs::write(at("other"), b"nothing").expect("written");
        fs::create_dir_all(at("block/loop1/loop")).expect("made");
        fs::create_dir_all(at("block/disk")).expect("made");
        let line = format!("{}\n", at(backing).display());
        fs::write(at("block/loop1/loop/backing_file"), line).expect("written");
        let file = stat(at(file)).expect("found");
        assert_eq!(backs_a_loop_device(&at("block"), &file), expected);
    }

    #[test]
    fn the_file_of_a_loop_device_is_in_use_by_any_name() {
        check("image", "image", true);
        check("image", "same", true);
        check("image", "other", false);
        check("gone (deleted)", "image", false);
    }

    #[test]
    fn a_file_that_another_has_open_for_writing_is_in_use() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("image");
        fs::write(&path, b"data").expect("written");
        let open = || OpenOptions::new().read(true).write(true).open(&path).expect("opened");
        let ours = OwnedFd::from(open());
        assert!(!is_used_elsewhere(&ours));
        let theirs = open();
        assert!(is_used_elsewhere(&ours));
        drop(theirs);
        assert!(!is_used_elsewhere(&ours));
    }
}
