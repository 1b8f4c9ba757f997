//! StreamSet: the futures of a connection's streams.
//!
//! A future has a place that the next one reuses, so most streams need no allocation.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Waker};

use tokio::task::coop::unconstrained;
use tokio::time::Instant;

use super::ready_list::{ReadyList, StreamWaker};

/// Free places that are kept while there is no stream.
const KEPT_PLACES: usize = 8;

/// A stream with a response that may wait for its client.
pub(super) trait BufferedBytes {
    /// Bytes of the response that wait.
    fn buffered_bytes(self: Pin<&mut Self>) -> usize;
}

/// Futures that the task of a connection polls when they are woken.
pub(super) struct StreamSet<F> {
    places: Vec<Place<F>>,
    free: Vec<usize>,
    /// Bytes of responses that wait for their client to read.
    buffered: usize,
    /// End of the last stream; of no meaning while there are streams.
    last_end: Instant,
    ready: Arc<ReadyList>,
}

struct Place<F> {
    /// `None` if the place is free.
    future: Pin<Box<Option<F>>>,
    /// The stream, if its request has a body.
    upload: Option<u32>,
    /// Bytes of its response that wait.
    buffered: usize,
    state: Arc<StreamWaker>,
    waker: Waker,
}

// === impl StreamSet ===

impl<F: Future<Output = ()> + BufferedBytes> StreamSet<F> {
    pub(super) fn new(ready: Arc<ReadyList>) -> Self {
        Self { places: Vec::new(), free: Vec::new(), buffered: 0, last_end: Instant::now(), ready }
    }

    /// Adds a future and polls it. `upload` is the stream of a request with a body.
    pub(super) fn insert(&mut self, future: F, upload: Option<u32>) {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place::new(self.places.len(), self.ready.clone()));
            self.places.len() - 1
        });
        if let Some(place) = self.places.get_mut(index) {
            place.future.set(Some(future));
            place.upload = upload;
            self.poll(index);
        }
    }

    /// Polls the future at `index`, if there is one: a waker may outlive its future.
    pub(super) fn poll(&mut self, index: usize) {
        let Some(place) = self.places.get_mut(index) else { return };
        let (ended, before) = (place.poll(), place.buffered);
        place.buffered = place.buffered_bytes();
        self.buffered = self.buffered + place.buffered - before;
        if ended {
            self.vacate(index);
        }
    }

    /// Ends the future at `index`.
    fn vacate(&mut self, index: usize) {
        if let Some(place) = self.places.get_mut(index) {
            place.future.set(None);
            place.upload = None;
            self.buffered -= std::mem::take(&mut place.buffered);
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

    /// Bytes of all responses that wait for their client to read.
    pub(super) fn buffered(&self) -> usize {
        self.buffered
    }

    /// The place of the stream with the most bytes, if any has some: of its response, and of its
    /// upload by `bytes_of`.
    pub(super) fn largest(&self, bytes_of: impl Fn(u32) -> usize) -> Option<usize> {
        let bytes = self.places.iter().map(|place| place.buffered + place.upload.map_or(0, &bytes_of));
        let bytes = bytes.enumerate();
        bytes.filter(|(_, bytes)| *bytes > 0).max_by_key(|(_, bytes)| *bytes).map(|(index, _)| index)
    }

    /// Ends the future at `index` after this last use of it.
    pub(super) fn end(&mut self, index: usize, last_use: impl FnOnce(Pin<&mut F>)) {
        let future = self.places.get_mut(index).and_then(|place| place.future.as_mut().as_pin_mut());
        if let Some(future) = future {
            last_use(future);
            self.vacate(index);
        }
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

impl<F: Future<Output = ()> + BufferedBytes> Place<F> {
    fn new(index: usize, ready: Arc<ReadyList>) -> Self {
        let state = StreamWaker::new(index, ready);
        Self { future: Box::pin(None), upload: None, buffered: 0, waker: state.clone().into(), state }
    }

    fn buffered_bytes(&mut self) -> usize {
        self.future.as_mut().as_pin_mut().map_or(0, F::buffered_bytes)
    }

    /// True if the future has ended, and the place is free now.
    fn poll(&mut self) -> bool {
        self.state.begin_poll();
        let Some(future) = self.future.as_mut().as_pin_mut() else { return false };
        // The streams would share the budget of their task: many would exhaust it, and the rest
        // would be polled in vain.
        pin!(unconstrained(future)).poll(&mut Context::from_waker(&self.waker)).is_ready()
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use futures::future::BoxFuture;
    use tokio::sync::oneshot;

    use super::*;

    impl BufferedBytes for BoxFuture<'static, ()> {
        fn buffered_bytes(self: Pin<&mut Self>) -> usize {
            0
        }
    }

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
