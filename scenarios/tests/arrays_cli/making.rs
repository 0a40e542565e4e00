//! `create`: what is made is what was asked for, holds what is copied in, and destroys nothing that
//! nobody gave up.

use crate::support::Bench;

/// Makes an array, fills it, and reads it back: whole, and without its first member where the level
/// allows. What `examine` says of the first member.
fn check(options: &str, members: u32, fields: &[(&str, &str)]) {
    let bench = Bench::new();
    let names: Vec<String> = (0..members).map(|index| format!("d{index}")).collect();
    let all = names.join(" ");
    let create = format!("create {options} --raid-devices {members} --create-size 12M {all}");
    let detail = bench.json(&create);
    assert_eq!(detail["state"], serde_json::json!(["clean"]), "{options}: {detail}");
    let size = detail["array_size_sectors"].as_u64().expect("a size") as usize * 512;
    let data: Vec<u8> =
        (0..size as u64).map(|of| (of.wrapping_mul(0x9E37_79B9) >> 13) as u8).collect();
    let output = bench.run_with(&format!("copy-in {all} --from -"), &data);
    assert_eq!(output.status.code(), Some(0), "{options}: {output:?}");
    let output = bench.run(&format!("copy-out {all} --to -"));
    assert!(output.stdout == data, "{options}: {}", String::from_utf8_lossy(&output.stderr));
    let redundant = !["linear", "stripe"].iter().any(|level| options.contains(level));
    if redundant {
        assert_eq!(bench.json(&format!("check {all}"))["mismatch_cnt"], 0, "{options}");
        let line = format!("copy-out --degraded {} --to -", names[1..].join(" "));
        let output = bench.run(&line);
        assert!(output.stdout == data, "{options}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let text = bench.expect("examine d0", 0);
    for (label, value) in fields {
        let line = format!("{label:>15} : {value}");
        assert!(text.lines().any(|of| of == line), "{options}: no '{line}' in\n{text}");
    }
}

#[test]
fn every_level_is_made_and_holds_its_data() {
    check("--level linear", 3, &[("Raid Level", "linear"), ("Rounding", "0K")]);
    check("--level stripe --chunk 64", 3, &[("Raid Level", "raid0"), ("Chunk Size", "64K")]);
    check("--level mirror --bitmap internal", 2, &[("Raid Level", "raid1")]);
    check(
        "--level 4 --chunk 64K --metadata 1.1",
        4,
        &[("Raid Level", "raid4"), ("Version", "1.1")],
    );
    check("--level 5 --layout ra", 3, &[("Layout", "right-asymmetric"), ("Chunk Size", "512K")]);
    check("--level 5 --layout 4 --chunk 8", 3, &[("Layout", "parity-first")]);
    check(
        "--level raid6 --layout left-symmetric-6 --chunk 16K --metadata 1.0",
        5,
        &[("Layout", "left-symmetric-6"), ("Version", "1.0")],
    );
    check("--level 6 --layout ddf-zero-restart --chunk 32K", 4, &[("Layout", "ddf-zero-restart")]);
    check("--level 10 --layout f2 --chunk 64K", 3, &[("Layout", "far=2")]);
    check("--level 10 --layout o2 --chunk 64K", 4, &[("Layout", "offset=2")]);
    check("--level 10 --metadata 0.90", 4, &[("Layout", "near=2"), ("Chunk Size", "64K")]);
}

#[test]
fn names_and_sizes_are_those_asked_for() {
    let bench = Bench::new();
    let wishes = "--name data --homehost box --uuid 00112233:44556677:8899aabb:ccddeeff --size 4M \
                  --data-offset 2M --chunk 64 --assume-clean --spare-devices 1";
    let detail =
        bench.json(&format!("create --level 5 -n 3 {wishes} --create-size 16M a b c spare"));
    assert_eq!(detail["name"], "box:data");
    assert_eq!(detail["array_uuid"], "00112233:44556677:8899aabb:ccddeeff");
    assert_eq!(detail["used_size_sectors"], 8192);
    assert_eq!(detail["devices"][3]["state"], "spare");
    let examined = bench.json("examine a spare");
    assert_eq!(examined[0]["superblock"]["data_offset_sectors"], 4096);
    assert_eq!(examined[1]["superblock"]["role"], "spare");
}

#[test]
fn a_member_may_be_missing() {
    let bench = Bench::new();
    let create = "create --level 5 -n 3 --chunk 64 --create-size 8M a missing c";
    let detail = bench.json(create);
    assert_eq!(detail["state"], serde_json::json!(["clean", "degraded"]), "{detail}");
    assert!(!bench.path("missing").exists());
    let output = bench.run_with("copy-in a c --from -", &[7; 100_000]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let output = bench.run("copy-out a c --to - --length 100000");
    assert!(output.stdout == [7; 100_000], "{output:?}");
}

#[test]
fn what_exists_is_kept_unless_it_is_given_up() {
    let bench = Bench::new();
    std::fs::write(bench.path("a"), vec![1; 8 << 20]).expect("writes");
    std::fs::write(bench.path("b"), vec![2; 8 << 20]).expect("writes");
    let line = "create --level 1 -n 2 a b";
    bench.refused(line, &["a: exists", "--destroy-data"]);
    bench.refused("create --level 1 -n 2 new b --create-size 8M", &["b: exists already"]);
    bench.refused("create --level 1 -n 2 --destroy-data a none", &["none", "--create-size"]);
    // Both halves differ, and the resync makes them agree.
    bench.expect(&format!("{line} --destroy-data"), 0);
    assert_eq!(bench.json("check a b")["mismatch_cnt"], 0);
    let output = bench.run("copy-out a b --to -");
    assert!(output.stdout.iter().all(|byte| *byte == 1), "the first copy counts");
}

#[test]
fn an_older_array_is_forgotten() {
    let bench = Bench::new();
    bench.expect("create --level 1 -n 2 --metadata 1.0 --create-size 8M a b", 0);
    bench.expect("create --level 0 -n 2 --metadata 1.2 --destroy-data a b", 0);
    let examined = bench.json("examine a");
    assert_eq!(examined[0]["superblock"]["version"], "1.2");
    assert_eq!(examined[0]["others"].as_array().expect("a list").len(), 0);
}

/// Found by trying: the members had lost what they held, and the new array could not be opened.
#[test]
fn what_could_not_be_opened_is_refused_before_a_member_is_written() {
    let sizes = |bench: &Bench, mebibytes: &[usize]| {
        for (name, size) in ["a", "b", "c"].iter().zip(mebibytes) {
            std::fs::write(bench.path(name), vec![7; size << 20]).expect("written");
        }
    };
    for (mebibytes, line, word) in [
        (&[4, 6, 5], "-l 0 -n 3 -e 0.90 --layout alternate a b c", "members differ in size"),
        (&[6, 6, 6], "-l linear -n 3 -c 3M a b c", "too small"),
        (&[6, 6, 6], "-l 10 -p o3 -e 0.90 -c 4096 -n 3 a b c", "too small"),
    ] {
        let bench = Bench::new();
        sizes(&bench, mebibytes);
        bench.refused(&format!("create --destroy-data {line}"), &[word]);
    }
}
