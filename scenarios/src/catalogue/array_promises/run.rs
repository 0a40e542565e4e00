//! Runs one case: a machine that starts, ends and starts again, with drives and an oracle that
//! outlive it.

use super::boot::{Errand, Progress, Run};
use super::case::{Boot, Budget, Case, End};
use super::oracle::Oracle;
use crate::catalogue::{RunReport, Setup};
use raid::platform::{Label, Platform};
use raid::units::{CpuId, Sector};
use raid::{Array, ArrayOptions, CreateError, MemberDevice, MemberOptions, Tuning};
use sim::device::{DrivePlug, Media};
use sim::machine::DriveModel;
use sim::{Options, Outcome, Perturbation, SimPlatform, Simulation};
use std::sync::{Arc, Mutex};

/// Now and then a core is held up, as by an interrupt.
const HOLD_UPS: Perturbation = Perturbation::Delays { steps_of_1000: 20, delay_ns_max: 20_000 };
/// More than any boot needs to recover, to run and to stop.
const BOOT_LIMIT_NS: u64 = 2_000_000_000;
/// The main task's core.
const FIRST_CPU: CpuId = CpuId(0);

/// What outlives each boot.
pub(super) struct Life<'a> {
    setup: &'a Setup<'a>,
    case: &'a Case,
    media: Vec<Media>,
    /// Members that failed: what superblocks would know.
    failed: Vec<bool>,
    /// Drives that are gone for good.
    gone: Vec<bool>,
    /// Whether the last boot ended in a power cut.
    unclean: bool,
    oracle: Option<Arc<Mutex<Oracle>>>,
}

type Opened = (Arc<Array<SimPlatform>>, Vec<DrivePlug>);

impl<'a> Life<'a> {
    pub(super) fn new(setup: &'a Setup<'a>, case: &'a Case) -> Self {
        let media = case.member_sizes.iter().map(|size| Media::zeroed(*size)).collect();
        let none = vec![false; case.member_sizes.len()];
        let (failed, gone) = (none.clone(), none);
        Self { setup, case, media, failed, gone, unclean: false, oracle: None }
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
        let (array, plugs) = match self.open(&mut world) {
            Ok(opened) => opened,
            Err(error) => return RunReport::of(&world, self.refused(&error), None),
        };
        let run = self.run_of(array, plugs);
        let errand = Errand {
            unclean: self.unclean,
            recover: self.failed.contains(&true),
            plan: plan.cloned(),
            writers: (0..self.case.writers).map(|writer| world.random(writer)).collect(),
        };
        let main = run.clone();
        world.platform().spawn_on(FIRST_CPU, Label::new("main"), |cpu| main.main(cpu, errand));
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
        let violation = run.progress().violation.take().or(hangs);
        let report = RunReport::of(&world, violation, trace);
        self.unclean = cut_ns.is_some();
        if self.unclean {
            world.cut_power();
            run.oracle.lock().expect("nobody panicked").cut();
        }
        let progress = run.progress();
        self.failed.clone_from(&progress.failed);
        self.gone.clone_from(&progress.gone);
        report
    }

    fn run_of(&mut self, array: Arc<Array<SimPlatform>>, plugs: Vec<DrivePlug>) -> Run {
        let capacity = array.capacity();
        let oracle = self.oracle.get_or_insert_with(|| Arc::new(Mutex::new(Oracle::new(capacity))));
        let progress = Progress {
            violation: None,
            failed: self.failed.clone(),
            gone: self.gone.clone(),
            stopping: false,
            under_way: 0,
        };
        Run {
            array,
            oracle: oracle.clone(),
            progress: Arc::new(Mutex::new(progress)),
            media: self.media.clone(),
            plugs,
            errors_allowed: self.case.budget == Budget::Beyond,
        }
    }

    /// The array as its superblocks would describe it: failed members come back to be filled anew,
    /// if their drives are still there.
    fn open(&self, world: &mut Simulation) -> Result<Opened, CreateError> {
        let model = &self.setup.machine.drive;
        let block_bytes = self.case.block_bytes;
        let model = DriveModel { logical_block_bytes: block_bytes, ..model.clone() };
        let smallest = *self.case.member_sizes.iter().min().expect("an array has members");
        let mut members = Vec::new();
        let mut plugs = Vec::new();
        for (index, media) in self.media.iter().enumerate() {
            let drive = world.drive(&format!("disk{index}"), &model, media);
            plugs.push(drive.plug());
            if self.gone[index] {
                drive.disconnect();
            }
            let mut device = MemberDevice::whole(Arc::new(drive));
            if self.case.redundant {
                // As a superblock has it, so that the array keeps its size without its smallest
                // member.
                device.data_length = smallest;
            }
            if self.failed[index] {
                device.recovery_point = Some(Sector(0));
            }
            let missing = self.failed[index] && self.gone[index];
            let device = (!missing).then_some(device);
            members.push(MemberOptions { device, replacement: None });
        }
        let Case { level, chunk, .. } = *self.case;
        let options = ArrayOptions { level, chunk, tuning: Tuning::default() };
        Ok((Array::open(&world.platform(), members, options)?, plugs))
    }

    /// Whether it is a violation that an array cannot be opened.
    fn refused(&self, error: &CreateError) -> Option<String> {
        let lost = matches!(error, CreateError::MembersMissing { .. });
        let allowed = lost && self.case.budget == Budget::Beyond;
        (!allowed).then(|| error.to_string())
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
