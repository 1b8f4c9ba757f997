//! FakeCluster: the objects of the workloads, in an API server in memory.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use autoscaler::contract::{INJECT_LABEL, QUEUE_PROXY, QUEUE_PROXY_STATS_PORT_NAME, SYSTEM_NAMESPACE};
use fake_api::{FakeApi, Protocols};
use k8s_openapi::api::core::v1::Secret;
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::net::TcpListener;

const WORKLOADS_PER_NAMESPACE: usize = 100;
/// Path of the Secret that the adapter creates.
const SERVING_CERTIFICATE: &str = "/api/v1/namespaces/rouse-system/secrets/metrics-adapter-serving";

/// A cluster without nodes.
pub(crate) struct FakeCluster {
    pub(crate) api: FakeApi,
    /// Kubeconfig for the adapter.
    pub(crate) kubeconfig: PathBuf,
    /// Client certificate of the aggregation layer.
    pub(crate) front_proxy: (CertificateDer<'static>, PrivateKeyDer<'static>),
}

/// Namespace and name of a workload.
#[derive(Clone, Debug)]
pub(crate) struct WorkloadName {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

// === impl FakeCluster ===

impl FakeCluster {
    /// A cluster with `workloads` of `pods` each, served until the runtime ends. The pods report on
    /// `stats_port`. `learn_target` is the setting `learn-target`.
    pub(crate) async fn new(
        workloads: usize,
        pods: usize,
        stats_port: u16,
        learn_target: &str,
        directory: &Path,
    ) -> Result<Self> {
        let api = FakeApi::default();
        put_settings(&api, learn_target);
        for workload in 0..workloads {
            put(&api, workload, pods, stats_port);
        }
        let allowed = |mut review: Value| {
            if let Some(review) = review.as_object_mut() {
                review.insert("status".to_owned(), json!({"allowed": true}));
            }
            review
        };
        api.respond_to_creations("/apis/authorization.k8s.io/v1/subjectaccessreviews", allowed);
        let front_proxy = front_proxy(&api)?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let contents = fake_api::kubeconfig(listener.local_addr()?).to_string();
        let kubeconfig = directory.join("kubeconfig");
        std::fs::write(&kubeconfig, contents).context("kubeconfig")?;
        tokio::spawn(api.clone().serve(listener, Protocols::Http2 { streams: 100 }));
        Ok(Self { api, kubeconfig, front_proxy })
    }

    /// The CA of the serving certificate, once the adapter has created it.
    pub(crate) fn serving_ca(&self) -> Option<Vec<u8>> {
        let secret: Secret = serde_json::from_value(self.api.get(SERVING_CERTIFICATE)?).ok()?;
        Some(secret.data?.remove("ca.crt")?.0)
    }
}

// === impl WorkloadName ===

impl WorkloadName {
    pub(crate) fn of(workload: usize) -> Self {
        Self {
            namespace: format!("team-{}", workload / WORKLOADS_PER_NAMESPACE),
            name: format!("web-{workload}"),
        }
    }
}

fn put(api: &FakeApi, workload: usize, pods: usize, stats_port: u16) {
    let WorkloadName { namespace, name } = WorkloadName::of(workload);
    let group = format!("/apis/autoscaling.rouse.dev/v1alpha1/namespaces/{namespace}");
    let object = |kind: &str, spec: Value| {
        json!({
            "apiVersion": "autoscaling.rouse.dev/v1alpha1", "kind": kind, "spec": spec,
            "metadata": {"uid": format!("{kind}-{workload}")},
        })
    };
    let collected = json!({"service": name, "selector": format!("app={name}")});
    api.put(&format!("{group}/metrics/{name}"), object("Metric", collected));
    let scaled = json!({
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}, "service": name,
        "metric": "concurrency", "target": "7", "minReplicas": 1, "maxReplicas": 50, "scaleToZero": true,
    });
    let autoscaler = object("PodAutoscaler", scaled);
    api.put(&format!("{group}/podautoscalers/{name}"), autoscaler);
    for pod in 0..pods {
        let index = u32::try_from(workload * pods + pod).unwrap_or(u32::MAX);
        // From 127.1.0.0 on, to avoid the addresses of other listeners.
        let ip = IpAddr::V4(Ipv4Addr::from_bits(0x7f01_0000 + index));
        let labels = json!({
            "app": name, "pod-template-hash": "5c9bbb8b4c", "team": namespace, (INJECT_LABEL): "true",
        });
        let stats = json!({"name": QUEUE_PROXY_STATS_PORT_NAME, "containerPort": stats_port});
        let containers = json!([{"name": "app", "image": "app:v1"}, {"name": QUEUE_PROXY, "ports": [stats]}]);
        let object = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"uid": format!("{index}"), "labels": labels},
            "spec": {"nodeName": "node-1", "containers": containers},
            "status": {
                "phase": "Running", "podIP": ip, "startTime": "2026-01-01T00:00:00Z",
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        });
        let name = format!("{name}-5c9bbb8b4c-{pod:05}");
        api.put(&format!("/api/v1/namespaces/{namespace}/pods/{name}"), object);
    }
}

fn put_settings(api: &FakeApi, learn_target: &str) {
    api.put(
        &format!("/api/v1/namespaces/{SYSTEM_NAMESPACE}/configmaps/config-autoscaler"),
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {}, "data": {"learn-target": learn_target},
        }),
    );
}

/// Publishes the CA of the aggregation layer and returns a client certificate that it signed.
fn front_proxy(api: &FakeApi) -> Result<(CertificateDer<'static>, PrivateKeyDer<'static>)> {
    let key = KeyPair::generate()?;
    let mut ca = CertificateParams::default();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let pem = ca.self_signed(&key)?.pem();
    let issuer = Issuer::new(ca, key);
    let key = KeyPair::generate()?;
    let mut client = CertificateParams::default();
    client.distinguished_name.push(DnType::CommonName, "front-proxy-client");
    client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let certificate = client.signed_by(&key, &issuer)?.der().clone();
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {},
        "data": {
            "requestheader-client-ca-file": pem,
            "requestheader-allowed-names": r#"["front-proxy-client"]"#,
            "requestheader-username-headers": r#"["X-Remote-User"]"#,
            "requestheader-group-headers": r#"["X-Remote-Group"]"#,
            "requestheader-extra-headers-prefix": r#"["X-Remote-Extra-"]"#,
        },
    });
    api.put("/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication", map);
    let key = PrivateKeyDer::try_from(key.serialize_der()).map_err(anyhow::Error::msg)?;
    Ok((certificate, key))
}
