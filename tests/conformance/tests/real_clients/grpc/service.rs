//! Echo: a service with a method of each kind.

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

/// Says a message back, or fails if that is what it says.
pub(super) const UNARY: &str = "/conformance.Echo/Unary";
/// Never answers.
pub(super) const HANG: &str = "/conformance.Echo/Hang";
/// Says each byte, then fails.
pub(super) const SPELL: &str = "/conformance.Echo/Spell";
/// Says all messages in one.
pub(super) const JOIN: &str = "/conformance.Echo/Join";
/// Says each message back.
pub(super) const CHAT: &str = "/conformance.Echo/Chat";

/// What [`UNARY`] does not say back.
pub(super) const FAIL: &str = "fail";

type Messages = Pin<Box<dyn Stream<Item = Result<Bytes, Status>> + Send>>;
type Answer<T> = BoxFuture<Response<T>, Status>;

/// The service.
#[derive(Clone, Debug)]
pub(super) struct Echo {
    hung: mpsc::UnboundedSender<Hung>,
}

/// What a test is told of calls of [`HANG`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hung {
    Begun,
    Ended,
}

/// Tells of a call's begin and end.
struct Telling(mpsc::UnboundedSender<Hung>);

// === impl Echo ===

impl Echo {
    /// Serves until the test ends, and tells of calls of [`HANG`].
    pub(super) async fn serve() -> (SocketAddr, mpsc::UnboundedReceiver<Hung>) {
        let (hung, told) = mpsc::unbounded_channel();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = stream::unfold(listener, async |listener| {
            let accepted = listener.accept().await.map(|(stream, _)| stream);
            Some((accepted, listener))
        });
        let server = Server::builder().add_service(Self { hung });
        tokio::spawn(server.serve_with_incoming(connections));
        (address, told)
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
                HANG => grpc.unary(Hang(echo.hung), request).await,
                SPELL => grpc.server_streaming(Spell, request).await,
                JOIN => grpc.client_streaming(Join, request).await,
                CHAT => grpc.streaming(Chat, request).await,
                _ => Status::unimplemented("no such method").into_http(),
            })
        })
    }
}

// === impl Telling ===

impl Telling {
    fn begin(hung: &mpsc::UnboundedSender<Hung>) -> Self {
        // The test may be over.
        let _ = hung.send(Hung::Begun);
        Self(hung.clone())
    }
}

impl Drop for Telling {
    fn drop(&mut self) {
        let _ = self.0.send(Hung::Ended);
    }
}

// === the methods ===

struct Unary;

impl UnaryService<Bytes> for Unary {
    type Response = Bytes;
    type Future = Answer<Bytes>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        Box::pin(async move {
            if request.get_ref() == FAIL {
                return Err(failure());
            }
            let mut headers = http::HeaderMap::new();
            for name in ["x-ask", "x-ask-bin"] {
                let asked = request.metadata().as_ref().get(name).cloned();
                headers.extend(asked.map(|value| (http::HeaderName::from_static(name), value)));
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

struct Hang(mpsc::UnboundedSender<Hung>);

impl UnaryService<Bytes> for Hang {
    type Response = Bytes;
    type Future = Answer<Bytes>;

    fn call(&mut self, _: Request<Bytes>) -> Self::Future {
        let telling = Telling::begin(&self.0);
        Box::pin(async move {
            let _telling = telling;
            std::future::pending().await
        })
    }
}

struct Spell;

impl ServerStreamingService<Bytes> for Spell {
    type Response = Bytes;
    type ResponseStream = Messages;
    type Future = Answer<Messages>;

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
    type Future = Answer<Bytes>;

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
    type Future = Answer<Messages>;

    fn call(&mut self, request: Request<Streaming<Bytes>>) -> Self::Future {
        Box::pin(async { Ok(Response::new(Box::pin(request.into_inner()) as Messages)) })
    }
}
