//! The API over real TLS handshakes: without a certificate, with a replaced one, and with the
//! client certificate of the front proxy.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use clap::Parser;
use component_base::auth::{Access, ReviewError, Reviewer, User};
use component_base::readiness::Readiness;
use futures::future::BoxFuture;
use k8s_openapi::api::authorization::v1::SubjectAccessReviewSpec;
use metrics_adapter::args::Args;
use metrics_adapter::collection::collector::Collector;
use metrics_adapter::decisions::decision_history::DecisionHistory;
use metrics_adapter::decisions::decision_store::DecisionStore;
use metrics_adapter::external_metrics::auth::{Auth, FrontProxy};
use metrics_adapter::external_metrics::leader_forwarder::LeaderForwarder;
use metrics_adapter::external_metrics::{Api, MetricValues};
use metrics_adapter::metrics::Metrics;
use metrics_adapter::sidecar_injection::Webhook;
use metrics_adapter::tls::certificate_material::CertificateMaterial;
use metrics_adapter::tls::certificate_resolver::CertificateResolver;
use metrics_adapter::tls::tls_server::{self, Services};
use metrics_adapter::watches::ready_pods::ReadyPods;
use metrics_adapter::watches::workloads::WorkloadTable;
use prometheus::Registry;
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;

const NAME: &str = "metrics-adapter.rouse-system.svc";

/// A reviewer that allows everything to jane only.
#[derive(Debug)]
struct OnlyJane;

impl Reviewer for OnlyJane {
    fn token<'a>(
        &'a self,
        _: &'a str,
        _: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Option<User>, ReviewError>> {
        Box::pin(async { Ok(None) })
    }

    fn access(&self, spec: SubjectAccessReviewSpec) -> BoxFuture<'_, Result<Access, ReviewError>> {
        let jane = spec.user.as_deref() == Some("jane");
        Box::pin(async move { Ok(if jane { Access::Allowed } else { Access::Denied(String::new()) }) })
    }
}

type ClientIdentity = (CertificateDer<'static>, PrivateKeyDer<'static>);

/// A trusted front proxy and its client certificate.
fn front_proxy() -> (FrontProxy, ClientIdentity) {
    let ca_key = KeyPair::generate().unwrap();
    let mut ca = CertificateParams::default();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca_pem = ca.self_signed(&ca_key).unwrap().pem();
    let issuer = Issuer::new(ca, ca_key);
    let key = KeyPair::generate().unwrap();
    let mut client = CertificateParams::default();
    client.distinguished_name.push(DnType::CommonName, "front-proxy-client");
    client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let certificate = client.signed_by(&key, &issuer).unwrap().der().clone();
    let data = [
        ("requestheader-client-ca-file", ca_pem.as_str()),
        ("requestheader-username-headers", r#"["X-Remote-User"]"#),
    ];
    let data: BTreeMap<_, _> = data.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    (FrontProxy::parse(&data).unwrap(), (certificate, key))
}

fn services(front_proxy: FrontProxy) -> Services {
    let metrics = Metrics::register(&Registry::new()).unwrap();
    let values = MetricValues {
        collector: Arc::new(Collector::default()),
        decisions: Arc::new(DecisionStore::default()),
        history: Arc::new(DecisionHistory::default()),
        pods: ReadyPods::default(),
        workloads: watch::channel(Arc::new(WorkloadTable::default())).1,
    };
    let front_proxy = Arc::new(ArcSwap::from_pointee(front_proxy));
    let auth = Auth::new(front_proxy, Arc::new(OnlyJane), metrics.reviews.clone());
    let args = Args::try_parse_from(["metrics-adapter", "--sidecar-image", "queue-proxy:v1"]).unwrap();
    let webhook = Arc::new(Webhook::new(args.sidecar.settings(), metrics.sidecar_reviews.clone()));
    let api = Api::new(values, LeaderForwarder::alone(), auth, Readiness::default(), metrics, false);
    Services { api, webhook }
}

/// A connection, or the handshake error.
async fn connect(
    port: u16,
    ca: &str,
    identity: Option<ClientIdentity>,
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(ca.as_bytes()) {
        roots.add(certificate.unwrap()).unwrap();
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots);
    let config = match identity {
        Some((certificate, key)) => config.with_client_auth_cert(vec![certificate], key).unwrap(),
        None => config.with_no_client_auth(),
    };
    let stream = TcpStream::connect(("127.0.0.1", port)).await?;
    let name = ServerName::try_from(NAME).unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

/// The response to a review of a pod.
async fn review(port: u16, ca: &str) -> String {
    let pods = json!({"group": "", "version": "v1", "resource": "pods", "kind": "Pod"});
    let body = json!({
        "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": "1", "kind": pods, "resource": pods, "operation": "CREATE", "userInfo": {},
            "object": {"metadata": {"name": "web"}, "spec": {"containers": [{"name": "app"}]}},
        },
    });
    let body = body.to_string();
    let head = format!("POST /mutate-pods HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n", body.len());
    let mut stream = connect(port, ca, None).await.unwrap();
    stream.write_all(format!("{head}connection: close\r\n\r\n{body}").as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    response
}

/// The status line of `GET /apis` as jane, or the handshake error.
async fn get(port: u16, ca: &str, identity: Option<ClientIdentity>) -> std::io::Result<String> {
    let mut stream = connect(port, ca, identity).await?;
    let request = "GET /apis HTTP/1.1\r\nhost: x\r\nx-remote-user: jane\r\nconnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await?;
    let mut response = String::new();
    stream.read_to_string(&mut response).await?;
    Ok(response.lines().next().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn serves_replaced_certificates_verifies_the_front_proxy_and_reviews_pods() {
    let (front_proxy, identity) = front_proxy();
    let certificates = Arc::new(CertificateResolver::default());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let config = tls_server::config(certificates.clone()).unwrap();
    let stop = CancellationToken::new();
    let server = tokio::spawn(tls_server::serve(listener, config, services(front_proxy), stop.clone()));

    let names = [NAME.to_owned()];
    let material = CertificateMaterial::new(&names, component_base::clock::since_epoch()).unwrap();
    let ca = material.ca_bundle();
    assert!(get(port, ca, None).await.is_err(), "no certificate yet");
    certificates.set(material.certified_key().unwrap());
    assert_eq!(get(port, ca, None).await.unwrap(), "HTTP/1.1 403 Forbidden");
    assert_eq!(get(port, ca, Some(identity)).await.unwrap(), "HTTP/1.1 200 OK");
    // API servers have no credentials for webhooks.
    let reviewed = review(port, ca).await;
    assert!(reviewed.starts_with("HTTP/1.1 200 OK") && reviewed.contains("JSONPatch"), "{reviewed}");

    // A new CA and leaf, as after a change of the Secret.
    let next =
        CertificateMaterial::new(&names, component_base::clock::since_epoch() + Duration::from_secs(1))
            .unwrap();
    certificates.set(next.certified_key().unwrap());
    assert!(get(port, ca, None).await.is_err(), "signed by another CA");
    assert_eq!(get(port, next.ca_bundle(), None).await.unwrap(), "HTTP/1.1 403 Forbidden");

    stop.cancel();
    server.await.unwrap();
}

/// The status line of a probe over a connection that stays open.
async fn probe(stream: &mut TlsStream<TcpStream>) -> String {
    stream.write_all(b"GET /apis HTTP/1.1\r\nhost: x\r\nx-remote-user: jane\r\n\r\n").await.unwrap();
    let mut response = Vec::new();
    // The body is a JSON object, and ends with its brace.
    while !response.ends_with(b"}") && !response.ends_with(b"}\n") {
        assert_ne!(stream.read_buf(&mut response).await.unwrap(), 0, "closed");
    }
    String::from_utf8_lossy(&response).lines().next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn idle_connections_leave_room_for_the_api_server() {
    let (front_proxy, (certificate, key)) = front_proxy();
    let identity = || Some((certificate.clone(), key.clone_key()));
    let certificates = Arc::new(CertificateResolver::default());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let config = tls_server::config(certificates.clone()).unwrap();
    let server =
        tokio::spawn(tls_server::serve(listener, config, services(front_proxy), CancellationToken::new()));
    let names = [NAME.to_owned()];
    let material = CertificateMaterial::new(&names, component_base::clock::since_epoch()).unwrap();
    certificates.set(material.certified_key().unwrap());
    let ca = material.ca_bundle();

    let mut api_server = connect(port, ca, identity()).await.unwrap();
    assert_eq!(probe(&mut api_server).await, "HTTP/1.1 200 OK");
    let mut idle = Vec::new();
    for _ in 0..200 {
        idle.push(TcpStream::connect(("127.0.0.1", port)).await.unwrap());
    }
    // The server closes those beyond the bound of a peer, at once.
    let closed = tokio::time::timeout(Duration::from_secs(5), idle[0].read(&mut [0])).await;
    assert_eq!(closed.expect("no bound").unwrap_or(0), 0);
    assert_eq!(probe(&mut api_server).await, "HTTP/1.1 200 OK", "it came first, from the same address");
    assert_eq!(get(port, ca, identity()).await.unwrap(), "HTTP/1.1 200 OK");
    server.abort();
}
