//! A collector of spans: OTLP by HTTP with protocol buffers.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use activator::traces::settings::{self, TraceSettings};
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use rustls::ServerConfig;
use rustls_pki_types::PrivateKeyDer;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::eventually;

pub struct Collector {
    pub address: SocketAddr,
    received: Received,
}

type Received = Arc<Mutex<Vec<ExportTraceServiceRequest>>>;

impl Collector {
    pub async fn start() -> Self {
        Self::with(None).await
    }

    /// By https for the name `localhost`, and the certificate as PEM.
    pub async fn with_tls() -> (Self, String) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let tls = tls.unwrap().with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key);
        let acceptor = TlsAcceptor::from(Arc::new(tls.unwrap()));
        (Self::with(Some(acceptor)).await, made.cert.pem())
    }

    async fn with(tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let received = Received::default();
        let sink = received.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                match &tls {
                    None => serve(stream, sink.clone()),
                    Some(tls) => serve(tls.accept(stream).await.unwrap(), sink.clone()),
                }
            }
        });
        Self { address, received }
    }

    /// So many spans, once they have arrived, and no others.
    pub async fn spans(&self, count: usize) -> Vec<Span> {
        eventually(&format!("{count} spans"), || async { self.all().len() >= count }).await;
        let spans = self.all();
        assert_eq!(spans.len(), count, "{spans:#?}");
        spans
    }

    /// An attribute of the resource of the first batch.
    pub fn resource(&self, key: &str) -> String {
        let received = self.received.lock().unwrap();
        text(&received[0].resource_spans[0].resource.as_ref().unwrap().attributes, key)
    }

    fn all(&self) -> Vec<Span> {
        let received = self.received.lock().unwrap();
        let resources = received.iter().flat_map(|request| &request.resource_spans);
        resources.flat_map(|spans| &spans.scope_spans).flat_map(|spans| spans.spans.clone()).collect()
    }
}

fn serve(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static, sink: Received) {
    let service = service_fn(move |request| receive(request, sink.clone()));
    let server = hyper::server::conn::http1::Builder::new();
    tokio::spawn(server.serve_connection(TokioIo::new(stream), service));
}

async fn receive(request: Request<Incoming>, sink: Received) -> Result<Response<Full<Bytes>>, Infallible> {
    assert_eq!((request.method(), request.uri().path()), (&Method::POST, "/v1/traces"));
    assert_eq!(request.headers()["content-type"], "application/x-protobuf");
    let body = request.into_body().collect().await.unwrap().to_bytes();
    sink.lock().unwrap().push(ExportTraceServiceRequest::decode(body).unwrap());
    Ok(Response::new(Full::default()))
}

/// Export to this address, with a sampler of the specification.
pub fn settings(address: SocketAddr, sampler: &str, ratio: f64) -> TraceSettings {
    let name = Some(sampler.to_owned()).filter(|name| !name.is_empty());
    TraceSettings {
        endpoint: format!("http://{address}/v1/traces").parse().unwrap(),
        certificate: None,
        sampler: settings::sampler(name, Some(ratio.to_string())).unwrap(),
        traces_per_second: 1000.try_into().unwrap(),
        service_name: None,
        pod_name: "activator-1".into(),
    }
}

/// An attribute as text; empty if there is none.
pub fn text(attributes: &[KeyValue], key: &str) -> String {
    let attribute = attributes.iter().find(|attribute| attribute.key == key);
    match attribute.and_then(|attribute| attribute.value.as_ref()?.value.clone()) {
        None => String::new(),
        Some(any_value::Value::StringValue(text)) => text,
        Some(any_value::Value::IntValue(number)) => number.to_string(),
        Some(any_value::Value::BoolValue(is)) => is.to_string(),
        Some(other) => panic!("{:?}", AnyValue { value: Some(other) }),
    }
}

pub fn hex(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn time(unix_nanos: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_nanos(unix_nanos)
}
