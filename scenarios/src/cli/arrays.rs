//! The words about real md arrays. Options bear mdadm's names where mdadm has them.

use crate::quantity::{ByteCount, MdSize};
use clap::Args;
use std::path::PathBuf;

/// Arguments of `examine`.
#[derive(Args, Debug)]
pub struct ExamineArguments {
    /// Files and block devices.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
}

/// The members of an array, and how much may be missing.
#[derive(Args, Debug)]
pub struct MemberArguments {
    /// Files and block devices, in any order.
    #[arg(required = true, value_name = "MEMBER")]
    pub members: Vec<PathBuf>,
    /// Go on without members that the array counts on, as far as its level tolerates it.
    #[arg(long)]
    pub degraded: bool,
    /// Go on although data may be wrong, as mdadm --force; says first what is given up.
    #[arg(long)]
    pub force: bool,
    /// How a RAID 0 of unequal members is laid out, where the superblock does not say: original
    /// (filled by Linux before 3.14) or alternate.
    #[arg(long)]
    pub layout: Option<String>,
}

/// Arguments of `assemble`.
#[derive(Args, Debug)]
pub struct AssembleArguments {
    /// The members.
    #[command(flatten)]
    pub members: MemberArguments,
    /// Resync what is dirty, rebuild onto spares, and leave clean superblocks. Arrays with a
    /// partial parity log or a journal, or in the middle of a reshape, are refused.
    #[arg(long)]
    pub run_writable: bool,
}

/// Arguments of `copy-out`.
#[derive(Args, Debug)]
pub struct CopyOutArguments {
    /// The members.
    #[command(flatten)]
    pub members: MemberArguments,
    /// Where to: a file that does not exist, or `-` for standard output.
    #[arg(long, value_name = "FILE|-")]
    pub to: PathBuf,
    /// The first byte of the array; bytes, or a number with K, M, G (powers of 1024).
    #[arg(long, default_value = "0")]
    pub offset: ByteCount,
    /// How many bytes, likewise; to the end if left out.
    #[arg(long)]
    pub length: Option<ByteCount>,
    /// Write zeros for what the array cannot give (bad blocks, sectors beyond its redundancy) and
    /// name those bytes at the end. The exit code is then 1.
    #[arg(long)]
    pub skip_unreadable: bool,
    /// Write over a target that exists. What it held is gone, also if the copy fails.
    #[arg(long)]
    pub overwrite: bool,
}

/// Arguments of `copy-in`.
#[derive(Args, Debug)]
pub struct CopyInArguments {
    /// The members.
    #[command(flatten)]
    pub members: MemberArguments,
    /// What to copy: a file, or `-` for standard input.
    #[arg(long, value_name = "FILE|-")]
    pub from: PathBuf,
    /// Where in the array its first byte goes; bytes, or a number with K, M, G (powers of 1024).
    #[arg(long, default_value = "0")]
    pub offset: ByteCount,
}

/// Arguments of `check`.
#[derive(Args, Debug)]
pub struct CheckArguments {
    /// The members.
    #[command(flatten)]
    pub members: MemberArguments,
    /// Make redundancy agree where it does not: copies from the first, parity from the data.
    #[arg(long)]
    pub repair: bool,
}

/// Arguments of `create`.
#[derive(Args, Debug)]
pub struct CreateArguments {
    /// Files and block devices in the order of roles, then spares; `missing` leaves a role empty.
    #[arg(required = true, value_name = "MEMBER|missing")]
    pub members: Vec<PathBuf>,
    /// linear, 0 (raid0, stripe), 1 (raid1, mirror), 4, 5, 6 or 10.
    #[arg(long, short)]
    pub level: String,
    /// How many members hold data, parity or copies.
    #[arg(long, short = 'n')]
    pub raid_devices: u32,
    /// Layout, by mdadm's name or md's number: left-symmetric (ls), n2, f2, o2, ddf-zero-restart,
    /// left-symmetric-6, ...
    #[arg(long, short = 'p')]
    pub layout: Option<String>,
    /// One member's share of a stripe; the rounding of linear. A bare number is KiB, as in mdadm.
    /// 512K if left out, 64K with metadata 0.90.
    #[arg(long, short)]
    pub chunk: Option<MdSize>,
    /// Version of the superblocks: 1.2, 1.1, 1.0 or 0.90.
    #[arg(long, short = 'e', default_value = "1.2")]
    pub metadata: String,
    /// Write-intent bitmap: internal or none.
    #[arg(long, short = 'b', default_value = "none")]
    pub bitmap: String,
    /// How much each bit of the bitmap stands for. A bare number is KiB, as in mdadm.
    #[arg(long)]
    pub bitmap_chunk: Option<MdSize>,
    /// How parity is made right after a crash: resync, bitmap or ppl (with --assume-clean; raidbed
    /// reads such an array, and only md writes to it).
    #[arg(long)]
    pub consistency_policy: Option<String>,
    /// How much to use of each member; as much as fits if left out. A bare number is KiB, as in
    /// mdadm.
    #[arg(long, short = 'z')]
    pub size: Option<MdSize>,
    /// The array's name; that of the first member if left out.
    #[arg(long, short = 'N')]
    pub name: Option<String>,
    /// The array's UUID; random if left out.
    #[arg(long)]
    pub uuid: Option<String>,
    /// The host's name, which goes before the array's; `any` for none.
    #[arg(long)]
    pub homehost: Option<String>,
    /// Where data starts on each member. A bare number is KiB, as in mdadm.
    #[arg(long)]
    pub data_offset: Option<MdSize>,
    /// How many of the members, the last ones, stand by.
    #[arg(long, short = 'x', default_value_t = 0)]
    pub spare_devices: u32,
    /// Take it that redundancy agrees already, as on files of zeros.
    #[arg(long)]
    pub assume_clean: bool,
    /// Make the files, which must not exist, with this size: bytes, or a number with K, M, G
    /// (powers of 1024).
    #[arg(long)]
    pub create_size: Option<ByteCount>,
    /// Allow to destroy what is on files and devices that exist.
    #[arg(long)]
    pub destroy_data: bool,
}
