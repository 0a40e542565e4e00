//! The rules of the architecture and of style that a machine can check, over the whole workspace.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Our crates, and which of ours each may depend on.
const MAY_DEPEND_ON: [(&str, &[&str]); 4] = [
    ("raid", &[]),
    ("sim", &["raid"]),
    ("backends", &["raid"]),
    ("scenarios", &["raid", "sim", "backends"]),
];
/// Where `unsafe` may stand in the sources.
const MAY_BE_UNSAFE: [&str; 5] = [
    "backends/src/",
    "raid/src/buffer.rs",
    "raid/src/parity/",
    "raid/src/lock/",
    "sim/src/executor/",
];
const LINES_MAX: usize = 450;

struct Source {
    /// From the top of the workspace, with slashes.
    path: String,
    text: String,
}

impl Source {
    /// The code of each line, with its number, without comments that take a whole line.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.text.lines().enumerate().map(|(index, line)| (index + 1, line));
        lines.filter(|(_, line)| !line.trim_start().starts_with("//"))
    }

    fn is_under(&self, places: &[&str]) -> bool {
        places.iter().any(|place| self.path.starts_with(place))
    }
}

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a crate lies in the workspace").into()
}

/// Every file of ours whose name ends in one of `endings`.
fn sources(endings: &[&str]) -> Vec<Source> {
    let mut found = Vec::new();
    let mut directories = vec![top()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).expect("a directory of ours can be read") {
            let path = entry.expect("an entry can be read").path();
            let name = path.file_name().expect("an entry has a name").to_string_lossy();
            if path.is_dir() {
                if name != "target" && name != ".git" {
                    directories.push(path);
                }
            } else if endings.iter().any(|ending| name.ends_with(ending)) {
                let text = fs::read_to_string(&path).expect("a file of ours is text");
                let path = path.strip_prefix(top()).expect("it lies in the workspace");
                found.push(Source { path: path.to_string_lossy().replace('\\', "/"), text });
            }
        }
    }
    assert!(!found.is_empty(), "no file ends in {endings:?}");
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

/// Fails with every place at once.
fn check(rule: &str, violations: Vec<String>) {
    assert!(violations.is_empty(), "{rule}:\n  {}", violations.join("\n  "));
}

/// Lines of code outside of `allowed`, in files that `applies` picks, with one of `words` in them.
fn lines_with(words: &[&str], applies: impl Fn(&Source) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for source in sources(&[".rs"]).iter().filter(|source| applies(source)) {
        for (number, line) in source.code() {
            if words.iter().any(|word| contains_word(line, word)) {
                found.push(format!("{}:{number}: {}", source.path, line.trim()));
            }
        }
    }
    found
}

/// Whether `word` stands in `line` with nothing before and after that could belong to a name.
fn contains_word(line: &str, word: &str) -> bool {
    let is_name = |character: char| character.is_alphanumeric() || character == '_';
    line.match_indices(word).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        let after = line[start + word.len()..].chars().next();
        !before.is_some_and(is_name) && !after.is_some_and(is_name)
    })
}

#[test]
fn crates_depend_downwards_only() {
    let allowed: BTreeMap<&str, &[&str]> = MAY_DEPEND_ON.into_iter().collect();
    let mut violations = Vec::new();
    for (name, may) in &allowed {
        let text = fs::read_to_string(top().join(name).join("Cargo.toml")).expect("a manifest");
        let manifest: toml::Table = text.parse().expect("a manifest is TOML");
        for table in dependency_tables(&manifest) {
            for dependency in table.keys().map(String::as_str) {
                if allowed.contains_key(dependency) && !may.contains(&dependency) {
                    violations.push(format!("{name} depends on {dependency}"));
                }
            }
        }
    }
    check("crates of ours depend downwards only", violations);
}

/// Dependencies of every kind and for every target.
fn dependency_tables(manifest: &toml::Table) -> Vec<&toml::Table> {
    let mut holders = vec![manifest];
    let targets = manifest.get("target").and_then(toml::Value::as_table);
    holders
        .extend(targets.into_iter().flat_map(|it| it.values()).filter_map(toml::Value::as_table));
    let kinds = ["dependencies", "dev-dependencies", "build-dependencies"];
    let tables = holders.into_iter().flat_map(|holder| kinds.map(|kind| holder.get(kind)));
    tables.flatten().filter_map(toml::Value::as_table).collect()
}

#[test]
fn the_engine_knows_no_clock_thread_file_hash_order_or_random_source() {
    let words = [
        "Instant",
        "SystemTime",
        "std::thread",
        "thread_local",
        "std::fs",
        "std::net",
        "HashMap",
        "HashSet",
        "rand",
    ];
    let engine = |source: &Source| source.is_under(&["raid/src/"]);
    check(
        "no clock, thread, file, hash order or random source in raid",
        lines_with(&words, engine),
    );
}

#[test]
fn nothing_in_the_simulator_depends_on_hash_order_or_the_host_clock() {
    let words = ["HashMap", "HashSet", "Instant", "SystemTime"];
    let simulator = |source: &Source| source.is_under(&["sim/src/"]);
    check("no hash order and no host clock in sim", lines_with(&words, simulator));
}

#[test]
fn madsim_stays_with_the_hosts() {
    let elsewhere =
        |source: &Source| source.path.contains("/src/") && !source.is_under(&["sim/src/hosts/"]);
    let uses = ["madsim::", "use madsim"];
    let found = lines_with(&["madsim"], elsewhere);
    let found = found.into_iter().filter(|line| uses.iter().any(|word| line.contains(word)));
    check("madsim only in sim/src/hosts", found.collect());
}

#[test]
fn unsafe_code_stays_where_it_is_expected() {
    let elsewhere =
        |source: &Source| source.path.contains("/src/") && !source.is_under(&MAY_BE_UNSAFE);
    let found = lines_with(&["unsafe"], elsewhere);
    // A trait's method may be declared unsafe, and a file may forbid unsafe code.
    let found =
        found.into_iter().filter(|line| line.contains("unsafe {") || line.contains("unsafe impl"));
    check("unsafe code only in the places that the architecture names", found.collect());
}

#[test]
fn files_say_what_they_are_for_and_stay_short() {
    let mut violations = Vec::new();
    for source in sources(&[".rs"]) {
        let lines = source.text.lines().count();
        if lines > LINES_MAX {
            violations.push(format!("{} has {lines} lines, more than {LINES_MAX}", source.path));
        }
        if !source.text.starts_with("//! ") {
            violations.push(format!("{} does not say at its top what it is for", source.path));
        }
    }
    check("one idea a file", violations);
}

#[test]
fn nothing_is_left_undone_or_switched_off() {
    // Put together here, so that this file does not find itself.
    let words = [["TO", "DO"].concat(), ["FIX", "ME"].concat(), ["#[ig", "nore"].concat()];
    let mut violations = Vec::new();
    for source in sources(&[".rs", ".toml", ".md"]) {
        for (index, line) in source.text.lines().enumerate() {
            // The style guide names them.
            if source.path != "docs/STYLE.md" && words.iter().any(|word| line.contains(word)) {
                violations.push(format!("{}:{}: {}", source.path, index + 1, line.trim()));
            }
        }
    }
    check("no note to do later and no test switched off", violations);
}

#[test]
fn the_project_speaks_of_itself_alone() {
    // Likewise: directories of one workplace, which mean nothing to anybody else.
    let places = [["/wo", "rk/"].concat(), ["shared", "/"].concat(), ["/ro", "ot/"].concat()];
    let mut violations = Vec::new();
    for source in sources(&[".rs", ".toml", ".md", ".snap", "run"]) {
        for (index, line) in source.text.lines().enumerate() {
            if places.iter().any(|place| line.contains(place)) {
                violations.push(format!("{}:{}: {}", source.path, index + 1, line.trim()));
            }
        }
    }
    check("no directory of one workplace", violations);
}
