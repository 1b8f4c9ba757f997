//! The MutatingWebhookConfiguration: it makes the API server send each new labelled pod to this
//! installation's Service. It and its only webhook have the name
//! [`INJECTION`](autoscaler::contract::INJECTION).

use json_patch::Patch;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhook, MutatingWebhookConfiguration};
use serde_json::json;

use crate::tls::ca_bundle::{TrustedServer, TrustingObject, set_unless_taken};

// === impl MutatingWebhookConfiguration ===

impl TrustingObject for MutatingWebhookConfiguration {
    const LOSS: &'static str = "new pods get no sidecar from Rouse's webhook";
    const REMEDY: &'static str = "apply Rouse's manifests again";

    fn server(&self) -> TrustedServer<'_> {
        let webhooks = self.webhooks.as_deref().unwrap_or_default();
        let [MutatingWebhook { client_config, .. }] = webhooks else {
            return TrustedServer::Other(format!("{} webhooks", webhooks.len()));
        };
        match (&client_config.service, &client_config.url) {
            (Some(service), _) => TrustedServer::Service {
                namespace: &service.namespace,
                name: &service.name,
                ca: client_config.ca_bundle.as_ref(),
            },
            (None, url) => TrustedServer::Other(url.clone().unwrap_or_else(|| "no server".to_owned())),
        }
    }

    /// Other patches replace the whole list.
    fn patch(&self, ca: &ByteString) -> Patch {
        let webhook = self.webhooks.iter().flatten().next();
        let service = webhook.and_then(|webhook| webhook.client_config.service.as_ref());
        set_unless_taken(&["webhooks", "0", "clientConfig"], &json!(service), [("caBundle", json!(ca))])
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use autoscaler::contract::INJECTION;
    use fake_api::FakeApi;
    use kube::runtime::events::{Recorder, Reporter};
    use prometheus::IntGauge;
    use serde_json::Value;
    use tokio::sync::watch;
    use tokio_util::task::AbortOnDropHandle;

    use super::*;
    use crate::tls::ca_bundle::{CaBundleReconciler, reconcile};

    const PATH: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/queue-proxy.autoscaling.rouse.dev";

    fn object(namespace: &str) -> Value {
        let service =
            json!({"namespace": namespace, "name": "metrics-adapter", "path": "/mutate-pods", "port": 443});
        json!({
            "metadata": {"name": INJECTION},
            "webhooks": [{"name": INJECTION, "failurePolicy": "Ignore", "clientConfig": {"service": service}}],
        })
    }

    #[tokio::test(start_paused = true)]
    async fn writes_the_bundle_and_nothing_else_of_the_webhook() {
        let cluster = FakeApi::default();
        let (ca, changes) = watch::channel(Some("CA".to_owned()));
        let owned = IntGauge::new("a", "b").unwrap();
        let reconciler = CaBundleReconciler {
            client: cluster.client(),
            name: INJECTION,
            service: ("rouse-system".to_owned(), "metrics-adapter".to_owned()),
            recorder: Recorder::new(cluster.client(), Reporter::from("metrics-adapter")),
            owned: owned.clone(),
        };
        let task = reconcile::<MutatingWebhookConfiguration>(reconciler, changes);
        let _task = AbortOnDropHandle::new(tokio::spawn(task));
        let webhooks = async || {
            tokio::time::sleep(Duration::from_secs(20)).await;
            cluster.get(PATH).unwrap()["webhooks"].clone()
        };
        cluster.put(PATH, object("rouse-system"));
        let mut wanted = object("rouse-system")["webhooks"].clone();
        wanted[0]["clientConfig"]["caBundle"] = "Q0E=".into();
        assert_eq!((webhooks().await, owned.get()), (wanted.clone(), 1));
        ca.send_replace(Some("CB".to_owned()));
        wanted[0]["clientConfig"]["caBundle"] = "Q0I=".into();
        assert_eq!(webhooks().await, wanted);
        cluster.put(PATH, object("another"));
        assert_eq!((webhooks().await, owned.get()), (object("another")["webhooks"].clone(), 0));
    }

    #[test]
    fn several_webhooks_are_not_ours() {
        let mut several = object("rouse-system");
        several["webhooks"] = json!([several["webhooks"][0], several["webhooks"][0]]);
        let several: MutatingWebhookConfiguration = serde_json::from_value(several).unwrap();
        assert_eq!(several.server(), TrustedServer::Other("2 webhooks".to_owned()));
    }
}
