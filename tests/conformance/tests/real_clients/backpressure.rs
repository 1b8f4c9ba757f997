//! Whoever does not read stops whoever sends: what is on the way is bounded, and nothing of it is
//! lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use http::{Request, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use tokio::sync::mpsc;

use crate::app::{self, Body};
use crate::caller::{VERSIONS, next, send};
use crate::through_both;

const PIECE: usize = 16 << 10;
/// In all buffers of one direction, from end to end. The kernel's are most of it, and as large as
/// it pleases (on one machine 26 MiB over three connections); without a bound it would be exceeded
/// within a second.
const BOUND: u64 = 128 << 20;
/// As much more than what was on the way must pass once the reader reads.
const MORE: u64 = 16 << 20;
/// So long without another byte means that the sender was stopped.
const STILL: Duration = Duration::from_millis(300);

/// Bytes that left a sender without end.
type Sent = Arc<AtomicU64>;

fn endless(sent: &Sent) -> Body {
    let (sent, piece) = (sent.clone(), Bytes::from(vec![b'x'; PIECE]));
    let pieces = stream::repeat_with(move || {
        sent.fetch_add(PIECE as u64, Ordering::Relaxed);
        Ok(Frame::data(piece.clone()))
    });
    StreamBody::new(pieces).boxed_unsync()
}

/// How much was sent when it came to a stop.
async fn stopped(sent: &Sent) -> u64 {
    loop {
        let before = sent.load(Ordering::Relaxed);
        tokio::time::sleep(STILL).await;
        if before > 0 && sent.load(Ordering::Relaxed) == before {
            return before;
        }
    }
}

#[tokio::test]
async fn a_caller_that_does_not_read_stops_the_app() {
    let sent = Sent::default();
    let app = {
        let sent = sent.clone();
        app::serve(move |_| std::future::ready(Response::new(endless(&sent)))).await
    };
    through_both(app, async |proxy| {
        for version in VERSIONS {
            sent.store(0, Ordering::Relaxed);
            let mut response = send(proxy, version, Request::new(app::empty())).await;
            let on_the_way = stopped(&sent).await;
            assert!(on_the_way < BOUND, "{version:?}: {on_the_way} bytes");
            let mut read = 0;
            while read < on_the_way + MORE {
                read += next(response.body_mut()).await.unwrap().len() as u64;
            }
            drop(response);
            // The app, too, hears that nobody listens any more.
            stopped(&sent).await;
        }
    })
    .await;
}

#[tokio::test]
async fn an_app_that_does_not_read_stops_its_caller() {
    let (waiting, uploads) = mpsc::channel(1);
    let uploads = tokio::sync::Mutex::new(uploads);
    let app = app::serve(move |request| {
        let waiting = waiting.clone();
        async move {
            let (sender, body) = app::told();
            waiting.send((request.into_body(), sender)).await.unwrap();
            Response::new(body)
        }
    })
    .await;
    through_both(app, async |proxy| {
        for version in VERSIONS {
            let sent = Sent::default();
            let response = send(proxy, version, Request::post("/").body(endless(&sent)).unwrap()).await;
            let (mut upload, answer) = uploads.lock().await.recv().await.unwrap();
            let on_the_way = stopped(&sent).await;
            assert!(on_the_way < BOUND, "{version:?}: {on_the_way} bytes");
            let mut read = 0;
            while read < on_the_way + MORE {
                read += next(&mut upload).await.unwrap().len() as u64;
            }
            drop((response, upload, answer));
        }
    })
    .await;
}
