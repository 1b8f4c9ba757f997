//! The APIServices, by which the aggregation layer connects to this installation's Service.
//!
//! A cluster has one APIService per API group, and it may belong to another metrics adapter.

use json_patch::Patch;
use k8s_openapi::ByteString;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use serde_json::json;

use crate::tls::ca_bundle::{TrustedServer, TrustingObject, set_unless_taken};

// === impl APIService ===

impl TrustingObject for APIService {
    const LOSS: &'static str = "HPAs cannot read Rouse's metrics";
    const REMEDY: &'static str =
        "remove the other metrics server, set scaler: Direct on PodAutoscalers, or use --custom-metrics";

    fn server(&self) -> TrustedServer<'_> {
        let Some(spec) = &self.spec else { return TrustedServer::Other("no server".to_owned()) };
        let Some(service) = &spec.service else {
            return TrustedServer::Other("kube-apiserver itself".to_owned());
        };
        let is_verified = spec.insecure_skip_tls_verify != Some(true);
        TrustedServer::Service {
            namespace: service.namespace.as_deref().unwrap_or_default(),
            name: service.name.as_deref().unwrap_or_default(),
            ca: spec.ca_bundle.as_ref().filter(|_| is_verified),
        }
    }

    fn patch(&self, ca: &ByteString) -> Patch {
        let service = self.spec.as_ref().and_then(|spec| spec.service.as_ref());
        // The API server rejects a caBundle together with insecureSkipTLSVerify.
        let fields = [("caBundle", json!(ca)), ("insecureSkipTLSVerify", json!(false))];
        set_unless_taken(&["spec"], &json!(service), fields)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use autoscaler::contract::EXTERNAL_API;
    use fake_api::{FakeApi, Outage};
    use kube::runtime::events::{Recorder, Reporter};
    use prometheus::IntGauge;
    use serde_json::Value;
    use tokio::sync::watch;
    use tokio_util::task::AbortOnDropHandle;

    use super::*;
    use crate::tls::ca_bundle::{CaBundleReconciler, reconcile};

    fn object(namespace: &str, bundle: Option<&str>, skip: bool) -> APIService {
        let bundle = bundle.map(|pem| ByteString(pem.as_bytes().to_vec()));
        serde_json::from_value(json!({
            "metadata": {"name": EXTERNAL_API},
            "spec": {
                "group": "external.metrics.k8s.io", "version": "v1beta1",
                "groupPriorityMinimum": 100, "versionPriority": 100,
                "service": {"namespace": namespace, "name": "metrics-adapter"},
                "caBundle": bundle, "insecureSkipTLSVerify": skip,
            },
        }))
        .unwrap()
    }

    #[test]
    fn bundle_without_verification_is_not_trusted() {
        let ca = |object: &APIService| match object.server() {
            TrustedServer::Service { ca, .. } => ca.cloned(),
            TrustedServer::Other(server) => panic!("{server}"),
        };
        assert_eq!(ca(&object("rouse-system", Some("CA"), false)), Some(ByteString(b"CA".to_vec())));
        assert_eq!(ca(&object("rouse-system", Some("CA"), true)), None);
        assert_eq!(ca(&object("rouse-system", None, false)), None);
    }

    const PATH: &str = "/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.external.metrics.k8s.io";

    /// A reconciler of the APIService, and its gauge. It ends with the first value.
    fn start(cluster: &FakeApi, ca: watch::Receiver<Option<String>>) -> (AbortOnDropHandle<()>, IntGauge) {
        let owned = IntGauge::new("a", "b").unwrap();
        let reconciler = CaBundleReconciler {
            client: cluster.client(),
            name: EXTERNAL_API,
            service: ("rouse-system".to_owned(), "metrics-adapter".to_owned()),
            recorder: Recorder::new(cluster.client(), Reporter::from("metrics-adapter")),
            owned: owned.clone(),
        };
        let task = tokio::spawn(reconcile::<APIService>(reconciler, ca));
        (AbortOnDropHandle::new(task), owned)
    }

    fn put(cluster: &FakeApi, object: APIService) {
        cluster.put(PATH, serde_json::to_value(object).unwrap());
    }

    fn bundle(cluster: &FakeApi) -> Value {
        cluster.get(PATH).unwrap()["spec"]["caBundle"].clone()
    }

    #[tokio::test(start_paused = true)]
    async fn rewrites_an_outdated_bundle_and_leaves_other_servers_unchanged() {
        let cluster = FakeApi::default();
        let (ca, changes) = watch::channel(Some("CA".to_owned()));
        let (_task, owned) = start(&cluster, changes);
        let bundle = async || {
            tokio::time::sleep(Duration::from_secs(20)).await;
            bundle(&cluster)
        };
        put(&cluster, object("rouse-system", None, true));
        assert_eq!(bundle().await, "Q0E=");
        ca.send_replace(Some("CB".to_owned()));
        assert_eq!(bundle().await, "Q0I=");
        // The manifests are applied again.
        put(&cluster, object("rouse-system", Some("?"), false));
        assert_eq!((bundle().await, owned.get()), ("Q0I=".into(), 1));
        put(&cluster, object("keda", Some("theirs"), false));
        assert_eq!((bundle().await, owned.get()), ("dGhlaXJz".into(), 0));
        let events =
            cluster.requests().into_iter().filter(|r| r.starts_with("POST") && r.ends_with("/events"));
        assert_eq!(events.count(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn writes_the_bundle_within_5_seconds_after_api_server_shed_load() {
        for status in [429, 503, 504] {
            let cluster = FakeApi::default();
            put(&cluster, object("rouse-system", None, true));
            cluster.set_outage(Some(Outage::Shedding(status)));
            let (ca, changes) = watch::channel(Some("CA".to_owned()));
            let (_task, _) = start(&cluster, changes);
            tokio::time::sleep(Duration::from_secs(90)).await;
            cluster.set_outage(None);
            tokio::time::sleep(Duration::from_secs(5)).await;
            assert_eq!(bundle(&cluster), "Q0E=", "{status}");
            // The watch stays, and the write of the next CA is refused.
            cluster.set_outage(Some(Outage::Shedding(status)));
            ca.send_replace(Some("CB".to_owned()));
            tokio::time::sleep(Duration::from_secs(90)).await;
            cluster.set_outage(None);
            tokio::time::sleep(Duration::from_secs(5)).await;
            assert_eq!(bundle(&cluster), "Q0I=", "{status}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn restores_a_bundle_at_growing_intervals_while_another_program_overwrites_it() {
        let cluster = FakeApi::default();
        let (_ca, changes) = watch::channel(Some("CA".to_owned()));
        let (_task, owned) = start(&cluster, changes);
        let mut overwritten = object("rouse-system", Some("theirs"), false);
        overwritten.metadata.managed_fields = serde_json::from_value(json!([
            {"manager": "helm", "time": "2026-01-02T00:00:00Z", "fieldsV1": {"f:spec": {"f:service": {}}}},
            {"manager": "keda", "time": "2026-01-01T00:00:01Z", "fieldsV1": {"f:spec": {"f:caBundle": {}}}},
            {"manager": "metrics-adapter", "time": "2026-01-01T00:00:00Z", "fieldsV1": {"f:spec": {"f:caBundle": {}}}},
        ]))
        .unwrap();
        put(&cluster, overwritten.clone());
        let mut restored = 0;
        for _ in 0..6000 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            if bundle(&cluster) == "Q0E=" {
                restored += 1;
                put(&cluster, overwritten.clone());
            }
        }
        assert!((12..=17).contains(&restored), "{restored} writes in ten minutes");
        assert_eq!(owned.get(), 1);
        let is_report = |event: &Value| {
            event["reason"] == "CaBundleOverwritten"
                && event["note"]
                    .as_str()
                    .is_some_and(|note| note.contains(r#"field manager "keda" overwrites"#))
        };
        let objects = cluster.objects();
        assert!(
            objects.iter().any(|(path, object)| path.contains("/events/") && is_report(object)),
            "{objects:?}"
        );
        // The other program has ended.
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(bundle(&cluster), "Q0E=");
    }

    #[test]
    fn patch_fails_if_another_service_took_the_object_meanwhile() {
        let patch = object("rouse-system", None, true).patch(&ByteString(b"CA".to_vec()));
        let mut taken = serde_json::to_value(object("keda", Some("theirs"), false)).unwrap();
        let before = taken.clone();
        assert!(json_patch::patch(&mut taken, &patch).is_err());
        assert_eq!(taken, before);
    }
}
