//! What a person must learn of an array that is not whole: what was left out, what could not be
//! compared, what a write leaves behind, and each of it once.

use crate::support::{Bench, names};
use std::io::Read;

fn stderr(bench: &Bench, line: &str, code: i32) -> String {
    let output = bench.run(line);
    assert_eq!(output.status.code(), Some(code), "{line}: {output:?}");
    String::from_utf8(output.stderr).expect("UTF-8")
}

#[test]
fn a_check_says_how_much_it_compared_and_fails_if_that_is_nothing() {
    let (bench, files) = Bench::with_fixture("raid5-4-ls");
    let report = bench.json(&format!("check {}", files.join(" ")));
    assert_eq!(report["sectors_checked"], report["sectors"], "{report}");
    bench.refused("check --degraded m0.img m1.img m2.img", &["nothing to compare"]);

    let (bench, files) = Bench::with_fixture("raid5-4-rebuild-mid");
    let text = bench.expect(&format!("check {}", files.join(" ")), 0);
    assert!(text.contains("18432 of 43008 sectors checked, mismatch_cnt 0"), "{text}");
    assert!(text.contains("24576 sectors not compared"), "{text}");

    let (bench, files) = Bench::with_fixture("raid5-4-badblocks");
    let text = bench.expect(&format!("check {}", files.join(" ")), 0);
    assert!(text.contains("72 sectors not compared"), "{text}");
}

/// Every array that is whole is compared whole: the two numbers have one meaning on all levels.
#[test]
fn a_check_of_a_whole_array_compares_all_of_it() {
    let mut compared = 0;
    for name in names() {
        let (bench, files) = Bench::with_fixture(&name);
        let members = files.join(" ");
        let detail = bench.run(&format!("assemble --json {members}"));
        let is_clean = String::from_utf8_lossy(&detail.stdout).contains("\"to_do\": []");
        let output = bench.run(&format!("check --json {members}"));
        let has_log = name.contains("badblocks");
        if !is_clean || has_log || output.status.code() == Some(2) {
            continue;
        }
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(report["sectors_checked"], report["sectors"], "{name}: {report}");
        compared += 1;
    }
    assert!(compared > 20, "{compared} arrays are whole");
}

#[test]
fn members_that_are_not_used_are_named() {
    let (bench, _) = Bench::with_fixture("raid1-2-degraded");
    for verb in ["copy-out --to /dev/null", "copy-in --from /dev/null"] {
        let told = stderr(&bench, &format!("{verb} m0.img m1.img"), 0);
        assert!(told.contains("left out: m0.img: had role 0, but was thrown out since"), "{told}");
    }
    let report = bench.json("copy-out m0.img m1.img --to out");
    assert_eq!(report["left_out"][0]["file"], "m0.img", "{report}");
}

#[test]
fn a_degraded_write_says_which_role_it_leaves_behind() {
    let (bench, _) = Bench::with_fixture("raid5-4-ls");
    let told = stderr(&bench, "copy-in --degraded m0.img m1.img m2.img --from /dev/null", 0);
    assert!(told.contains("role 3 is not given: whatever had it will be out of date"), "{told}");
}

#[test]
fn what_is_wrong_with_a_member_is_said_once() {
    let (bench, _) = Bench::with_fixture("raid5-4-ls");
    // The array's size in the superblock, without its checksum.
    bench.change("m0.img", |bytes| bytes[4096 + 80] ^= 1);
    let line = "copy-out m0.img m1.img m2.img m3.img --to out";
    bench.refused(line, &["m0.img", "checksum"]);
    let told = stderr(&bench, line, 2);
    assert_eq!(told.matches("checksum is").count(), 1, "{told}");
}

#[test]
fn a_parity_log_that_could_not_be_filled_is_refused_before_anything_is_made() {
    let bench = Bench::new();
    let line = "create -l5 -n3 --create-size 16M --consistency-policy ppl a b c";
    bench.refused(line, &["--assume-clean"]);
    bench.expect(&format!("{line} --assume-clean"), 0);
    let before = bench.contents();
    let again = format!("{line} --destroy-data").replace("--create-size 16M", "");
    bench.refused(&again, &["partial parity log"]);
    assert!(bench.contents() == before, "the old array is as it was");
}

#[test]
fn a_reader_that_has_enough_ends_a_copy_without_a_word() {
    let (bench, files) = Bench::with_fixture("raid5-4-ls");
    let mut copy = bench.start(&format!("copy-out {} --to -", files.join(" ")));
    let mut head = [0; 1000];
    let mut pipe = copy.stdout.take().expect("it is piped");
    pipe.read_exact(&mut head).expect("there is more");
    drop(pipe);
    let output = copy.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(141));
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn bad_blocks_are_told_and_skipped_where_asked() {
    let (bench, files) = Bench::with_fixture("raid5-4-badblocks");
    let members = files.join(" ");
    let text = bench.expect(&format!("assemble {members}"), 0);
    assert!(text.contains("bad: m1.img: 24 sectors from sector 4096 on"), "{text}");
    let report = bench.json(&format!("assemble {members}"));
    assert_eq!(report["devices"][1]["bad_blocks"][0]["length_sectors"], 24, "{report}");
    bench.expect(&format!("copy-out {members} --to whole"), 0);
    let whole = bench.read("whole");

    // Without another member, what only the bad sectors hold cannot be given.
    bench.refused("copy-out --degraded m0.img m1.img m2.img --to out", &["cannot give"]);
    let line = "copy-out --degraded m0.img m1.img m2.img --to out --skip-unreadable --json";
    let output = bench.run(line);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let told = String::from_utf8(output.stderr).expect("UTF-8");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let skipped = report["skipped"].as_array().expect("a list");
    assert!(!skipped.is_empty() && told.matches("skipped ").count() == skipped.len(), "{told}");
    let mut expected = whole;
    let mut total = 0;
    for range in skipped {
        let number = |field: &str| range[field].as_u64().expect("a number") as usize;
        let (at, length) = (number("at_byte"), number("length_bytes"));
        expected[at..at + length].fill(0);
        total += length;
    }
    // The bad sectors alone: what m3 has in their stripe is the parity.
    assert_eq!(total, 24 * 512, "{report}");
    assert!(bench.read("out") == expected, "all else is as in the whole array");
}

#[test]
fn members_that_were_thrown_out_are_taken_back_by_force_only() {
    let (bench, _) = Bench::with_fixture("raid5-4-ls");
    bench.expect("copy-out m0.img m1.img m2.img m3.img --to whole", 0);
    bench.expect("copy-in --degraded m0.img m1.img m2.img --from /dev/null", 0);
    for round in 0..2 {
        // Nothing is written, but each time the array goes on without the member.
        let text = format!("round {round}");
        bench.run_with("copy-in --degraded m0.img m1.img m2.img --from -", text.as_bytes());
    }
    let members = "m0.img m1.img m3.img";
    let line = format!("copy-out --degraded {members} --to out");
    bench.refused(&line, &["too few members", "--force takes stale members back"]);
    let output = bench.run(&format!("{line} --force"));
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let told = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(told.contains("gives up what was written after the array went on without m3.img"));
    let (whole, found) = (bench.read("whole"), bench.read("out"));
    assert_eq!(&found[..7], b"round 1");
    // Besides, the chunk of m2 that is computed from the parity of before is wrong in as many bytes.
    let wrong = found[7..].iter().zip(&whole[7..]).filter(|(one, other)| one != other).count();
    assert!((1..=7).contains(&wrong), "{wrong} bytes differ");
}

#[test]
fn an_unknown_option_is_not_advised_as_a_file() {
    let bench = Bench::new();
    let told = stderr(&bench, "copy-out a --skip-nothing --to b", 2);
    assert!(told.contains("unexpected argument '--skip-nothing'"), "{told}");
    assert!(!told.contains("-- --skip-nothing"), "{told}");
}
