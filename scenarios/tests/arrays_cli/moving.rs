//! `copy-out`, `copy-in`, `assemble` and `check` on arrays that Linux made.

use crate::support::{Bench, expected, names, sha256_hex};
use serde_json::Value;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;

/// The content of an array, as md read it where it came to one.
fn known_sha256(name: &str) -> Option<String> {
    expected(name)["sha256"].as_str().map(str::to_owned)
}

#[test]
fn every_array_is_copied_out_as_md_read_it() {
    for name in names() {
        let Some(sha256) = known_sha256(&name) else { continue };
        let (bench, files) = Bench::with_fixture(&name);
        // Permission to write is not needed, and the order of members does not matter.
        for file in &files {
            let readable = std::fs::Permissions::from_mode(0o444);
            std::fs::set_permissions(bench.path(file), readable).expect("they are ours");
        }
        let before = bench.contents();
        let members: Vec<&str> = files.iter().rev().map(String::as_str).collect();
        let line = format!("copy-out {} --to -", members.join(" "));
        let output = bench.run(&line);
        assert_eq!(output.status.code(), Some(0), "{name}: {:?}", output.stderr);
        assert_eq!(sha256_hex(&output.stdout), sha256, "{name}");
        assert!(bench.contents() == before, "{name}: a member was changed");
    }
}

#[test]
fn a_part_is_copied_out_wherever_it_begins_and_ends() {
    let (bench, files) = Bench::with_fixture("raid5-4-ls");
    let members = files.join(" ");
    bench.expect(&format!("copy-out {members} --to whole"), 0);
    let whole = bench.read("whole");
    for (offset, length) in [(0, 1), (511, 3), (1_000_003, 2_000_001), (whole.len() - 5, 5), (7, 0)]
    {
        let line = format!("copy-out {members} --to part --overwrite --offset {offset}");
        bench.expect(&format!("{line} --length {length}"), 0);
        assert!(bench.read("part") == whole[offset..offset + length], "{offset}+{length}");
    }
    let offset = whole.len() - 100;
    bench.expect(&format!("copy-out {members} --to part --overwrite --offset {offset}"), 0);
    assert!(bench.read("part") == whole[offset..], "to the end");
    let beyond = format!("copy-out {members} --to new --offset {offset} --length 101");
    bench.refused(&beyond, &["101 bytes", "more than the array's"]);
}

#[test]
fn a_degraded_array_is_copied_out_with_leave() {
    let (bench, _) = Bench::with_fixture("raid6-4-ls");
    let sha256 = known_sha256("raid6-4-ls").expect("it has content");
    bench.refused("copy-out m3.img m1.img --to out", &["roles 0, 2", "--degraded"]);
    bench.expect("copy-out --degraded m3.img m1.img --to out", 0);
    assert_eq!(sha256_hex(&bench.read("out")), sha256);
}

#[test]
fn zeros_become_holes() {
    use std::os::unix::fs::MetadataExt;
    let bench = Bench::new();
    let create = "create --level 0 --raid-devices 2 --create-size 16M a b";
    bench.expect(create, 0);
    bench.expect("copy-out a b --to out", 0);
    let found = bench.path("out").metadata().expect("it is there");
    assert!(found.len() > 20 << 20 && found.blocks() == 0, "{found:?}");
}

#[test]
fn a_target_is_neither_overwritten_nor_left_half_done() {
    let (bench, files) = Bench::with_fixture("raid0-3");
    let members = files.join(" ");
    std::fs::write(bench.path("there"), "dear data").expect("writes");
    let line = format!("copy-out {members} --to there");
    bench.refused(&line, &["there: exists already", "--overwrite"]);
    bench.refused(&format!("copy-out {members} --to m1.img --overwrite"), &["m1.img", "member"]);
    bench.refused(&format!("copy-out {members} --to none/out"), &["none/out"]);
    bench.expect(&format!("{line} --overwrite"), 0);
    assert_eq!(Some(sha256_hex(&bench.read("there"))), known_sha256("raid0-3"));
    // A member that ends early: its superblock is at its start, its data is not all there.
    let (bench, files) = Bench::with_fixture("raid1-2-badblocks");
    let text = bench.expect(&format!("copy-out {} --to /dev/null", files.join(" ")), 0);
    assert!(text.contains("copied to /dev/null"), "{text}");
}

#[test]
fn an_interrupted_copy_says_so() {
    let (bench, files) = Bench::with_fixture("raid0-3");
    let mut child = bench.start(&format!("copy-out {} --to -", files.join(" ")));
    let mut content = child.stdout.take().expect("it is piped");
    // With the first byte there, the program waits for somebody to read the rest.
    content.read_exact(&mut [0]).expect("a first byte");
    let id = child.id().to_string();
    let sent = std::process::Command::new("kill").args(["-INT", &id]).status().expect("sent");
    assert!(sent.success());
    content.read_to_end(&mut Vec::new()).expect("the rest");
    let output = child.wait_with_output().expect("it ends");
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(130), "{message}");
    assert!(message.contains("interrupted; the target is not whole"), "{message}");
}

/// What is copied in comes out again, around it what was there; the array is clean and agrees.
fn check_copy_in(name: &str) {
    let (bench, files) = Bench::with_fixture(name);
    let members = files.join(" ");
    bench.expect(&format!("copy-out {members} --to before"), 0);
    let mut content = bench.read("before");
    let data: Vec<u8> =
        (0..2_500_000u32).map(|of| (of.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for (offset, length) in [(0, 700_000), (1_000_001, 2_500_000 - 3), (777, 5)] {
        let output = bench
            .run_with(&format!("copy-in {members} --from - --offset {offset}"), &data[..length]);
        assert_eq!(output.status.code(), Some(0), "{name}: {output:?}");
        content[offset..offset + length].copy_from_slice(&data[..length]);
    }
    bench.expect(&format!("copy-out {members} --to after"), 0);
    assert!(bench.read("after") == content, "{name}: other content came out");
    let detail = bench.json(&format!("assemble {members}"));
    assert_eq!(detail["state"], serde_json::json!(["clean"]), "{name}: {detail}");
    if !name.starts_with("raid0") && !name.starts_with("linear") {
        let check = bench.json(&format!("check {members}"));
        assert_eq!(check["mismatch_cnt"], 0, "{name}: {check}");
    }
}

#[test]
fn what_is_copied_in_comes_out_again() {
    for name in [
        "linear-3",
        "raid0-multizone-original",
        "raid1-2",
        "raid1-2-meta0.90-bitmap",
        "raid10-3-f2",
        "raid4-4",
        "raid5-3-ls-bitmap",
        "raid5-4-meta1.0",
        "raid6-5-ddf-nr",
    ] {
        check_copy_in(name);
    }
}

#[test]
fn more_than_the_array_holds_is_not_copied_in() {
    let (bench, files) = Bench::with_fixture("raid0-3");
    let members = files.join(" ");
    bench.expect(&format!("copy-out {members} --to whole"), 0);
    bench.change("whole", |bytes| bytes.push(1));
    bench.refused(&format!("copy-in {members} --from whole"), &["whole", "more than the array's"]);
    bench.refused(&format!("copy-in {members} --from m0.img"), &["m0.img: is a member"]);
    bench.refused(&format!("copy-in {members} --from none"), &["none: cannot read it"]);
    let output = bench.run_with(&format!("copy-in {members} --from -"), &bench.read("whole"));
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("holds more than the array"), "{message}");
}

fn devices(detail: &Value) -> Vec<(String, String)> {
    let devices = detail["devices"].as_array().expect("a list");
    let words = |of: &Value| {
        let file = of["file"].as_str().unwrap_or("-").to_owned();
        (file, of["state"].as_str().expect("a state").to_owned())
    };
    devices.iter().map(words).collect()
}

#[test]
fn assemble_says_what_there_is_and_what_is_to_do() {
    let (bench, _) = Bench::with_fixture("raid1-2-degraded");
    let detail = bench.json("assemble m0.img m1.img");
    assert_eq!(detail["state"], serde_json::json!(["clean", "degraded"]));
    assert_eq!(detail["left_out"][0]["file"], "m0.img");
    let text = bench.expect("assemble m0.img m1.img", 0);
    assert!(text.contains("left out: m0.img: had role 0, but was thrown out since"), "{text}");
    assert!(text.contains("to do: give role 0 a device"), "{text}");

    let (bench, _) = Bench::with_fixture("raid5-4-resync-mid");
    let detail = bench.json("assemble m0.img m1.img m2.img m3.img");
    assert_eq!(detail["state"][0], "active");
    assert!(detail["to_do"][0].as_str().expect("work").starts_with("resync from sector"));

    let (bench, _) = Bench::with_fixture("raid5-3-spare");
    let detail = bench.json("assemble m3.img m2.img m1.img m0.img");
    let found = devices(&detail);
    assert_eq!(found[3], ("m3.img".to_owned(), "spare".to_owned()), "{found:?}");
}

#[test]
fn run_writable_puts_an_array_in_order() {
    for name in ["raid5-4-resync-mid", "raid5-4-rebuild-mid", "raid1-2-crash-bitmap"] {
        let (bench, files) = Bench::with_fixture(name);
        let members = files.join(" ");
        bench.expect(&format!("copy-out {members} --to before"), 0);
        let detail = bench.json(&format!("assemble --run-writable {members}"));
        assert_eq!(detail["state"], serde_json::json!(["clean"]), "{name}: {detail}");
        let check = bench.json(&format!("check {members}"));
        assert_eq!(check["mismatch_cnt"], 0, "{name}: {check}");
        bench.expect(&format!("copy-out {members} --to after"), 0);
        assert!(bench.read("before") == bench.read("after"), "{name}: other content");
    }
}

#[test]
fn a_spare_takes_the_role_of_a_member_that_is_gone() {
    let (bench, _) = Bench::with_fixture("raid5-3-spare");
    bench.expect("copy-out m0.img m1.img m2.img --to before", 0);
    let detail = bench.json("assemble --degraded --run-writable m0.img m2.img m3.img");
    assert_eq!(detail["state"], serde_json::json!(["clean"]), "{detail}");
    let found = devices(&detail);
    assert!(found.contains(&("m3.img".to_owned(), "active sync".to_owned())), "{found:?}");
    // Now the spare serves in the place of another one.
    bench.expect("copy-out --degraded m0.img m3.img --to after", 0);
    assert!(bench.read("before") == bench.read("after"), "the spare has the data");
}

#[test]
fn logs_are_replayed_in_memory_and_not_written_past() {
    for name in ["raid5-4-crash-ppl", "raid5-4-crash-journal"] {
        let (bench, files) = Bench::with_fixture(name);
        let members = files.join(" ");
        let before = bench.contents();
        bench.expect(&format!("copy-out {members} --to /dev/null"), 0);
        assert!(bench.contents() == before, "{name}");
    }
}

#[test]
fn check_finds_where_redundancy_differs() {
    let (bench, files) = Bench::with_fixture("raid1-2");
    let members = files.join(" ");
    bench.expect(&format!("check {members}"), 0);
    // Sector 100 of the data, which starts at sector 2048.
    bench.change("m1.img", |bytes| bytes[(2048 + 100) * 512] ^= 1);
    let before = bench.contents();
    let output = bench.run(&format!("check {members}"));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("violated: redundancy differs in sectors 96+8 of the array"), "{text}");
    assert!(bench.contents() == before, "a check writes nothing");
    bench.expect(&format!("check --repair {members}"), 0);
    bench.expect(&format!("check {members}"), 0);

    let (bench, files) = Bench::with_fixture("raid6-5-ls");
    let members = files.join(" ");
    bench.change("m2.img", |bytes| bytes[3_000_000] ^= 1);
    let output = bench.run(&format!("check --json {members}"));
    assert_eq!(output.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["mismatch_cnt"], 8, "{report}");
    assert_eq!(report["first"].as_array().expect("a list").len(), 1, "{report}");
    let (bench, files) = Bench::with_fixture("raid0-3");
    bench.refused(&format!("check {}", files.join(" ")), &["raid0", "no redundancy"]);
}

#[test]
fn images_that_do_not_end_with_a_block_are_served_all_the_same() {
    let bench = Bench::new();
    for name in ["a", "b", "c"] {
        std::fs::write(bench.path(name), vec![0; (9 << 20) + 3 * 512 + 17]).expect("writes");
    }
    let create = "create --level 5 --raid-devices 3 --chunk 4K --metadata 1.0 --destroy-data a b c";
    bench.expect(create, 0);
    let data: Vec<u8> = (0..3_000_000u32).map(|of| (of / 7) as u8).collect();
    let output = bench.run_with("copy-in a b c --from -", &data);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
    let output = bench.run("copy-out a c --degraded --to - --length 3000000");
    assert!(output.stdout == data, "{:?}", output.stderr);
}
