//! Backpressure: a peer that does not read stops the sender. The bytes in transit are bounded, and
//! none are lost.

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
use crate::client::{VERSIONS, next, send};
use crate::through_each;

const PIECE: usize = 16 << 10;
/// Bound of the buffers of one direction, from end to end. Most of them are the kernel's, and their
/// size varies (26 MiB over three connections on one machine). Without backpressure a sender would
/// exceed the bound within a second.
const BOUND: u64 = 128 << 20;
/// Bytes beyond those in transit that must pass when the reader continues.
const MORE: u64 = 16 << 20;
/// A sender without progress for this long has stopped.
const STOPPED_AFTER: Duration = Duration::from_millis(300);

/// Bytes sent by an endless sender.
type Sent = Arc<AtomicU64>;

fn endless(sent: &Sent) -> Body {
    let (sent, piece) = (sent.clone(), Bytes::from(vec![b'x'; PIECE]));
    let pieces = stream::repeat_with(move || {
        sent.fetch_add(PIECE as u64, Ordering::Relaxed);
        Ok(Frame::data(piece.clone()))
    });
    StreamBody::new(pieces).boxed_unsync()
}

/// The number of bytes at which the sender stopped.
async fn stopped(sent: &Sent) -> u64 {
    loop {
        let before = sent.load(Ordering::Relaxed);
        tokio::time::sleep(STOPPED_AFTER).await;
        if before > 0 && sent.load(Ordering::Relaxed) == before {
            return before;
        }
    }
}

#[tokio::test]
async fn client_that_does_not_read_stops_the_app() {
    let sent = Sent::default();
    let app = {
        let sent = sent.clone();
        app::serve(move |_| std::future::ready(Response::new(endless(&sent)))).await
    };
    through_each(app, async |proxy| {
        for version in VERSIONS {
            sent.store(0, Ordering::Relaxed);
            let mut response = send(proxy, version, Request::new(app::empty())).await;
            let in_transit = stopped(&sent).await;
            assert!(in_transit < BOUND, "{version:?}: {in_transit} bytes in transit");
            let mut read = 0;
            while read < in_transit + MORE {
                read += next(response.body_mut()).await.unwrap().len() as u64;
            }
            drop(response);
            // The app's sender stops too when the client has disconnected.
            stopped(&sent).await;
        }
    })
    .await;
}

#[tokio::test]
async fn app_that_does_not_read_stops_the_client() {
    let (waiting, uploads) = mpsc::channel(1);
    let uploads = tokio::sync::Mutex::new(uploads);
    let app = app::serve(move |request| {
        let waiting = waiting.clone();
        async move {
            let (sender, body) = app::channel_body();
            waiting.send((request.into_body(), sender)).await.unwrap();
            Response::new(body)
        }
    })
    .await;
    through_each(app, async |proxy| {
        for version in VERSIONS {
            let sent = Sent::default();
            let response = send(proxy, version, Request::post("/").body(endless(&sent)).unwrap()).await;
            let (mut upload, answer) = uploads.lock().await.recv().await.unwrap();
            let in_transit = stopped(&sent).await;
            assert!(in_transit < BOUND, "{version:?}: {in_transit} bytes in transit");
            let mut read = 0;
            while read < in_transit + MORE {
                read += next(&mut upload).await.unwrap().len() as u64;
            }
            drop((response, upload, answer));
        }
    })
    .await;
}
