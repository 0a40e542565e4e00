//! `raidbed create`: makes an array that Linux md opens.

use super::{Finished, Verdict, finish};
use crate::arrays::detail::{Detail, render};
use crate::arrays::interrupt::Interrupt;
use crate::arrays::making::{self, Wishes};
use crate::arrays::opening::{OpenArray, Permission, Survey};
use crate::arrays::working;
use crate::cli::CreateArguments;
use crate::quantity::MdSize;
use anyhow::{Result, anyhow, bail, ensure};
use raid::metadata::create::NewConsistency;
use raid::metadata::superblock::Version;
use raid::metadata::{Geometry, Level};
use raid::units::{SECTOR_BYTES, Sector, Sectors};

/// mdadm's chunk where none is given.
const CHUNK_DEFAULT: Sectors = Sectors((512 << 10) / SECTOR_BYTES);
/// The same with the old metadata.
const CHUNK_DEFAULT_0_90: Sectors = Sectors((64 << 10) / SECTOR_BYTES);

pub(super) fn create(arguments: &CreateArguments, json: bool) -> Result<Finished> {
    let interrupt = Interrupt::watch()?;
    let wishes = wishes(arguments)?;
    let mut fresh = making::make(&wishes)?;
    let permission = Permission {
        members: fresh.members.clone(),
        degraded: true,
        force: false,
        raid0_layout: None,
        take_spares: false,
        writable: fresh.made.iter().any(|of| of.superblock.resync_offset().is_some()),
    };
    let open = OpenArray::open(&permission)?;
    // From here on an interruption leaves an array whose resync goes on later.
    fresh.keep();
    let capacity = open.assembled.capacity();
    if permission.writable {
        working::work_and_stop(&open, || working::put_in_order(&open, &interrupt))?;
    }
    drop(open);
    let detail = Detail::of(&Survey::of(&permission)?, capacity);
    finish(json, &detail, Verdict::Held, render)
}

fn wishes(arguments: &CreateArguments) -> Result<Wishes> {
    let version: Version = arguments.metadata.parse().map_err(|error: String| anyhow!(error))?;
    let level = level(&arguments.level, arguments.layout.as_deref())?;
    let chunk = chunk(arguments, level, version)?;
    let sectors = |option: &str, size: Option<MdSize>| {
        size.map(|size| whole_sectors(option, size)).transpose()
    };
    Ok(Wishes {
        members: arguments.members.clone(),
        spares: arguments.spare_devices,
        version,
        geometry: Geometry::new(level, chunk, arguments.raid_devices)?,
        name: arguments.name.clone(),
        homehost: match arguments.homehost.as_deref() {
            Some("any" | "<ignore>" | "") => Some(String::new()),
            other => other.map(str::to_owned),
        },
        uuid: arguments.uuid.as_deref().map(str::parse).transpose()?,
        component_size: sectors("--size", arguments.size)?,
        data_offset: sectors("--data-offset", arguments.data_offset)?.map(|at| Sector(at.0)),
        consistency: consistency(arguments)?,
        assume_clean: arguments.assume_clean,
        create_size: arguments.create_size,
        destroy_data: arguments.destroy_data,
    })
}

/// Level and layout by mdadm's names, or the layout by md's number.
pub(super) fn level(level: &str, layout: Option<&str>) -> Result<Level> {
    let number = layout.and_then(|layout| match layout.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => layout.parse::<u32>().ok(),
    });
    let Some(number) = number else {
        return Level::from_names(level, layout).map_err(|error| anyhow!(error));
    };
    let named = Level::from_names(level, None).map_err(|error| anyhow!(error))?;
    let has_layout = !matches!(named, Level::Linear | Level::Raid1 | Level::Raid4);
    ensure!(has_layout || number == 0, "level {level} has no layout, but '{number}' was given");
    Ok(Level::from_numbers(named.level_number(), number, true)?)
}

fn chunk(arguments: &CreateArguments, level: Level, version: Version) -> Result<Sectors> {
    match (level, arguments.chunk) {
        (Level::Raid1, None) => Ok(Sectors(0)),
        (Level::Raid1, Some(_)) => bail!("level 1 has no chunks: leave --chunk out"),
        (Level::Linear, None) if version != Version::V0_90 => Ok(Sectors(0)),
        (_, Some(chunk)) => whole_sectors("--chunk", chunk),
        (_, None) if version == Version::V0_90 => Ok(CHUNK_DEFAULT_0_90),
        (_, None) => Ok(CHUNK_DEFAULT),
    }
}

fn whole_sectors(option: &str, size: MdSize) -> Result<Sectors> {
    ensure!(
        size.0.is_multiple_of(SECTOR_BYTES),
        "{option} of {} bytes is no multiple of {SECTOR_BYTES} bytes",
        size.0
    );
    Ok(Sectors::from_bytes_rounded_down(size.0))
}

fn consistency(arguments: &CreateArguments) -> Result<NewConsistency> {
    let chunk_bytes = arguments.bitmap_chunk.map(|size| size.0);
    let bitmap = match arguments.bitmap.as_str() {
        "internal" => true,
        "none" => false,
        other => bail!("--bitmap '{other}' is not known: give internal or none"),
    };
    let wished = match arguments.consistency_policy.as_deref() {
        None | Some("resync") if !bitmap => NewConsistency::Resync,
        None | Some("bitmap") => NewConsistency::Bitmap { chunk_bytes },
        Some("ppl") if !bitmap => NewConsistency::PartialParityLog,
        Some(policy @ ("resync" | "ppl")) => {
            bail!("--bitmap internal and --consistency-policy {policy} exclude each other")
        }
        Some("journal") => bail!("an array with a write journal is opened, but not made"),
        Some(other) => {
            bail!("--consistency-policy '{other}' is not known: give resync, bitmap or ppl")
        }
    };
    let takes_chunk = matches!(wished, NewConsistency::Bitmap { .. });
    ensure!(takes_chunk || chunk_bytes.is_none(), "--bitmap-chunk needs --bitmap internal");
    Ok(wished)
}
