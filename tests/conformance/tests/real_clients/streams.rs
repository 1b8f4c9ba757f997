//! Bodies that go on: events as they happen, conversations inside one request, answers before the
//! question has ended.

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Frame;
use tokio::sync::mpsc;

use crate::app;
use crate::caller::{VERSIONS, next, send, take};
use crate::{pattern, through_both};

#[tokio::test]
async fn each_server_sent_event_comes_before_the_next_is_sent_and_who_leaves_is_gone() {
    let (streams, opened) = mpsc::channel(1);
    let opened = tokio::sync::Mutex::new(opened);
    let app = app::serve(move |_| {
        let streams = streams.clone();
        async move {
            let (sender, body) = app::told();
            streams.send(sender).await.unwrap();
            Response::builder().header("content-type", "text/event-stream").body(body).unwrap()
        }
    })
    .await;
    through_both(app, async |proxy| {
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

#[tokio::test]
async fn a_conversation_inside_one_request_ends_with_trailers_both_ways() {
    let app = app::serve(async |request| {
        assert_eq!(request.headers()["te"], "trailers");
        Response::builder().header("trailer", "x-end").body(request.into_body().boxed_unsync()).unwrap()
    })
    .await;
    through_both(app, async |proxy| {
        for version in VERSIONS {
            let (say, body) = app::told();
            let request = Request::post("/").header("te", "trailers").header("trailer", "x-end");
            let mut response = send(proxy, version, request.body(body).unwrap()).await;
            for number in 0..50 {
                let word = format!("word {number}");
                say.send(Frame::data(word.clone().into())).await.unwrap();
                assert_eq!(take(response.body_mut(), word.len()).await, word.as_bytes(), "{version:?}");
            }
            say.send(app::trailer("x-end", "really")).await.unwrap();
            drop(say);
            let rest = response.into_body().collect().await.unwrap();
            assert_eq!(rest.trailers().expect("trailers")["x-end"], "really", "{version:?}");
            assert_eq!(rest.to_bytes().len(), 0);
        }
    })
    .await;
}

#[tokio::test]
async fn an_app_may_answer_before_the_upload_has_ended() {
    let app = app::serve(async |request| {
        app::read_on(request.into_body());
        Response::builder().status(StatusCode::PAYLOAD_TOO_LARGE).body(app::full("too much")).unwrap()
    })
    .await;
    through_both(app, async |proxy| {
        for version in VERSIONS {
            let (say, body) = app::told();
            let uploading = tokio::spawn(async move {
                while say.send(Frame::data(Bytes::from(vec![7; 1000]))).await.is_ok() {}
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
async fn who_leaves_in_the_middle_of_an_upload_is_gone_at_the_app() {
    let (ends, ended) = mpsc::channel(1);
    let ended = tokio::sync::Mutex::new(ended);
    let app = app::serve(move |request: Request<_>| {
        let ends = ends.clone();
        async move {
            let (sender, body) = app::told();
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
    through_both(app, async |proxy| {
        for version in VERSIONS {
            let (say, body) = app::told();
            let request = Request::post("/").header("content-length", "1000").body(body).unwrap();
            let mut response = send(proxy, version, request).await;
            assert_eq!(next(response.body_mut()).await.unwrap(), "go on");
            say.send(Frame::data("only this".into())).await.unwrap();
            drop((response, say));
            assert_eq!(ended.lock().await.recv().await, Some(true), "{version:?}: a part is not the whole");
        }
    })
    .await;
}

#[tokio::test]
async fn a_stream_without_an_end_in_sight_comes_back_whole() {
    const ALL: u64 = 128 << 20;
    let app = app::serve(async |request| Response::new(request.into_body().boxed_unsync())).await;
    through_both(app, async |proxy| {
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
