//! What an array is and how it is, in the words of `mdadm --detail`: level, layout, size, who plays
//! which role, what is missing, stale or left out and why, and what would have to be done.

use super::examine::{BadRange, time_words};
use super::opening::Survey;
use super::sizes::in_two_units;
use raid::metadata::Time;
use raid::metadata::assembly::{Consistency, LeftOut, Slot};
use raid::metadata::superblock::Version;
use raid::units::Sectors;
use serde::Serialize;
use std::fmt::Write;

/// What mdadm prints, and we do not, for a RAID 0 whose superblock has no room for its layout.
const UNKNOWN_LAYOUT: &str = "-unknown-";

/// The report.
#[derive(Debug, Serialize)]
pub struct Detail {
    /// Version of the superblocks.
    pub version: String,
    /// When the array was made, in seconds since 1970.
    pub created_seconds: u64,
    /// When the freshest superblock was written, in seconds since 1970.
    pub updated_seconds: u64,
    /// mdadm's name of the level.
    pub level: &'static str,
    /// mdadm's name of the layout, where the level has one.
    pub layout: Option<String>,
    /// The chunk size, where the level has one.
    pub chunk_bytes: Option<u64>,
    /// What the array holds.
    pub array_size_sectors: u64,
    /// What it uses of each member, where that is the same of all.
    pub used_size_sectors: Option<u64>,
    /// How many roles there are.
    pub raid_devices: u32,
    /// How many devices were given that belong to it.
    pub total_devices: usize,
    /// `clean` or `active`, `degraded`, and what is under way.
    pub state: Vec<&'static str>,
    /// How redundancy is brought to agree after a crash.
    pub consistency_policy: &'static str,
    /// The array's name.
    pub name: Option<String>,
    /// The array's UUID.
    pub array_uuid: String,
    /// The freshest event count.
    pub events: u64,
    /// Each role, then the devices without one.
    pub devices: Vec<DeviceDetail>,
    /// Devices that are not used, and why.
    pub left_out: Vec<LeftOutDetail>,
    /// What was given up by `--force`.
    pub concessions: Vec<String>,
    /// What has to be done before everything is as it should be.
    pub to_do: Vec<String>,
}

/// A role or a device.
#[derive(Debug, Serialize)]
pub struct DeviceDetail {
    /// The device's number in the table of roles.
    pub number: Option<u32>,
    /// Its role.
    pub role: Option<u32>,
    /// What it does, as mdadm says it.
    pub state: String,
    /// The file.
    pub file: Option<String>,
    /// Up to which sector of its data it is rebuilt, where it is not whole.
    pub recovery_offset_sectors: Option<u64>,
    /// What its bad-block log names, in sectors of the device.
    pub bad_blocks: Vec<BadRange>,
}

/// A device that is not used.
#[derive(Debug, Serialize)]
pub struct LeftOutDetail {
    /// The file.
    pub file: String,
    /// Why.
    pub reason: String,
}

impl LeftOutDetail {
    /// Each device that is not used.
    pub fn all(survey: &Survey) -> Vec<Self> {
        let left_out = survey.assembly.left_out.iter();
        let of = |of: &LeftOut| Self {
            file: survey.files[of.device].name(),
            reason: of.reason.to_string(),
        };
        left_out.map(of).collect()
    }
}

impl Detail {
    /// The report on an array of this capacity.
    pub fn of(survey: &Survey, capacity: Sectors) -> Self {
        let (assembly, fresh) = (&survey.assembly, survey.freshest());
        let geometry = assembly.geometry;
        let layout = geometry.level.to_string();
        let striped =
            !matches!(geometry.level, raid::metadata::Level::Raid1 | raid::metadata::Level::Linear);
        Self {
            version: assembly.version.to_string(),
            created_seconds: fresh.created.seconds,
            updated_seconds: fresh.updated.seconds,
            level: geometry.level.name(),
            layout: (!layout.is_empty() && layout != UNKNOWN_LAYOUT).then_some(layout),
            chunk_bytes: striped.then(|| geometry.chunk.bytes()),
            array_size_sectors: capacity.0,
            used_size_sectors: geometry.level.is_redundant().then_some(assembly.component_size.0),
            raid_devices: geometry.raid_disks,
            total_devices: survey.files.len() - assembly.left_out.len(),
            state: state(survey),
            consistency_policy: policy(assembly.consistency),
            name: fresh.name(),
            array_uuid: assembly.array_uuid.to_string(),
            events: assembly.events,
            devices: devices(survey),
            left_out: LeftOutDetail::all(survey),
            concessions: survey.concessions(),
            to_do: to_do(survey),
        }
    }
}

fn policy(consistency: Consistency) -> &'static str {
    match consistency {
        Consistency::None => "none",
        Consistency::Resync => "resync",
        Consistency::Bitmap => "bitmap",
        Consistency::PartialParityLog => "ppl",
        Consistency::Journal => "journal",
    }
}

fn state(survey: &Survey) -> Vec<&'static str> {
    let assembly = &survey.assembly;
    let dirty = assembly.resync_offset.is_some();
    let degraded = assembly.slots.iter().any(|slot| !slot.in_sync);
    let recovering = assembly.slots.iter().any(|slot| !slot.in_sync && !slot.is_empty());
    let words = [
        (!dirty, "clean"),
        (dirty, "active"),
        (degraded, "degraded"),
        (dirty && !degraded, "resyncing (PENDING)"),
        (recovering, "recovering"),
        (assembly.reshaping.is_some(), "reshaping"),
    ];
    words.into_iter().filter(|(holds, _)| *holds).map(|(_, word)| word).collect()
}

fn devices(survey: &Survey) -> Vec<DeviceDetail> {
    let row = |device: usize, role, state: String| {
        let superblock = survey.superblocks[device].as_ref().expect("a device in use has one");
        let mostly = if superblock.is_write_mostly() { " writemostly" } else { "" };
        DeviceDetail {
            number: Some(superblock.dev_number),
            role,
            state: state + mostly,
            file: Some(survey.files[device].name()),
            recovery_offset_sectors: superblock.recovery_offset().map(|at| at.0),
            bad_blocks: survey.bad_ranges[device].clone(),
        }
    };
    let is_whole = |device: usize| {
        survey.superblocks[device].as_ref().is_some_and(|of| of.recovery_offset().is_none())
    };
    let mut rows = Vec::new();
    for (slot, role) in survey.assembly.slots.iter().zip(0u32..) {
        let Slot { original, replacement, .. } = *slot;
        if slot.is_empty() {
            rows.push(DeviceDetail {
                number: None,
                role: Some(role),
                state: "missing".to_owned(),
                file: None,
                recovery_offset_sectors: None,
                bad_blocks: Vec::new(),
            });
        }
        if let Some(device) = original {
            let state = if is_whole(device) { "active sync" } else { "spare rebuilding" };
            rows.push(row(device, Some(role), state.to_owned()));
        }
        if let Some(device) = replacement {
            rows.push(row(device, Some(role), "replacement".to_owned()));
        }
    }
    let others = survey.assembly.spares.iter().map(|spare| (*spare, "spare"));
    let others = others.chain(survey.assembly.journal.map(|journal| (journal, "journal")));
    rows.extend(others.map(|(device, state)| row(device, None, state.to_owned())));
    rows
}

fn to_do(survey: &Survey) -> Vec<String> {
    let assembly = &survey.assembly;
    let mut work = Vec::new();
    if let Some(of) = assembly.reshaping {
        let position = of.position;
        work.push(format!("finish the reshape, which stands at sector {position}; only md can"));
    }
    if let Some(from) = assembly.resync_offset {
        work.push(match assembly.consistency {
            Consistency::PartialParityLog => {
                "replay the partial parity log; only md can write it down".to_owned()
            }
            Consistency::Journal => {
                "replay the write journal; only md can write it down".to_owned()
            }
            Consistency::Bitmap => "resync what the write-intent bitmap marks".to_owned(),
            _ => format!("resync from sector {from} of each member to the end"),
        });
    }
    let mut spares = assembly.spares.iter();
    for (slot, role) in assembly.slots.iter().zip(0u32..) {
        let name = |device: usize| survey.files[device].name();
        let rebuilt = |device: usize| {
            let superblock = survey.superblocks[device].as_ref();
            superblock.and_then(|of| of.recovery_offset()).map_or(0, |at| at.0)
        };
        if let (Some(device), false) = (slot.original, slot.in_sync) {
            let from = rebuilt(device);
            work.push(format!("rebuild role {role} on {} from sector {from} on", name(device)));
        }
        if let (Some(_), Some(device)) = (slot.original, slot.replacement) {
            let (name, from) = (name(device), rebuilt(device));
            work.push(format!("fill the replacement {name} of role {role} from sector {from} on"));
        }
        if slot.is_empty() {
            work.push(match spares.next() {
                Some(spare) => format!("rebuild role {role} on the spare {}", name(*spare)),
                None => format!("give role {role} a device; only md can (mdadm --add)"),
            });
        }
    }
    work
}

/// The report as text.
pub fn render(of: &Detail) -> String {
    let mut text = String::new();
    let mut field = |label: &str, value: std::fmt::Arguments<'_>| {
        writeln!(text, "{label:>18} : {value}").expect("writing to a string succeeds");
    };
    let time = |seconds| time_words(Time { seconds, microseconds: 0 });
    let kib = |sectors: u64| format!("{}{}", sectors / 2, in_two_units(Sectors(sectors)));
    field("Version", format_args!("{}", of.version));
    field("Creation Time", format_args!("{}", time(of.created_seconds)));
    field("Raid Level", format_args!("{}", of.level));
    field("Array Size", format_args!("{}", kib(of.array_size_sectors)));
    if let Some(size) = of.used_size_sectors {
        field("Used Dev Size", format_args!("{}", kib(size)));
    }
    field("Raid Devices", format_args!("{}", of.raid_devices));
    field("Total Devices", format_args!("{}", of.total_devices));
    field("Update Time", format_args!("{}", time(of.updated_seconds)));
    field("State", format_args!("{}", of.state.join(", ")));
    if let Some(layout) = &of.layout {
        field("Layout", format_args!("{layout}"));
    }
    if let Some(chunk) = of.chunk_bytes {
        field("Chunk Size", format_args!("{}K", chunk / 1024));
    }
    field("Consistency Policy", format_args!("{}", of.consistency_policy));
    if let Some(name) = &of.name {
        field("Name", format_args!("{name}"));
    }
    field("UUID", format_args!("{}", of.array_uuid));
    let events = match of.version == Version::V0_90.to_string() {
        true => format!("{}.{}", of.events >> 32, of.events & u64::from(u32::MAX)),
        false => of.events.to_string(),
    };
    field("Events", format_args!("{events}"));
    text += "\n    Number   RaidDevice State\n";
    for device in &of.devices {
        let dash = |number: Option<u32>| number.map_or("-".to_owned(), |of| of.to_string());
        let (number, role, state) = (dash(device.number), dash(device.role), &device.state);
        let file = device.file.as_deref().unwrap_or_default();
        let line = format!("    {number:>4}     {role:>5}      {state}   {file}");
        text += line.trim_end();
        text.push('\n');
    }
    for device in &of.devices {
        let file = device.file.as_deref().unwrap_or_default();
        for BadRange { at_sector, length_sectors } in &device.bad_blocks {
            text += &format!("bad: {file}: {length_sectors} sectors from sector {at_sector} on\n");
        }
    }
    for left_out in &of.left_out {
        text += &format!("left out: {}: {}\n", left_out.file, left_out.reason);
    }
    for concession in &of.concessions {
        text += &format!("given up: {concession}\n");
    }
    for work in &of.to_do {
        text += &format!("to do: {work}\n");
    }
    text
}
