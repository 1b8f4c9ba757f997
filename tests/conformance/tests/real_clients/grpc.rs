//! gRPC, by tonic at both ends: all four kinds of call, with metadata, errors, deadlines and
//! cancellation.
//!
//! Messages are plain bytes, so that no compiler of protocol buffers is needed.

mod codec;
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
use self::service::{Echo, Hung};
use crate::support::asleep::Asleep;
use crate::{DEADLINE, through_both};

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
async fn a_unary_call_carries_metadata_both_ways() {
    let (app, _) = Echo::serve().await;
    through_both(app, async |proxy| {
        let mut request = Request::new(Bytes::from("hello"));
        request.metadata_mut().insert("x-ask", "text".parse().unwrap());
        request.metadata_mut().insert_bin("x-ask-bin", tonic::metadata::MetadataValue::from_bytes(b"\0\xff"));
        let answer = client(proxy).await.unary(request, method(service::UNARY), BytesCodec).await.unwrap();
        assert_eq!(answer.metadata().get("x-ask").unwrap(), "text");
        assert_eq!(answer.metadata().get_bin("x-ask-bin").unwrap().to_bytes().unwrap(), &b"\0\xff"[..]);
        assert_eq!(answer.into_inner(), "hello");
    })
    .await;
}

#[tokio::test]
async fn an_error_comes_with_its_message_details_and_metadata() {
    let (app, _) = Echo::serve().await;
    through_both(app, async |proxy| {
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
async fn a_stream_of_answers_may_end_in_an_error_after_all_of_them() {
    let (app, _) = Echo::serve().await;
    through_both(app, async |proxy| {
        let request = Request::new(Bytes::from("abc"));
        let answer = client(proxy).await.server_streaming(request, method(service::SPELL), BytesCodec).await;
        let mut letters = answer.unwrap().into_inner();
        for letter in ["a", "b", "c"] {
            assert_eq!(letters.message().await.unwrap().unwrap(), letter);
        }
        let error = letters.message().await.unwrap_err();
        assert_eq!((error.code(), error.message()), (Code::DataLoss, "no more letters"));
        assert_eq!(error.metadata().get("x-spelt").unwrap(), "3");
    })
    .await;
}

#[tokio::test]
async fn a_stream_of_requests_gets_one_answer() {
    let (app, _) = Echo::serve().await;
    through_both(app, async |proxy| {
        let request = Request::new(words(&["one", "two", "three"]));
        let answer = client(proxy).await.client_streaming(request, method(service::JOIN), BytesCodec).await;
        assert_eq!(answer.unwrap().into_inner(), "one two three");
    })
    .await;
}

#[tokio::test]
async fn a_conversation_goes_word_by_word() {
    let (app, _) = Echo::serve().await;
    through_both(app, async |proxy| {
        let (say, mut said) = mpsc::channel::<Bytes>(1);
        let request = Request::new(stream::poll_fn(move |cx| said.poll_recv(cx)));
        let answer = client(proxy).await.streaming(request, method(service::CHAT), BytesCodec).await;
        let mut answers = answer.unwrap().into_inner();
        for number in 0..50 {
            let word = Bytes::from(format!("word {number}"));
            say.send(word.clone()).await.unwrap();
            assert_eq!(answers.message().await.unwrap().unwrap(), word);
        }
        drop(say);
        assert!(answers.message().await.unwrap().is_none());
        assert!(answers.trailers().await.unwrap().is_some());
    })
    .await;
}

#[tokio::test]
async fn a_conversation_may_begin_before_there_is_a_pod() {
    let (app, _) = Echo::serve().await;
    let path = Asleep::in_front_of(app).await;
    let (say, mut said) = mpsc::channel::<Bytes>(3);
    let request = Request::new(stream::poll_fn(move |cx| said.poll_recv(cx)));
    let word = |number| Bytes::from(format!("word {number}"));
    for number in 0..3 {
        say.send(word(number)).await.unwrap();
    }
    let mut client = client(path.address).await;
    let answer =
        tokio::spawn(async move { client.streaming(request, method(service::CHAT), BytesCodec).await });
    path.until_held().await;
    // Nobody answers, and the caller may go on.
    say.send(word(3)).await.unwrap();
    assert!(!answer.is_finished());

    path.wakes().await;
    let conversation = async {
        let mut answers = answer.await.unwrap().unwrap().into_inner();
        for number in 0..4 {
            assert_eq!(answers.message().await.unwrap().unwrap(), word(number));
        }
        for number in 4..50 {
            say.send(word(number)).await.unwrap();
            assert_eq!(answers.message().await.unwrap().unwrap(), word(number));
        }
        drop(say);
        assert!(answers.message().await.unwrap().is_none());
        assert!(answers.trailers().await.unwrap().is_some());
    };
    tokio::time::timeout(DEADLINE, conversation).await.expect("a conversation");
}

#[tokio::test]
async fn a_hundred_calls_at_a_time_share_a_connection() {
    let (app, _) = Echo::serve().await;
    through_both(app, async |proxy| {
        let client = client(proxy).await;
        let calls = (0..100).map(async |number| {
            let mut client = client.clone();
            client.ready().await.unwrap();
            let message = Bytes::from(vec![number; 100_000]);
            let answer =
                client.unary(Request::new(message.clone()), method(service::UNARY), BytesCodec).await;
            assert_eq!(answer.unwrap().into_inner(), message);
        });
        futures::future::join_all(calls).await;
    })
    .await;
}

#[tokio::test]
async fn a_deadline_ends_the_call_at_both_ends() {
    let (app, told) = Echo::serve().await;
    let told = tokio::sync::Mutex::new(told);
    through_both(app, async |proxy| {
        let mut told = told.lock().await;
        let mut request = Request::new(Bytes::new());
        request.set_timeout(Duration::from_millis(200));
        let error = client(proxy).await.unary(request, method(service::HANG), BytesCodec).await.unwrap_err();
        assert!(matches!(error.code(), Code::DeadlineExceeded | Code::Cancelled), "{error:?}");
        assert_eq!((told.recv().await, told.recv().await), (Some(Hung::Begun), Some(Hung::Ended)));
    })
    .await;
}

#[tokio::test]
async fn a_caller_that_leaves_ends_the_call_at_the_app() {
    let (app, told) = Echo::serve().await;
    let told = tokio::sync::Mutex::new(told);
    through_both(app, async |proxy| {
        let mut told = told.lock().await;
        let mut client = client(proxy).await;
        tokio::select! {
            answer = client.unary(Request::new(Bytes::new()), method(service::HANG), BytesCodec) => {
                panic!("{answer:?}")
            }
            begun = told.recv() => assert_eq!(begun, Some(Hung::Begun)),
        }
        assert_eq!(told.recv().await, Some(Hung::Ended));
        // The others on the connection go on.
        let request = Request::new(Bytes::from("still here"));
        client.ready().await.unwrap();
        let answer = client.unary(request, method(service::UNARY), BytesCodec).await;
        assert_eq!(answer.unwrap().into_inner(), "still here");
    })
    .await;
}
