//! The real drives that a command line names: opens what exists, makes what is to be made, and
//! never leaves half of it behind.
//!
//! Nothing that exists is opened for writing unless its owner gave it up by name, and nothing is
//! opened or made before all of the names have been looked at.

use crate::arrays::looks_like::what_would_be_lost;
use crate::arrays::member_file::MemberFile;
use crate::quantity::{ByteCount, QuantityError};
use backends::{Access, OpenError, RealDevice};
use raid::units::{SECTOR_BYTES, Sectors};
use std::fmt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// How large a `null` device without a size is.
const NULL_BYTES: u64 = 1 << 40;

/// The largest `memory` device: its table alone takes half a GiB then.
const MEMORY_BYTES_MAX: u64 = 1 << 40;

/// A drive as it is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DriveName {
    /// A file or block device.
    Path(PathBuf),
    /// Stores nothing.
    Null(ByteCount),
    /// Stores in memory.
    Memory(ByteCount),
}

/// What may be done with the drives.
#[derive(Clone, Copy, Debug)]
pub struct Use {
    /// Whether the workload writes.
    pub writes: bool,
    /// Make the paths, which must not exist, with this size.
    pub create_size: Option<ByteCount>,
    /// Whether the content of what exists may be destroyed.
    pub destroy_data: bool,
}

/// Why the drives cannot be had. Nothing was written and nothing is left behind.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// A path was to be made, but is there.
    #[error("{}: exists already; --create-size makes new files only", .0.display())]
    Exists(PathBuf),
    /// A path is not there.
    #[error("{}: no such file or device; --create-size SIZE makes missing files", .0.display())]
    Missing(PathBuf),
    /// A workload that writes on something that may hold data.
    #[error(
        "{}: exists and would be overwritten{}; allow that with --destroy-data",
        path.display(),
        holds.as_ref().map(|of| format!(" (it seems to hold {of})")).unwrap_or_default()
    )]
    WouldDestroy {
        /// Where.
        path: PathBuf,
        /// What it seems to hold, if that is known.
        holds: Option<String>,
    },
    /// One drive twice.
    #[error("{}: named twice", .0.display())]
    Twice(PathBuf),
    /// A size that is no whole number of sectors.
    #[error("a size of {0} is no positive multiple of {SECTOR_BYTES} bytes")]
    Unaligned(ByteCount),
    /// A drive in memory larger than any memory.
    #[error("memory of {0}: a drive in memory has at most {max}", max = ByteCount(MEMORY_BYTES_MAX))]
    TooMuchMemory(ByteCount),
    /// The backend's reason.
    #[error(transparent)]
    Open(#[from] OpenError),
}

/// Opened drives. New files among them are removed again when this is dropped, unless
/// [`keep`](Self::keep) was called.
#[derive(Default)]
pub struct Drives {
    devices: Vec<RealDevice>,
    made: Vec<PathBuf>,
}

impl Drives {
    /// Opens or makes the drives, in the order of their names.
    ///
    /// # Errors
    /// If one of them cannot be had.
    pub fn open(names: &[DriveName], permitted: Use) -> Result<Self, DriveError> {
        look_at(names, permitted)?;
        let mut drives = Self::default();
        for name in names {
            let device = match name {
                DriveName::Null(size) => RealDevice::null("null", sectors(*size)?),
                DriveName::Memory(size) if size.0 > MEMORY_BYTES_MAX => {
                    return Err(DriveError::TooMuchMemory(*size));
                }
                DriveName::Memory(size) => RealDevice::memory("memory", sectors(*size)?),
                DriveName::Path(path) => match permitted.create_size {
                    Some(size) => drives.make(path, sectors(size)?)?,
                    None if permitted.writes => RealDevice::open_existing(path, Access::ReadWrite)?,
                    None => RealDevice::open_existing(path, Access::ReadOnly)?,
                },
            };
            drives.devices.push(device);
        }
        Ok(drives)
    }

    fn make(&mut self, path: &Path, size: Sectors) -> Result<RealDevice, DriveError> {
        let device = RealDevice::create_file(path, size)?;
        self.made.push(path.to_owned());
        Ok(device)
    }

    /// The drives, in order.
    pub fn devices(&self) -> &[RealDevice] {
        &self.devices
    }

    /// From now on the new files stay.
    pub fn keep(&mut self) {
        self.made.clear();
    }
}

impl Drop for Drives {
    fn drop(&mut self) {
        for path in &self.made {
            // The error that ends the run is the one to report.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Refuses what can be refused before anything is opened.
pub(crate) fn look_at(names: &[DriveName], permitted: Use) -> Result<(), DriveError> {
    let mut seen = Vec::new();
    for name in names {
        let DriveName::Path(path) = name else { continue };
        // A dangling link counts as there: making the file would make its target.
        let exists = path.symlink_metadata().is_ok();
        match (exists, permitted.create_size) {
            (true, Some(_)) => return Err(DriveError::Exists(path.clone())),
            (false, None) => return Err(DriveError::Missing(path.clone())),
            (true, None) if permitted.writes && !permitted.destroy_data => {
                return Err(DriveError::WouldDestroy { path: path.clone(), holds: holds(path) });
            }
            _ => {}
        }
        let identity = Identity::of(path);
        if seen.contains(&identity) {
            return Err(DriveError::Twice(path.clone()));
        }
        seen.push(identity);
    }
    Ok(())
}

/// What a path seems to hold. Whoever cannot look at it learns that when it is opened.
fn holds(path: &Path) -> Option<String> {
    let file = MemberFile::open(path).ok()?;
    what_would_be_lost(&file).ok().flatten()
}

/// What is about to be lost on these paths, a line each, where that is known.
pub(crate) fn what_is_lost(paths: &[PathBuf]) -> Vec<String> {
    let line = |path: &PathBuf| Some(format!("{}: held {}", path.display(), holds(path)?));
    paths.iter().filter_map(line).collect()
}

/// What makes two paths the same drive, whatever links and device nodes lead there.
#[derive(PartialEq, Eq)]
pub(crate) enum Identity {
    File {
        device: u64,
        inode: u64,
    },
    Device {
        number: u64,
    },
    /// Nothing is there yet.
    Missing(PathBuf),
}

impl Identity {
    pub(crate) fn of(path: &Path) -> Self {
        match path.metadata() {
            Ok(found) if found.file_type().is_block_device() => {
                Self::Device { number: found.rdev() }
            }
            Ok(found) => Self::File { device: found.dev(), inode: found.ino() },
            Err(_) => Self::Missing(path.to_owned()),
        }
    }
}

pub(crate) fn sectors(size: ByteCount) -> Result<Sectors, DriveError> {
    match size.0 != 0 && size.0.is_multiple_of(SECTOR_BYTES) {
        true => Ok(Sectors::from_bytes_rounded_down(size.0)),
        false => Err(DriveError::Unaligned(size)),
    }
}

impl FromStr for DriveName {
    type Err = QuantityError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text.split_once(':') {
            None if text == "null" => DriveName::Null(ByteCount(NULL_BYTES)),
            Some(("null", size)) => DriveName::Null(size.parse()?),
            // Taken for a path, it would answer that there is no such file, or make one.
            None if text == "memory" => {
                let wanted = "a drive: give a size, as in memory:256M (a file is ./memory)";
                return Err(QuantityError::Malformed { text: text.to_owned(), wanted });
            }
            Some(("memory", size)) => DriveName::Memory(size.parse()?),
            _ => DriveName::Path(PathBuf::from(text)),
        })
    }
}

impl fmt::Display for DriveName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DriveName::Path(path) => write!(formatter, "{}", path.display()),
            DriveName::Null(_) => formatter.write_str("null"),
            DriveName::Memory(size) => write!(formatter, "memory of {size}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: Use = Use { writes: false, create_size: None, destroy_data: false };
    const MAKE: Use = Use { writes: true, create_size: Some(ByteCount(1 << 20)), ..READ };

    fn names(paths: &[PathBuf]) -> Vec<DriveName> {
        paths.iter().cloned().map(DriveName::Path).collect()
    }

    fn check(paths: &[PathBuf], permitted: Use, message: &str) {
        let error = Drives::open(&names(paths), permitted).err().expect("refused").to_string();
        assert!(error.contains(message), "{error}");
    }

    #[test]
    fn names_are_told_apart() {
        let parse = |text: &str| text.parse::<DriveName>();
        assert_eq!(parse("null"), Ok(DriveName::Null(ByteCount(NULL_BYTES))));
        assert_eq!(parse("memory:1M"), Ok(DriveName::Memory(ByteCount(1 << 20))));
        assert_eq!(parse("./null"), Ok(DriveName::Path("./null".into())));
        assert_eq!(parse("/dev/a:b"), Ok(DriveName::Path("/dev/a:b".into())));
        assert!(parse("memory:much").is_err());
        assert!(parse("memory").is_err(), "a path of that name is ./memory");
    }

    #[test]
    fn what_exists_is_neither_made_nor_overwritten() {
        let directory = tempfile::tempdir().expect("a directory");
        let (there, missing) = (directory.path().join("there"), directory.path().join("missing"));
        std::fs::write(&there, "dear data").expect("writes");
        check(&[missing.clone(), there.clone()], MAKE, "exists already");
        check(std::slice::from_ref(&there), Use { writes: true, ..READ }, "--destroy-data");
        check(&[there.clone(), missing.clone()], READ, "no such file");
        assert!(!missing.exists());
        assert_eq!(std::fs::read(&there).expect("reads"), b"dear data");
    }

    #[test]
    fn one_drive_is_not_two_members() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("drive");
        std::fs::write(&path, vec![0; 8192]).expect("writes");
        let other_way = directory.path().join(".").join("drive");
        let link = directory.path().join("link");
        std::fs::hard_link(&path, &link).expect("linked");
        for other in [other_way, link] {
            check(&[path.clone(), other], READ, "named twice");
        }
    }

    #[test]
    fn new_files_vanish_unless_they_are_kept() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("new");
        drop(Drives::open(&names(std::slice::from_ref(&path)), MAKE).expect("made"));
        assert!(!path.exists());
        Drives::open(&names(std::slice::from_ref(&path)), MAKE).expect("made").keep();
        assert_eq!(path.metadata().expect("there").len(), 1 << 20);
    }

    #[test]
    fn if_a_later_file_cannot_be_made_the_earlier_are_removed() {
        let directory = tempfile::tempdir().expect("a directory");
        let first = directory.path().join("first");
        let third = directory.path().join("no-such-directory").join("third");
        check(&[first.clone(), third], MAKE, "no such file");
        assert!(!first.exists());
    }
}
