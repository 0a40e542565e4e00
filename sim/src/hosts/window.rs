//! Windows: hosts advance together, none beyond the end of the current window of model time.
//!
//! A host is *running* (its window is not over, or it boots) or *waiting* (it has arrived at the end
//! of the window). The supervisor opens the next window when no host is running. A host that loses
//! power leaves; its task is woken with the others at the next window, and madsim drops it then.

use madsim::Config;
use madsim::plugin::Simulator;
use madsim::rand::GlobalRng;
use madsim::task::NodeId;
use madsim::time::TimeHandle;
use std::collections::BTreeSet;
use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard};
use std::task::{Poll, Waker};

/// The meeting point of the hosts and their supervisor.
pub(super) struct Windows(Mutex<State>);

#[derive(Default)]
struct State {
    /// The end of the current window: everything up to and including this time has happened, once no
    /// host runs.
    end_ns: u64,
    /// How many windows were opened.
    opened: u64,
    /// No more windows will be opened.
    closed: bool,
    running: BTreeSet<NodeId>,
    waiting: Vec<Waker>,
    supervisor: Option<Waker>,
}

impl Simulator for Windows {
    fn new(_: &GlobalRng, _: &TimeHandle, _: &Config) -> Self {
        Self(Mutex::default())
    }

    fn reset_node(&self, node: NodeId) {
        self.lock().leave(node);
    }
}

impl Windows {
    /// A host is about to boot: the next window waits for it.
    pub(super) fn enter(&self, node: NodeId) {
        assert!(self.lock().running.insert(node), "a host boots once at a time");
    }

    /// Model time, as far as all hosts have come.
    pub(super) fn end_ns(&self) -> u64 {
        self.lock().end_ns
    }

    /// A host has come to the end of the window. The end of the next one; `None` if there is none.
    pub(super) async fn arrive(&self, node: NodeId) -> Option<u64> {
        let opened_before = {
            let mut state = self.lock();
            state.leave(node);
            state.opened
        };
        poll_fn(|context| {
            let mut state = self.lock();
            if state.opened > opened_before {
                return Poll::Ready((!state.closed).then_some(state.end_ns));
            }
            state.waiting.push(context.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// Lets the hosts `nodes` advance to `end_ns`, and waits until they have.
    pub(super) async fn advance(&self, nodes: &BTreeSet<NodeId>, end_ns: u64) {
        self.settled().await;
        {
            let mut state = self.lock();
            assert!(end_ns >= state.end_ns, "model time does not run backwards");
            state.end_ns = end_ns;
            state.running.clone_from(nodes);
        }
        self.open();
        self.settled().await;
    }

    /// Waits until no host runs.
    pub(super) async fn settled(&self) {
        poll_fn(|context| {
            let mut state = self.lock();
            if state.running.is_empty() {
                return Poll::Ready(());
            }
            state.supervisor = Some(context.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// Tells the hosts that there are no more windows.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.open();
    }

    fn open(&self) {
        let woken = {
            let mut state = self.lock();
            state.opened += 1;
            std::mem::take(&mut state.waiting)
        };
        // Not under the lock: waking the task of a dead host may drop it.
        woken.into_iter().for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no panic happens under this lock, but for the assertions")
    }
}

impl State {
    fn leave(&mut self, node: NodeId) {
        self.running.remove(&node);
        if self.running.is_empty()
            && let Some(supervisor) = self.supervisor.take()
        {
            supervisor.wake();
        }
    }
}
