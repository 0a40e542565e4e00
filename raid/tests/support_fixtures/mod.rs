//! The arrays that real Linux md made, unpacked in memory: see `raid/tests/fixtures/README.md`.

#![expect(clippy::disallowed_methods, reason = "only the engine opens no file; its tests do")]
#![allow(dead_code, reason = "each test program uses its own part")]

use serde::Deserialize;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

/// What md and mdadm said of an array.
#[derive(Debug, Deserialize)]
pub(crate) struct Expected {
    pub(crate) name: String,
    pub(crate) metadata: String,
    pub(crate) level: i32,
    pub(crate) layout: u32,
    pub(crate) chunk_bytes: u64,
    pub(crate) raid_disks: u32,
    pub(crate) component_sectors: u64,
    /// In bytes.
    pub(crate) array_size: u64,
    pub(crate) uuid: String,
    pub(crate) events: u64,
    pub(crate) state: String,
    pub(crate) consistency_policy: String,
    pub(crate) resync_start: String,
    pub(crate) reshape_position: String,
    /// The file of each role; `None` where the role is missing.
    pub(crate) roles: BTreeMap<String, Option<String>>,
    pub(crate) missing_roles: Vec<u32>,
    /// Of the array's whole content; absent where a power cut left a choice.
    pub(crate) sha256: Option<String>,
    pub(crate) members: Vec<ExpectedMember>,
    /// What the kernel made of a copy.
    #[serde(default)]
    pub(crate) after: BTreeMap<String, After>,
    /// Finished writes, in order.
    #[serde(default)]
    pub(crate) writes: Vec<Write>,
    /// Writes under way when the power went.
    #[serde(default)]
    pub(crate) racing_writes: Vec<Write>,
}

/// What an image's superblock said.
#[derive(Debug, Deserialize)]
pub(crate) struct ExpectedMember {
    pub(crate) file: String,
    /// In bytes.
    pub(crate) size: u64,
    pub(crate) sha256: String,
    pub(crate) events: Option<u64>,
    pub(crate) role: Option<u32>,
    pub(crate) sb_sector: Option<u64>,
    pub(crate) data_offset: Option<u64>,
    pub(crate) data_size: Option<u64>,
    pub(crate) dev_number: Option<u32>,
    pub(crate) dev_uuid: Option<String>,
    pub(crate) features: Option<Vec<String>>,
    pub(crate) recovery_offset: Option<u64>,
    pub(crate) resync_offset: Option<u64>,
}

/// What the kernel made of a copy of a cut-off array.
#[derive(Debug, Deserialize)]
pub(crate) struct After {
    pub(crate) started: bool,
    pub(crate) sha256: Option<String>,
}

/// A write, in bytes of the array.
#[derive(Debug, Deserialize)]
pub(crate) struct Write {
    pub(crate) r#gen: u32,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

/// One array with its images.
#[derive(Debug)]
pub(crate) struct Fixture {
    pub(crate) expected: Expected,
    /// In the order of `expected.members`.
    pub(crate) images: Vec<Vec<u8>>,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// The names of all arrays, sorted.
pub(crate) fn names() -> Vec<String> {
    let entries = std::fs::read_dir(folder()).expect("the fixtures are part of the sources");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("a folder entry"))
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().into_string().expect("plain names"))
        .collect();
    names.sort();
    names
}

impl Fixture {
    /// Unpacks one array.
    pub(crate) fn load(name: &str) -> Self {
        let folder = folder().join(name);
        let text = std::fs::read(folder.join("expected.json")).expect("every array has one");
        let expected: Expected = serde_json::from_slice(&text)
            .unwrap_or_else(|error| panic!("{name}/expected.json: {error}"));
        let images =
            expected.members.iter().map(|of| unpack(&folder.join(&of.file), of.size)).collect();
        Self { expected, images }
    }

    /// The image of a file's name.
    pub(crate) fn image(&self, file: &str) -> &[u8] {
        let index = self.expected.members.iter().position(|of| of.file == file);
        &self.images[index.unwrap_or_else(|| panic!("{} has no {file}", self.expected.name))]
    }
}

fn unpack(file: &Path, size: u64) -> Vec<u8> {
    let mut name = file.as_os_str().to_owned();
    name.push(".zst");
    let packed = std::fs::read(&name).expect("every member has an image");
    let mut decoder = ruzstd::decoding::StreamingDecoder::new(&packed[..]).expect("a zstd frame");
    let mut image = Vec::with_capacity(size as usize);
    decoder.read_to_end(&mut image).expect("an undamaged zstd frame");
    assert_eq!(image.len() as u64, size, "{name:?} unpacks to its size");
    image
}

/// The sha256 of some bytes, in hexadecimal.
pub(crate) fn sha256_hex(bytes: &[u8]) -> String {
    use sha2::Digest;
    sha2::Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
