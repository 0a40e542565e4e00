//! Where content for an array comes from: a file, a device or a pipe.

use crate::drives::Identity;
use anyhow::{Context, Result, ensure};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// An open source.
pub struct Source {
    reader: Box<dyn Read>,
    name: String,
    length_bytes: Option<u64>,
}

impl Source {
    /// Opens it; `-` is standard input.
    ///
    /// # Errors
    /// If it is a member or cannot be read.
    pub fn open(path: &Path, members: &[PathBuf]) -> Result<Self> {
        if path == Path::new("-") {
            let (reader, name) = (Box::new(io::stdin()), "standard input".to_owned());
            return Ok(Self { reader, name, length_bytes: None });
        }
        let name = path.display().to_string();
        let kind = path.metadata().with_context(|| format!("{name}: cannot read it"))?.file_type();
        ensure!(!kind.is_dir(), "{name}: is a directory; a file or a device is needed");
        let source = Identity::of(path);
        let is_member = members.iter().any(|member| Identity::of(member) == source);
        ensure!(!is_member, "{name}: is a member of the array that it is to be copied into");
        let mut file = File::open(path).with_context(|| format!("{name}: cannot read it"))?;
        let length_bytes = if kind.is_file() || kind.is_block_device() {
            let length = file.seek(SeekFrom::End(0)).and_then(|length| {
                file.rewind()?;
                Ok(length)
            });
            Some(length.with_context(|| format!("{name}: cannot find out its length"))?)
        } else {
            None
        };
        Ok(Self { reader: Box::new(file), name, length_bytes })
    }

    /// How much there is, where that is known beforehand.
    pub fn length_bytes(&self) -> Option<u64> {
        self.length_bytes
    }

    /// What people call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Fills the bytes as far as the source goes, and says how many it filled.
    ///
    /// # Errors
    /// As the system says.
    pub fn fill(&mut self, bytes: &mut [u8]) -> Result<usize> {
        let mut filled = 0;
        while filled < bytes.len() {
            match self.reader.read(&mut bytes[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    return Err(error).with_context(|| format!("{}: cannot read it", self.name));
                }
            }
        }
        Ok(filled)
    }
}
