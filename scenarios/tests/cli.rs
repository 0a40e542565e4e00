//! The binary as a person meets it: what a wrong line is answered with, and what JSON holds.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn raidbed(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_raidbed")).args(arguments).output().expect("the binary starts")
}

/// Runs in `directory`, expects one line on stderr with each of `words`, exit 2, and nothing new or
/// changed in the directory.
fn check_refused(directory: &Path, line: &str, words: &[&str]) {
    let before = contents(directory);
    let output = Command::new(env!("CARGO_BIN_EXE_raidbed"))
        .args(line.split_whitespace())
        .current_dir(directory)
        .output()
        .expect("the binary starts");
    let message = String::from_utf8(output.stderr).expect("messages are UTF-8");
    assert_eq!(output.status.code(), Some(2), "{line}: {message}");
    assert!(output.stdout.is_empty(), "{line} printed something");
    assert_eq!(message.lines().count(), 1, "{line}: {message}");
    assert!(message.starts_with("raidbed: "), "{line}: {message}");
    for word in words {
        assert!(message.contains(word), "{line}: no '{word}' in: {message}");
    }
    assert_eq!(contents(directory), before, "{line} changed something");
}

fn contents(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<(String, Vec<u8>)> = std::fs::read_dir(directory)
        .expect("the directory can be read")
        .map(|entry| entry.expect("an entry can be read"))
        .map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            (name, std::fs::read(entry.path()).expect("a file can be read"))
        })
        .collect();
    files.sort();
    files
}

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory for the test")
}

fn json_of(arguments: &[&str]) -> Value {
    let output = raidbed(arguments);
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{arguments:?}: {error}: {output:?}"))
}

#[test]
fn an_unknown_name_is_answered_with_the_known_ones() {
    let directory = scratch();
    check_refused(
        directory.path(),
        "run raid10",
        &["'raid10'", "raid10-resync-lock", "lock-table"],
    );
    check_refused(directory.path(), "compare no-such", &["'no-such'", "raid10-resync-lock"]);
    check_refused(directory.path(), "run lock-table --variant 5", &["'5'", "4-in-one-cluster"]);
    check_refused(directory.path(), "machine show vax", &["vax", "kunpeng920"]);
}

#[test]
fn a_bad_machine_file_is_answered_with_its_line_and_key() {
    let directory = scratch();
    let good = json_of(&["machine", "show", "desktop-4c", "--json"]);
    let good = good["file"].as_str().expect("the file's text");
    let line = good.lines().position(|line| line.starts_with("load_hit_ns")).expect("a key") + 1;
    let bad = good.replace("load_hit_ns", "lode_hit_ns");
    std::fs::write(directory.path().join("bad.toml"), bad).expect("writes");
    let place = format!("bad.toml:{line}");
    let run = "run raid10-lost-wakeup --machine bad.toml";
    check_refused(directory.path(), run, &[&place, "lode_hit_ns", "load_hit_ns"]);
    std::fs::write(directory.path().join("broken.toml"), "name = [").expect("writes");
    check_refused(directory.path(), "machine show broken.toml", &["broken.toml:1", "TOML"]);
    check_refused(directory.path(), "machine show none.toml", &["none.toml", "cannot read"]);
}

#[test]
fn a_machine_that_is_too_small_is_refused() {
    let line = "run lock-table --machine desktop-4c";
    check_refused(scratch().path(), line, &["lock-table", "desktop-4c", "cores"]);
}

#[test]
fn a_property_is_not_compared() {
    let line = "compare raid10-lost-wakeup";
    check_refused(scratch().path(), line, &["nothing to compare", "hunt raid10-lost-wakeup"]);
}

#[test]
fn an_array_that_cannot_be_is_refused_and_leaves_no_file() {
    let directory = scratch();
    let copies = "bench --near-copies 4 --create-size 1M a b c";
    check_refused(directory.path(), copies, &["4 near copies", "3"]);
    let chunk = "bench --chunk 24K --create-size 1M a b";
    check_refused(directory.path(), chunk, &["24576", "power of two"]);
    check_refused(directory.path(), "bench --level 7 null null null", &["level '7'", "10"]);
    check_refused(directory.path(), "bench --level 6 null null null", &["RAID 6", "4"]);
    check_refused(directory.path(), "bench --level 5 --layout n2 null null null", &["'n2'", "ls"]);
    check_refused(directory.path(), "bench null", &["member"]);
    let hasty = "bench --counters --runtime 1ms";
    check_refused(directory.path(), hasty, &["--runtime", "at least 1 ms"]);
}

#[test]
fn a_device_that_is_too_small_is_refused() {
    let directory = scratch();
    std::fs::write(directory.path().join("large"), vec![7; 1 << 20]).expect("writes");
    std::fs::write(directory.path().join("small"), vec![7; 16 << 10]).expect("writes");
    check_refused(directory.path(), "bench large small", &["small", "too small"]);
    let size = "bench --size 2T null:1G null:1G";
    check_refused(directory.path(), size, &["2 TiB", "1 GiB"]);
}

#[test]
fn what_exists_is_neither_made_nor_overwritten() {
    let directory = scratch();
    std::fs::write(directory.path().join("a"), vec![7; 1 << 20]).expect("writes");
    std::fs::write(directory.path().join("b"), vec![7; 1 << 20]).expect("writes");
    let make = "bench --create-size 1M --rw randwrite new a";
    check_refused(directory.path(), make, &["a: exists already"]);
    let overwrite = "bench --rw randwrite a b";
    check_refused(directory.path(), overwrite, &["a: exists", "--destroy-data"]);
    check_refused(directory.path(), "bench a a", &["named twice"]);
}

#[test]
fn a_path_that_is_not_there_is_refused_before_anything_is_made() {
    let directory = scratch();
    check_refused(directory.path(), "bench none1 none2", &["none1", "--create-size"]);
    let third = "bench --create-size 1M a b no-such/c d";
    check_refused(directory.path(), third, &["no-such/c"]);
}

#[test]
fn a_request_that_does_not_fit_is_refused() {
    let directory = scratch();
    let bench = |options: &str| format!("bench null:1M null:1M {options}");
    check_refused(directory.path(), &bench("--bs 1000"), &["1000 bytes", "multiple of 512"]);
    check_refused(directory.path(), &bench("--bs 2M"), &["1 MiB", "2 MiB"]);
    check_refused(directory.path(), &bench("--verify"), &["null", "verified"]);
    check_refused(directory.path(), &bench("--raw"), &["--raw", "one device"]);
    check_refused(directory.path(), &bench("--bs 1G --iodepth 4096"), &["limit"]);
    let deep = "bench memory:64K memory:64K --verify --iodepth 64";
    check_refused(directory.path(), deep, &["64", "needed"]);
}

fn run_in(directory: &Path, line: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_raidbed"))
        .args(line.split_whitespace())
        .current_dir(directory)
        .output()
        .expect("the binary starts")
}

#[test]
fn files_are_made_written_and_verified() {
    let directory = scratch();
    let bench = |line: &str| {
        let output = run_in(directory.path(), line);
        assert_eq!(output.status.code(), Some(0), "{line}: {output:?}");
        serde_json::from_slice::<Value>(&output.stdout).expect("JSON")
    };
    let mixed = bench(
        "bench a b c d --create-size 2M --rw randrw --rwmixread 50 --verify --number-ios 500 --json",
    );
    assert_eq!(mixed["reads"].as_u64().unwrap() + mixed["writes"].as_u64().unwrap(), 500);
    assert!(mixed["blocks_verified"].as_u64().unwrap() > 100, "{mixed}");
    // What the first run wrote is there in the second, and says where it belongs.
    let read = bench("bench a b c d --rw read --verify --number-ios 1000 --json");
    assert_eq!(read["writes"], 0);
    assert!(read["blocks_verified"].as_u64().unwrap() > 100, "{read}");
    // The first and the second member mirror each other.
    let member = |name| std::fs::read(directory.path().join(name)).expect("reads");
    assert!(member("a") == member("b") && member("c") == member("d"));
    assert!(member("a") != member("c"));
}

#[test]
fn every_level_is_written_and_verified() {
    for level in
        ["linear", "0", "1", "4", "5 --layout ra", "6 --layout ddf-N-restart", "10 --layout f2"]
    {
        let directory = scratch();
        let line = format!("bench a b c d --create-size 2M --level {level} --chunk 16K --json");
        let output = run_in(
            directory.path(),
            &format!("{line} --bs 8k --rw randrw --rwmixread 30 --verify --number-ios 300"),
        );
        assert_eq!(output.status.code(), Some(0), "{level}: {output:?}");
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert!(report["blocks_verified"].as_u64().expect("a count") > 50, "{level}: {report}");
    }
}

#[test]
fn patterns_of_another_geometry_do_not_alarm_a_run_that_writes() {
    let directory = scratch();
    let run = |line: &str| {
        let output = run_in(directory.path(), line);
        assert_eq!(output.status.code(), Some(0), "{line}: {output:?}");
    };
    run("bench a b c d --create-size 2M --rw write --verify --number-ios 1024");
    let other = "--near-copies 4 --chunk 4K --rw randrw --verify --number-ios 300";
    run(&format!("bench a b c d {other} --destroy-data"));
}

#[test]
fn damage_on_a_drive_is_found_and_exits_with_1() {
    let directory = scratch();
    let run = |line: &str| run_in(directory.path(), line);
    let write = "bench a b --create-size 1M --rw write --verify --number-ios 256";
    assert_eq!(run(write).status.code(), Some(0));
    for name in ["a", "b"] {
        let path = directory.path().join(name);
        let mut bytes = std::fs::read(&path).expect("reads");
        bytes[100_000] ^= 1;
        std::fs::write(&path, bytes).expect("writes");
    }
    let output = run("bench a b --rw read --verify --number-ios 256");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("violated: sector 195: damaged at byte 160"), "{text}");
}

#[test]
fn every_verb_speaks_json() {
    let list = json_of(&["list", "--json"]);
    assert_eq!(list.as_array().expect("a list").len(), scenarios::catalogue::all().len());
    assert!(json_of(&["machine", "list", "--json"]).as_array().expect("a list").len() >= 3);
    let trace = json_of(&["trace", "raid10-lost-wakeup", "--json"]);
    assert_eq!(trace["trace_hash"].as_str().expect("a hash").len(), 16);
    let run = json_of(&["run", "raid10-lost-wakeup", "--variant", "fixed", "--json"]);
    assert_eq!(run["variants"][0]["held"], true);
    let bench = json_of(&["bench", "null", "null", "--number-ios", "1000", "--json"]);
    assert_eq!(bench["reads"], 1000);
    let counters = json_of(&["bench", "--counters", "--runtime", "200ms", "--json"]);
    let rates = counters["rows"][0]["rates"].as_array().expect("a list");
    let names: Vec<_> = rates.iter().map(|rate| rate["counter"].as_str()).collect();
    let ways = ["atomic", "per-cpu", "per-node", "tags", "none"];
    assert_eq!(names, ways.map(Some));
    assert!(rates.iter().all(|rate| rate["million_requests_per_s"].as_f64() > Some(0.0)));
}

#[test]
fn a_comparison_names_its_figures() {
    let compare = json_of(&["compare", "lock-table", "--samples", "2", "--json"]);
    let figures = compare["figures"].as_array().expect("a list");
    assert_eq!(figures.len(), 11);
    for figure in figures {
        for number in ["published", "simulated", "low", "high", "error_percent"] {
            assert!(figure[number].is_number(), "{number}: {figure}");
        }
        assert!(figure["id"].is_string() && figure["inside"].is_boolean(), "{figure}");
        assert!(["input", "predicted"].contains(&figure["role"].as_str().expect("a role")));
    }
    assert!(compare["events_per_second"].as_f64().expect("a number") > 0.0);
}

#[test]
fn results_do_not_depend_on_the_number_of_host_cores() {
    let run = |threads: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_raidbed"))
            .args(["compare", "lock-table", "--samples", "3", "--json"])
            .env("RAYON_NUM_THREADS", threads)
            .output()
            .expect("the binary starts");
        let mut report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        report["events_per_second"].take();
        report
    };
    assert_eq!(run("1"), run("5"));
}

#[test]
fn a_hunt_finds_the_lost_wake_up_and_its_line_replays_it() {
    let hunt = raidbed(&["hunt", "raid10-lost-wakeup", "--variant", "faulty", "--json"]);
    assert_eq!(hunt.status.code(), Some(1), "{hunt:?}");
    let report: Value = serde_json::from_slice(&hunt.stdout).expect("JSON");
    let failure = &report["variants"][0]["failure"];
    let violation = failure["violation"].as_str().expect("a reason");
    assert!(violation.contains("resync on cpu 0 waits for"), "{violation}");
    let line = failure["replay"].as_str().expect("a line");
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words[0], "raidbed");
    let replay = raidbed(&words[1..]);
    assert_eq!(replay.status.code(), Some(1), "{line}");
    let text = String::from_utf8(replay.stdout).expect("UTF-8");
    assert!(text.contains(violation.trim_end()), "{text}");
}

#[test]
fn the_sound_variant_survives_a_hunt() {
    let arguments = ["hunt", "raid10-lost-wakeup", "--variant", "fixed", "--seeds", "3000"];
    let hunt = raidbed(&arguments);
    assert_eq!(hunt.status.code(), Some(0), "{hunt:?}");
    assert_eq!(hunt.stdout, b"raid10-lost-wakeup fixed: held for 3000 seeds\n");
}

#[test]
fn a_result_that_cannot_be_printed_is_a_failure() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
    let mut raidbed = Command::new(env!("CARGO_BIN_EXE_raidbed"));
    let output = raidbed.arg("list").stdout(full).output().expect("the binary starts");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot print"), "{output:?}");
}

#[test]
fn a_machine_file_may_have_any_name() {
    let directory = scratch();
    std::fs::write(directory.path().join("mine"), "name = 3\n").expect("written");
    check_refused(directory.path(), "machine show mine", &["mine:1", "`name`"]);
}

#[test]
fn verifying_more_than_can_be_remembered_is_refused() {
    let line = "bench memory:40G memory:40G --bs 512 --rw randrw --verify --runtime 10ms";
    check_refused(scratch().path(), line, &["67108864 blocks", "--size"]);
}

#[test]
fn a_drive_in_memory_that_no_memory_holds_is_refused() {
    check_refused(scratch().path(), "bench memory:1000T --raw", &["1000 TiB", "at most 1 TiB"]);
}
