//! Cores: run queues, context switches, interrupts, wake-ups.
//!
//! A core runs one task at a time. When its task waits, it goes on with, in this order: completion
//! interrupts, the task that an interrupt held up, the next task of its run queue. Between tasks of
//! one group (a process) switching is free; to another group it costs a context switch.
//!
//! A completion interrupt is taken between two steps of the running task, unless that task is in an
//! atomic stretch. The handler completes the drive's request, and the task that waited for it goes
//! on right there, in the context of the interrupt, until it waits for something else: so the
//! completion side of a request runs ahead of ordinary tasks, as it does in a kernel.

use crate::executor::{Kind, Step, TaskFuture, TaskId, TaskState};
use crate::machine::{Machine, Shape};
use crate::world::State;
use raid::platform::Label;
use std::collections::VecDeque;

/// One core.
#[derive(Default)]
struct Core {
    current: Option<TaskId>,
    /// Switching to `current`: its first poll is still to come.
    switching: bool,
    run_queue: VecDeque<TaskId>,
    /// Completed requests whose interrupts the core has not taken yet.
    interrupts: VecDeque<u32>,
    /// The request whose interrupt is being handled.
    handling: Option<u32>,
    /// Handling interrupts or running what they completed.
    in_interrupt: bool,
    /// The task that an interrupt held up, between two steps.
    held_up: Option<TaskId>,
    /// The group that ran last.
    group: Option<u32>,
    /// The task that waits for the store buffer.
    draining: Option<TaskId>,
}

/// All cores.
pub(crate) struct Cores(Vec<Core>);

impl Cores {
    pub(crate) fn new(cpu_count: u32) -> Self {
        Self((0..cpu_count).map(|_| Core::default()).collect())
    }

    fn at(&mut self, cpu: u32) -> &mut Core {
        &mut self.0[cpu as usize]
    }

    fn is_idle(&self, cpu: u32) -> bool {
        let core = &self.0[cpu as usize];
        core.current.is_none() && !core.in_interrupt && core.run_queue.is_empty()
    }

    /// Where a thread that is bound to no core goes on: where it ran last, if that core is idle and
    /// shares its node with the waker's; else on an idle core of the waker's node, the nearest above;
    /// else where it ran last, if that is idle; else behind the waker. So Linux pulls a woken thread
    /// to the waker's last-level cache and looks for an idle core there (`select_task_rq_fair`).
    pub(crate) fn for_wakeup(&self, shape: &Shape, waker: u32, last: u32) -> u32 {
        let node_of = |cpu: u32| shape.node_of_cpu[cpu as usize];
        let count = shape.cpu_count();
        let around = (0..count).map(|step| (waker + step) % count);
        let near = around.filter(|cpu| node_of(*cpu) == node_of(waker));
        let last_is_near = (node_of(last) == node_of(waker)).then_some(last);
        let mut choices = last_is_near.into_iter().chain(near).chain([last]);
        choices.find(|cpu| self.is_idle(*cpu)).unwrap_or(waker)
    }

    pub(crate) fn enqueue(&mut self, cpu: u32, task: TaskId) {
        self.at(cpu).run_queue.push_back(task);
    }

    /// The task that waits for the core's store buffer, if any; it no longer does.
    pub(crate) fn take_draining(&mut self, cpu: u32) -> Option<TaskId> {
        self.at(cpu).draining.take()
    }

    pub(crate) fn set_draining(&mut self, cpu: u32, task: TaskId) {
        self.at(cpu).draining = Some(task);
    }
}

impl State {
    /// Starts a task. `group` is `None` for a process of its own.
    pub(crate) fn spawn(
        &mut self,
        machine: &Machine,
        future: TaskFuture,
        label: Label,
        group: Option<u32>,
        cpu: u32,
    ) {
        assert!(cpu < machine.shape.cpu_count(), "the machine has no core {cpu}");
        let group = group.unwrap_or_else(|| {
            self.groups += 1;
            self.groups
        });
        let id = self.tasks.insert(future, label, group, cpu);
        self.make_runnable(machine, id);
    }

    /// Wakes a task, if it sleeps; else it will not sleep the next time that it would.
    pub(crate) fn wake(&mut self, machine: &Machine, id: TaskId) {
        if self.tasks[id].state == TaskState::Blocked {
            self.make_runnable(machine, id);
        } else {
            self.tasks[id].wake_pending = true;
        }
    }

    fn make_runnable(&mut self, machine: &Machine, id: TaskId) {
        let cpu = self.tasks[id].cpu;
        self.tasks[id].state = TaskState::Runnable;
        let core = self.cores.at(cpu);
        core.run_queue.push_back(id);
        if core.current.is_none() && !core.in_interrupt {
            self.switch_to_next(cpu, machine.scheduler.wake_latency_ns);
        }
    }

    /// Takes the next task of the run queue; it runs after `delay_ns`.
    fn switch_to_next(&mut self, cpu: u32, delay_ns: u64) {
        let core = self.cores.at(cpu);
        let next = core.run_queue.pop_front().expect("a task is runnable");
        core.current = Some(next);
        core.switching = true;
        self.schedule(delay_ns, Kind::Switched, cpu);
    }

    /// A core has switched to the task that it picked.
    pub(crate) fn switched(&mut self, cpu: u32) -> Option<TaskId> {
        let core = self.cores.at(cpu);
        core.switching = false;
        let id = core.current.expect("a core switches to a task");
        Some(self.run(cpu, id))
    }

    fn run(&mut self, cpu: u32, id: TaskId) -> TaskId {
        self.tasks[id].state = TaskState::Running;
        let group = self.tasks[id].group;
        let core = self.cores.at(cpu);
        core.current = Some(id);
        core.group = Some(group);
        id
    }

    /// The core's task has ended or waits: what the core does next. The task to poll, if one goes on
    /// at once.
    pub(crate) fn release_core(&mut self, machine: &Machine, cpu: u32) -> Option<TaskId> {
        self.cores.at(cpu).current = None;
        if !self.cores.at(cpu).interrupts.is_empty() {
            self.begin_interrupt(machine, cpu);
            return None;
        }
        let core = self.cores.at(cpu);
        core.in_interrupt = false;
        if let Some(held_up) = core.held_up.take() {
            return Some(self.run(cpu, held_up));
        }
        let Some(next) = core.run_queue.front().copied() else {
            core.group = None; // Waking up from idle is a switch, whoever comes.
            return None;
        };
        if core.group == Some(self.tasks[next].group) {
            core.run_queue.pop_front();
            return Some(self.run(cpu, next));
        }
        self.switch_to_next(cpu, machine.scheduler.context_switch_ns);
        None
    }

    /// A drive has completed request `io`, which was submitted on `cpu`.
    pub(crate) fn raise_interrupt(&mut self, machine: &Machine, cpu: u32, io: u32) {
        let core = self.cores.at(cpu);
        core.interrupts.push_back(io);
        if core.current.is_none() && !core.in_interrupt {
            self.begin_interrupt(machine, cpu);
        }
    }

    /// Holds the running task up for the interrupts that wait, if there are any.
    pub(crate) fn interrupt_if_pending(&mut self, machine: &Machine, cpu: u32, id: TaskId) -> bool {
        let core = self.cores.at(cpu);
        if core.interrupts.is_empty() || core.in_interrupt {
            return false;
        }
        core.held_up = Some(id);
        core.current = None;
        self.begin_interrupt(machine, cpu);
        true
    }

    fn begin_interrupt(&mut self, machine: &Machine, cpu: u32) {
        let core = self.cores.at(cpu);
        // Completions that are found while one is handled need no interrupt of their own.
        let entry_ns = if core.in_interrupt { 0 } else { machine.scheduler.interrupt_ns };
        core.in_interrupt = true;
        core.handling = core.interrupts.pop_front();
        let delay_ns = entry_ns + machine.software.driver_complete_ns;
        self.schedule(delay_ns, Kind::InterruptHandled, cpu);
    }

    /// An interrupt's handler is through: the request's task goes on in its context.
    pub(crate) fn interrupt_handled(&mut self, machine: &Machine, cpu: u32) -> Option<TaskId> {
        let io = self.cores.at(cpu).handling.take().expect("an interrupt is for a request");
        match self.drives.complete(io) {
            Some(waiting) if self.tasks[waiting].state == TaskState::Blocked => {
                assert_eq!(
                    self.tasks[waiting].cpu, cpu,
                    "a request is waited for where it was made"
                );
                self.tasks[waiting].state = TaskState::Running;
                self.cores.at(cpu).current = Some(waiting);
                Some(waiting)
            }
            Some(waiting) => {
                self.tasks[waiting].wake_pending = true;
                self.release_core(machine, cpu)
            }
            None => self.release_core(machine, cpu),
        }
    }

    /// The current task lets others of its core run, and stands behind them.
    pub(crate) fn yield_current(&mut self) {
        let id = self.current.expect("only a running task yields");
        let task = &mut self.tasks[id];
        assert_eq!(task.step, Step::None, "a task yields between its steps");
        task.yielded = true;
    }
}

#[cfg(test)]
mod tests {
    use crate::device::{Media, SimDevice};
    use crate::machine::{LatencyQuantiles, Machine, MachineFile};
    use crate::{Options, Outcome, SimCpu, SimPlatform, Simulation};
    use raid::buffer::Buffer;
    use raid::device::{Device, Io};
    use raid::platform::{
        Cpu, Label, LockKind, LockProbe, Ordering, Parker, Place, Platform, Word,
    };
    use raid::units::{CpuId, Sector, Sectors};
    use std::sync::{Arc, Mutex};

    /// Round costs, and a drive that is done 1500 ns after it was asked.
    fn machine() -> Machine {
        let mut machine = MachineFile::preset("desktop-4c").expect("a preset").nominal();
        machine.scheduler.wake_latency_ns = 1000;
        machine.scheduler.context_switch_ns = 500;
        machine.scheduler.interrupt_ns = 300;
        machine.software.driver_submit_ns = 0;
        machine.software.driver_complete_ns = 50;
        machine.drive.read_iops_max = 1_000_000_000;
        machine.drive.read_bytes_per_us = 10_000_000;
        let (minimum_ns, median_ns, p99_ns, maximum_ns) = (1499, 1499, 1499, 1499);
        machine.drive.read_latency = LatencyQuantiles { minimum_ns, median_ns, p99_ns, maximum_ns };
        machine
    }

    /// What tasks note, with the time.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<(&'static str, u64)>>>);

    impl Log {
        fn note(&self, cpu: &SimCpu, what: &'static str) {
            self.0.lock().expect("no panic under this lock").push((what, cpu.now_ns()));
        }
    }

    /// Runs what `start` spawns, to its end, and compares what was noted.
    fn check(start: impl FnOnce(&SimPlatform, SimDevice, Log), expected: &[(&'static str, u64)]) {
        let machine = machine();
        let mut simulation = Simulation::new(&machine, Options::default());
        let media = Media::zeroed(Sectors(64));
        let drive = simulation.drive("drive", &machine.drive, &media);
        let log = Log::default();
        start(&simulation.platform(), drive, log.clone());
        assert_eq!(simulation.run(), Outcome::Done);
        assert_eq!(*log.0.lock().expect("no panic under this lock"), expected);
    }

    /// Spawns a process on core 0 that works for a while.
    fn spawn_worker(platform: &SimPlatform, log: Log, name: &'static str) {
        platform.spawn_on(CpuId(0), Label::new(name), move |cpu| async move {
            log.note(&cpu, name);
            cpu.work(100).await;
        });
    }

    #[test]
    fn an_idle_core_wakes_and_a_busy_one_switches() {
        check(
            |platform, _, log| {
                spawn_worker(platform, log.clone(), "one");
                spawn_worker(platform, log, "other");
            },
            &[("one", 1000), ("other", 1000 + 100 + 500)],
        );
    }

    #[test]
    fn tasks_of_one_process_yield_in_turn_and_for_free() {
        check(
            |platform, _, log| {
                platform.spawn_on(CpuId(0), Label::new("parent"), move |cpu| async move {
                    for name in ["first child", "second child"] {
                        let (child, log) = (cpu.clone(), log.clone());
                        cpu.spawn(Label::new(name), async move { log.note(&child, name) });
                    }
                    cpu.yield_now().await;
                    log.note(&cpu, "parent");
                });
            },
            &[("first child", 1000), ("second child", 1000), ("parent", 1000)],
        );
    }

    /// A read is under way, and done at 2500 ns, while its core works in steps of 1000 ns, of which
    /// `atomic_steps` stand in an atomic stretch.
    fn read_beside_work(atomic_steps: u32, expected: &[(&'static str, u64)]) {
        check(
            |platform, drive, log| {
                platform.spawn_on(CpuId(0), Label::new("worker"), move |cpu| async move {
                    let (reader, reader_log) = (cpu.clone(), log.clone());
                    cpu.spawn(Label::new("reader"), async move {
                        let io = Io::Read { at: Sector(0), into: Buffer::zeroed(4096) };
                        let done = drive.submit(&reader, io).await.await;
                        assert_eq!(done.result, Ok(()));
                        reader_log.note(&reader, "read");
                    });
                    cpu.yield_now().await;
                    for step in 0..3 {
                        if step < atomic_steps {
                            cpu.enter_atomic();
                        }
                        cpu.work(1000).await;
                        log.note(&cpu, "worked");
                        if step < atomic_steps {
                            cpu.leave_atomic();
                        }
                    }
                });
            },
            expected,
        );
    }

    #[test]
    fn an_interrupt_is_taken_between_two_steps() {
        // Not at 2500 but when the step is over; the worker is held up for 300 + 50.
        let expected = [("worked", 2000), ("read", 3350), ("worked", 3350), ("worked", 4350)];
        read_beside_work(0, &expected);
    }

    #[test]
    fn an_atomic_stretch_is_not_interrupted() {
        let expected = [("worked", 2000), ("worked", 3000), ("read", 4350), ("worked", 4350)];
        read_beside_work(2, &expected);
    }

    #[test]
    fn the_end_of_a_request_is_called_back_however_long_its_submitter_works() {
        check(
            |platform, drive, log| {
                platform.spawn_on(CpuId(0), Label::new("worker"), move |cpu| async move {
                    let io = Io::Read { at: Sector(0), into: Buffer::zeroed(4096) };
                    let completion = drive.submit(&cpu, io).await;
                    let (end, end_log) = (cpu.clone(), log.clone());
                    cpu.spawn_waiting(Label::new("end"), async move {
                        completion.await;
                        end_log.note(&end, "read");
                    });
                    for _ in 0..3 {
                        cpu.work(1000).await;
                        log.note(&cpu, "worked");
                    }
                });
            },
            &[("worked", 2000), ("read", 3350), ("worked", 3350), ("worked", 4350)],
        );
    }

    #[test]
    fn an_unbound_thread_goes_on_near_its_waker_where_a_core_is_idle() {
        let machine = MachineFile::preset("sandy-bridge-2s").expect("a preset").nominal();
        let mut simulation = Simulation::new(&machine, Options::default());
        simulation.platform().spawn_on(CpuId(3), Label::new("waker"), |cpu| async move {
            let after = |last| cpu.platform().core_for_wakeup(CpuId(3), CpuId(last)).0;
            assert_eq!(after(1), 1, "it is there already");
            assert_eq!(after(12), 4, "from the other node to the next core that is idle");
            assert_eq!(after(3), 4, "the waker has that core");
        });
        assert_eq!(simulation.run(), Outcome::Done);
    }

    #[test]
    fn a_deadlock_names_who_waits_for_what_and_holds_what() {
        let mut simulation = Simulation::new(&machine(), Options::default());
        let platform = simulation.platform();
        let gate = platform.parker(Label::new("gate"));
        platform.spawn_on(CpuId(1), Label::new("sleeper"), move |cpu| async move {
            gate.park(&cpu).await;
        });
        let word = Arc::new(platform.word(Label::new("flag"), Place::Alone, 0));
        let lock = platform.lock_probe(Label::new("inner lock"), LockKind::Spin);
        platform.spawn_on(CpuId(2), Label::new("spinner"), move |cpu| async move {
            lock.acquiring(&cpu);
            lock.acquired(&cpu, false);
            word.spin_until(&cpu, Ordering::Acquire, |value| value != 0).await;
        });
        let Outcome::Deadlock(deadlock) = simulation.run() else { panic!("nobody opens the gate") };
        let at_ns = deadlock.at_ns;
        assert_eq!(
            deadlock.to_string(),
            format!(
                "deadlock at {at_ns} ns: no event is left, but\n  \
                 sleeper on cpu 1 waits for gate (asleep)\n  \
                 spinner on cpu 2 waits for flag to change (spinning), holding inner lock\n"
            )
        );
    }
}
