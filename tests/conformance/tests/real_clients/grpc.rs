//! gRPC with tonic at both ends: the four call types, metadata, errors, deadlines and cancellation.
//!
//! Messages are plain bytes, so no protobuf compiler is needed.

mod codec;
mod many_streams;
mod service;

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use http::uri::PathAndQuery;
use tokio::sync::mpsc;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request};

use self::codec::BytesCodec;
use self::service::{Echo, HangEvent};
use crate::support::workload_at_zero::WorkloadAtZero;
use crate::{DEADLINE, through_each};

async fn client(proxy: SocketAddr) -> Grpc<Channel> {
    let channel = Endpoint::from_shared(format!("http://{proxy}")).unwrap().connect().await.unwrap();
    let mut client = Grpc::new(channel);
    client.ready().await.unwrap();
    client
}

fn method(name: &'static str) -> PathAndQuery {
    PathAndQuery::from_static(name)
}

fn words(words: &'static [&'static str]) -> impl futures::Stream<Item = Bytes> + Send + 'static {
    stream::iter(words.iter().map(|word| Bytes::from(*word)))
}

#[tokio::test]
async fn unary_call_has_metadata_in_both_directions() {
    let (app, _) = Echo::serve().await;
    through_each(app, async |proxy| {
        let mut request = Request::new(Bytes::from("hello"));
        request.metadata_mut().insert("x-echo", "text".parse().unwrap());
        request
            .metadata_mut()
            .insert_bin("x-echo-bin", tonic::metadata::MetadataValue::from_bytes(b"\0\xff"));
        let response = client(proxy).await.unary(request, method(service::UNARY), BytesCodec).await.unwrap();
        assert_eq!(response.metadata().get("x-echo").unwrap(), "text");
        assert_eq!(response.metadata().get_bin("x-echo-bin").unwrap().to_bytes().unwrap(), &b"\0\xff"[..]);
        assert_eq!(response.into_inner(), "hello");
    })
    .await;
}

#[tokio::test]
async fn error_has_message_details_and_metadata() {
    let (app, _) = Echo::serve().await;
    through_each(app, async |proxy| {
        let request = Request::new(Bytes::from(service::FAIL));
        let error = client(proxy).await.unary(request, method(service::UNARY), BytesCodec).await.unwrap_err();
        assert_eq!(error.code(), Code::FailedPrecondition);
        assert_eq!(error.message(), "nicht möglich: 100 %");
        assert_eq!(error.details(), b"\x01\x02\xff");
        assert_eq!(error.metadata().get("x-why").unwrap(), "because");
        let (request, unknown) = (Request::new(Bytes::new()), method("/conformance.Echo/None"));
        let error = client(proxy).await.unary(request, unknown, BytesCodec).await.unwrap_err();
        assert_eq!(error.code(), Code::Unimplemented);
    })
    .await;
}

#[tokio::test]
async fn server_stream_ends_with_error_after_all_messages() {
    let (app, _) = Echo::serve().await;
    through_each(app, async |proxy| {
        let request = Request::new(Bytes::from("abc"));
        let response =
            client(proxy).await.server_streaming(request, method(service::SPELL), BytesCodec).await;
        let mut messages = response.unwrap().into_inner();
        for letter in ["a", "b", "c"] {
            assert_eq!(messages.message().await.unwrap().unwrap(), letter);
        }
        let error = messages.message().await.unwrap_err();
        assert_eq!((error.code(), error.message()), (Code::DataLoss, "no more letters"));
        assert_eq!(error.metadata().get("x-spelt").unwrap(), "3");
    })
    .await;
}

#[tokio::test]
async fn client_stream_gets_one_response() {
    let (app, _) = Echo::serve().await;
    through_each(app, async |proxy| {
        let request = Request::new(words(&["one", "two", "three"]));
        let response = client(proxy).await.client_streaming(request, method(service::JOIN), BytesCodec).await;
        assert_eq!(response.unwrap().into_inner(), "one two three");
    })
    .await;
}

#[tokio::test]
async fn bidirectional_stream_echoes_each_message_at_once() {
    let (app, _) = Echo::serve().await;
    through_each(app, async |proxy| {
        let (sender, mut messages) = mpsc::channel::<Bytes>(1);
        let request = Request::new(stream::poll_fn(move |cx| messages.poll_recv(cx)));
        let response = client(proxy).await.streaming(request, method(service::CHAT), BytesCodec).await;
        let mut responses = response.unwrap().into_inner();
        for number in 0..50 {
            let word = Bytes::from(format!("word {number}"));
            sender.send(word.clone()).await.unwrap();
            assert_eq!(responses.message().await.unwrap().unwrap(), word);
        }
        drop(sender);
        assert!(responses.message().await.unwrap().is_none());
        assert!(responses.trailers().await.unwrap().is_some());
    })
    .await;
}

#[tokio::test]
async fn bidirectional_stream_starts_before_a_pod_is_ready() {
    let (app, _) = Echo::serve().await;
    converses_from_zero(WorkloadAtZero::start(app).await).await;
    converses_from_zero(WorkloadAtZero::start_without_sidecar(app).await).await;
}

async fn converses_from_zero(path: WorkloadAtZero) {
    let (sender, mut messages) = mpsc::channel::<Bytes>(3);
    let request = Request::new(stream::poll_fn(move |cx| messages.poll_recv(cx)));
    let word = |number| Bytes::from(format!("word {number}"));
    for number in 0..3 {
        sender.send(word(number)).await.unwrap();
    }
    let mut client = client(path.address).await;
    let response =
        tokio::spawn(async move { client.streaming(request, method(service::CHAT), BytesCodec).await });
    path.wait_until_held().await;
    // There is no response yet, and the client may send more messages.
    sender.send(word(3)).await.unwrap();
    assert!(!response.is_finished());

    path.report_pod().await;
    let conversation = async {
        let mut responses = response.await.unwrap().unwrap().into_inner();
        for number in 0..4 {
            assert_eq!(responses.message().await.unwrap().unwrap(), word(number));
        }
        for number in 4..50 {
            sender.send(word(number)).await.unwrap();
            assert_eq!(responses.message().await.unwrap().unwrap(), word(number));
        }
        drop(sender);
        assert!(responses.message().await.unwrap().is_none());
        assert!(responses.trailers().await.unwrap().is_some());
    };
    tokio::time::timeout(DEADLINE, conversation).await.expect("stream ended in time");
}

#[tokio::test]
async fn hundred_concurrent_calls_share_a_connection() {
    let (app, _) = Echo::serve().await;
    through_each(app, async |proxy| {
        let client = client(proxy).await;
        let calls = (0..100).map(async |number| {
            let mut client = client.clone();
            client.ready().await.unwrap();
            let message = Bytes::from(vec![number; 100_000]);
            let response =
                client.unary(Request::new(message.clone()), method(service::UNARY), BytesCodec).await;
            assert_eq!(response.unwrap().into_inner(), message);
        });
        futures::future::join_all(calls).await;
    })
    .await;
}

#[tokio::test]
async fn deadline_ends_the_call_at_both_ends() {
    let (app, events) = Echo::serve().await;
    let events = tokio::sync::Mutex::new(events);
    through_each(app, async |proxy| {
        let mut events = events.lock().await;
        let mut request = Request::new(Bytes::new());
        request.set_timeout(Duration::from_millis(200));
        let error = client(proxy).await.unary(request, method(service::HANG), BytesCodec).await.unwrap_err();
        assert!(matches!(error.code(), Code::DeadlineExceeded | Code::Cancelled), "{error:?}");
        assert_eq!(
            (events.recv().await, events.recv().await),
            (Some(HangEvent::Begun), Some(HangEvent::Ended))
        );
    })
    .await;
}

#[tokio::test]
async fn cancelled_call_ends_at_the_app() {
    let (app, events) = Echo::serve().await;
    let events = tokio::sync::Mutex::new(events);
    through_each(app, async |proxy| {
        let mut events = events.lock().await;
        let mut client = client(proxy).await;
        tokio::select! {
            response = client.unary(Request::new(Bytes::new()), method(service::HANG), BytesCodec) => {
                panic!("{response:?}")
            }
            begun = events.recv() => assert_eq!(begun, Some(HangEvent::Begun)),
        }
        assert_eq!(events.recv().await, Some(HangEvent::Ended));
        // Other calls on the connection continue.
        let request = Request::new(Bytes::from("still here"));
        client.ready().await.unwrap();
        let response = client.unary(request, method(service::UNARY), BytesCodec).await;
        assert_eq!(response.unwrap().into_inner(), "still here");
    })
    .await;
}
