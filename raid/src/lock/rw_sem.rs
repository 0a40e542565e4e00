//! A reader-writer semaphore: many readers or one writer, and those who wait sleep.
//!
//! It has the structure of Linux's rwsem of 2016, with the reader spinning that was proposed for it
//! then (Waiman Long, linux-kernel, June to October 2016). One word tells who is inside: `WRITER`, a count of readers, `WAITERS` (the list is not
//! empty) and `HANDOFF` (only the head of the list may come in). The list is first come, first
//! served, under a spin lock; `WAITERS` and `HANDOFF` change under that lock only.
//!
//! - Whoever finds the semaphore free takes it with one access to the word. A reader that counted
//!   itself and finds that it may not come in counts itself out at once, so that it keeps no writer
//!   from taking the semaphore meanwhile.
//! - Spinners queue up behind a ticket lock, one at a time watches the word, and takes the semaphore
//!   past those that sleep. How long it watches is bounded, since nothing here knows whether the
//!   owner runs: after so many looks as the semaphore was given, in which the word did not change,
//!   it goes to sleep.
//! - Whether readers spin at all is fixed, or learned from what spinning has brought so far
//!   (`spin_history.rs`).
//! - A waiting writer stays on the list until it has the semaphore, which it takes itself after it
//!   was woken. Waiting readers are let in, all in a row, by whoever wakes them.
//! - A head of the list that was passed over [`PASSED_OVER_MAX`] times sets `HANDOFF`: from then on
//!   nobody takes the semaphore past it. So none waits forever.
//!
//! Why no wake-up is lost: waiters set `WAITERS` before they look at the word for the last time, and
//! whoever leaves the semaphore free reads `WAITERS` in the same access with which it leaves. One
//! that counted itself as a reader in vain counts itself out in the same way as a reader.

use super::side_by_side;
use super::spin::{SpinKind, SpinLock};
use super::spin_history::SpinHistory;
use crate::platform::{
    Cpu, Label, LockKind, LockProbe, Ordering, Parker, Place, Platform, Word, Work,
};
use std::collections::VecDeque;

const WRITER: u64 = 1;
const WAITERS: u64 = 2;
const HANDOFF: u64 = 4;
const READER: u64 = 1 << 8;

/// The names of the spin locks inside of semaphores in reports, of all semaphores together.
const LIST: &str = "rwsem wait list";
const SPINNERS: &str = "rwsem spinners";

/// A common bound of looks: that of the reader spinning that was proposed for Linux is of this size.
pub const LOOKS_MAX: u32 = 4096;
/// Changes of the word that one spinner sees before it gives up.
const CHANGES_MAX: u32 = 1024;
/// Instructions of one look: the comparison, the loop, and a pause of some nine cycles.
const LOOK_INSTRUCTIONS: u32 = 30;
/// How often the head of the list is passed over.
const PASSED_OVER_MAX: u32 = 8;

/// Whether tasks that want to read spin before they sleep. Writers always do, while a writer is
/// inside; while readers are inside they spin only where readers spin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReaderSpin {
    /// They sleep at once.
    Off,
    /// They spin.
    On,
    /// They spin while spinning has paid so far, and sleep at once where it has not: each spin that
    /// ended with the semaphore taken earns a credit of 1, each that was given up costs 10, of a
    /// credit of 40 at most. With none left, one sleeper in 64 lets the next one try again.
    Adaptive,
}

/// A semaphore that readers share and writers have alone.
pub struct RwSem<P: Platform> {
    label: Label,
    probe: P::LockProbe,
    reader_spin: ReaderSpin,
    looks_max: u32,
    word: P::Word,
    /// Not touched unless readers spin adaptively.
    history: SpinHistory<P>,
    list: SpinLock<P, List<P>>,
    /// Lets one spinner at a time watch the word. Its holder never sleeps.
    spinners: SpinLock<P, ()>,
}

struct List<P: Platform> {
    entries: VecDeque<Entry<P>>,
    next_ticket: u64,
    /// How often its head found the semaphore taken.
    passed_over: u32,
    /// Tasks that were put on it since spinning was last tried again.
    sleeps: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wish {
    Read,
    Write,
}

struct Entry<P: Platform> {
    ticket: u64,
    wish: Wish,
    parker: P::Parker,
}

/// How a spin ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Spun {
    /// With the semaphore taken.
    Entered,
    /// The looks were used up.
    InVain,
    /// It did not begin, or somebody has to go first.
    TurnedAway,
}

/// Whether nobody is inside.
fn is_free(word: u64) -> bool {
    word & WRITER == 0 && word < READER
}

impl<P: Platform> RwSem<P> {
    /// The room that the semaphore takes in a region: the word, its two spin locks, the history.
    pub const BYTES: u32 = 32;

    /// A semaphore with nobody inside. A spinner gives up after `looks_max` looks at a word that did
    /// not change; [`LOOKS_MAX`] is usual.
    ///
    /// # Panics
    /// If `place` has no room for it.
    pub fn new(
        platform: &P,
        label: Label,
        kind: SpinKind,
        place: Place<'_, P>,
        reader_spin: ReaderSpin,
        looks_max: u32,
    ) -> Self {
        let (region, start_bytes) = side_by_side(platform, label, place, Self::BYTES);
        let within = |offset_bytes| Place::Within { region: &region, offset_bytes };
        let list = List { entries: VecDeque::new(), next_ticket: 0, passed_over: 0, sleeps: 0 };
        let (at_list, at_spinners) = (within(start_bytes + 8), within(start_bytes + 16));
        Self {
            label,
            probe: platform.lock_probe(label, LockKind::Semaphore),
            reader_spin,
            looks_max,
            word: platform.word(label, within(start_bytes), 0),
            history: SpinHistory::new(platform, label, within(start_bytes + 24)),
            list: SpinLock::new(platform, Label::new(LIST), kind, at_list, list),
            spinners: SpinLock::new(platform, Label::new(SPINNERS), kind, at_spinners, ()),
        }
    }

    /// Runs `section` while no writer is inside. It may sleep, and may take other semaphores in an
    /// order of the caller's, never this one.
    pub async fn read<R>(&self, cpu: &P::Cpu, section: impl AsyncFnOnce() -> R) -> R {
        self.probe.acquiring(cpu);
        let found = self.word.fetch_add(cpu, READER, Ordering::Acquire).await;
        let contended = found & (WRITER | WAITERS | HANDOFF) != 0;
        if contended {
            self.leave_as_reader(cpu).await;
            self.read_slowly(cpu).await;
        }
        self.probe.acquired(cpu, contended);
        let result = section().await;
        self.probe.released(cpu);
        self.leave_as_reader(cpu).await;
        result
    }

    /// Runs `section` while nobody else is inside. The rules of [`read`](Self::read) apply.
    pub async fn write<R>(&self, cpu: &P::Cpu, section: impl AsyncFnOnce() -> R) -> R {
        self.probe.acquiring(cpu);
        let free = self.word.compare_exchange(cpu, 0, WRITER, Ordering::Acquire).await;
        let contended = free.is_err();
        if contended && !self.spin(cpu, Wish::Write).await {
            self.wait_to_write(cpu).await;
        }
        self.probe.acquired(cpu, contended);
        let result = section().await;
        self.probe.released(cpu);
        let old = self.word.fetch_add(cpu, WRITER.wrapping_neg(), Ordering::Release).await;
        if old & WAITERS != 0 {
            self.wake_head(cpu).await;
        }
        result
    }

    /// For a reader that found the semaphore taken and is not counted.
    async fn read_slowly(&self, cpu: &P::Cpu) {
        if self.readers_spin(cpu).await && self.spin(cpu, Wish::Read).await {
            return;
        }
        let parker = cpu.platform().parker(self.label);
        let enqueue = async |list: &mut List<P>| {
            if !list.entries.is_empty() {
                return Some(self.push(cpu, list, Wish::Read, &parker, 0).await);
            }
            // While this task is counted no writer comes in: if none is inside, it is.
            let found = self.word.fetch_add(cpu, READER, Ordering::Acquire).await;
            if found & WRITER == 0 {
                return None;
            }
            Some(self.push(cpu, list, Wish::Read, &parker, READER.wrapping_neg()).await)
        };
        if let Some(woken) = self.list.with(cpu, enqueue).await {
            unpark_all::<P>(cpu, woken).await;
            // It is unparked once, when it has been let in.
            parker.park(cpu).await;
        }
    }

    async fn leave_as_reader(&self, cpu: &P::Cpu) {
        let old = self.word.fetch_add(cpu, READER.wrapping_neg(), Ordering::Release).await;
        let left = old.wrapping_sub(READER);
        if is_free(left) && left & WAITERS != 0 {
            self.wake_head(cpu).await;
        }
    }

    /// Whether readers spin now.
    async fn readers_spin(&self, cpu: &P::Cpu) -> bool {
        match self.reader_spin {
            ReaderSpin::Off => false,
            ReaderSpin::On => true,
            ReaderSpin::Adaptive => self.history.recommends_spinning(cpu).await,
        }
    }

    /// Watches the word when it is this task's turn. Whether it has the semaphore now.
    async fn spin(&self, cpu: &P::Cpu, wish: Wish) -> bool {
        let watch = async |_: &mut ()| {
            // It may have waited for its turn for long.
            let stake = match self.reader_spin {
                ReaderSpin::Adaptive => self.history.begin_spin(cpu).await,
                ReaderSpin::Off | ReaderSpin::On => None,
            };
            let readers_spin = self.reader_spin == ReaderSpin::On || stake.is_some();
            if wish == Wish::Read && !readers_spin {
                return Spun::TurnedAway;
            }
            let (spun, met_readers) = self.watch(cpu, wish, readers_spin).await;
            if let Some(stake) = stake {
                let tells = wish == Wish::Read || met_readers;
                let succeeded = (tells && spun != Spun::TurnedAway).then(|| spun == Spun::Entered);
                self.history.end_spin(cpu, stake, succeeded).await;
            }
            spun
        };
        self.spinners.with(cpu, watch).await == Spun::Entered
    }

    /// How it ended, and whether there were readers inside meanwhile.
    async fn watch(&self, cpu: &P::Cpu, wish: Wish, readers_spin: bool) -> (Spun, bool) {
        let (mut looks, mut changes, mut met_readers) = (0, 0, false);
        let mut last = self.word.load(cpu, Ordering::Relaxed).await;
        loop {
            let readers_inside = last >= READER;
            met_readers |= readers_inside;
            let must_sleep = wish == Wish::Write && readers_inside && !readers_spin;
            if last & HANDOFF != 0 || must_sleep {
                return (Spun::TurnedAway, met_readers);
            }
            let may_enter = last & WRITER == 0 && (wish == Wish::Read || !readers_inside);
            if may_enter {
                let new = if wish == Wish::Read { last + READER } else { last | WRITER };
                if self.word.compare_exchange(cpu, last, new, Ordering::Acquire).await.is_ok() {
                    return (Spun::Entered, met_readers);
                }
            }
            cpu.spend(Work::Instructions(LOOK_INSTRUCTIONS)).await;
            let word = self.word.load(cpu, Ordering::Relaxed).await;
            (looks, changes) = if word == last { (looks + 1, changes) } else { (0, changes + 1) };
            if looks >= self.looks_max || changes >= CHANGES_MAX {
                return (Spun::InVain, met_readers);
            }
            last = word;
        }
    }

    async fn wait_to_write(&self, cpu: &P::Cpu) {
        let parker = cpu.platform().parker(self.label);
        let enqueue = async |list: &mut List<P>| {
            let ticket = list.next_ticket;
            let woken = self.push(cpu, list, Wish::Write, &parker, 0).await;
            (ticket, woken)
        };
        let (ticket, woken) = self.list.with(cpu, enqueue).await;
        unpark_all::<P>(cpu, woken).await;
        loop {
            let enter = async |list: &mut List<P>| self.enter_as_head(cpu, list, ticket).await;
            if self.list.with(cpu, enter).await {
                return;
            }
            parker.park(cpu).await;
        }
    }

    /// Takes the semaphore for the writer `ticket` if that is the head of the list and nobody is
    /// inside; then it is off the list.
    async fn enter_as_head(&self, cpu: &P::Cpu, list: &mut List<P>, ticket: u64) -> bool {
        if list.entries.front().is_none_or(|head| head.ticket != ticket) {
            return false;
        }
        let left = if list.entries.len() > 1 { WAITERS } else { 0 };
        let mut word = self.word.load(cpu, Ordering::Relaxed).await;
        loop {
            if !is_free(word) {
                list.passed_over += 1;
                if list.passed_over < PASSED_OVER_MAX || word & HANDOFF != 0 {
                    return false;
                }
                word = self.word.fetch_or(cpu, HANDOFF, Ordering::Relaxed).await | HANDOFF;
                if !is_free(word) {
                    return false;
                }
            }
            let new = WRITER | left;
            match self.word.compare_exchange(cpu, word, new, Ordering::Acquire).await {
                Ok(_) => break,
                Err(changed) => word = changed,
            }
        }
        list.entries.pop_front();
        list.passed_over = 0;
        true
    }

    /// Puts a task on the list and adds `delta` to the word. Whom to unpark: if nobody is left
    /// inside, the head of the list.
    async fn push(
        &self,
        cpu: &P::Cpu,
        list: &mut List<P>,
        wish: Wish,
        parker: &P::Parker,
        delta: u64,
    ) -> Vec<P::Parker> {
        let waiters = if list.entries.is_empty() { WAITERS } else { 0 };
        let ticket = list.next_ticket;
        list.next_ticket += 1;
        if self.reader_spin == ReaderSpin::Adaptive {
            self.history.note_sleep(cpu, &mut list.sleeps).await;
        }
        list.entries.push_back(Entry { ticket, wish, parker: parker.clone() });
        let delta = delta.wrapping_add(waiters);
        let old = self.word.fetch_add(cpu, delta, Ordering::AcqRel).await;
        match is_free(old.wrapping_add(delta)) {
            true => self.let_in(cpu, list).await,
            false => Vec::new(),
        }
    }

    async fn wake_head(&self, cpu: &P::Cpu) {
        let woken = self.list.with(cpu, async |list| self.let_in(cpu, list).await).await;
        unpark_all::<P>(cpu, woken).await;
    }

    /// Lets the readers at the head of the list in, if no writer is inside. Whom to unpark: them, or
    /// the writer at the head.
    async fn let_in(&self, cpu: &P::Cpu, list: &mut List<P>) -> Vec<P::Parker> {
        let Some(head) = list.entries.front() else { return Vec::new() };
        if head.wish == Wish::Write {
            return vec![head.parker.clone()];
        }
        let old = self.word.fetch_add(cpu, READER, Ordering::Acquire).await;
        if old & WRITER != 0 {
            // It was taken past them. That writer sees `WAITERS` when it leaves.
            self.word.fetch_add(cpu, READER.wrapping_neg(), Ordering::Relaxed).await;
            list.passed_over += 1;
            if list.passed_over >= PASSED_OVER_MAX {
                self.word.fetch_or(cpu, HANDOFF, Ordering::Relaxed).await;
            }
            return Vec::new();
        }
        let count = list.entries.iter().take_while(|entry| entry.wish == Wish::Read).count();
        let woken = list.entries.drain(..count).map(|entry| entry.parker).collect();
        list.passed_over = 0;
        let gone = if list.entries.is_empty() { WAITERS } else { 0 } | old & HANDOFF;
        let delta = (READER * (count as u64 - 1)).wrapping_sub(gone);
        self.word.fetch_add(cpu, delta, Ordering::Relaxed).await;
        woken
    }
}

async fn unpark_all<P: Platform>(cpu: &P::Cpu, parkers: Vec<P::Parker>) {
    for parker in parkers {
        parker.unpark(cpu).await;
    }
}
