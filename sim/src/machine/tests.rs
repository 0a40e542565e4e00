//! Machine files: the presets are right, every wrong file gets its one message, no text panics.

use super::*;
use proptest::prelude::*;
use raid::units::{CpuId, NodeId};

const TEXT: &str = include_str!("test_machine.toml");

fn machine_file() -> MachineFile {
    MachineFile::parse(TEXT, "test_machine.toml").expect("a correct file")
}

/// Replaces the one occurrence of `old` and expects this error, as `LINE:COLUMN: message` with the
/// line counted from that of `old`.
fn check(old: &str, new: &str, expected: &str) {
    assert_eq!(TEXT.matches(old).count(), 1, "{old:?} is there once");
    let error = MachineFile::parse(&TEXT.replace(old, new), "my.toml").expect_err("a wrong file");
    let old_line = TEXT[..TEXT.find(old).expect("is there")].matches('\n').count() + 1;
    assert_eq!(error.origin, "my.toml");
    let MachineFileError { position, key, problem, .. } = &error;
    let place =
        position.map(|at| format!("{}:{}: ", at.line as isize - old_line as isize, at.column));
    let key = key.as_ref().map(|key| format!("{key}: "));
    let message = format!("{}{}{problem}", place.unwrap_or_default(), key.unwrap_or_default());
    assert_eq!(message, expected);
}

#[test]
fn every_preset_is_correct_and_named_as_it_is_asked_for() {
    let presets = MachineFile::presets();
    assert_eq!(presets.len(), 11);
    for (name, description) in presets {
        let file = MachineFile::preset(name).expect("correct");
        assert_eq!(file.name(), name);
        assert_eq!(file.nominal().name, name);
        assert!(!description.is_empty());
        for parameter in file.ranged_parameters() {
            assert!(parameter.low <= parameter.value && parameter.value <= parameter.high);
            assert!(!parameter.source.is_empty(), "{}", parameter.key);
        }
    }
}

#[test]
fn kunpeng_has_its_published_shape() {
    let machine = MachineFile::preset("kunpeng920").expect("a preset").nominal();
    let shape = &machine.shape;
    assert_eq!(shape.cpu_count(), 128);
    assert_eq!(shape.socket_of_node, [0, 0, 1, 1]);
    assert_eq!((shape.node_of_cpu[31], shape.node_of_cpu[32]), (NodeId(0), NodeId(1)));
    assert_eq!(shape.distance(CpuId(0), CpuId(3)), Distance::Cluster);
    assert_eq!(shape.distance(CpuId(0), CpuId(4)), Distance::Node);
    assert_eq!(shape.distance(CpuId(0), CpuId(32)), Distance::Remote(12));
    assert_eq!(shape.distance(CpuId(33), CpuId(127)), Distance::Remote(24));
    for distance in [12, 20, 22, 24] {
        assert!(machine.line.transfer_ns(Distance::Remote(distance)) > 0);
    }
}

#[test]
fn a_number_sets_its_own_field_and_no_other() {
    let file = MachineFile::preset("kunpeng920").expect("a preset");
    let nominal = file.nominal();
    let mut seen = vec![nominal.clone()];
    for parameter in file.ranged_parameters() {
        let level = if parameter.low < parameter.value { Level::Low } else { Level::High };
        let moved = file.with(&parameter.key, level);
        assert!(!seen.contains(&moved), "{} moves nothing of its own", parameter.key);
        assert_eq!(file.with(&parameter.key, Level::Value), nominal);
        seen.push(moved);
    }
}

#[test]
fn keys_go_to_the_fields_of_their_names() {
    let machine = machine_file().nominal();
    let CoreCosts { atomics, instruction_ps, load_hit_ns, rmw_hit_ns, store_ns, copy_bytes_per_us } =
        machine.core;
    assert_eq!(atomics, Atomics::LoadLinked);
    assert_eq!(
        (instruction_ps, load_hit_ns, rmw_hit_ns, store_ns, copy_bytes_per_us),
        (130, 1, 7, 2, 11_000)
    );
    let line = &machine.line;
    assert_eq!((line.cluster_ns, line.node_ns, line.memory_ns), (22, 23, 70));
    assert_eq!(
        (line.snoop_point_percent, line.home_detour_percent, line.shared_read_ns),
        (50, 51, 8)
    );
    assert_eq!(line.remote_ns, [(21, 110)]);
    let scheduler = &machine.scheduler;
    assert_eq!((scheduler.wake_ns, scheduler.wake_latency_ns), (350, 900));
    assert_eq!((scheduler.context_switch_ns, scheduler.interrupt_ns), (700, 701));
    let software = &machine.software;
    assert_eq!((software.application_submit_ns, software.application_reap_ns), (702, 300));
    assert_eq!((software.array_request_ns, software.array_completion_ns), (400, 180));
    assert_eq!((software.driver_submit_ns, software.driver_complete_ns), (210, 211));
    let drive = &machine.drive;
    assert_eq!((drive.parallelism, drive.flush_ns, drive.logical_block_bytes), (128, 15_000, 512));
    assert_eq!((drive.read_iops_max, drive.write_iops_max), (900_000, 200_000));
    assert_eq!((drive.read_bytes_per_us, drive.write_bytes_per_us), (6500, 3500));
    assert_eq!((drive.read_latency.minimum_ns, drive.read_latency.p99_ns), (62_000, 92_000));
    assert_eq!((drive.write_latency.median_ns, drive.write_latency.maximum_ns), (14_000, 500_000));
}

#[test]
fn samples_are_their_seeds_own_and_within_the_ranges() {
    let file = machine_file();
    assert_eq!(file.sample(7), file.sample(7));
    assert_ne!(file.sample(7), file.sample(8));
    let drawn: Vec<u64> = (0..200).map(|seed| file.sample(seed).line.cluster_ns).collect();
    assert_eq!((drawn.iter().min(), drawn.iter().max()), (Some(&16), Some(&25)));
    for seed in 0..200 {
        let latency = file.sample(seed).drive.read_latency;
        assert!(latency.minimum_ns <= latency.median_ns && latency.median_ns <= latency.p99_ns);
    }
}

#[test]
fn another_numbers_range_does_not_change_a_draw() {
    let wider = TEXT.replace("low = 16, value = 22, high = 25", "low = 10, value = 22, high = 90");
    let one = machine_file().sample(3);
    let other = MachineFile::parse(&wider, "other").expect("correct").sample(3);
    assert_ne!(one.line.cluster_ns, other.line.cluster_ns);
    assert_eq!((one.core, one.software, one.drive), (other.core, other.software, other.drive));
}

#[test]
fn a_sample_is_the_same_for_ever() {
    let machine = machine_file().sample(2022);
    let drawn = (machine.core.instruction_ps, machine.line.cluster_ns, machine.drive.parallelism);
    assert_eq!(drawn, (177, 24, 118));
}

#[test]
fn keys_are_known_or_refused() {
    check(
        "load_hit_ns =",
        "load_hit_n =",
        "0:1: core.load_hit_n: unknown key; did you mean `load_hit_ns`?",
    );
    check("[core]", "[cores]", "0:2: cores: unknown key; did you mean `core`?");
    check("[core]\n", "[core]\nzzzzzzzzzz = 1\n", "1:1: core.zzzzzzzzzz: unknown key");
    check(
        "value = 7,",
        "valeu = 7,",
        "0:16: core.rmw_hit_ns.valeu: unknown key; did you mean `value`?",
    );
}

#[test]
fn what_a_machine_needs_must_be_there() {
    check("name = \"test\"\n", "", "name: missing; expected a text in quotes");
    check(
        "sockets = {",
        "#",
        "-1:1: shape.sockets: missing; expected { value = …, source = \"…\" }, \
         or with `low` and `high` too",
    );
    check("value = 7, ", "", "0:14: core.rmw_hit_ns.value: missing; expected a whole number");
    check("[drive.read_latency]", "[drive.write_latency]", "6:8: not valid TOML: duplicate key");
}

#[test]
fn a_number_needs_its_source() {
    let expected = "0:14: core.rmw_hit_ns: has no source: say where the value is from, \
                    as in { value = …, source = \"…\" }";
    check("{ value = 7, source = \"s9\" }", "7", expected);
    check("{ value = 7, source = \"s9\" }", "{ value = 7 }", expected);
    check(
        "\"s9\"",
        "\" \"",
        "0:36: core.rmw_hit_ns.source: expected 1 to 1000 printable characters",
    );
}

#[test]
fn a_number_is_whole_sane_and_within_its_range() {
    let rmw = |number: &str, expected: &str| {
        let message = format!("0:24: core.rmw_hit_ns.value: {expected}");
        check("value = 7,", &format!("value = {number},"), &message);
    };
    rmw("\"7\"", "expected a whole number, found a text");
    rmw("7.5", "expected a whole number, found a number with a fraction");
    rmw("-7", "-7 is outside 1 to 10000 ns");
    rmw("99999999999999999999", "99999999999999999999 is outside 1 to 10000 ns");
    let snoop = |range: &str, expected: &str| {
        check("low = 25, value = 50, high = 80", range, expected);
    };
    snoop(
        "low = 25, value = 50, high = 101",
        "0:54: line.snoop_point_percent.high: 101 is outside 0 to 100 %",
    );
    snoop(
        "low = 25, value = 90, high = 80",
        "0:23: line.snoop_point_percent: value 90 lies outside its range, low 25 to high 80",
    );
    snoop(
        "low = 25, value = 50",
        "0:23: line.snoop_point_percent: a range needs both `low` and `high`",
    );
}

#[test]
fn atomics_are_one_of_two_words_with_a_source() {
    let whole = "{ value = \"load-linked\", source = \"s44\" }";
    let single = TEXT.replace("load-linked", "single-instruction");
    let machine = MachineFile::parse(&single, "single").expect("the other word").nominal();
    assert_eq!(machine.core.atomics, Atomics::SingleInstruction);
    check(
        "\"load-linked\"",
        "\"load-link\"",
        "0:21: core.atomics.value: unknown word; expected `single-instruction` or `load-linked`",
    );
    let no_source = "0:11: core.atomics: has no source: say where the value is from, \
                     as in { value = …, source = \"…\" }";
    check(whole, "\"load-linked\"", no_source);
    check(whole, "{ value = \"load-linked\" }", no_source);
    check(
        "\"load-linked\"",
        "8",
        "0:21: core.atomics.value: expected a text in quotes, found a whole number",
    );
    check(
        whole,
        "true",
        "0:11: core.atomics: expected { value = \"…\", source = \"…\" }, found a truth value",
    );
    check("atomics =", "atomic =", "0:1: core.atomic: unknown key; did you mean `atomics`?");
    check(
        "atomics = {",
        "#",
        "-1:1: core.atomics: missing; expected { value = \"…\", source = \"…\" }",
    );
}

#[test]
fn a_shape_is_no_range_and_no_absurdity() {
    let cores = |value: &str, expected: &str| {
        check(
            "cores_per_cluster = { value = 2",
            &format!("cores_per_cluster = {{ {value}"),
            expected,
        );
    };
    cores("value = 0", "0:31: shape.cores_per_cluster.value: 0 is outside 1 to 4096");
    cores(
        "low = 1, high = 5, value = 4",
        "0:21: shape.cores_per_cluster: cannot be a range: give only `value` and `source`",
    );
    cores("value = 4000", "0:21: shape.cores_per_cluster: 8000 cores in all, more than 4096");
    check("value = 64,", "value = 100,", "0:14: shape.line_bytes: 100 is not a power of two");
    check(
        "value = 512,",
        "value = 513,",
        "0:23: drive.logical_block_bytes: 513 is not a power of two",
    );
}

#[test]
fn distances_are_a_priced_slit() {
    let slit = |matrix: &str, expected: &str| {
        check("[[10, 21], [21, 10]]", matrix, &format!("0:{expected}"));
    };
    let size = "18: shape.slit: expected 2 rows of 2 distances, one for each node";
    slit("[[10, 21], [21]]", &format!("{size}; row 1 has 1"));
    slit("[]", &format!("{size}; found 0 rows"));
    slit(
        "[[10, 21], [21, 11]]",
        "18: shape.slit: row 1, column 1 is 11; expected 10, a node's distance to itself",
    );
    slit(
        "[[10, 10], [21, 10]]",
        "18: shape.slit: row 0, column 1 is 10; expected 11 to 254 between two nodes",
    );
    slit("[10]", "19: shape.slit.value: expected rows of whole numbers, found a whole number");
    slit("10", "18: shape.slit.value: expected rows of whole numbers, found a whole number");
    slit("[[10, 300], [21, 10]]", "24: shape.slit.value: 300 is outside 0 to 255");
    slit(
        "[[10, 21], [23, 10]]",
        "18: shape.slit: distance 23 from node 1 to node 0 has no transfer cost; \
         add `23 = { value = …, source = \"…\" }` to [line.remote_ns]",
    );
    check(
        "\n21 = ",
        "\n22 = ",
        "1:6: line.remote_ns.22: no two nodes are at distance 22 in `shape.slit`",
    );
    check("\n21 = ", "\n021 = ", "1:7: line.remote_ns.021: unknown key");
}

#[test]
fn quantiles_cannot_cross() {
    check(
        "median_ns = { low = 70000",
        "median_ns = { low = 60000",
        "0:13: drive.read_latency.median_ns: its range must lie above that of `minimum_ns`, \
         which reaches to 68000 ns",
    );
}

#[test]
fn what_is_no_toml_says_so() {
    check("[core]", "[core", "0:6: not valid TOML: unclosed table, expected `]`");
}

#[test]
fn an_error_names_file_line_column_and_key() {
    let error = MachineFile::parse(&TEXT.replace("value = 7,", "value = 0,"), "dir/my.toml");
    assert_eq!(
        error.expect_err("a wrong file").to_string(),
        "dir/my.toml:17:24: `core.rmw_hit_ns.value`: 0 is outside 1 to 10000 ns"
    );
}

#[test]
fn an_unknown_preset_names_those_that_there_are() {
    let error = MachineFile::open("kunpeng").expect_err("no such machine");
    assert_eq!(
        error.to_string(),
        "kunpeng: no machine has this name; did you mean `kunpeng920`? \
         There are kunpeng920, xeon-2s, sandy-bridge-2s, sandy-bridge-2s-disks, haswell-ex-4s, \
         desktop-4c, power8-80q, arm64-2x96, vm-small, nehalem-4, altix-1024"
    );
    let error = MachineFile::open("no/such.toml").expect_err("no such file");
    assert!(error.to_string().starts_with("no/such.toml: cannot read the file: "), "{error}");
}

#[test]
fn nested_and_long_texts_are_refused() {
    for text in [
        vec!["a"; 200_000].join(".") + " = 1",
        "a = ".to_owned() + &"[".repeat(100_000),
        "a = ".to_owned() + &"{b=".repeat(100_000),
        "[a]\n".repeat(1 << 19),
    ] {
        MachineFile::parse(&text, "odd").expect_err("no machine");
    }
}

#[test]
fn a_shown_machine_has_every_number_with_its_source() {
    let shown = machine_file().to_string();
    for index in 1..=44 {
        assert!(shown.contains(&format!("  s{index}\n")), "s{index} in {shown}");
    }
    assert!(shown.contains("\n[line.remote_ns]\n21 "), "{shown}");
    assert!(shown.contains("22 ns (16 to 25)"), "{shown}");
}

proptest! {
    #[test]
    fn no_mutated_file_panics(
        place in any::<prop::sample::Index>(),
        length in 0..40_usize,
        inserted in "[\\[\\]{}=.,\"'#a-z0-9_ \n-]{0,12}|\\PC{0,4}",
        seed: u64,
    ) {
        let preset = MachineFile::preset("kunpeng920").expect("a preset");
        let text = preset.text();
        let start = text.floor_char_boundary(place.index(text.len()));
        let end = text.ceil_char_boundary((start + length).min(text.len()));
        let mutated = format!("{}{inserted}{}", &text[..start], &text[end..]);
        match MachineFile::parse(&mutated, "mutated") {
            Ok(file) => {
                prop_assert!(file.sample(seed).shape.cpu_count() > 0);
                prop_assert!(!file.to_string().is_empty());
            }
            Err(error) => {
                let message = error.to_string();
                prop_assert!(message.starts_with("mutated") && !message.contains('\n'));
            }
        }
    }

    #[test]
    fn no_mutated_number_panics(place in any::<prop::sample::Index>(), number: u64) {
        let numbers: Vec<usize> = TEXT
            .match_indices("= ")
            .map(|(at, _)| at + 2)
            .filter(|at| TEXT.as_bytes()[*at].is_ascii_digit())
            .collect();
        let start = numbers[place.index(numbers.len())];
        let rest = TEXT[start..].trim_start_matches(|digit: char| digit.is_ascii_digit());
        if let Ok(file) = MachineFile::parse(&format!("{}{number}{rest}", &TEXT[..start]), "m") {
            let sample = file.sample(number);
            prop_assert!(sample.line.transfer_ns(Distance::Remote(21)) > 0);
        }
    }
}
