//! `examine` beside what `mdadm --examine` said of the same images (`tests/mdadm/`), line by line.

use crate::support::{Bench, expected, names};
use std::collections::BTreeMap;
use std::path::Path;

/// Of each image, the lines that mdadm printed.
fn mdadm_said(name: &str) -> BTreeMap<String, Vec<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/mdadm/{name}.txt"));
    let text = std::fs::read_to_string(path).expect("mdadm was asked about every array");
    let mut said: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut image = String::new();
    for line in text.lines() {
        match line.strip_prefix("=== ") {
            Some(name) => image = format!("{name}.img"),
            // The device's name.
            None if line.starts_with("/dev/") => {}
            None => said.entry(image.clone()).or_default().push(without_device(line)),
        }
    }
    said
}

/// A row of the table of version 0.90 ends in the name of a device of that machine.
fn without_device(line: &str) -> String {
    let end = line.find("   /dev/").unwrap_or(line.len());
    line[..end].trim_end().to_owned()
}

#[test]
fn every_line_of_mdadm_is_there_in_the_same_order() {
    for name in names() {
        let (bench, files) = Bench::with_fixture(&name);
        let said = mdadm_said(&name);
        assert_eq!(said.len(), files.len(), "{name}");
        for file in files {
            let text = bench.expect(&format!("examine {file}"), 0);
            let lines: Vec<&str> = text.lines().skip(1).map(str::trim_end).collect();
            for (index, wanted) in said[&file].iter().enumerate() {
                // mdadm counts slots that stay empty where copies do not divide the members.
                if name == "raid10-5-n3" && wanted.contains("Array Size") {
                    assert_eq!(lines[index], "     Array Size : 11904 KiB (11.63 MiB 12.19 MB)");
                    continue;
                }
                assert_eq!(lines.get(index), Some(&wanted.as_str()), "{name} {file}");
            }
        }
    }
}

#[test]
fn json_holds_every_field_of_every_image() {
    for name in names() {
        let (bench, files) = Bench::with_fixture(&name);
        let report = bench.json(&format!("examine {}", files.join(" ")));
        let expected = expected(&name);
        let members = expected["members"].as_array().expect("a list");
        for (found, member) in report.as_array().expect("a list").iter().zip(members) {
            let superblock = &found["superblock"];
            let at = |field: &str| format!("{name} {} {field}", member["file"]);
            assert_eq!(
                found["problems"].as_array().expect("a list").len(),
                0,
                "{}",
                at("problems")
            );
            let uuid = superblock["array_uuid"].as_str().expect("a UUID").replace(':', "");
            assert_eq!(uuid, expected["uuid"].as_str().expect("a UUID"), "{}", at("uuid"));
            assert_eq!(superblock["level_number"], expected["level"], "{}", at("level"));
            assert_eq!(superblock["layout_number"], expected["layout"], "{}", at("layout"));
            assert_eq!(superblock["raid_devices"], expected["raid_disks"], "{}", at("devices"));
            for (ours, theirs) in [
                ("events", "events"),
                ("super_offset_sectors", "sb_sector"),
                ("data_offset_sectors", "data_offset"),
                ("data_size_sectors", "data_size"),
                ("device_number", "dev_number"),
            ] {
                if !member[theirs].is_null() {
                    assert_eq!(superblock[ours], member[theirs], "{}", at(ours));
                }
            }
        }
    }
}

#[test]
fn what_lies_beside_the_superblock_is_told() {
    let (bench, files) = Bench::with_fixture("raid1-2-crash-bitmap");
    let report = bench.json(&format!("examine {}", files[0]));
    let bitmap = &report[0]["bitmap"];
    assert_eq!(bitmap["events_cleared"], 16);
    assert_eq!((&bitmap["bits"], &bitmap["dirty_bits"]), (&112.into(), &65.into()));
    let text = bench.expect("examine m0.img", 0);
    assert!(text.contains("Bitmap : 112 bits (chunks), 65 dirty (58.0%)"), "{text}");

    let (bench, _) = Bench::with_fixture("raid5-4-badblocks");
    let report = bench.json("examine m1.img");
    assert_eq!(report[0]["bad_blocks"]["ranges"][0]["at_sector"], 4096);
    assert_eq!(report[0]["bad_blocks"]["ranges"][0]["length_sectors"], 24);

    let (bench, _) = Bench::with_fixture("raid5-4-crash-journal");
    let journal = &bench.json("examine m4.img")[0]["journal"];
    assert!(journal["batches"].as_u64().expect("a count") > 0, "{journal}");
    let (bench, _) = Bench::with_fixture("raid5-4-crash-ppl");
    let ppl = &bench.json("examine m0.img")[0]["ppl"];
    assert_eq!(ppl["size_sectors"], 2048);
    assert!(ppl["generation"].as_u64().expect("a header") > 0, "{ppl}");
}

#[test]
fn a_damaged_superblock_is_told_as_found() {
    let (bench, _) = Bench::with_fixture("raid1-2");
    // The event count, at byte 200 of the superblock.
    bench.change("m0.img", |bytes| bytes[4096 + 200] ^= 1);
    let text = bench.expect("examine m0.img", 1);
    assert!(text.contains(" - expected "), "{text}");
    assert!(text.contains("Problem : version 1.2: checksum is"), "{text}");
    let text = bench.expect("examine m0.img m1.img --json", 1);
    let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert!(report[0]["superblock"]["checksum_expected"].is_u64());
    assert!(report[1]["superblock"]["checksum_expected"].is_null());
}

#[test]
fn files_without_metadata_are_no_success() {
    let bench = Bench::new();
    std::fs::write(bench.path("blank"), vec![0; 1 << 20]).expect("writes");
    bench.refused("examine blank", &["blank", "no md superblock"]);
    bench.refused("examine none", &["none", "no such file"]);
    bench.refused("examine blank blank", &["named twice"]);
    bench.refused("examine .", &["directory"]);
    let files = bench.unpack("linear-3", "");
    let text = bench.expect(&format!("examine blank none {}", files[0]), 1);
    assert!(text.contains("Problem : no md superblock"), "{text}");
    assert!(text.contains("none:\n        Problem : no such file or device"), "{text}");
    assert!(text.contains("Raid Level : linear"), "the others are looked at all the same: {text}");
}

#[test]
fn what_a_file_without_metadata_seems_to_hold_is_said() {
    let bench = Bench::new();
    let mut image = vec![0; 16 << 20];
    image[512..520].copy_from_slice(b"EFI PART");
    std::fs::write(bench.path("disk"), &image).expect("writes");
    bench.refused("examine disk", &["no md superblock", "a GPT partition table"]);
    bench.refused("create -l1 -n2 disk missing", &["a GPT partition table", "--destroy-data"]);
    let output = bench.run("create -l1 -n2 disk missing --destroy-data");
    let told = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(told.contains("disk: held a GPT partition table"), "{told}");
    let again = "create -l1 -n2 disk missing";
    bench.refused(again, &["a member of the md array", "--destroy-data"]);
}
