//! Long-lived bodies: server-sent events, bidirectional streams, and responses before the end of
//! the request.

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Frame;
use tokio::sync::mpsc;

use crate::app;
use crate::client::{VERSIONS, next, send, take};
use crate::support::workload_at_zero::WorkloadAtZero;
use crate::{pattern, through_each};

const COMMENT: &str = ": waiting for a pod\n\n";

#[tokio::test]
async fn forwards_each_server_sent_event_and_the_disconnect() {
    let (streams, opened) = mpsc::channel(1);
    let opened = tokio::sync::Mutex::new(opened);
    let app = app::serve(move |_| {
        let streams = streams.clone();
        async move {
            let (sender, body) = app::channel_body();
            streams.send(sender).await.unwrap();
            Response::builder().header("content-type", "text/event-stream").body(body).unwrap()
        }
    })
    .await;
    through_each(app, async |proxy| {
        for version in VERSIONS {
            let mut response = send(proxy, version, Request::new(app::empty())).await;
            assert_eq!(response.headers()["content-type"], "text/event-stream");
            let events = opened.lock().await.recv().await.unwrap();
            for number in 0..20 {
                let event = format!("id: {number}\ndata: tick\n\n");
                events.send(Frame::data(event.clone().into())).await.unwrap();
                assert_eq!(take(response.body_mut(), event.len()).await, event.as_bytes(), "{version:?}");
            }
            drop(response);
            events.closed().await;
        }
    })
    .await;
}

/// With a sidecar in the pod and without: the upload goes on behind the head of the response.
#[tokio::test]
async fn held_stream_is_kept_alive_and_its_disconnect_reaches_the_app() {
    let (ends, mut ended) = mpsc::channel(1);
    let app = app::serve(move |request: Request<_>| {
        let ends = ends.clone();
        async move {
            let (events, body) = app::channel_body();
            tokio::spawn(async move {
                let mut upload = request.into_body();
                while let Some(Ok(frame)) = upload.frame().await {
                    events.send(frame).await.unwrap();
                }
                ends.send(()).await.unwrap();
            });
            Response::builder().header("content-type", "text/event-stream").body(body).unwrap()
        }
    })
    .await;
    for version in VERSIONS {
        for path in [WorkloadAtZero::start(app).await, WorkloadAtZero::start_without_sidecar(app).await] {
            let (upload, body) = app::channel_body();
            let request = Request::post("/").header("accept", "text/event-stream").body(body).unwrap();
            let mut response = send(path.address, version, request).await;
            assert_eq!(response.headers()["content-type"], "text/event-stream");
            assert_eq!(next(response.body_mut()).await.unwrap(), COMMENT, "{version:?}");
            path.wait_until_held().await;
            path.report_pod().await;
            for event in ["data: 1\n\n", "data: 2\n\n"] {
                upload.send(Frame::data(event.into())).await.unwrap();
                let mut received = next(response.body_mut()).await.unwrap();
                while received == COMMENT {
                    received = next(response.body_mut()).await.unwrap();
                }
                assert_eq!(received, event, "{version:?}");
            }
            drop((response, upload));
            ended.recv().await.unwrap();
        }
    }
}

#[tokio::test]
async fn bidirectional_stream_ends_with_trailers_in_both_directions() {
    let app = app::serve(async |request| {
        assert_eq!(request.headers()["te"], "trailers");
        Response::builder().header("trailer", "x-end").body(request.into_body().boxed_unsync()).unwrap()
    })
    .await;
    through_each(app, async |proxy| {
        for version in VERSIONS {
            let (sender, body) = app::channel_body();
            let request = Request::post("/").header("te", "trailers").header("trailer", "x-end");
            let mut response = send(proxy, version, request.body(body).unwrap()).await;
            for number in 0..50 {
                let word = format!("word {number}");
                sender.send(Frame::data(word.clone().into())).await.unwrap();
                assert_eq!(take(response.body_mut(), word.len()).await, word.as_bytes(), "{version:?}");
            }
            sender.send(app::trailer("x-end", "really")).await.unwrap();
            drop(sender);
            let rest = response.into_body().collect().await.unwrap();
            assert_eq!(rest.trailers().expect("trailers")["x-end"], "really", "{version:?}");
            assert_eq!(rest.to_bytes().len(), 0);
        }
    })
    .await;
}

#[tokio::test]
async fn app_may_respond_before_the_end_of_the_upload() {
    let app = app::serve(async |request| {
        app::discard(request.into_body());
        Response::builder().status(StatusCode::PAYLOAD_TOO_LARGE).body(app::full("too much")).unwrap()
    })
    .await;
    through_each(app, async |proxy| {
        for version in VERSIONS {
            let (sender, body) = app::channel_body();
            let uploading = tokio::spawn(async move {
                while sender.send(Frame::data(Bytes::from(vec![7; 1000]))).await.is_ok() {}
            });
            let response = send(proxy, version, Request::post("/").body(body).unwrap()).await;
            assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE, "{version:?}");
            assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "too much", "{version:?}");
            uploading.abort();
        }
    })
    .await;
}

#[tokio::test]
async fn disconnect_during_upload_reaches_the_app() {
    let (ends, ended) = mpsc::channel(1);
    let ended = tokio::sync::Mutex::new(ended);
    let app = app::serve(move |request: Request<_>| {
        let ends = ends.clone();
        async move {
            let (sender, body) = app::channel_body();
            tokio::spawn(async move {
                sender.send(Frame::data("go on".into())).await.unwrap();
                let uploaded = request.into_body().collect().await;
                ends.send(uploaded.is_err()).await.unwrap();
                drop(sender);
            });
            Response::new(body)
        }
    })
    .await;
    through_each(app, async |proxy| {
        for version in VERSIONS {
            let (sender, body) = app::channel_body();
            let request = Request::post("/").header("content-length", "1000").body(body).unwrap();
            let mut response = send(proxy, version, request).await;
            assert_eq!(next(response.body_mut()).await.unwrap(), "go on");
            sender.send(Frame::data("only this".into())).await.unwrap();
            drop((response, sender));
            assert_eq!(
                ended.lock().await.recv().await,
                Some(true),
                "{version:?}: the app took a partial upload for complete"
            );
        }
    })
    .await;
}

#[tokio::test]
async fn long_stream_is_echoed_completely() {
    // Many times the windows of HTTP/2.
    const ALL: u64 = 48 << 20;
    let app = app::serve(async |request| Response::new(request.into_body().boxed_unsync())).await;
    through_each(app, async |proxy| {
        for version in VERSIONS {
            let mut response = send(proxy, version, Request::post("/").body(pattern::of(ALL)).unwrap()).await;
            let mut received = 0;
            while let Some(bytes) = next(response.body_mut()).await {
                assert!(pattern::is_part(received, &bytes), "{version:?}: damaged after {received} bytes");
                received += bytes.len() as u64;
            }
            assert_eq!(received, ALL, "{version:?}");
        }
    })
    .await;
}
