//! What cannot be done is answered with one line and exit 2, and nothing is written.

use crate::support::Bench;

/// A field of the superblock of version 1.2 is changed, and its checksum with it.
fn forge(bench: &Bench, file: &str, at: usize, bytes: &[u8]) {
    bench.change(file, |image| {
        let superblock = &mut image[4096..8192];
        superblock[at..at + bytes.len()].copy_from_slice(bytes);
        let roles = u32::from_le_bytes(superblock[220..224].try_into().expect("four bytes"));
        superblock[216..220].fill(0);
        let end = 256 + 2 * roles as usize;
        let word = |of: &[u8]| {
            let mut bytes = [0; 4];
            bytes[..of.len()].copy_from_slice(of);
            u64::from(u32::from_le_bytes(bytes))
        };
        let sum: u64 = superblock[..end].chunks(4).map(word).sum();
        let sum = (sum & 0xFFFF_FFFF) + (sum >> 32);
        superblock[216..220].copy_from_slice(&(sum as u32).to_le_bytes());
    });
}

/// Every verb that opens an array refuses these members.
fn check(bench: &Bench, members: &str, words: &[&str]) {
    for verb in ["assemble", "check", "copy-out --to out", "copy-in --from /dev/null"] {
        bench.refused(&format!("{verb} {members}"), words);
    }
    bench.refused(&format!("assemble --run-writable {members}"), words);
}

#[test]
fn too_few_members() {
    let (bench, _) = Bench::with_fixture("raid5-4-ls");
    check(&bench, "--degraded m0.img m1.img", &["too few members", "roles 2, 3"]);
    check(&bench, "m0.img m1.img m2.img", &["role 3", "--degraded"]);
}

#[test]
fn two_members_claim_one_role() {
    let (bench, _) = Bench::with_fixture("raid1-2");
    std::fs::copy(bench.path("m0.img"), bench.path("copy.img")).expect("copied");
    let words = ["m0.img and copy.img both claim role 0"];
    check(&bench, "m0.img copy.img m1.img", &words);
    check(&bench, "--degraded --force m0.img copy.img m1.img", &words);
}

#[test]
fn members_of_two_arrays() {
    let (bench, _) = Bench::with_fixture("raid1-2");
    bench.unpack("raid0-3", "other-");
    check(&bench, "m0.img m1.img other-m0.img", &["members of two arrays", "other-m0.img"]);
}

#[test]
fn event_counts_too_far_apart() {
    let (bench, _) = Bench::with_fixture("raid1-2");
    let events = u64::from_le_bytes(bench.read("m1.img")[4296..4304].try_into().expect("eight"));
    forge(&bench, "m1.img", 200, &(events + 5).to_le_bytes());
    check(&bench, "m0.img m1.img", &["event counts are too far apart", "m0.img", "--degraded"]);
}

#[test]
fn unsupported_feature_bits() {
    let (bench, _) = Bench::with_fixture("raid1-2");
    forge(&bench, "m1.img", 8, &(1u32 << 20).to_le_bytes());
    check(&bench, "m0.img m1.img", &["m1.img", "feature map 0x100000", "bit 20"]);
}

#[test]
fn an_image_cut_short() {
    let (bench, _) = Bench::with_fixture("raid1-2");
    bench.change("m1.img", |bytes| bytes.truncate(5 << 20));
    check(&bench, "m0.img m1.img", &["m1.img", "cut short"]);
    bench.change("m1.img", |bytes| bytes.truncate(100));
    check(&bench, "m0.img m1.img", &["m1.img", "no md superblock"]);
    let (bench, _) = Bench::with_fixture("raid5-4-meta1.0");
    bench.change("m2.img", |bytes| bytes.truncate(7 << 20));
    let members = "m0.img m1.img m2.img m3.img";
    check(&bench, members, &["m2.img", "at the end", "cut short"]);
}

#[test]
fn a_superblock_says_what_cannot_be() {
    let (bench, _) = Bench::with_fixture("raid5-4-ls");
    let members = "m0.img m1.img m2.img m3.img";
    forge(&bench, "m3.img", 88, &6u32.to_le_bytes());
    check(&bench, members, &["m3.img", "chunk of 3072 bytes"]);
    forge(&bench, "m3.img", 88, &128u32.to_le_bytes());
    forge(&bench, "m3.img", 72, &7i32.to_le_bytes());
    check(&bench, members, &["m3.img", "level 7"]);
    forge(&bench, "m3.img", 72, &5i32.to_le_bytes());
    forge(&bench, "m3.img", 92, &5000u32.to_le_bytes());
    check(&bench, members, &["m3.img", "5000"]);
}

#[test]
fn a_bitmap_larger_than_its_space() {
    let (bench, _) = Bench::with_fixture("raid1-3-bitmap");
    // The sync size in the bitmap's header, at sector 16 of each.
    for file in ["m0.img", "m1.img", "m2.img"] {
        bench.change(file, |bytes| {
            bytes[16 * 512 + 40..16 * 512 + 48].copy_from_slice(&(1u64 << 40).to_le_bytes());
        });
    }
    check(&bench, "m0.img m1.img m2.img", &["m0.img", "larger than its space"]);
}

#[test]
fn wishes_that_cannot_be_granted() {
    let bench = Bench::new();
    let refused = |line: &str, words: &[&str]| {
        bench.refused(&format!("create {line} --create-size 8M"), words);
    };
    refused("--level 5 -n 3 --chunk 3K a b c", &["3072 bytes", "power of two"]);
    refused("--level 5 -n 3 --chunk 1000b a b c", &["--chunk", "multiple of 512"]);
    refused("--level 7 -n 3 a b c", &["level '7'", "linear, 0, 1, 4, 5, 6 or 10"]);
    refused("--level 5 -n 3 --layout n2 a b c", &["layout 'n2'", "left-symmetric"]);
    refused("--level 5 -n 3 a b", &["take 3 members, but 2 are given"]);
    refused("--level 6 -n 3 a b c", &["raid6 of 3", "4"]);
    refused("--level 0 -n 2 a missing", &["raid0", "no redundancy"]);
    refused("--level 1 -n 2 a a", &["a: named twice"]);
    refused("--level 1 -n 2 --metadata 2 a b", &["metadata '2'", "1.2"]);
    refused("--level 1 -n 2 --size 9M a b", &["wanted", "offers only"]);
    refused("--level 1 -n 2 --uuid 12 a b", &["'12'", "32 hexadecimal digits"]);
    let many: Vec<String> = (0..28).map(|index| format!("d{index}")).collect();
    let many = many.join(" ");
    refused(&format!("--level 1 -n 28 --metadata 0.90 {many}"), &["28", "0.90", "27"]);
    refused("--level 1 -n 4000 a b", &["raid1 of 4000", "1920"]);
    let tight = "--level 1 -n 2 --bitmap internal --bitmap-chunk 4K --data-offset 12K a b";
    bench.refused(&format!("create {tight} --create-size 1000M"), &["larger than its space"]);
}

#[test]
fn files_that_are_no_members() {
    let (bench, _) = Bench::with_fixture("raid1-2");
    std::fs::write(bench.path("blank"), vec![0; 1 << 20]).expect("writes");
    check(&bench, "m0.img m0.img", &["m0.img: named twice"]);
    check(&bench, "m0.img blank", &["blank", "no md superblock"]);
    check(&bench, "m0.img none", &["none: no such file"]);
    check(&bench, "m0.img .", &[".: is a directory"]);
    std::os::unix::fs::symlink("m0.img", bench.path("link")).expect("linked");
    check(&bench, "m0.img link", &["link: named twice"]);
    check(&bench, "--layout n2 m0.img m1.img", &["layout 'n2'", "original or alternate"]);
}
