//! A directory with members in it, and the binary run there.

use serde_json::Value;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// The images that the engine's tests read.
fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../raid/tests/fixtures")
}

/// The names of all arrays that Linux made, sorted.
pub(crate) fn names() -> Vec<String> {
    let entries = std::fs::read_dir(fixtures()).expect("the fixtures are part of the sources");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("a folder entry"))
        .filter(|entry| entry.path().join("expected.json").exists())
        .map(|entry| entry.file_name().into_string().expect("plain names"))
        .collect();
    names.sort();
    names
}

/// What md said of an array.
pub(crate) fn expected(name: &str) -> Value {
    let text = std::fs::read(fixtures().join(name).join("expected.json")).expect("there is one");
    serde_json::from_slice(&text).expect("it is JSON")
}

/// The sha256 of some bytes, in hexadecimal.
pub(crate) fn sha256_hex(bytes: &[u8]) -> String {
    use sha2::Digest;
    sha2::Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A directory that goes away with the test.
pub(crate) struct Bench {
    directory: tempfile::TempDir,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"));
        Self { directory: directory.expect("a directory for the test") }
    }

    /// With the images of an array that Linux made, `m0.img`, `m1.img`, ... Their names.
    pub(crate) fn with_fixture(name: &str) -> (Self, Vec<String>) {
        let bench = Self::new();
        let files = bench.unpack(name, "");
        (bench, files)
    }

    /// The images of an array, with something before their names.
    pub(crate) fn unpack(&self, name: &str, prefix: &str) -> Vec<String> {
        let expected = expected(name);
        let members = expected["members"].as_array().expect("a list");
        let unpack = |member: &Value| {
            let file = member["file"].as_str().expect("a name");
            let packed = std::fs::read(fixtures().join(name).join(format!("{file}.zst")));
            let packed = packed.expect("every member has an image");
            let mut decoder =
                ruzstd::decoding::StreamingDecoder::new(&packed[..]).expect("a zstd frame");
            let mut image = Vec::new();
            decoder.read_to_end(&mut image).expect("an undamaged zstd frame");
            let file = format!("{prefix}{file}");
            std::fs::write(self.path(&file), image).expect("writes");
            file
        };
        members.iter().map(unpack).collect()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Changes the bytes of a file.
    pub(crate) fn change(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = self.read(name);
        change(&mut bytes);
        std::fs::write(self.path(name), bytes).expect("writes");
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_raidbed"));
        command.args(line.split_whitespace()).current_dir(self.directory.path()).env("TZ", "UTC");
        command
    }

    pub(crate) fn run(&self, line: &str) -> Output {
        self.command(line).output().expect("the binary starts")
    }

    /// Starts it with pipes at all of its ends.
    pub(crate) fn start(&self, line: &str) -> Child {
        let mut command = self.command(line);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("the binary starts")
    }

    /// Runs with something on standard input.
    pub(crate) fn run_with(&self, line: &str, input: &[u8]) -> Output {
        let mut child = self.start(line);
        let mut pipe = child.stdin.take().expect("it is piped");
        std::thread::scope(|scope| {
            scope.spawn(move || {
                // The program may end without reading everything.
                let _ = std::io::Write::write_all(&mut pipe, input);
            });
            child.wait_with_output().expect("it ends")
        })
    }

    /// Runs, expects this exit code, and gives what was printed.
    pub(crate) fn expect(&self, line: &str, code: i32) -> String {
        let output = self.run(line);
        assert_eq!(output.status.code(), Some(code), "{line}: {output:?}");
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    /// Runs, expects success, and gives the JSON that was printed.
    pub(crate) fn json(&self, line: &str) -> Value {
        let text = self.expect(&format!("{line} --json"), 0);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{line}: {error}: {text}"))
    }

    /// Expects one line on standard error with each of the words, exit 2, nothing on standard
    /// output, and no file made or changed.
    pub(crate) fn refused(&self, line: &str, words: &[&str]) {
        let before = self.contents();
        let output = self.run(line);
        let message = String::from_utf8(output.stderr).expect("messages are UTF-8");
        assert_eq!(output.status.code(), Some(2), "{line}: {message}");
        assert!(output.stdout.is_empty(), "{line} printed something");
        assert_eq!(message.lines().count(), 1, "{line}: {message}");
        assert!(message.starts_with("raidbed: "), "{line}: {message}");
        for word in words {
            assert!(message.contains(word), "{line}: no '{word}' in: {message}");
        }
        assert!(self.contents() == before, "{line} changed something");
    }

    /// The files with a hash of their content.
    pub(crate) fn contents(&self) -> Vec<(String, String)> {
        let entries = std::fs::read_dir(self.directory.path()).expect("it can be read");
        let mut files: Vec<_> = entries
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .map(|name| (name.clone(), sha256_hex(&self.read(&name))))
            .collect();
        files.sort();
        files
    }
}
