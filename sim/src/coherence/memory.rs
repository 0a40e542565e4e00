//! All lines and words of a machine, and the requests for them.

use super::line::{Line, Next, Request};
use super::transfers::Transfers;
use crate::executor::TaskId;
use crate::machine::{Atomics, Distance, Machine};
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
    SwapBits { mask: u64, value: u64 },
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

/// What a task does to a word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    pub(crate) word: WordId,
    pub(crate) operation: Operation,
    pub(crate) order: Ordering,
}

/// How an access began.
pub(crate) enum Begun {
    /// It took effect, with this old value; the core is busy for so long.
    Done { old: u64, busy_ns: u64 },
    /// The line was asked for.
    Requested { line: u32, exclusive: bool },
    /// The core's store buffer has to drain first; begin again then.
    MustDrain,
}

/// What the memory wants to happen later.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scheduled {
    TaskArrival { task: TaskId, exclusive: bool, delay_ns: u64 },
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
    transfers: Transfers,
    lines: Vec<Line>,
    words: Vec<WordState>,
    store_buffers: Vec<StoreBuffer>,
    /// Those that the last arrival has woken. Kept for its memory.
    spinners: Vec<(TaskId, u32)>,
    /// Collected here and carried out by the executor.
    pub(crate) scheduled: Vec<Scheduled>,
}

impl Memory {
    pub(crate) fn new(machine: &Machine) -> Self {
        let cpu_count = machine.shape.cpu_count();
        Self {
            transfers: Transfers::new(machine),
            lines: Vec::new(),
            words: Vec::new(),
            store_buffers: (0..cpu_count).map(|_| StoreBuffer::default()).collect(),
            spinners: Vec::new(),
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

    /// What the classes of transfers mean.
    pub(crate) fn distances(&self) -> &[Distance] {
        self.transfers.distances()
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
            self.post(now_ns, cpu, word, operation);
            return Begun::Done { old: 0, busy_ns: machine.core.store_ns };
        }
        if self.lines[line as usize].hits(cpu, operation.is_exclusive()) {
            let busy_ns = if operation.is_exclusive() {
                machine.core.rmw_hit_ns
            } else {
                machine.core.load_hit_ns
            };
            return Begun::Done { old: self.apply(word, operation), busy_ns };
        }
        let linked = operation.is_exclusive() && machine.core.atomics == Atomics::LoadLinked;
        let has_copy = linked && self.lines[line as usize].hits(cpu, false);
        if has_copy && self.would_fail(word, operation) {
            let old = self.words[word.0 as usize].value;
            return Begun::Done { old, busy_ns: machine.core.load_hit_ns };
        }
        let exclusive = operation.is_exclusive() && (!linked || has_copy);
        let requester = Requester::Task(task);
        let request = Request { requester, cpu, exclusive, linked, since_ns: now_ns };
        self.request(now_ns, line, request);
        Begun::Requested { line, exclusive }
    }

    fn would_fail(&self, word: WordId, operation: Operation) -> bool {
        match operation {
            Operation::CompareExchange { current, .. } => {
                self.words[word.0 as usize].value != current
            }
            _ => false,
        }
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

    /// Asks for a line.
    pub(crate) fn request(&mut self, now_ns: u64, line: u32, request: Request) {
        self.lines[line as usize].enqueue(request, &self.transfers, now_ns);
        self.serve(now_ns, line);
    }

    /// Starts the requests that have reached the line, and sees to it that the next ones will.
    pub(crate) fn serve(&mut self, now_ns: u64, line: u32) {
        let state = &mut self.lines[line as usize];
        loop {
            let mut request = match state.next(&self.transfers, now_ns) {
                Next::Serve(request) => request,
                Next::LineFree { at_ns } => {
                    self.scheduled.push(Scheduled::LineFree { line, at_ns });
                    return;
                }
                Next::Nothing => return,
            };
            if request.linked && !state.hits(request.cpu, false) {
                request.exclusive = false;
            }
            let exclusive = request.exclusive;
            let delay_ns = state.start(&request, &self.transfers, now_ns);
            self.scheduled.push(match request.requester {
                Requester::Task(task) => Scheduled::TaskArrival { task, exclusive, delay_ns },
                Requester::StoreBuffer => Scheduled::StoreArrival { cpu: request.cpu, delay_ns },
            });
        }
    }

    /// The line has arrived at a core that has it alone now. The spinners that lost their copies, and
    /// their cores; they have asked again.
    pub(crate) fn arrive(&mut self, now_ns: u64, line: u32, cpu: u32) -> &[(TaskId, u32)] {
        let state = &mut self.lines[line as usize];
        state.arrive(cpu, &self.transfers, now_ns, &mut self.spinners);
        &self.spinners
    }

    /// Lets a spinning task wait for the invalidation of its copy. The line; none if it has no copy
    /// any more.
    pub(crate) fn watch(&mut self, word: WordId, task: TaskId, cpu: u32) -> Option<u32> {
        let line = self.words[word.0 as usize].line;
        let state = &mut self.lines[line as usize];
        if !state.hits(cpu, false) {
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
            Operation::SwapBits { mask, value } => old & !mask | value & mask,
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

    fn post(&mut self, now_ns: u64, cpu: u32, word: WordId, operation: Operation) {
        let line = self.words[word.0 as usize].line;
        let empty = self.store_buffers[cpu as usize].stores.is_empty();
        if empty && self.lines[line as usize].hits(cpu, true) {
            self.apply(word, operation);
            return;
        }
        self.store_buffers[cpu as usize].stores.push_back((word, operation));
        if empty {
            self.request(now_ns, line, Request::of_store(cpu, now_ns));
        }
    }

    /// The line of the first store of `cpu` has arrived: that store takes effect, and so do those
    /// behind it that find their lines there.
    pub(crate) fn store_arrived(&mut self, now_ns: u64, cpu: u32) {
        let first = self.store_buffers[cpu as usize].stores.pop_front();
        let (word, operation) = first.expect("a store waits for its line");
        self.apply(word, operation);
        self.drain_hits(now_ns, cpu);
    }

    fn drain_hits(&mut self, now_ns: u64, cpu: u32) {
        while let Some((word, operation)) = self.store_buffers[cpu as usize].stores.front().copied()
        {
            let line = self.words[word.0 as usize].line;
            if !self.lines[line as usize].hits(cpu, true) {
                self.request(now_ns, line, Request::of_store(cpu, now_ns));
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
