//! StreamSet: the futures of a connection's streams.
//!
//! A future has a place that the next one reuses, so most streams need no allocation.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use h2::FlowControl;
use tokio::task::coop::{Unconstrained, unconstrained};
use tokio::time::Instant;

use super::ready_list::{ReadyList, StreamWaker};

/// Free places that are kept while there is no stream.
const KEPT_PLACES: usize = 8;
/// Largest frame of a client, as no other size is announced (RFC 9113, 6.5.2).
const FRAME: usize = 16 << 10;

/// Futures that the task of a connection polls when they are woken.
pub(super) struct StreamSet<F> {
    places: Vec<Place<F>>,
    free: Vec<usize>,
    /// Streams with a body.
    uploads: usize,
    /// End of the last stream; of no meaning while there are streams.
    last_end: Instant,
    ready: Arc<ReadyList>,
}

struct Place<F> {
    /// `None` if the place is free. Unconstrained, because the streams would share the budget of
    /// their task: many streams would exhaust it, and the rest would be polled in vain.
    future: Pin<Box<Option<Unconstrained<F>>>>,
    /// Of a stream whose request has a body: how much of it is unread.
    upload: Option<FlowControl>,
    state: Arc<StreamWaker>,
    waker: Waker,
}

// === impl StreamSet ===

impl<F: Future<Output = ()>> StreamSet<F> {
    pub(super) fn new(ready: Arc<ReadyList>) -> Self {
        Self { places: Vec::new(), free: Vec::new(), uploads: 0, last_end: Instant::now(), ready }
    }

    /// Adds a future and polls it. `upload` is of a request with a body.
    pub(super) fn insert(&mut self, future: F, upload: Option<FlowControl>) {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place::new(self.places.len(), self.ready.clone()));
            self.places.len() - 1
        });
        if let Some(place) = self.places.get_mut(index) {
            place.future.set(Some(unconstrained(future)));
            self.uploads += usize::from(upload.is_some());
            place.upload = upload;
            self.poll(index);
        }
    }

    /// Polls the future at `index`, if there is one: a waker may outlive its future.
    pub(super) fn poll(&mut self, index: usize) {
        if self.places.get_mut(index).is_some_and(Place::poll) {
            self.vacate(index);
        }
    }

    /// Ends the future at `index`.
    fn vacate(&mut self, index: usize) {
        if let Some(place) = self.places.get_mut(index) {
            place.future.set(None);
            self.uploads -= usize::from(place.upload.take().is_some());
            self.free.push(index);
            if self.free.len() == self.places.len() {
                self.last_end = Instant::now();
                self.shrink(KEPT_PLACES);
            }
        }
    }

    /// Polls all futures.
    pub(super) fn poll_all(&mut self) {
        (0..self.places.len()).for_each(|index| self.poll(index));
    }

    /// Streams whose requests have bodies.
    pub(super) fn uploads(&self) -> usize {
        self.uploads
    }

    /// Bytes of all uploads that nothing has read, and that wait to be sent on.
    pub(super) fn unread(&self) -> usize {
        self.places.iter().map(Place::unread).sum()
    }

    /// Drops the stream with the most unread bytes, which resets it. False if there is none.
    pub(super) fn end_largest_upload(&mut self) -> bool {
        let uploads = self.places.iter().map(Place::unread).enumerate();
        let Some((index, _)) = uploads.filter(|(_, unread)| *unread > 0).max_by_key(|(_, unread)| *unread)
        else {
            return false;
        };
        tracing::debug!("memory budget used up, unread upload reset");
        self.vacate(index);
        true
    }

    /// Since when there is no stream; `None` if there is one.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        (self.free.len() == self.places.len()).then_some(self.last_end)
    }

    /// Keeps so many places of an empty set.
    pub(super) fn shrink(&mut self, places: usize) {
        if self.places.len() > places {
            self.places.truncate(places);
            self.places.shrink_to_fit();
            self.free = (0..places).collect();
        }
    }
}

// === impl Place ===

impl<F: Future<Output = ()>> Place<F> {
    fn new(index: usize, ready: Arc<ReadyList>) -> Self {
        let state = StreamWaker::new(index, ready);
        Self { future: Box::pin(None), upload: None, waker: state.clone().into(), state }
    }

    /// True if the future has ended, and the place is free now.
    fn poll(&mut self) -> bool {
        self.state.begin_poll();
        let Some(future) = self.future.as_mut().as_pin_mut() else { return false };
        future.poll(&mut Context::from_waker(&self.waker)).is_ready()
    }

    /// The one that reads an upload holds a frame that is out of the window already.
    fn unread(&self) -> usize {
        match self.upload.as_ref().map_or(0, FlowControl::used_capacity) {
            0 => 0,
            bytes => bytes + FRAME,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use futures::future::BoxFuture;
    use tokio::sync::oneshot;

    use super::*;

    /// Streams that are polled next.
    fn woken(ready: &ReadyList) -> Vec<usize> {
        let mut streams = Vec::new();
        ready.take(&mut streams, &Context::from_waker(Waker::noop()));
        streams
    }

    fn stream() -> (oneshot::Sender<()>, BoxFuture<'static, ()>) {
        let (sender, receiver) = oneshot::channel::<()>();
        (sender, Box::pin(async { drop(receiver.await) }))
    }

    #[tokio::test(start_paused = true)]
    async fn place_of_ended_stream_is_used_again() {
        let ready = ReadyList::new();
        let mut set = StreamSet::new(ready.clone());
        let ((first, first_stream), (_second, second_stream)) = (stream(), stream());
        set.insert(first_stream, None);
        set.insert(second_stream, None);
        assert_eq!((set.places.len(), woken(&ready)), (2, vec![]));
        drop(first);
        assert_eq!(woken(&ready), [0]);
        set.poll(0);
        assert_eq!(set.free, [0]);
        set.insert(Box::pin(pending()), None);
        assert_eq!((set.places.len(), set.idle_since()), (2, None));
        // A late wake-up of the first stream.
        set.poll(0);
        set.poll(7);
        assert!(set.free.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn empty_set_keeps_few_places_and_its_time() {
        let mut set = StreamSet::new(ReadyList::new());
        let (senders, streams): (Vec<_>, Vec<_>) = (0..100).map(|_| stream()).unzip();
        streams.into_iter().for_each(|stream| set.insert(stream, None));
        drop(senders);
        tokio::time::advance(std::time::Duration::from_secs(1)).await;
        (0..100).for_each(|index| set.poll(index));
        assert_eq!((set.places.len(), set.free.len()), (KEPT_PLACES, KEPT_PLACES));
        assert_eq!(set.idle_since(), Some(Instant::now()));
        set.insert(Box::pin(ready(())), None);
        assert_eq!(set.places.len(), KEPT_PLACES);
        set.shrink(0);
        assert!(set.places.is_empty() && set.idle_since().is_some());
    }

    #[tokio::test]
    async fn stream_is_woken_once_until_it_is_polled() {
        let ready = ReadyList::new();
        let waker = Waker::from(StreamWaker::new(3, ready.clone()));
        waker.wake_by_ref();
        waker.wake_by_ref();
        assert_eq!(woken(&ready), [3]);
        waker.wake_by_ref();
        assert_eq!(woken(&ready), [] as [usize; 0]);
    }
}
