//! A file or block device that may be a member, looked at without the engine: opened for reading
//! only, whoever else uses it. Never writes, never locks.

use crate::drives::Identity;
use raid::metadata::superblock::{
    Location, SUPERBLOCK_BYTES, Search, Superblock, SuperblockError, locations,
};
use raid::units::{Sector, Sectors};
use std::fs::File;
use std::io::{self, ErrorKind, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::{Path, PathBuf};

/// Why a file cannot be looked at.
#[derive(Debug, thiserror::Error)]
pub enum LookError {
    /// There is nothing at that path.
    #[error("{}: no such file or device", .0.display())]
    NotFound(PathBuf),
    /// The user may not read it.
    #[error("{}: permission denied", .0.display())]
    Denied(PathBuf),
    /// Neither a regular file nor a block device.
    #[error("{}: is a {kind}; a member is a regular file or a block device", path.display())]
    WrongKind {
        /// What was asked for.
        path: PathBuf,
        /// What is there.
        kind: &'static str,
    },
    /// One member twice.
    #[error("{}: named twice", .0.display())]
    Twice(PathBuf),
    /// Any other refusal of the system.
    #[error("{}: cannot read it", path.display())]
    System {
        /// What was asked for.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl LookError {
    fn new(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => Self::NotFound(path),
            ErrorKind::PermissionDenied => Self::Denied(path),
            _ => Self::System { path, source },
        }
    }
}

/// What a file or block device is called, and how large it is.
#[derive(Clone, Debug)]
pub struct FileFacts {
    /// Where it is.
    pub path: PathBuf,
    /// Its bytes, also those that fill no sector.
    pub size_bytes: u64,
}

impl FileFacts {
    /// What a person calls it.
    pub fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// Its whole sectors.
    pub fn size(&self) -> Sectors {
        Sectors::from_bytes_rounded_down(self.size_bytes)
    }
}

/// An open file or block device.
pub struct MemberFile {
    facts: FileFacts,
    file: File,
}

/// The superblock that lies at one of the places where one may lie.
pub struct Found {
    /// Where.
    pub location: Location,
    /// What it says.
    pub superblock: Superblock,
    /// What is wrong with it, if anything is.
    pub fault: Option<SuperblockError>,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

impl MemberFile {
    /// Opens it for reading.
    ///
    /// # Errors
    /// [`LookError`], but `Twice`.
    pub fn open(path: &Path) -> Result<Self, LookError> {
        // Looked at first, as opening a pipe would wait for its other end.
        let found = path.metadata().map_err(|error| LookError::new(path, error))?.file_type();
        let kind = match found {
            of if of.is_file() || of.is_block_device() => None,
            of if of.is_dir() => Some("directory"),
            of if of.is_fifo() => Some("pipe"),
            of if of.is_socket() => Some("socket"),
            _ => Some("character device"),
        };
        if let Some(kind) = kind {
            return Err(LookError::WrongKind { path: path.to_owned(), kind });
        }
        let mut file = File::open(path).map_err(|error| LookError::new(path, error))?;
        let size_bytes =
            file.seek(SeekFrom::End(0)).map_err(|error| LookError::new(path, error))?;
        Ok(Self { facts: FileFacts { path: path.to_owned(), size_bytes }, file })
    }

    /// Opens several, none of them twice.
    ///
    /// # Errors
    /// [`LookError`].
    pub fn open_all(paths: &[PathBuf]) -> Result<Vec<Self>, LookError> {
        refuse_twice(paths)?;
        paths.iter().map(|path| Self::open(path)).collect()
    }

    /// What it is called, and how large it is.
    pub fn facts(&self) -> &FileFacts {
        &self.facts
    }

    /// The bytes from a sector on, fewer where the file ends.
    ///
    /// # Errors
    /// [`LookError::System`].
    pub fn read(&self, at: Sector, length_bytes: usize) -> Result<Vec<u8>, LookError> {
        let start = at.byte_offset();
        let there = self.facts.size_bytes.saturating_sub(start);
        let mut bytes = vec![0; length_bytes.min(usize::try_from(there).unwrap_or(usize::MAX))];
        self.file
            .read_exact_at(&mut bytes, start)
            .map_err(|error| LookError::new(&self.facts.path, error))?;
        Ok(bytes)
    }

    /// Every superblock on it, also damaged ones, in the order in which a reader tries the places.
    ///
    /// # Errors
    /// [`LookError::System`].
    pub fn superblocks(&self) -> Result<Vec<Found>, LookError> {
        let mut found = Vec::new();
        for location in locations(self.facts.size()) {
            let bytes = self.read(location.at, SUPERBLOCK_BYTES)?;
            if let Ok((superblock, fault)) = Superblock::inspect(location, &bytes) {
                let fault = fault.or_else(|| superblock.check(self.facts.size()).err());
                found.push(Found { location, superblock, fault, bytes });
            }
        }
        Ok(found)
    }

    /// The superblock that counts.
    ///
    /// # Errors
    /// [`LookError::System`]; inside, as [`Search::finish`].
    pub fn superblock(&self) -> Result<Result<Superblock, SuperblockError>, LookError> {
        let mut search = Search::new(self.facts.size());
        for location in locations(self.facts.size()) {
            search.offer(location, &self.read(location.at, SUPERBLOCK_BYTES)?);
        }
        Ok(search.finish())
    }
}

/// Refuses one file or device under two names.
///
/// # Errors
/// [`LookError::Twice`].
pub fn refuse_twice(paths: &[PathBuf]) -> Result<(), LookError> {
    let mut seen = Vec::new();
    for path in paths {
        let identity = Identity::of(path);
        if seen.contains(&identity) {
            return Err(LookError::Twice(path.clone()));
        }
        seen.push(identity);
    }
    Ok(())
}
