//! Poller: epoll for the backend and the load generator, level-triggered, for reads only.
//!
//! Plain epoll instead of an async runtime: both ends share the machine's cores with the measured
//! proxy, so they must cost little, and their waits must end on time to the microsecond.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};

/// Most events of one wait.
const BATCH: usize = 256;

/// An epoll instance and the readable sockets of its last wait.
pub(crate) struct Poller {
    epoll: OwnedFd,
    ready: Vec<u64>,
}

// === impl Poller ===

impl Poller {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { epoll: epoll::create(CreateFlags::CLOEXEC)?, ready: Vec::with_capacity(BATCH) })
    }

    /// Watches a socket under this number, until it is closed.
    pub(crate) fn watch(&self, socket: impl AsFd, number: u64) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, socket, EventData::new_u64(number), EventFlags::IN)?)
    }

    /// Watches a listener that other threads watch as well; a new connection wakes one thread.
    pub(crate) fn watch_shared(&self, listener: impl AsFd, number: u64) -> io::Result<()> {
        let flags = EventFlags::IN | EventFlags::EXCLUSIVE;
        Ok(epoll::add(&self.epoll, listener, EventData::new_u64(number), flags)?)
    }

    /// Waits for the next events, which [`Poller::ready`] returns.
    pub(crate) fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.ready.clear();
        let timeout = timeout.map(|timeout| Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(timeout.subsec_nanos()),
        });
        let mut room = [MaybeUninit::<Event>::uninit(); BATCH];
        match epoll::wait(&self.epoll, &mut room, timeout.as_ref()) {
            Ok((events, _)) => self.ready.extend(events.iter().map(|event| event.data.u64())),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// The number of the `nth` readable socket.
    pub(crate) fn ready(&self, nth: usize) -> Option<u64> {
        self.ready.get(nth).copied()
    }
}
