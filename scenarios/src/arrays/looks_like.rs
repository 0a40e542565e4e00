//! What a file or block device seems to hold, by the marks that common formats leave at fixed
//! places: for messages, where somebody expected a member of an array, or is about to overwrite one.
//!
//! Never decides anything: a mark says nothing of what lies around it.

use super::member_file::{LookError, MemberFile};
use raid::units::Sector;

/// Bytes that hold all the marks: btrfs has its own behind the first 64 KiB.
const LOOKED_AT_BYTES: usize = 0x1_0080;

/// Where a mark lies in bytes, the mark, and what has it.
const MARKS: [(usize, &[u8], &str); 21] = [
    (0, &[0x1F, 0x8B], "a gzip file: unpack it first"),
    (0, &[0xFD, b'7', b'z', b'X', b'Z', 0], "an xz file: unpack it first"),
    (0, &[0x28, 0xB5, 0x2F, 0xFD], "a zstd file: unpack it first"),
    (0, b"BZh", "a bzip2 file: unpack it first"),
    (0, b"LZIP", "an lzip file: unpack it first"),
    (0, b"PK\x03\x04", "a zip file: unpack it first"),
    (0, b"7z\xBC\xAF\x27\x1C", "a 7-Zip file: unpack it first"),
    (0, b"EVF\x09\x0D\x0A\xFF\x00", "an EnCase (E01) image: export it raw first"),
    (0, b"QFI\xFB", "a QCOW image: convert it to raw first"),
    (0, b"KDMV", "a VMDK image: convert it to raw first"),
    (0, b"vhdxfile", "a VHDX image: convert it to raw first"),
    (64, &[0x7F, 0x10, 0xDA, 0xBE], "a VDI image: convert it to raw first"),
    (0, b"LUKS\xBA\xBE", "a LUKS volume"),
    (0, b"XFSB", "an XFS file system"),
    (1080, &[0x53, 0xEF], "an ext2, ext3 or ext4 file system"),
    (0x1_0040, b"_BHRfS_M", "a btrfs file system"),
    (4086, b"SWAPSPACE2", "swap space"),
    (512, b"LABELONE", "an LVM physical volume"),
    (3, b"NTFS    ", "an NTFS file system"),
    (512, b"EFI PART", "a GPT partition table: members may be its partitions"),
    (510, &[0x55, 0xAA], "an MBR partition table or a boot sector: members may be partitions"),
];

/// What it seems to hold besides md metadata, if that is known.
///
/// # Errors
/// [`LookError::System`].
pub fn looks_like(file: &MemberFile) -> Result<Option<&'static str>, LookError> {
    let bytes = file.read(Sector(0), LOOKED_AT_BYTES)?;
    let matches = |(at, mark, _): &&(usize, &[u8], &str)| {
        bytes.get(*at..).is_some_and(|rest| rest.starts_with(mark))
    };
    Ok(MARKS.iter().find(matches).map(|(_, _, what)| *what))
}

/// What would be lost with it, in words: a member of which array, or what else it seems to hold.
///
/// # Errors
/// [`LookError::System`].
pub fn what_would_be_lost(file: &MemberFile) -> Result<Option<String>, LookError> {
    let sound = file.superblocks()?.into_iter().find(|of| of.fault.is_none());
    let Some(found) = sound else { return Ok(looks_like(file)?.map(str::to_owned)) };
    let superblock = found.superblock;
    let name = superblock.name().map(|name| format!(" '{name}'")).unwrap_or_default();
    Ok(Some(format!("a member of the md array{name} {}", superblock.array_uuid)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_lie_within_what_is_looked_at() {
        for (at, mark, what) in MARKS {
            assert!(at + mark.len() <= LOOKED_AT_BYTES, "{what}");
        }
    }

    #[test]
    fn each_mark_is_found() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("image");
        for (at, mark, what) in MARKS {
            let mut bytes = vec![0; 128 << 10];
            bytes[at..at + mark.len()].copy_from_slice(mark);
            std::fs::write(&path, bytes).expect("written");
            let file = MemberFile::open(&path).expect("opens");
            assert_eq!(looks_like(&file).expect("reads"), Some(what));
        }
        std::fs::write(&path, b"short").expect("written");
        let file = MemberFile::open(&path).expect("opens");
        assert_eq!(looks_like(&file).expect("reads"), None);
    }
}
