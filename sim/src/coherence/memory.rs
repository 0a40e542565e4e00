//! All lines and words of a machine, and the requests for them.

use super::line::{Line, Request};
use crate::executor::TaskId;
use crate::machine::Machine;
use raid::platform::{Label, Ordering};
use std::collections::VecDeque;

/// A word's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WordId(pub(crate) u32);

/// Who asked for a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Requester {
    /// A task that holds its core until the line is there.
    Task(TaskId),
    /// The store buffer of the requesting core.
    StoreBuffer,
}

/// What is done to a word.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation {
    Load,
    Store(u64),
    Add(u64),
    FetchAdd(u64),
    FetchOr(u64),
    Swap(u64),
    CompareExchange { current: u64, new: u64 },
}

impl Operation {
    /// Whether the core goes on without waiting for the line.
    fn is_posted(self) -> bool {
        matches!(self, Operation::Store(_) | Operation::Add(_))
    }

    pub(crate) fn is_exclusive(self) -> bool {
        !matches!(self, Operation::Load)
    }
}

/// How an access began.
pub(crate) enum Begun {
    /// It took effect, with this old value; the core is busy for so long.
    Done { old: u64, busy_ns: u64 },
    /// The line was asked for.
    Requested { line: u32 },
    /// The core's store buffer has to drain first; begin again then.
    MustDrain,
}

/// What the memory wants to happen later.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scheduled {
    TaskArrival { task: TaskId, delay_ns: u64 },
    StoreArrival { cpu: u32, delay_ns: u64 },
    LineFree { line: u32, at_ns: u64 },
}

struct WordState {
    value: u64,
    line: u32,
    label: Label,
}

/// A core's stores that are not visible yet, in program order.
#[derive(Default)]
struct StoreBuffer {
    stores: VecDeque<(WordId, Operation)>,
}

/// Stores that a core can have under way before it has to wait.
const STORE_BUFFER_LENGTH: usize = 24;

/// The machine's shared memory.
pub(crate) struct Memory {
    lines: Vec<Line>,
    words: Vec<WordState>,
    store_buffers: Vec<StoreBuffer>,
    /// Collected here and carried out by the executor.
    pub(crate) scheduled: Vec<Scheduled>,
}

impl Memory {
    pub(crate) fn new(cpu_count: u32) -> Self {
        Self {
            lines: Vec::new(),
            words: Vec::new(),
            store_buffers: (0..cpu_count).map(|_| StoreBuffer::default()).collect(),
            scheduled: Vec::new(),
        }
    }

    pub(crate) fn add_line(&mut self) -> u32 {
        self.lines.push(Line::new(self.store_buffers.len() as u32));
        self.lines.len() as u32 - 1
    }

    pub(crate) fn add_word(&mut self, label: Label, line: u32, value: u64) -> WordId {
        self.words.push(WordState { value, line, label });
        WordId(self.words.len() as u32 - 1)
    }

    pub(crate) fn label_of(&self, word: u32) -> Label {
        self.words[word as usize].label
    }

    pub(crate) fn stores_drained(&self, cpu: u32) -> bool {
        self.store_buffers[cpu as usize].stores.is_empty()
    }

    pub(crate) fn line_of(&self, word: WordId) -> u32 {
        self.words[word.0 as usize].line
    }

    pub(crate) fn lines(&self) -> &[Line] {
        &self.lines
    }

    pub(crate) fn labels_by_line(&self) -> impl Iterator<Item = (u32, Label)> {
        self.words.iter().map(|word| (word.line, word.label))
    }

    pub(crate) fn reset_counts(&mut self) {
        for line in &mut self.lines {
            line.counts = Default::default();
        }
    }

    /// Begins an access of a task on `cpu`.
    pub(crate) fn begin(
        &mut self,
        machine: &Machine,
        now_ns: u64,
        (task, cpu): (TaskId, u32),
        word: WordId,
        (operation, order): (Operation, Ordering),
    ) -> Begun {
        let line = self.words[word.0 as usize].line;
        let buffer = &self.store_buffers[cpu as usize];
        if !buffer.stores.is_empty() && self.must_drain(cpu, line, operation, order) {
            return Begun::MustDrain;
        }
        if operation.is_posted() {
            self.post(machine, now_ns, cpu, word, operation);
            return Begun::Done { old: 0, busy_ns: machine.core.store_ns };
        }
        if self.lines[line as usize].hits(cpu, operation.is_exclusive(), now_ns) {
            let busy_ns = if operation.is_exclusive() {
                machine.core.rmw_hit_ns
            } else {
                machine.core.load_hit_ns
            };
            return Begun::Done { old: self.apply(word, operation), busy_ns };
        }
        let exclusive = operation.is_exclusive();
        self.request(machine, now_ns, line, Requester::Task(task), cpu, exclusive);
        Begun::Requested { line }
    }

    fn must_drain(&self, cpu: u32, line: u32, operation: Operation, order: Ordering) -> bool {
        let stores = &self.store_buffers[cpu as usize].stores;
        if operation.is_posted() {
            return stores.len() >= STORE_BUFFER_LENGTH;
        }
        let strong = match operation {
            Operation::Load => order == Ordering::SeqCst,
            _ => !matches!(order, Ordering::Relaxed | Ordering::Acquire),
        };
        strong || stores.iter().any(|(word, _)| self.words[word.0 as usize].line == line)
    }

    /// The task's line is not there yet or was lost: asks for it.
    pub(crate) fn request(
        &mut self,
        machine: &Machine,
        now_ns: u64,
        line: u32,
        requester: Requester,
        cpu: u32,
        exclusive: bool,
    ) {
        let request = Request { requester, cpu, exclusive, since_ns: now_ns };
        let state = &mut self.lines[line as usize];
        if state.queue.is_empty() && state.is_free(now_ns) {
            self.start(machine, now_ns, line, request);
            return;
        }
        state.queue.push_back(request);
        if !state.free_event
            && let Some(at_ns) = state.busy_reading_until_ns()
        {
            state.free_event = true;
            self.scheduled.push(Scheduled::LineFree { line, at_ns });
        }
    }

    fn start(&mut self, machine: &Machine, now_ns: u64, line: u32, request: Request) {
        let state = &mut self.lines[line as usize];
        let started = state.start(request, machine, now_ns);
        let delay_ns = started.transfer_ns;
        self.scheduled.push(match request.requester {
            Requester::Task(task) => Scheduled::TaskArrival { task, delay_ns },
            Requester::StoreBuffer => Scheduled::StoreArrival { cpu: request.cpu, delay_ns },
        });
        if let Some(at_ns) = started.next_at_ns
            && !state.queue.is_empty()
            && !state.free_event
        {
            state.free_event = true;
            self.scheduled.push(Scheduled::LineFree { line, at_ns });
        }
    }

    /// A `LineFree` event: the next request starts, if it still can.
    pub(crate) fn line_free(&mut self, machine: &Machine, now_ns: u64, line: u32) {
        let state = &mut self.lines[line as usize];
        state.free_event = false;
        if !state.is_free(now_ns) {
            return; // The exclusive transfer under way goes on with the queue when it arrives.
        }
        if let Some(request) = state.queue.pop_front() {
            self.start(machine, now_ns, line, request);
        }
    }

    /// An exclusive transfer has arrived at `cpu`. The spinners that lost their copies, nearest
    /// first.
    pub(crate) fn take_exclusive(
        &mut self,
        machine: &Machine,
        line: u32,
        cpu: u32,
    ) -> Vec<(TaskId, u32)> {
        self.lines[line as usize].arrive_exclusive(cpu, machine)
    }

    /// What follows such an arrival: the invalidated spinners ask again, and the next request starts.
    pub(crate) fn hand_on(
        &mut self,
        machine: &Machine,
        now_ns: u64,
        line: u32,
        invalidated: &[(TaskId, u32)],
    ) {
        let state = &mut self.lines[line as usize];
        state.queue.extend(invalidated.iter().map(|(task, cpu)| Request {
            requester: Requester::Task(*task),
            cpu: *cpu,
            exclusive: false,
            since_ns: now_ns,
        }));
        if let Some(request) = state.queue.pop_front() {
            self.start(machine, now_ns, line, request);
        }
    }

    /// Lets a spinning task wait for the invalidation of its copy. The line; none if it has no copy
    /// any more.
    pub(crate) fn watch(
        &mut self,
        now_ns: u64,
        word: WordId,
        task: TaskId,
        cpu: u32,
    ) -> Option<u32> {
        let line = self.words[word.0 as usize].line;
        let state = &mut self.lines[line as usize];
        if !state.hits(cpu, false, now_ns) {
            return None;
        }
        state.watchers.push((task, cpu));
        Some(line)
    }

    /// Carries an operation out on a word whose line is where it must be. The old value.
    pub(crate) fn apply(&mut self, word: WordId, operation: Operation) -> u64 {
        let value = &mut self.words[word.0 as usize].value;
        let old = *value;
        *value = match operation {
            Operation::Load => old,
            Operation::Store(new) | Operation::Swap(new) => new,
            Operation::Add(delta) | Operation::FetchAdd(delta) => old.wrapping_add(delta),
            Operation::FetchOr(bits) => old | bits,
            Operation::CompareExchange { current, new } => {
                if old == current {
                    new
                } else {
                    old
                }
            }
        };
        old
    }

    fn post(
        &mut self,
        machine: &Machine,
        now_ns: u64,
        cpu: u32,
        word: WordId,
        operation: Operation,
    ) {
        let line = self.words[word.0 as usize].line;
        let empty = self.store_buffers[cpu as usize].stores.is_empty();
        if empty && self.lines[line as usize].hits(cpu, true, now_ns) {
            self.apply(word, operation);
            return;
        }
        self.store_buffers[cpu as usize].stores.push_back((word, operation));
        if empty {
            self.request(machine, now_ns, line, Requester::StoreBuffer, cpu, true);
        }
    }

    /// The line of the first store of `cpu` has arrived: that store takes effect, and so do those
    /// behind it that find their lines there.
    pub(crate) fn store_arrived(&mut self, machine: &Machine, now_ns: u64, cpu: u32) {
        let first = self.store_buffers[cpu as usize].stores.pop_front();
        let (word, operation) = first.expect("a store waits for its line");
        self.apply(word, operation);
        self.drain_hits(machine, now_ns, cpu);
    }

    fn drain_hits(&mut self, machine: &Machine, now_ns: u64, cpu: u32) {
        while let Some((word, operation)) = self.store_buffers[cpu as usize].stores.front().copied()
        {
            let line = self.words[word.0 as usize].line;
            if !self.lines[line as usize].hits(cpu, true, now_ns) {
                self.request(machine, now_ns, line, Requester::StoreBuffer, cpu, true);
                return;
            }
            self.apply(word, operation);
            self.store_buffers[cpu as usize].stores.pop_front();
        }
    }

    /// The line of the first store of `cpu`.
    pub(crate) fn first_store_line(&self, cpu: u32) -> u32 {
        let first = self.store_buffers[cpu as usize].stores.front();
        let (word, _) = first.expect("a store waits for its line");
        self.words[word.0 as usize].line
    }
}
