//! Where an array's content goes: a new file, one that may be overwritten, a device, or a pipe. A
//! new file is removed again unless all of it was written. Zeros become holes in regular files.

use crate::drives::Identity;
use anyhow::{Context, Result, bail, ensure};
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::{Path, PathBuf};

/// Zeros of this length, at a multiple of it, become a hole.
const HOLE_BYTES: usize = 64 << 10;

/// An open target.
pub struct TargetFile {
    kind: Kind,
    name: String,
    /// How much was written, holes too.
    position: u64,
    /// Removed when this is dropped.
    made: Option<PathBuf>,
}

enum Kind {
    /// Takes bytes in order.
    Stream(Box<dyn Write>),
    /// A regular file without content.
    Sparse(File),
    /// A block device.
    Device(File),
}

/// What a target must not be, and how much it is to take.
pub struct Wish<'a> {
    /// A path, or `-` for standard output.
    pub path: &'a Path,
    /// Whether what exists may be overwritten.
    pub overwrite: bool,
    /// How many bytes it will be given.
    pub length_bytes: u64,
    /// The members, which are never a target.
    pub members: &'a [PathBuf],
}

impl TargetFile {
    /// Opens or makes it.
    ///
    /// # Errors
    /// If it exists and may not be overwritten, is a member, is too small, or the system refuses.
    pub fn open(wish: &Wish<'_>) -> Result<Self> {
        let path = wish.path;
        if path == Path::new("-") {
            return Ok(Self::new(Kind::Stream(Box::new(io::stdout())), "standard output", None));
        }
        let name = path.display().to_string();
        let Ok(found) = path.symlink_metadata() else {
            let made = OpenOptions::new().write(true).create_new(true).open(path);
            let file = made.with_context(|| format!("{name}: cannot make it"))?;
            return Ok(Self::new(Kind::Sparse(file), &name, Some(path.to_owned())));
        };
        let target = Identity::of(path);
        let is_member = wish.members.iter().any(|member| Identity::of(member) == target);
        ensure!(!is_member, "{name}: is a member of the array and cannot take its content");
        let kind = path.metadata().map_or(found.file_type(), |of| of.file_type());
        ensure!(!kind.is_dir(), "{name}: is a directory; a file or a device is needed");
        let open = || {
            let opened = OpenOptions::new().write(true).open(path);
            opened.with_context(|| format!("{name}: cannot open it for writing"))
        };
        if kind.is_fifo() || kind.is_char_device() {
            return Ok(Self::new(Kind::Stream(Box::new(open()?)), &name, None));
        }
        if !wish.overwrite {
            bail!("{name}: exists already; write over it with --overwrite");
        }
        let mut file = open()?;
        if kind.is_block_device() {
            let size = file.seek(SeekFrom::End(0)).with_context(|| format!("{name}: no size"))?;
            let needed = wish.length_bytes;
            ensure!(size >= needed, "{name}: has {size} bytes, but {needed} are to be copied");
            return Ok(Self::new(Kind::Device(file), &name, None));
        }
        file.set_len(0).with_context(|| format!("{name}: cannot empty it"))?;
        Ok(Self::new(Kind::Sparse(file), &name, None))
    }

    fn new(kind: Kind, name: &str, made: Option<PathBuf>) -> Self {
        Self { kind, name: name.to_owned(), position: 0, made }
    }

    /// Writes the next bytes.
    ///
    /// # Errors
    /// As the system says.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let written = match &mut self.kind {
            Kind::Stream(stream) => stream.write_all(bytes),
            Kind::Device(file) => file.write_all_at(bytes, self.position),
            Kind::Sparse(file) => write_sparse(file, bytes, self.position),
        };
        let refused = || format!("{}: cannot write at byte {}", self.name, self.position);
        written.with_context(refused)?;
        self.position += bytes.len() as u64;
        Ok(())
    }

    /// All was written: it stays, durably.
    ///
    /// # Errors
    /// As the system says.
    pub fn finish(mut self) -> Result<()> {
        let finished = match &mut self.kind {
            Kind::Stream(stream) => stream.flush(),
            Kind::Device(file) => file.sync_all(),
            // The end may be a hole.
            Kind::Sparse(file) => file.set_len(self.position).and_then(|()| file.sync_all()),
        };
        finished.with_context(|| format!("{}: cannot finish it", self.name))?;
        self.made = None;
        Ok(())
    }
}

impl Drop for TargetFile {
    fn drop(&mut self) {
        if let Some(path) = &self.made {
            // The error that ended the copy is the one to report.
            let _ = std::fs::remove_file(path);
        }
    }
}

fn write_sparse(file: &File, bytes: &[u8], position: u64) -> io::Result<()> {
    let to_boundary = HOLE_BYTES - (position % HOLE_BYTES as u64) as usize;
    let (head, rest) = bytes.split_at(to_boundary.min(bytes.len()));
    let (mut at, mut pending) = (position, 0);
    // Runs of pieces that hold something are written at once.
    for piece in std::iter::once(head).chain(rest.chunks(HOLE_BYTES)) {
        let end = (at - position) as usize + piece.len();
        if piece.iter().all(|byte| *byte == 0) {
            let start = (at - position) as usize;
            file.write_all_at(&bytes[pending..start], position + pending as u64)?;
            pending = end;
        }
        at += piece.len() as u64;
    }
    file.write_all_at(&bytes[pending..], position + pending as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish<'a>(path: &'a Path, members: &'a [PathBuf]) -> Wish<'a> {
        Wish { path, overwrite: false, length_bytes: 0, members }
    }

    /// Pieces written one after the other are what the file holds.
    fn check(pieces: &[(u8, usize)]) {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("target");
        let mut target = TargetFile::open(&wish(&path, &[])).expect("made");
        let mut expected = Vec::new();
        for (byte, length) in pieces {
            let piece = vec![*byte; *length];
            target.write(&piece).expect("written");
            expected.extend(piece);
        }
        target.finish().expect("finished");
        assert!(std::fs::read(&path).expect("read") == expected, "{pieces:?}");
    }

    #[test]
    fn a_file_holds_what_was_written_holes_or_not() {
        check(&[]);
        check(&[(0, 300_000)]);
        check(&[(1, 70_000), (0, 200_000), (2, 1), (0, 131_072), (0, 5)]);
        check(&[(0, 65_536), (3, 65_536), (0, 65_537), (4, 65_535)]);
    }

    #[test]
    fn a_new_file_that_was_not_finished_goes_away() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("target");
        let mut target = TargetFile::open(&wish(&path, &[])).expect("made");
        target.write(b"half").expect("written");
        drop(target);
        assert!(!path.exists());
    }

    #[test]
    fn what_exists_is_kept() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("target");
        std::fs::write(&path, "dear data").expect("written");
        let error = TargetFile::open(&wish(&path, &[])).err().expect("refused").to_string();
        assert!(error.contains("--overwrite"), "{error}");
        let members = [path.clone()];
        let member = Wish { overwrite: true, ..wish(&path, &members) };
        let error = TargetFile::open(&member).err().expect("refused").to_string();
        assert!(error.contains("is a member"), "{error}");
        assert_eq!(std::fs::read(&path).expect("read"), b"dear data");
    }
}
