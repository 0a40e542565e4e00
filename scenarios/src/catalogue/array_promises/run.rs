//! Runs one case: a machine that starts, ends and starts again, with drives and an oracle that
//! outlive it.

use super::boot::{Boards, Errand, Progress};
use super::case::{Boot, Budget, Case, End};
use super::oracle::Oracle;
use crate::catalogue::{RunReport, Setup};
use raid::metadata::create::{NewArray, NewConsistency, NewMember};
use raid::metadata::{Time, Uuid, Version};
use raid::platform::{Label, Platform};
use raid::tuning::{StripeLookup, Tuning};
use raid::units::{CpuId, Sector};
use sim::device::{DrivePlug, Media, SimDevice};
use sim::machine::DriveModel;
use sim::{Options, Outcome, Perturbation, Simulation};
use std::sync::{Arc, Mutex};

/// Now and then a core is held up, as by an interrupt.
const HOLD_UPS: Perturbation = Perturbation::Delays { steps_of_1000: 20, delay_ns_max: 20_000 };
/// More than any boot needs to recover, to run and to stop.
const BOOT_LIMIT_NS: u64 = 2_000_000_000;
/// Where the data of a member starts, if its superblock does not lie at the end.
const DATA_OFFSET: Sector = Sector(128);

/// What outlives each boot.
pub(super) struct Life<'a> {
    setup: &'a Setup<'a>,
    case: &'a Case,
    media: Vec<Media>,
    /// Drives that are gone for good.
    gone: Vec<bool>,
    oracle: Arc<Mutex<Option<Oracle>>>,
}

impl<'a> Life<'a> {
    pub(super) fn new(setup: &'a Setup<'a>, case: &'a Case) -> Self {
        let media: Vec<_> = case.device_sizes.iter().map(|size| Media::zeroed(*size)).collect();
        let gone = vec![false; media.len()];
        Self { setup, case, media, gone, oracle: Arc::default() }
    }

    /// All boots, and a last one that only looks; ends with the first that violates a promise.
    pub(super) fn live(mut self) -> RunReport {
        let plans = self.case.boots.iter().map(Some).chain([None]);
        let mut whole: Option<RunReport> = None;
        for (index, plan) in (0..).zip(plans) {
            let report = self.boot(index, plan);
            let ends = report.violation.is_some();
            whole = Some(match whole {
                None => report,
                Some(before) => followed_by(before, report),
            });
            if ends {
                break;
            }
        }
        whole.expect("a case has boots")
    }

    fn boot(&mut self, index: u64, plan: Option<&Boot>) -> RunReport {
        // A case has fewer boots than that.
        let seed = self.setup.seed.wrapping_mul(16).wrapping_add(index);
        let options = Options { seed, perturbation: HOLD_UPS, ..Options::default() };
        let mut world = Simulation::new(self.setup.machine, options);
        let (devices, plugs) = self.drives(&mut world);
        let boards = Boards {
            oracle: self.oracle.clone(),
            progress: Arc::new(Mutex::new(Progress {
                gone: self.gone.clone(),
                ..Progress::default()
            })),
            media: self.media.clone(),
            plugs,
            errors_allowed: self.case.budget == Budget::Beyond,
        };
        let tuning = match self.setup.changes.stripe_lookup {
            None => Tuning::default(),
            Some(lookup) => Tuning {
                stripe_lookup: StripeLookup::Heads(lookup),
                stripe_threads_per_node: 2,
                // Less than a few requests need, so that writers wait for heads.
                stripe_heads_max: 16,
                ..Tuning::default()
            },
        };
        let errand = Errand {
            devices,
            tuning,
            make: (!self.is_made()).then(|| self.new_array()),
            plan: plan.cloned(),
            writers: (0..self.case.writers).map(|writer| world.random(writer)).collect(),
        };
        let main = boards.clone();
        world.platform().spawn_on(CpuId(0), Label::new("main"), |cpu| main.boot(cpu, errand));
        let cut_ns = plan.filter(|plan| plan.end == End::Cut).map(|plan| plan.up_ns);
        let until_ns = cut_ns.unwrap_or(BOOT_LIMIT_NS);
        let (outcome, trace) = self.setup.run(&mut world, |world| world.run_until(until_ns));
        let hangs = match outcome {
            Outcome::Deadlock(deadlock) => Some(deadlock.to_string()),
            Outcome::TimeLimit { .. } if cut_ns.is_none() => {
                Some(format!("still running after {BOOT_LIMIT_NS} ns"))
            }
            Outcome::Done | Outcome::TimeLimit { .. } => None,
        };
        let violation = boards.progress().violation.take().or(hangs);
        let report = RunReport::of(&world, violation, trace);
        if cut_ns.is_some() {
            world.cut_power();
            if let Some(oracle) = self.oracle.lock().expect("nobody panicked").as_mut() {
                oracle.cut();
            }
        }
        self.gone.clone_from(&boards.progress().gone);
        report
    }

    /// Whether the array was made and opened once.
    fn is_made(&self) -> bool {
        self.oracle.lock().expect("nobody panicked").is_some()
    }

    /// The drives, those that are gone without their plugs in.
    fn drives(&self, world: &mut Simulation) -> (Vec<Arc<SimDevice>>, Vec<DrivePlug>) {
        let block_bytes = self.case.block_bytes;
        let model =
            DriveModel { logical_block_bytes: block_bytes, ..self.setup.machine.drive.clone() };
        let drive = |(index, media)| {
            let drive = world.drive(&format!("disk{index}"), &model, media);
            if self.gone[index] {
                drive.disconnect();
            }
            let plug = drive.plug();
            (Arc::new(drive), plug)
        };
        self.media.iter().enumerate().map(drive).unzip()
    }

    fn new_array(&self) -> NewArray {
        let member = |(index, size): (usize, &_)| NewMember {
            name: format!("disk{index}"),
            size: *size,
            uuid: Uuid([index as u8 + 1; 16]),
            write_mostly: false,
        };
        let mut members: Vec<_> = self.case.device_sizes.iter().enumerate().map(member).collect();
        let spares = members.split_off(self.case.geometry.raid_disks as usize);
        let at_end = matches!(self.case.version, Version::V0_90 | Version::V1_0);
        NewArray {
            version: self.case.version,
            geometry: self.case.geometry,
            name: "promises".to_owned(),
            uuid: Uuid([0x55; 16]),
            created: Time::default(),
            members: members.into_iter().map(Some).collect(),
            spares,
            component_size: None,
            data_offset: (!at_end).then_some(DATA_OFFSET),
            consistency: match self.case.bitmap {
                true => NewConsistency::Bitmap { chunk_bytes: Some(4096) },
                false => NewConsistency::Resync,
            },
            // The drives are blank.
            assume_clean: true,
            bad_block_log: self.case.bad_block_log,
        }
    }
}

/// The report of two runs, one after the other.
fn followed_by(before: RunReport, after: RunReport) -> RunReport {
    let trace = before.trace.zip(after.trace).map(|(before, after)| before + &after);
    RunReport {
        virtual_ns: before.virtual_ns + after.virtual_ns,
        events: before.events + after.events,
        trace_hash: before.trace_hash.rotate_left(1) ^ after.trace_hash,
        trace,
        ..after
    }
}
