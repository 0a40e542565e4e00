//! The whole state of one simulated machine, and what each event does to it.
//!
//! `World` owns the state and polls tasks; while a task is polled nothing of the state is borrowed,
//! so that the task's futures can reach it. Everything that decides is in the parts: `coherence`
//! for lines, `cpu` for cores, `device` for drives.

use crate::coherence::{Access, Begun, Memory, Scheduled};
use crate::contention::{ContentionTable, LineCounts, LockCounts};
use crate::cpu::Cores;
use crate::device::Drives;
use crate::executor::{
    Event, EventQueue, Kind, Step, TaskId, TaskState, Tasks, TieBreaker, WokenList,
};
use crate::machine::Machine;
use crate::trace::TraceHash;
use raid::platform::Topology;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Context;

/// Everything that changes.
pub(crate) struct State {
    pub(crate) now_ns: u64,
    pub(crate) events: u64,
    pub(crate) hash: TraceHash,
    pub(crate) queue: EventQueue,
    pub(crate) ties: TieBreaker,
    pub(crate) tasks: Tasks,
    pub(crate) groups: u32,
    pub(crate) cores: Cores,
    pub(crate) memory: Memory,
    pub(crate) timers: Timers,
    pub(crate) drives: Drives,
    pub(crate) lock_counts: LocksByName,
    /// The task that is being polled.
    pub(crate) current: Option<TaskId>,
}

/// One machine, on one host thread.
pub(crate) struct World {
    pub(crate) machine: Machine,
    pub(crate) topology: Topology,
    pub(crate) seed: u64,
    pub(crate) state: RefCell<State>,
    woken: Arc<WokenList>,
}

impl World {
    pub(crate) fn new(machine: Machine, seed: u64, ties: TieBreaker, start_ns: u64) -> Self {
        let cpu_count = machine.shape.cpu_count();
        let woken = Arc::new(WokenList::default());
        let state = State {
            now_ns: start_ns,
            events: 0,
            hash: TraceHash::new(),
            queue: EventQueue::new(),
            ties,
            tasks: Tasks::new(woken.clone()),
            groups: 0,
            cores: Cores::new(cpu_count),
            memory: Memory::new(&machine),
            timers: Timers::default(),
            drives: Drives::default(),
            lock_counts: LocksByName::default(),
            current: None,
        };
        let topology = Topology::new(machine.shape.node_of_cpu.clone());
        Self { machine, topology, seed, state: RefCell::new(state), woken }
    }

    /// Runs every event up to and including `until_ns`. The time of the next one, if any.
    pub(crate) fn run_until(&self, until_ns: u64) -> Option<u64> {
        loop {
            if self.woken.any() {
                self.wake_from_outside();
            }
            let handled = self.state.borrow_mut().handle_next(&self.machine, until_ns);
            let mut to_poll = match handled {
                Ok(to_poll) => to_poll,
                Err(next) => return next,
            };
            while let Some(task) = to_poll {
                to_poll = self.poll(task);
            }
        }
    }

    /// Polls a task that is current on its core. The next task to poll, if one goes on at once.
    fn poll(&self, id: TaskId) -> Option<TaskId> {
        let (mut future, waker) = {
            let state = &mut *self.state.borrow_mut();
            state.current = Some(id);
            state.tasks[id].begin_poll()
        };
        let poll = future.as_mut().poll(&mut Context::from_waker(&waker));
        if poll.is_ready() {
            drop(future);
            let state = &mut *self.state.borrow_mut();
            state.current = None;
            let cpu = state.tasks[id].cpu;
            state.tasks.remove(id);
            return state.release_core(&self.machine, cpu);
        }
        let state = &mut *self.state.borrow_mut();
        state.current = None;
        let task = &mut state.tasks[id];
        task.end_poll(future, waker);
        if task.step != Step::None {
            return None; // It holds its core until the step is over.
        }
        assert_eq!(task.atomic_depth, 0, "task {} sleeps with a lock held", task.label);
        let cpu = task.cpu;
        if task.yielded || task.wake_pending {
            task.state = TaskState::Runnable;
            state.cores.enqueue(cpu, id);
        } else {
            task.state = TaskState::Blocked;
        }
        state.release_core(&self.machine, cpu)
    }

    #[cold]
    fn wake_from_outside(&self) {
        for (task, generation) in self.woken.take() {
            let state = &mut *self.state.borrow_mut();
            if state.tasks.is_current(task, generation) {
                state.wake(&self.machine, task);
            }
        }
    }

    /// Drops every task, as a power cut does.
    pub(crate) fn drop_tasks(&self) {
        let futures = self.state.borrow_mut().tasks.take_futures();
        drop(futures);
    }
}

impl State {
    /// Carries out the next event if it is not later than `until_ns`. The task to poll, if one goes
    /// on at once; else the time of the next event, if any.
    fn handle_next(
        &mut self,
        machine: &Machine,
        until_ns: u64,
    ) -> Result<Option<TaskId>, Option<u64>> {
        let event = self.queue.pop_until(until_ns)?;
        debug_assert!(event.time_ns >= self.now_ns, "time does not run backwards");
        self.now_ns = event.time_ns;
        self.events += 1;
        self.hash.fold(event.time_ns, (event.kind as u64) << 32 | u64::from(event.index));
        match event.kind {
            Kind::Step => return Ok(self.step_over(machine, TaskId(event.index))),
            Kind::Switched => return Ok(self.switched(event.index)),
            Kind::InterruptHandled => return Ok(self.interrupt_handled(machine, event.index)),
            Kind::StoreArrived => self.store_arrived(event.index),
            Kind::LineFree => {
                self.memory.serve(event.time_ns, event.index);
                self.schedule_memory();
            }
            Kind::Timer => {
                if let Some(task) = self.timers.fire(event.index) {
                    self.wake(machine, task);
                }
            }
            Kind::DriveDone => self.drive_done(machine, event.index),
        }
        Ok(None)
    }

    pub(crate) fn schedule(&mut self, delay_ns: u64, kind: Kind, index: u32) {
        let tie = self.ties.next();
        self.queue.push(Event { time_ns: self.now_ns + delay_ns, tie, kind, index });
    }

    /// The running task.
    ///
    /// # Panics
    /// If none is being polled.
    #[inline]
    pub(crate) fn running(&self) -> TaskId {
        self.current.expect("only a running task does something")
    }

    /// A running task keeps its core busy for `busy_ns`.
    pub(crate) fn begin_work(&mut self, id: TaskId, busy_ns: u64) {
        self.set_step(id, Step::Work);
        let delay_ns = busy_ns + self.ties.delay_ns();
        self.schedule(delay_ns, Kind::Step, id.0);
    }

    /// Marks what a running task's core is busy with.
    pub(crate) fn set_step(&mut self, id: TaskId, step: Step) {
        let task = &mut self.tasks[id];
        assert_eq!(
            task.step,
            Step::None,
            "task {} takes two steps at once: hand over first, wait second",
            task.label
        );
        task.step = step;
    }

    /// A running task begins to do something to a word. It goes on when its step is over: then it
    /// has accessed the word, or its core's store buffer has drained and it begins again.
    pub(crate) fn begin_access(&mut self, machine: &Machine, id: TaskId, access: Access) {
        let Access { word, operation, order } = access;
        let cpu = self.tasks[id].cpu;
        let what = (operation, order);
        match self.memory.begin(machine, self.now_ns, (id, cpu), word, what) {
            Begun::Done { old, busy_ns } => {
                self.tasks[id].accessed = Some(old);
                self.begin_work(id, busy_ns);
                self.schedule_memory();
            }
            Begun::Requested { line, exclusive } => {
                self.tasks[id].access = Some(access);
                self.set_step(id, Step::Line { line, exclusive });
                self.schedule_memory();
            }
            Begun::MustDrain => self.wait_for_drain(id),
        }
    }

    /// The line of a task's access has arrived. The task, if it can take note of the old value at
    /// once; an instruction is not interrupted.
    fn go_on_with_access(
        &mut self,
        machine: &Machine,
        id: TaskId,
        exclusive: bool,
    ) -> Option<TaskId> {
        let task = &mut self.tasks[id];
        let access = task.access.take().expect("a line arrives for an access");
        let changes = access.operation.is_exclusive();
        if changes {
            task.step = Step::None;
        }
        if changes && !exclusive {
            // The load of a load-linked pair brings only a copy, and its store may have come too late.
            self.begin_access(machine, id, access);
            return None;
        }
        let old = self.memory.apply(access.word, access.operation);
        self.tasks[id].accessed = Some(old);
        if changes {
            // The line is there; the core has yet to change the word.
            self.begin_work(id, machine.core.rmw_hit_ns);
            return None;
        }
        Some(id)
    }

    /// Marks a running task as waiting for its core's store buffer.
    pub(crate) fn wait_for_drain(&mut self, id: TaskId) {
        self.set_step(id, Step::Drain);
        let cpu = self.tasks[id].cpu;
        self.cores.set_draining(cpu, id);
    }

    /// Carries out what the memory asked for.
    pub(crate) fn schedule_memory(&mut self) {
        for index in 0..self.memory.scheduled.len() {
            match self.memory.scheduled[index] {
                Scheduled::TaskArrival { task, exclusive, delay_ns } => {
                    if let Step::Line { exclusive: step, .. } = &mut self.tasks[task].step {
                        *step = exclusive; // The store of a load-linked pair may fall back on a load.
                    }
                    self.schedule(delay_ns, Kind::Step, task.0);
                }
                Scheduled::StoreArrival { cpu, delay_ns } => {
                    self.schedule(delay_ns, Kind::StoreArrived, cpu);
                }
                Scheduled::LineFree { line, at_ns } => {
                    self.schedule(at_ns - self.now_ns, Kind::LineFree, line);
                }
            }
        }
        self.memory.scheduled.clear();
    }

    fn step_over(&mut self, machine: &Machine, id: TaskId) -> Option<TaskId> {
        let task = &self.tasks[id];
        let cpu = task.cpu;
        match task.step {
            Step::Line { line, exclusive } => {
                if exclusive {
                    self.line_arrived(line, cpu);
                }
                return self.go_on_with_access(machine, id, exclusive);
            }
            Step::Work => {}
            Step::None | Step::Watch { .. } | Step::Drain => {
                unreachable!("no event ends the step {:?} of task {}", task.step, task.label)
            }
        }
        if task.atomic_depth == 0 && self.interrupt_if_pending(machine, cpu, id) {
            return None;
        }
        Some(id)
    }

    fn line_arrived(&mut self, line: u32, cpu: u32) {
        self.take_line(line, cpu);
        self.memory.serve(self.now_ns, line);
        self.schedule_memory();
    }

    fn store_arrived(&mut self, cpu: u32) {
        let line = self.memory.first_store_line(cpu);
        self.take_line(line, cpu);
        self.memory.store_arrived(self.now_ns, cpu);
        self.memory.serve(self.now_ns, line);
        self.schedule_memory();
        if let Some(id) = self.cores.take_draining(cpu) {
            // It begins its access again, and finds out whether it still has to wait.
            self.tasks[id].step = Step::Work;
            self.schedule(0, Kind::Step, id.0);
        }
    }

    /// A core has a line alone now: the spinners that lost their copies wait for it again.
    fn take_line(&mut self, line: u32, cpu: u32) {
        for (spinner, _) in self.memory.arrive(self.now_ns, line, cpu) {
            self.tasks[*spinner].step = Step::Line { line, exclusive: false };
        }
    }

    /// What every lock and line suffered so far.
    pub(crate) fn contention(&self) -> ContentionTable {
        let mut table = ContentionTable::default();
        let locks = &self.lock_counts;
        for (name, counts) in locks.names.iter().zip(&locks.counts) {
            if counts.acquisitions > 0 {
                table.locks.insert((*name).to_owned(), counts.clone());
            }
        }
        let mut names: BTreeMap<u32, Vec<&'static str>> = BTreeMap::new();
        for (line, label) in self.memory.labels_by_line() {
            let names = names.entry(line).or_default();
            if !names.contains(&label.name()) {
                names.push(label.name());
            }
        }
        for (line, names) in names {
            let counts = &self.memory.lines()[line as usize].counts;
            let mut by_distance = LineCounts {
                from_memory: counts.from_memory,
                wait_ns: counts.wait_ns,
                ..LineCounts::default()
            };
            for (distance, count) in self.memory.distances().iter().zip(&counts.by_class) {
                by_distance.add(*distance, *count);
            }
            if by_distance.transfers() > 0 {
                table.lines.entry(names.join(" + ")).or_default().merge(&by_distance);
            }
        }
        table
    }
}

/// What happened to the locks of each name.
#[derive(Default)]
pub(crate) struct LocksByName {
    names: Vec<&'static str>,
    pub(crate) counts: Vec<LockCounts>,
}

impl LocksByName {
    /// Where the counts of a name are.
    pub(crate) fn place_of(&mut self, name: &'static str) -> usize {
        self.names.iter().position(|known| *known == name).unwrap_or_else(|| {
            self.names.push(name);
            self.counts.push(LockCounts::default());
            self.names.len() - 1
        })
    }

    pub(crate) fn reset(&mut self) {
        self.counts.fill(LockCounts::default());
    }
}

/// Sleeping tasks' alarms.
#[derive(Default)]
pub(crate) struct Timers {
    slots: Vec<TimerState>,
    free: Vec<u32>,
}

#[derive(Clone, Copy)]
enum TimerState {
    Set(TaskId),
    Cancelled,
    Fired,
}

impl Timers {
    pub(crate) fn set(&mut self, task: TaskId) -> u32 {
        if let Some(index) = self.free.pop() {
            self.slots[index as usize] = TimerState::Set(task);
            return index;
        }
        self.slots.push(TimerState::Set(task));
        self.slots.len() as u32 - 1
    }

    fn fire(&mut self, index: u32) -> Option<TaskId> {
        match self.slots[index as usize] {
            TimerState::Set(task) => {
                self.slots[index as usize] = TimerState::Fired;
                Some(task)
            }
            TimerState::Cancelled => {
                self.free.push(index);
                None
            }
            TimerState::Fired => unreachable!("a timer fires once"),
        }
    }

    pub(crate) fn has_fired(&self, index: u32) -> bool {
        matches!(self.slots[index as usize], TimerState::Fired)
    }

    /// The sleeper no longer needs the timer, fired or not.
    pub(crate) fn release(&mut self, index: u32) {
        match self.slots[index as usize] {
            TimerState::Fired => self.free.push(index),
            _ => self.slots[index as usize] = TimerState::Cancelled,
        }
    }
}
