//! ReadyList: which parts of a connection were woken since they were last polled.
//!
//! The task of the connection polls only these. A part that is woken while the task runs is polled
//! in the same run, without a way through the scheduler.

use std::mem;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

use crate::sync::{AtomicBool, Mutex, Ordering};

/// The woken parts of one connection.
#[derive(Debug)]
pub(super) struct ReadyList(Mutex<State>);

#[derive(Debug)]
struct State {
    frames: bool,
    lifetime: bool,
    /// Each stream once, so there are at most as many as streams.
    streams: Vec<usize>,
    /// The connection's task, while it is not running.
    task: Option<Waker>,
}

/// Parts that are not streams.
#[derive(Clone, Copy, Debug)]
pub(super) struct WokenParts {
    /// Frames can be read or written.
    pub(super) frames: bool,
    /// A timer or the stop of the listener.
    pub(super) lifetime: bool,
}

/// Wakes a stream.
#[derive(Debug)]
pub(super) struct StreamWaker {
    index: usize,
    is_woken: AtomicBool,
    list: Arc<ReadyList>,
}

#[derive(Debug)]
struct FramesWaker(Arc<ReadyList>);

#[derive(Debug)]
struct LifetimeWaker(Arc<ReadyList>);

// === impl ReadyList ===

impl ReadyList {
    /// At first, frames and lifetime are polled.
    pub(super) fn new() -> Arc<Self> {
        let state = State { frames: true, lifetime: true, streams: Vec::new(), task: None };
        Arc::new(Self(Mutex::new(state)))
    }

    pub(super) fn frames_waker(self: &Arc<Self>) -> Waker {
        Arc::new(FramesWaker(self.clone())).into()
    }

    pub(super) fn lifetime_waker(self: &Arc<Self>) -> Waker {
        Arc::new(LifetimeWaker(self.clone())).into()
    }

    /// Takes all woken parts; `streams`, which is empty, receives the streams. If no part was
    /// woken, the next wake-up wakes the task of `cx`.
    pub(super) fn take(&self, streams: &mut Vec<usize>, cx: &Context<'_>) -> Option<WokenParts> {
        let mut state = self.0.lock();
        let woken = WokenParts { frames: state.frames, lifetime: state.lifetime };
        if !woken.frames && !woken.lifetime && state.streams.is_empty() {
            state.task = Some(cx.waker().clone());
            return None;
        }
        (state.frames, state.lifetime) = (false, false);
        mem::swap(&mut state.streams, streams);
        Some(woken)
    }

    /// Whether frames were woken after [`Self::take`].
    pub(super) fn take_frames(&self) -> bool {
        mem::take(&mut self.0.lock().frames)
    }

    fn add(&self, part: impl FnOnce(&mut State)) {
        let task = {
            let mut state = self.0.lock();
            part(&mut state);
            state.task.take()
        };
        if let Some(task) = task {
            task.wake();
        }
    }
}

// === impl StreamWaker ===

impl StreamWaker {
    pub(super) fn new(index: usize, list: Arc<ReadyList>) -> Arc<Self> {
        Arc::new(Self { index, is_woken: AtomicBool::new(false), list })
    }

    /// Called before each poll: later wakes count again.
    pub(super) fn begin_poll(&self) {
        self.is_woken.swap(false, Ordering::AcqRel);
    }
}

impl Wake for StreamWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_woken.swap(true, Ordering::AcqRel) {
            self.list.add(|state| state.streams.push(self.index));
        }
    }
}

// === impl FramesWaker ===

impl Wake for FramesWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.add(|state| state.frames = true);
    }
}

// === impl LifetimeWaker ===

impl Wake for LifetimeWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.add(|state| state.lifetime = true);
    }
}
