//! An examination as text: the labels, the order and the units are those of `mdadm --examine`, so
//! that people and scripts find their way. What mdadm tells by other options (`--examine-bitmap`,
//! `--examine-badblocks`) follows below.

use super::{BitmapFacts, DeviceRow, Examination, PplFacts, SuperblockFacts, Unused, time_words};
use crate::arrays::sizes::in_two_units;
use raid::metadata::Time;
use raid::metadata::superblock::{Descriptor, MAGIC};
use raid::units::Sectors;
use std::fmt::Write;

/// One file's examination.
pub fn render(examination: &Examination) -> String {
    let mut lines = Lines(format!("{}:\n", examination.file));
    match &examination.superblock {
        Some(superblock) if superblock.devices.is_some() => {
            version_0(&mut lines, examination, superblock);
        }
        Some(superblock) => version_1(&mut lines, examination, superblock),
        None => {}
    }
    if let Some(bitmap) = &examination.bitmap {
        let array_uuid = examination.superblock.as_ref().map_or("", |of| of.array_uuid.as_str());
        render_bitmap(&mut lines, bitmap, array_uuid);
    }
    if let Some(bad_blocks) = examination.bad_blocks.as_ref().filter(|of| !of.ranges.is_empty()) {
        lines.line(format_args!("\nBad-blocks on {}:", examination.file));
        for range in &bad_blocks.ranges {
            let (at, length) = (range.at_sector, range.length_sectors);
            lines.line(format_args!("{at:>20} for {length} sectors"));
        }
    }
    if let Some(PplFacts { generation: Some(generation), entries: Some(entries), .. }) =
        &examination.ppl
    {
        lines.blank();
        lines.field("PPL Header", format_args!("generation {generation}, {entries} entries"));
    }
    if let Some(journal) = &examination.journal {
        let (tail, size) = (journal.tail_sector, journal.size_sectors);
        let (batches, payloads) = (journal.batches, journal.payloads);
        lines.blank();
        lines.field("Journal Log", format_args!("begins at sector {tail} of {size}"));
        lines.field("Journal Holds", format_args!("{batches} batches, {payloads} payloads"));
    }
    for other in &examination.others {
        let state = other.problem.as_deref().unwrap_or("older, does not count");
        let (version, at) = (&other.version, other.at_sector);
        lines.field("Other", format_args!("version {version} at sector {at}: {state}"));
    }
    for problem in &examination.problems {
        lines.field("Problem", format_args!("{problem}"));
    }
    lines.0
}

/// Lines with the labels aligned as mdadm does.
struct Lines(String);

impl Lines {
    fn field(&mut self, label: &str, value: std::fmt::Arguments<'_>) {
        self.line(format_args!("{label:>15} : {value}"));
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.0, "{line}").expect("writing to a string succeeds");
    }

    fn blank(&mut self) {
        self.0.push('\n');
    }

    fn time(&mut self, label: &str, seconds: u64) {
        let words = time_words(Time { seconds, microseconds: 0 });
        self.field(label, format_args!("{words}"));
    }

    fn sectors(&mut self, label: &str, sectors: u64) {
        self.field(label, format_args!("{sectors} sectors"));
    }
}

fn version_1(lines: &mut Lines, examination: &Examination, of: &SuperblockFacts) {
    lines.field("Magic", format_args!("{MAGIC:08x}"));
    lines.field("Version", format_args!("{}", of.version));
    lines.field("Feature Map", format_args!("{:#x}", of.feature_map));
    lines.field("Array UUID", format_args!("{}", of.array_uuid));
    lines.field("Name", format_args!("{}", of.name.as_deref().unwrap_or_default()));
    lines.time("Creation Time", of.created_seconds);
    lines.field("Raid Level", format_args!("{}", of.level));
    lines.field("Raid Devices", format_args!("{}", of.raid_devices));
    lines.blank();
    sizes_1(lines, of);
    places_1(lines, of);
    lines.field("State", format_args!("{}", of.state));
    lines.field("Device UUID", format_args!("{}", of.device_uuid.as_deref().unwrap_or_default()));
    lines.blank();
    reshape(lines, of);
    if let Some(bitmap) = &examination.bitmap {
        let offset = bitmap.at_sector.wrapping_sub(of.super_offset_sectors).cast_signed();
        lines.field("Internal Bitmap", format_args!("{offset} sectors from superblock"));
    }
    if let Some(ppl) = &examination.ppl {
        let (size, offset) = (ppl.size_sectors, ppl.offset_sectors);
        let value = format_args!("{size} sectors at offset {offset} sectors from superblock");
        lines.field("PPL", value);
    }
    if !of.device_flags.is_empty() {
        lines.field("Flags", format_args!("{}", of.device_flags.join(" ")));
    }
    lines.time("Update Time", of.updated_seconds);
    if let Some(log) = &examination.bad_blocks {
        let (entries, offset) = (log.entries_max, log.offset_sectors);
        let present =
            if of.features.contains(&"bad_blocks") { " - bad blocks present." } else { "" };
        let value = format_args!("{entries} entries available at offset {offset} sectors{present}");
        lines.field("Bad Block Log", value);
    }
    checksum_and_events(lines, of);
    layout_and_chunk(lines, of);
    lines.blank();
    // These two stand a column further left than all others, as mdadm has them.
    lines.line(format_args!("   Device Role : {}", role_words(&of.role)));
    let legend = "('A' == active, '.' == missing, 'R' == replacing)";
    lines.line(format_args!("   Array State : {} {legend}", of.array_state));
}

fn sizes_1(lines: &mut Lines, of: &SuperblockFacts) {
    let sized = |sectors: u64| format!("{sectors} sectors{}", in_two_units(Sectors(sectors)));
    lines.field("Avail Dev Size", format_args!("{}", sized(of.data_size_sectors)));
    if let Some(size) = of.array_size_sectors {
        let words = in_two_units(Sectors(size));
        lines.field("Array Size", format_args!("{} KiB{words}", size / 2));
    }
    // RAID 0 uses all of each member and stores no size.
    if of.level_number != 0 && of.component_size_sectors != of.data_size_sectors {
        lines.field("Used Dev Size", format_args!("{}", sized(of.component_size_sectors)));
    }
}

fn places_1(lines: &mut Lines, of: &SuperblockFacts) {
    if of.data_offset_sectors != 0 {
        lines.sectors("Data Offset", of.data_offset_sectors);
    }
    if let Some(offset) = of.new_offset_sectors {
        lines.sectors("New Offset", offset);
    }
    lines.sectors("Super Offset", of.super_offset_sectors);
    if let Some(offset) = of.recovery_offset_sectors {
        lines.sectors("Recovery Offset", offset);
    }
    if let Some(Unused { before_sectors, after_sectors }) = &of.unused {
        let value = format_args!("before={before_sectors} sectors, after={after_sectors} sectors");
        lines.field("Unused Space", value);
    }
}

fn reshape(lines: &mut Lines, of: &SuperblockFacts) {
    let Some(reshape) = &of.reshape else { return };
    let position = reshape.position_sectors;
    let words = in_two_units(Sectors(position));
    lines.field("Reshape pos'n", format_args!("{}{words}", position / 2));
    if reshape.delta_devices != 0 {
        let delta = reshape.delta_devices;
        let (before, after) = (i64::from(of.raid_devices) - i64::from(delta), of.raid_devices);
        // A shrinking one is told by what it comes from, as `raid_disks` counts what it leads to.
        lines.field("Delta Devices", format_args!("{delta} ({before}->{after})"));
    }
    if let Some(level) = &reshape.new_level {
        lines.field("New Level", format_args!("{level}"));
    }
    if let Some(layout) = &reshape.new_layout {
        lines.field("New Layout", format_args!("{layout}"));
    }
    if let Some(chunk) = reshape.new_chunk_bytes {
        lines.field("New Chunksize", format_args!("{}K", chunk / 1024));
    }
    lines.blank();
}

fn checksum_and_events(lines: &mut Lines, of: &SuperblockFacts) {
    let verdict = match of.checksum_expected {
        None => "correct".to_owned(),
        Some(expected) => format!("expected {expected:x}"),
    };
    lines.field("Checksum", format_args!("{:x} - {verdict}", of.checksum));
    lines.field("Events", format_args!("{}", of.events));
    lines.blank();
}

fn layout_and_chunk(lines: &mut Lines, of: &SuperblockFacts) {
    let states_layout = of.level_number != 0 || of.features.contains(&"raid0_layout");
    if let Some(layout) = of.layout.as_ref().filter(|_| states_layout) {
        lines.field("Layout", format_args!("{layout}"));
    }
    match of.level_number {
        -1 => lines.field("Rounding", format_args!("{}K", of.chunk_bytes / 1024)),
        1 => {}
        _ => lines.field("Chunk Size", format_args!("{}K", of.chunk_bytes / 1024)),
    }
}

fn role_words(role: &str) -> String {
    match role.split_once(' ') {
        Some(("active", slot)) => format!("Active device {slot}"),
        Some(("replacement", slot)) => format!("Replacement device {slot}"),
        _ if role == "journal" => "Journal".to_owned(),
        _ => role.to_owned(),
    }
}

fn version_0(lines: &mut Lines, examination: &Examination, of: &SuperblockFacts) {
    let table = of.devices.as_ref().expect("version 0.90 has a table");
    let kib = |sectors: u64| format!("{}{}", sectors / 2, in_two_units(Sectors(sectors)));
    lines.field("Magic", format_args!("{MAGIC:08x}"));
    let minor = if of.reshape.is_some() { "91" } else { "90" };
    lines.field("Version", format_args!("0.{minor}.00"));
    lines.field("UUID", format_args!("{}", of.array_uuid));
    lines.time("Creation Time", of.created_seconds);
    lines.field("Raid Level", format_args!("{}", of.level));
    lines.field("Used Dev Size", format_args!("{}", kib(of.component_size_sectors)));
    if let Some(size) = of.array_size_sectors {
        lines.field("Array Size", format_args!("{}", kib(size)));
    }
    lines.field("Raid Devices", format_args!("{}", of.raid_devices));
    lines.field("Total Devices", format_args!("{}", table.total));
    lines.field("Preferred Minor", format_args!("{}", table.preferred_minor));
    lines.blank();
    reshape(lines, of);
    lines.time("Update Time", of.updated_seconds);
    lines.field("State", format_args!("{}", of.state));
    if examination.bitmap.is_some() {
        lines.field("Internal Bitmap", format_args!("present"));
    }
    lines.field("Active Devices", format_args!("{}", table.active));
    lines.field("Working Devices", format_args!("{}", table.working));
    lines.field("Failed Devices", format_args!("{}", table.failed));
    lines.field("Spare Devices", format_args!("{}", table.spare));
    checksum_and_events(lines, of);
    layout_and_chunk(lines, of);
    lines.blank();
    lines.line(format_args!("      Number   Major   Minor   RaidDevice State"));
    row(lines, "this", &table.this);
    lines.blank();
    for (index, of) in table.rows.iter().enumerate() {
        row(lines, &format!("{index:4}"), of);
    }
}

fn row(lines: &mut Lines, first: &str, of: &DeviceRow) {
    let bits = [
        (Descriptor::WRITE_MOSTLY, " write-mostly"),
        (Descriptor::FAULTY, " faulty"),
        (Descriptor::ACTIVE, " active"),
        (Descriptor::SYNC, " sync"),
        (Descriptor::REMOVED, " removed"),
    ];
    let mut state: String =
        bits.into_iter().filter(|(bit, _)| of.state & bit != 0).map(|(_, word)| word).collect();
    if of.state & (Descriptor::FAULTY | Descriptor::ACTIVE | Descriptor::REMOVED) == 0 {
        state += " spare";
    }
    let DeviceRow { number, major, minor, raid_device, .. } = of;
    let numbers = format!("{number:5}   {major:5}    {minor:5}    {raid_device:5}     ");
    lines.line(format_args!("{first} {numbers}{state}"));
}

/// As `mdadm --examine-bitmap`.
fn render_bitmap(lines: &mut Lines, of: &BitmapFacts, array_uuid: &str) {
    lines.blank();
    let mut field = |label: &str, value: std::fmt::Arguments<'_>| {
        lines.line(format_args!("{label:>16} : {value}"));
    };
    field("Bitmap Version", format_args!("{}", of.version));
    field("UUID", format_args!("{array_uuid}"));
    field("Events", format_args!("{}", of.events));
    field("Events Cleared", format_args!("{}", of.events_cleared));
    let state = match of.state {
        0 => "OK".to_owned(),
        bits => format!("{bits:#x}"),
    };
    field("State", format_args!("{state}"));
    let chunk = u64::from(of.chunk_bytes);
    let chunk = match chunk {
        of if of >= 1 << 20 => format!("{} MB", of >> 20),
        of if of >= 1 << 10 => format!("{} KB", of >> 10),
        of => format!("{of} B"),
    };
    field("Chunksize", format_args!("{chunk}"));
    field("Daemon", format_args!("{}s flush period", of.daemon_sleep_seconds));
    let mode = match of.write_behind {
        0 => "Normal".to_owned(),
        most => format!("Allow write behind, max {most}"),
    };
    field("Write Mode", format_args!("{mode}"));
    let sync_size = of.sync_size_sectors;
    let words = in_two_units(Sectors(sync_size));
    field("Sync Size", format_args!("{}{words}", sync_size / 2));
    let percent = of.dirty_bits as f64 * 100.0 / of.bits.max(1) as f64;
    let (bits, dirty) = (of.bits, of.dirty_bits);
    field("Bitmap", format_args!("{bits} bits (chunks), {dirty} dirty ({percent:.1}%)"));
}
