//! Makes an array: what a person wished becomes the metadata of each member, and only when all of
//! it is known to fit are files made and members written. Files that were made go away again if
//! anything fails.

use super::member_file::{MemberFile, refuse_twice};
use super::opening::now;
use crate::drives::{self, DriveName, Use};
use crate::quantity::ByteCount;
use anyhow::{Context, Result, ensure};
use backends::{Access, Cpus, Options, PageCache, RealDevice, RealMachine, RealPlatform};
use raid::assemble;
use raid::metadata::create::{Made, NewArray, NewConsistency, NewMember};
use raid::metadata::superblock::Version;
use raid::metadata::{Geometry, Uuid};
use raid::units::{CpuId, Sector, Sectors};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A member that is not there.
const MISSING: &str = "missing";

/// What array to make, and of what.
#[derive(Debug)]
pub struct Wishes {
    /// Members in the order of roles, then spares; `missing` for one that is not there.
    pub members: Vec<PathBuf>,
    /// How many of them stand by.
    pub spares: u32,
    /// The superblocks' version.
    pub version: Version,
    /// Level, layout, chunk, members.
    pub geometry: Geometry,
    /// The array's name; chosen if `None`.
    pub name: Option<String>,
    /// The host's name, which goes before it; this host's if `None`, none if empty.
    pub homehost: Option<String>,
    /// The array's UUID; random if `None`.
    pub uuid: Option<Uuid>,
    /// What to use of each member.
    pub component_size: Option<Sectors>,
    /// Where data starts.
    pub data_offset: Option<Sector>,
    /// What makes it consistent after a crash.
    pub consistency: NewConsistency,
    /// Take it that redundancy agrees already.
    pub assume_clean: bool,
    /// Make the files with this size.
    pub create_size: Option<ByteCount>,
    /// Allow to destroy what is on files and devices that exist.
    pub destroy_data: bool,
}

/// A fresh array's metadata, written to its members.
pub struct Fresh {
    /// The members that are there, in the order of roles, then spares.
    pub members: Vec<PathBuf>,
    /// The metadata of each.
    pub made: Vec<Made>,
    files: MadeFiles,
}

impl Fresh {
    /// From now on files that were made stay.
    pub fn keep(&mut self) {
        self.files.0.clear();
    }
}

/// Removed again when this is dropped.
struct MadeFiles(Vec<PathBuf>);

impl Drop for MadeFiles {
    fn drop(&mut self) {
        for path in &self.0 {
            // The error that ends the work is the one to report.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Makes the array's metadata on its members.
///
/// # Errors
/// Wishes that cannot be granted, files that exist or are missing, and what the system refuses.
pub fn make(wishes: &Wishes) -> Result<Fresh> {
    let wanted = wishes.geometry.raid_disks + wishes.spares;
    ensure!(
        wishes.members.len() == wanted as usize,
        "--raid-devices {} and --spare-devices {} take {wanted} members, but {} are given \
         ('missing' stands for one that is not there)",
        wishes.geometry.raid_disks,
        wishes.spares,
        wishes.members.len()
    );
    let members: Vec<PathBuf> =
        wishes.members.iter().filter(|path| !is_missing(path)).cloned().collect();
    refuse_twice(&members)?;
    let names: Vec<DriveName> = members.iter().cloned().map(DriveName::Path).collect();
    let permitted =
        Use { writes: true, create_size: wishes.create_size, destroy_data: wishes.destroy_data };
    drives::look_at(&names, permitted)?;
    let array = describe(wishes)?;
    // What cannot be is refused before a file is made.
    let made = array.make()?;
    let lost = drives::what_is_lost(&members);
    let (devices, files) = open_members(&members, wishes.create_size)?;
    let machine = RealMachine::start(Cpus::Count(1), Options::from_environment())?;
    machine.block_on(CpuId(0), move |cpu| async move {
        assemble::make::<RealPlatform>(&cpu, &devices, &array).await
    })?;
    lost.iter().for_each(|line| eprintln!("raidbed: --destroy-data: {line}"));
    Ok(Fresh { members, made, files })
}

fn is_missing(path: &Path) -> bool {
    path == Path::new(MISSING)
}

/// The wishes in the engine's words: with the members' sizes, and with names and numbers drawn.
fn describe(wishes: &Wishes) -> Result<NewArray> {
    let mut described = Vec::new();
    for path in &wishes.members {
        described.push(if is_missing(path) {
            None
        } else {
            let size = match wishes.create_size {
                Some(size) => drives::sectors(size)?,
                None => MemberFile::open(path)?.facts().size(),
            };
            let name = path.display().to_string();
            Some(NewMember { name, size, uuid: random_uuid()?, write_mostly: false })
        });
    }
    let spares = described.split_off(wishes.geometry.raid_disks as usize);
    ensure!(spares.iter().all(Option::is_some), "a spare cannot be missing");
    let uuid = match wishes.uuid {
        Some(uuid) => uuid,
        None => random_uuid()?,
    };
    Ok(NewArray {
        version: wishes.version,
        geometry: wishes.geometry,
        name: array_name(wishes),
        uuid,
        created: now(),
        members: described,
        spares: spares.into_iter().flatten().collect(),
        component_size: wishes.component_size,
        data_offset: wishes.data_offset,
        consistency: wishes.consistency,
        assume_clean: wishes.assume_clean,
        bad_block_log: true,
    })
}

/// `host:name` as mdadm has it; without the host where both would not fit.
fn array_name(wishes: &Wishes) -> String {
    const BYTES_MAX: usize = 32;
    let first = || {
        let path = wishes.members.iter().find(|path| !is_missing(path))?;
        let stem: String = path.file_stem()?.to_string_lossy().into_owned();
        (stem.len() <= BYTES_MAX).then_some(stem)
    };
    let name = wishes.name.clone().or_else(first).unwrap_or_else(|| "0".to_owned());
    let host = wishes.homehost.clone().unwrap_or_else(this_host);
    let whole = format!("{host}:{name}");
    if host.is_empty() || whole.len() > BYTES_MAX { name } else { whole }
}

fn this_host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

fn random_uuid() -> Result<Uuid> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")
        .and_then(|mut random| random.read_exact(&mut bytes))
        .context("the system gives no random numbers")?;
    Ok(Uuid(bytes))
}

/// Opens the members for us alone; makes them if they are to be made.
fn open_members(
    members: &[PathBuf],
    create_size: Option<ByteCount>,
) -> Result<(Vec<Arc<RealDevice>>, MadeFiles)> {
    let (mut devices, mut files) = (Vec::new(), MadeFiles(Vec::new()));
    for path in members {
        // Metadata is written by sectors.
        let device = match create_size {
            Some(size) => {
                let device =
                    RealDevice::create_file_with(path, drives::sectors(size)?, PageCache::Used)?;
                files.0.push(path.clone());
                device
            }
            None => RealDevice::open_existing_with(path, Access::ReadWrite, PageCache::Used)?,
        };
        devices.push(Arc::new(device));
    }
    Ok((devices, files))
}
