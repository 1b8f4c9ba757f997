//! A gRPC echo service with one method per call type.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::{Stream, stream};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service};
use tonic::metadata::MetadataMap;
use tonic::server::{
    ClientStreamingService, Grpc, NamedService, ServerStreamingService, StreamingService, UnaryService,
};
use tonic::transport::Server;
use tonic::{Code, Request, Response, Status, Streaming};

use super::codec::BytesCodec;

/// Echoes the message, or fails for [`FAIL`].
pub(super) const UNARY: &str = "/conformance.Echo/Unary";
/// Never responds.
pub(super) const HANG: &str = "/conformance.Echo/Hang";
/// Streams each byte of the message, then fails.
pub(super) const SPELL: &str = "/conformance.Echo/Spell";
/// Joins all messages into one.
pub(super) const JOIN: &str = "/conformance.Echo/Join";
/// Echoes each message.
pub(super) const CHAT: &str = "/conformance.Echo/Chat";

/// The message for which [`UNARY`] fails.
pub(super) const FAIL: &str = "fail";

type Messages = Pin<Box<dyn Stream<Item = Result<Bytes, Status>> + Send>>;
type ResponseFuture<T> = BoxFuture<Response<T>, Status>;

/// The echo service.
#[derive(Clone, Debug)]
pub(super) struct Echo {
    events: mpsc::UnboundedSender<HangEvent>,
}

/// Start or end of a [`HANG`] call, reported to the test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HangEvent {
    Begun,
    Ended,
}

/// Reports the end of a call on drop.
struct HangGuard(mpsc::UnboundedSender<HangEvent>);

// === impl Echo ===

impl Echo {
    /// Serves until the test ends. The receiver gets the start and end of [`HANG`] calls.
    pub(super) async fn serve() -> (SocketAddr, mpsc::UnboundedReceiver<HangEvent>) {
        let (events, received) = mpsc::unbounded_channel();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = stream::unfold(listener, async |listener| {
            let accepted = listener.accept().await.map(|(stream, _)| stream);
            Some((accepted, listener))
        });
        let server = Server::builder().add_service(Self { events });
        tokio::spawn(server.serve_with_incoming(connections));
        (address, received)
    }
}

impl NamedService for Echo {
    const NAME: &'static str = "conformance.Echo";
}

impl Service<http::Request<Body>> for Echo {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let echo = self.clone();
        Box::pin(async move {
            let mut grpc = Grpc::new(BytesCodec);
            Ok(match request.uri().path() {
                UNARY => grpc.unary(Unary, request).await,
                HANG => grpc.unary(Hang(echo.events), request).await,
                SPELL => grpc.server_streaming(Spell, request).await,
                JOIN => grpc.client_streaming(Join, request).await,
                CHAT => grpc.streaming(Chat, request).await,
                _ => Status::unimplemented("no such method").into_http(),
            })
        })
    }
}

// === impl HangGuard ===

impl HangGuard {
    fn begin(events: &mpsc::UnboundedSender<HangEvent>) -> Self {
        // The receiver is gone if the test has ended.
        let _ = events.send(HangEvent::Begun);
        Self(events.clone())
    }
}

impl Drop for HangGuard {
    fn drop(&mut self) {
        let _ = self.0.send(HangEvent::Ended);
    }
}

// === the methods ===

struct Unary;

impl UnaryService<Bytes> for Unary {
    type Response = Bytes;
    type Future = ResponseFuture<Bytes>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        Box::pin(async move {
            if request.get_ref() == FAIL {
                return Err(failure());
            }
            let mut headers = http::HeaderMap::new();
            for name in ["x-echo", "x-echo-bin"] {
                let requests_sent = request.metadata().as_ref().get(name).cloned();
                headers.extend(requests_sent.map(|value| (http::HeaderName::from_static(name), value)));
            }
            let mut response = Response::new(request.into_inner());
            *response.metadata_mut() = MetadataMap::from_headers(headers);
            Ok(response)
        })
    }
}

fn failure() -> Status {
    let mut metadata = MetadataMap::new();
    metadata.insert("x-why", "because".parse().unwrap());
    let details = Bytes::from_static(b"\x01\x02\xff");
    Status::with_details_and_metadata(Code::FailedPrecondition, "nicht möglich: 100 %", details, metadata)
}

struct Hang(mpsc::UnboundedSender<HangEvent>);

impl UnaryService<Bytes> for Hang {
    type Response = Bytes;
    type Future = ResponseFuture<Bytes>;

    fn call(&mut self, _: Request<Bytes>) -> Self::Future {
        let guard = HangGuard::begin(&self.0);
        Box::pin(async move {
            let _guard = guard;
            std::future::pending().await
        })
    }
}

struct Spell;

impl ServerStreamingService<Bytes> for Spell {
    type Response = Bytes;
    type ResponseStream = Messages;
    type Future = ResponseFuture<Messages>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        let word = request.into_inner();
        let mut end = Status::data_loss("no more letters");
        end.metadata_mut().insert("x-spelt", word.len().to_string().parse().unwrap());
        let letters = (0..word.len()).map(move |at| Ok(word.slice(at..=at)));
        let messages = stream::iter(letters.chain([Err(end)]));
        Box::pin(async { Ok(Response::new(Box::pin(messages) as Messages)) })
    }
}

struct Join;

impl ClientStreamingService<Bytes> for Join {
    type Response = Bytes;
    type Future = ResponseFuture<Bytes>;

    fn call(&mut self, request: Request<Streaming<Bytes>>) -> Self::Future {
        Box::pin(async move {
            let mut messages = request.into_inner();
            let mut words = Vec::new();
            while let Some(word) = messages.message().await? {
                words.push(word);
            }
            Ok(Response::new(words.join(&b' ').into()))
        })
    }
}

struct Chat;

impl StreamingService<Bytes> for Chat {
    type Response = Bytes;
    type ResponseStream = Messages;
    type Future = ResponseFuture<Messages>;

    fn call(&mut self, request: Request<Streaming<Bytes>>) -> Self::Future {
        Box::pin(async { Ok(Response::new(Box::pin(request.into_inner()) as Messages)) })
    }
}
