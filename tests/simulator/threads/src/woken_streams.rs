//! A task that polls the woken streams of a connection, as `http2/connection.rs` does.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};

use loom::future::block_on;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

use super::ready_list::{ReadyList, StreamWaker};

/// Each of `wakers` threads adds to what a stream has, and wakes it. The task must see all of it.
pub fn task_sees_what_each_waker_added(wakers: u64) {
    let (list, added) = (ReadyList::new(), Arc::new(AtomicU64::new(0)));
    let stream = StreamWaker::new(0, list.clone());
    let threads: Vec<_> = (0..wakers)
        .map(|_| {
            let (waker, added) = (Waker::from(stream.clone()), added.clone());
            thread::spawn(move || {
                added.fetch_add(1, Ordering::Relaxed);
                waker.wake();
            })
        })
        .collect();
    block_on(poll_fn(|cx| {
        let mut streams = Vec::new();
        while list.take(&mut streams, cx).is_some() {
            if streams.pop().is_some() {
                stream.begin_poll();
                if added.load(Ordering::Relaxed) == wakers {
                    return Poll::Ready(());
                }
            }
        }
        Poll::Pending
    }));
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// Frames and lifetime are woken by two threads while the task waits. It must see both.
pub fn task_sees_woken_frames_and_lifetime() {
    let list = ReadyList::new();
    let wakers = [list.frames_waker(), list.lifetime_waker()];
    list.take(&mut Vec::new(), &std::task::Context::from_waker(Waker::noop()));
    let threads = wakers.map(|waker| thread::spawn(move || waker.wake()));
    let (mut frames, mut lifetime) = (false, false);
    block_on(poll_fn(|cx| {
        while let Some(woken) = list.take(&mut Vec::new(), cx) {
            (frames, lifetime) = (frames | woken.frames, lifetime | woken.lifetime);
        }
        if frames && lifetime { Poll::Ready(()) } else { Poll::Pending }
    }));
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}
