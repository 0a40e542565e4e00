//! Opens the array that files and block devices make up. All that can be refused by what the
//! superblocks say is refused before a core is started or a device is opened for writing.

use super::examine::{BadBlockFacts, BadRange};
use super::member_file::{FileFacts, LookError, MemberFile};
use anyhow::{Result, bail};
use backends::{
    Access, Cpus, Options, PageCache, RealDevice, RealMachine, RealPlatform, allowed_cpus,
    direct_block_bytes,
};
use raid::assemble::{AssembleOptions, Assembled, assemble};
use raid::metadata::assembly::{self, Assembly, Candidate, Concession};
use raid::metadata::geometry::Raid0Layout;
use raid::metadata::superblock::Superblock;
use raid::metadata::{Geometry, Level, Time};
use raid::tuning::Tuning;
use raid::units::{CpuId, SECTOR_BYTES, Sectors};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// More cores than this do not make a copy faster.
const CORES_MAX: u32 = 4;
/// How much is asked of the array at once, where its stripes do not say otherwise.
const PIECE: Sectors = Sectors((1 << 20) / SECTOR_BYTES);
/// Stripes longer than this are not asked for as a whole.
const PIECE_MAX: Sectors = Sectors((16 << 20) / SECTOR_BYTES);

/// What a person allows.
#[derive(Clone, Debug)]
pub struct Permission {
    /// The files and block devices, in any order.
    pub members: Vec<PathBuf>,
    /// Go on without members that the array counts on.
    pub degraded: bool,
    /// Go on although data may be wrong.
    pub force: bool,
    /// How a RAID 0 is laid out where its superblock does not say.
    pub raid0_layout: Option<Raid0Layout>,
    /// Whether the array may be written to.
    pub writable: bool,
    /// Whether spares are put into empty roles.
    pub take_spares: bool,
}

/// What the members say, and how they come together.
pub struct Survey {
    /// The files. They are not kept open: whoever opens one for writing wants to be the only one.
    pub files: Vec<FileFacts>,
    /// The superblock of each, if it has one that may be used.
    pub superblocks: Vec<Option<Superblock>>,
    /// What the bad-block log of each names, in sectors of the device.
    pub bad_ranges: Vec<Vec<BadRange>>,
    /// Who plays which role.
    pub assembly: Assembly,
}

/// An array that is being served.
pub struct OpenArray {
    /// What the members said before it was opened.
    pub survey: Survey,
    /// The cores that serve it.
    pub machine: RealMachine,
    /// The array.
    pub assembled: Arc<Assembled<RealPlatform>>,
}

impl Survey {
    /// Looks at the members and puts them together, without writing and without locking.
    ///
    /// # Errors
    /// Files that cannot be read, and members that make no array.
    pub fn of(permission: &Permission) -> Result<Self> {
        let files = MemberFile::open_all(&permission.members)?;
        let candidates: Vec<Candidate> =
            files.iter().map(candidate).collect::<Result<_, LookError>>()?;
        let assembly = assembly::assemble(&candidates, rules(permission))?;
        let superblocks: Vec<Option<Superblock>> =
            candidates.into_iter().map(|of| of.superblock.ok()).collect();
        let mut bad_ranges = Vec::new();
        for (file, superblock) in files.iter().zip(&superblocks) {
            let log = superblock.as_ref().map(|of| BadBlockFacts::of(file, of)).transpose()?;
            // Whether a damaged log may be used is the engine's to say.
            bad_ranges.push(log.flatten().map_or_else(Vec::new, |(facts, _)| facts.ranges));
        }
        let files = files.iter().map(|file| file.facts().clone()).collect();
        Ok(Self { files, superblocks, bad_ranges, assembly })
    }

    /// The superblock that decides.
    pub fn freshest(&self) -> &Superblock {
        self.superblocks[self.assembly.freshest].as_ref().expect("the freshest has one")
    }

    /// What was given up by `--force`, in words.
    pub fn concessions(&self) -> Vec<String> {
        self.assembly.concessions.iter().map(|of| self.concession_words(*of)).collect()
    }

    fn concession_words(&self, concession: Concession) -> String {
        match concession {
            Concession::WriteHole => "gives up that missing chunks are right: they are computed \
                from parity that was not made to agree after the last writes (the write hole)"
                .to_owned(),
            Concession::JournalLost => {
                "gives up what only the write journal held: the last writes \
                may be lost or half done"
                    .to_owned()
            }
            Concession::StaleMember { device, events, freshest_events } => format!(
                "gives up what was written after the array went on without {}: it stands at event \
                 {events}, the freshest at {freshest_events}; old data may lie beside new",
                self.files[device].name()
            ),
        }
    }

    /// Says on standard error which of the files are not used, and why.
    pub fn tell_left_out(&self) {
        for of in &self.assembly.left_out {
            eprintln!("raidbed: left out: {}: {}", self.files[of.device].name(), of.reason);
        }
    }

    /// Says on standard error which roles a write leaves behind.
    pub fn tell_left_behind(&self) {
        for (slot, role) in self.assembly.slots.iter().zip(0u32..) {
            if slot.is_empty() {
                eprintln!(
                    "raidbed: role {role} is not given: whatever had it will be out of date, and \
                     only md can add it back"
                );
            }
        }
    }

    /// Whether a file is used by the array.
    pub fn uses(&self, file: usize) -> bool {
        !self.assembly.left_out.iter().any(|of| of.device == file)
    }

    /// Sectors of the array that lie side by side on its members; zero where there are no chunks.
    pub fn stripe(&self) -> Sectors {
        let geometry = self.assembly.geometry;
        Sectors(geometry.chunk.0.saturating_mul(u64::from(data_disks(geometry))))
    }

    /// How much to ask of the array at once: whole stripes, about a MiB.
    pub fn piece(&self) -> Sectors {
        match self.stripe().0 {
            0 => PIECE,
            stripe if stripe > PIECE_MAX.0 => PIECE,
            stripe => Sectors(stripe * (PIECE.0 / stripe).max(1)),
        }
    }

    /// Whether requests have to go through the page cache: direct I/O takes whole blocks only, and
    /// an array may lie across them.
    fn page_cache(&self) -> PageCache {
        let members = self.superblocks.iter().zip(&self.files).enumerate();
        let lies_in_blocks = members.filter(|(file, _)| self.uses(*file)).all(|(_, member)| {
            let (Some(superblock), file) = member else { return true };
            let Some(block_bytes) = direct_block_bytes(&file.path) else { return false };
            let block = u64::from(block_bytes) / SECTOR_BYTES;
            let used = match self.assembly.geometry.level.is_redundant() {
                true => superblock.component_size.0,
                false => superblock.data_size().0,
            };
            let places = [superblock.data_offset().0, superblock.new_data_offset().0];
            let lengths = [used, superblock.chunk.0, superblock.new_chunk.0, file.size().0];
            let end_is_sector = file.size_bytes.is_multiple_of(SECTOR_BYTES);
            places.iter().chain(&lengths).all(|of| of.is_multiple_of(block)) && end_is_sector
        });
        if lies_in_blocks { PageCache::Bypassed } else { PageCache::Used }
    }
}

/// Members whose chunks of a stripe hold data.
fn data_disks(geometry: Geometry) -> u32 {
    let disks = geometry.raid_disks;
    match geometry.level {
        Level::Raid1 | Level::Linear => 0,
        Level::Raid4 | Level::Raid5(_) => disks.saturating_sub(1),
        Level::Raid6(_) => disks.saturating_sub(2),
        Level::Raid0(_) | Level::Raid10(_) => disks,
    }
}

fn candidate(file: &MemberFile) -> Result<Candidate, LookError> {
    let (name, size) = (file.facts().name(), file.facts().size());
    Ok(Candidate { name, size, superblock: file.superblock()? })
}

fn rules(permission: &Permission) -> assembly::Options {
    assembly::Options {
        degraded: permission.degraded,
        force: permission.force,
        raid0_layout: permission.raid0_layout,
    }
}

impl OpenArray {
    /// Opens the array. What `--force` gives up is said on standard error first.
    ///
    /// # Errors
    /// As [`Survey::of`]; devices that cannot be opened; an array that cannot be served.
    pub fn open(permission: &Permission) -> Result<Self> {
        let survey = Survey::of(permission)?;
        for concession in survey.concessions() {
            eprintln!("raidbed: --force: {concession}");
        }
        let page_cache = survey.page_cache();
        let mut devices = Vec::new();
        for (index, file) in survey.files.iter().enumerate() {
            let access = match permission.writable && survey.uses(index) {
                true => Access::ReadWrite,
                false => Access::ReadOnly,
            };
            let opened = RealDevice::open_existing_with(&file.path, access, page_cache);
            devices.push(Arc::new(opened?));
        }
        let cores = (allowed_cpus()?.len() as u32).min(CORES_MAX);
        let machine = RealMachine::start(Cpus::Count(cores), Options::from_environment())?;
        let options = AssembleOptions {
            rules: rules(permission),
            writable: permission.writable,
            take_spares: permission.take_spares,
            now: now(),
            tuning: Tuning::default(),
        };
        let assembled = machine.block_on(CpuId(0), move |cpu| async move {
            assemble::<RealPlatform>(&cpu, devices, options).await
        })?;
        Ok(Self { survey, machine, assembled: Arc::new(assembled) })
    }

    /// The array, for work that one in the middle of a reshape cannot do.
    ///
    /// # Errors
    /// If it is in the middle of a reshape.
    pub fn whole(&self) -> Result<Arc<raid::Array<RealPlatform>>> {
        match self.assembled.array() {
            Some(array) => Ok(Arc::clone(array)),
            None => bail!(
                "the array is in the middle of a reshape, which only md can finish; until then it \
                 is copied out, and no more"
            ),
        }
    }
}

/// The time of day, for superblocks.
pub fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time { seconds: since.as_secs(), microseconds: 0 }
}

/// The layout that a person names for a RAID 0 whose superblock does not say.
///
/// # Errors
/// If it is none of the two.
pub fn raid0_layout(name: Option<&str>) -> Result<Option<Raid0Layout>> {
    Ok(match name {
        None => None,
        Some("original" | "1") => Some(Raid0Layout::Original),
        Some("alternate" | "alternative" | "2") => Some(Raid0Layout::Alternate),
        Some(other) => bail!("layout '{other}' is none of RAID 0: give original or alternate"),
    })
}
