//! Reconciles the caBundle of the APIServices, so that the aggregation layer trusts the serving
//! certificate.
//!
//! A cluster has one APIService per API group, and it may belong to another metrics adapter. It is
//! Rouse's exactly if it names this installation's Service. Otherwise it is left unchanged, and a
//! log line, an event on it and the metric `rouse_metrics_adapter_api_service_owned` report that.

use std::time::Duration;

use futures::{StreamExt, pin_mut};
use k8s_openapi::ByteString;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::{Patch, PatchParams};
use kube::runtime::WatchStreamExt;
use kube::runtime::events::{Event, EventType, Recorder};
use kube::runtime::watcher::watch_object;
use kube::{Api, Client, Resource};
use prometheus::IntGauge;
use serde_json::json;
use tokio::sync::watch;

use crate::watches::observed_object::ObservedObject;

/// The APIService of external metrics.
pub const EXTERNAL: &str = "v1beta1.external.metrics.k8s.io";
/// The APIService of custom metrics, with `--custom-metrics` only.
pub const CUSTOM: &str = "v1beta2.custom.metrics.k8s.io";
/// Field manager of the patch.
const FIELD_MANAGER: &str = "metrics-adapter";
/// Delay after a failed patch.
const RETRY: Duration = Duration::from_secs(5);

/// State of an APIService.
#[derive(Clone, Debug, PartialEq, Eq)]
enum CaBundleState {
    /// It has our CA.
    InSync,
    /// It names our Service, with another CA or without verification.
    OutOfDate,
    /// It names another server.
    OwnedByOther(String),
    /// It does not exist.
    Missing,
}

/// Reconciles one APIService.
#[derive(Clone)]
pub struct CaBundleReconciler {
    /// The API server.
    pub client: Client,
    /// Name of the APIService.
    pub name: &'static str,
    /// Namespace and name of our Service.
    pub service: (String, String),
    /// Records events on the APIService.
    pub recorder: Recorder,
    /// 1 while the APIService names our Service.
    pub owned: IntGauge,
}

/// Reconciles the APIService on each change of it and of `ca`.
#[tracing::instrument(skip_all, fields(api_service = reconciler.name))]
pub async fn reconcile(reconciler: CaBundleReconciler, mut ca: watch::Receiver<Option<String>>) {
    let CaBundleReconciler { client, name, service: (namespace, service), recorder, owned } = reconciler;
    let api: Api<APIService> = Api::all(client);
    let events = watch_object(api.clone(), name).default_backoff();
    pin_mut!(events);
    let mut newest = ObservedObject::Unlisted;
    let mut reported: Option<CaBundleState> = None;
    let mut retry = false;
    loop {
        tokio::select! {
            event = events.next() => match event {
                Some(Ok(object)) => newest = ObservedObject::from(object),
                Some(Err(error)) => tracing::warn!(%error, "watch failed, retrying"),
                None => return,
            },
            changed = ca.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(RETRY), if retry => {}
        }
        retry = false;
        let bundle = ca.borrow_and_update().clone();
        let object: Option<&APIService> = match &newest {
            ObservedObject::Unlisted => continue,
            ObservedObject::Missing => None,
            ObservedObject::Present(object) => Some(object),
        };
        let Some(bundle) = bundle else { continue };
        let state = ca_bundle_state(object, &namespace, &service, &bundle);
        if state == CaBundleState::OutOfDate {
            retry = patch(&api, name, &bundle).await.is_err();
        }
        owned.set(i64::from(matches!(state, CaBundleState::InSync | CaBundleState::OutOfDate)));
        if reported.as_ref() != Some(&state) {
            log_state(&state);
            if let (CaBundleState::OwnedByOther(owner), Some(object)) = (&state, object) {
                publish_event(&recorder, object, owner).await;
            }
            reported = Some(state);
        }
    }
}

fn ca_bundle_state(object: Option<&APIService>, namespace: &str, service: &str, ca: &str) -> CaBundleState {
    let Some(spec) = object.and_then(|object| object.spec.as_ref()) else { return CaBundleState::Missing };
    let target = spec
        .service
        .as_ref()
        .map(|s| (s.namespace.clone().unwrap_or_default(), s.name.clone().unwrap_or_default()));
    match target {
        Some((ns, name)) if ns == namespace && name == service => {}
        Some((ns, name)) => return CaBundleState::OwnedByOther(format!("Service {ns}/{name}")),
        None => return CaBundleState::OwnedByOther("kube-apiserver itself".to_owned()),
    }
    let trusted = spec.ca_bundle.as_ref().is_some_and(|bundle| bundle.0 == ca.as_bytes());
    let skips = spec.insecure_skip_tls_verify == Some(true);
    if trusted && !skips { CaBundleState::InSync } else { CaBundleState::OutOfDate }
}

async fn patch(api: &Api<APIService>, name: &str, ca: &str) -> Result<(), kube::Error> {
    let bundle = ByteString(ca.as_bytes().to_vec());
    // The API server rejects a caBundle together with insecureSkipTLSVerify.
    let patch = json!({"spec": {"caBundle": bundle, "insecureSkipTLSVerify": false}});
    let patched = api.patch(name, &PatchParams::apply(FIELD_MANAGER), &Patch::Merge(patch)).await;
    match &patched {
        Ok(_) => tracing::info!("caBundle written"),
        Err(error) => tracing::error!(%error, "caBundle not written, retrying"),
    }
    patched.map(drop)
}

async fn publish_event(recorder: &Recorder, object: &APIService, owner: &str) {
    let event = Event {
        type_: EventType::Warning,
        reason: "OwnedByOtherServer".to_owned(),
        note: Some(format!(
            "the APIService names {owner} instead of Rouse's metrics-adapter and is left unchanged, so HPAs cannot \
             read Rouse's metrics; remove the other metrics server, set scaler: Direct on PodAutoscalers, or use \
             --custom-metrics"
        )),
        action: "Serving".to_owned(),
        secondary: None,
    };
    if let Err(error) = recorder.publish(&event, &object.object_ref(&())).await {
        tracing::warn!(%error, "event not written");
    }
}

fn log_state(state: &CaBundleState) {
    match state {
        CaBundleState::InSync => tracing::info!("caBundle up to date"),
        CaBundleState::OutOfDate => tracing::info!("caBundle out of date"),
        CaBundleState::OwnedByOther(owner) => tracing::error!(
            %owner,
            "APIService belongs to another server, so HPAs cannot read Rouse's metrics; PodAutoscalers with \
             scaler: Direct are not affected"
        ),
        CaBundleState::Missing => {
            tracing::warn!("APIService not found, so HPAs cannot read Rouse's metrics until it is created");
        }
    }
}

#[cfg(test)]
mod tests {
    use fake_api::FakeApi;
    use kube::runtime::events::Reporter;
    use tokio_util::task::AbortOnDropHandle;

    use super::*;

    fn object(namespace: &str, bundle: Option<&str>, skip: bool) -> APIService {
        let bundle = bundle.map(|pem| ByteString(pem.as_bytes().to_vec()));
        serde_json::from_value(json!({
            "metadata": {"name": EXTERNAL},
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
    fn only_the_apiservice_of_our_service_is_changed() {
        let state =
            |object: Option<&APIService>| ca_bundle_state(object, "rouse-system", "metrics-adapter", "CA");
        assert_eq!(state(None), CaBundleState::Missing);
        assert_eq!(state(Some(&object("rouse-system", Some("CA"), false))), CaBundleState::InSync);
        assert_eq!(state(Some(&object("rouse-system", Some("old"), false))), CaBundleState::OutOfDate);
        assert_eq!(state(Some(&object("rouse-system", None, true))), CaBundleState::OutOfDate);
        let other = CaBundleState::OwnedByOther("Service keda/metrics-adapter".to_owned());
        assert_eq!(state(Some(&object("keda", Some("CA"), false))), other);
    }

    #[tokio::test(start_paused = true)]
    async fn rewrites_an_outdated_bundle_and_leaves_other_servers_unchanged() {
        let path = format!("/apis/apiregistration.k8s.io/v1/apiservices/{EXTERNAL}");
        let cluster = FakeApi::default();
        let (ca, changes) = watch::channel(Some("CA".to_owned()));
        let owned = IntGauge::new("a", "b").unwrap();
        let recorder = Recorder::new(cluster.client(), Reporter::from("metrics-adapter"));
        let service = ("rouse-system".to_owned(), "metrics-adapter".to_owned());
        let reconciler = CaBundleReconciler {
            client: cluster.client(),
            name: EXTERNAL,
            service,
            recorder,
            owned: owned.clone(),
        };
        let _task = AbortOnDropHandle::new(tokio::spawn(reconcile(reconciler, changes)));
        let bundle = async || {
            tokio::time::sleep(Duration::from_secs(20)).await;
            cluster.get(&path).unwrap()["spec"]["caBundle"].clone()
        };
        cluster.put(&path, serde_json::to_value(object("rouse-system", None, true)).unwrap());
        assert_eq!(bundle().await, "Q0E=");
        ca.send_replace(Some("CB".to_owned()));
        assert_eq!(bundle().await, "Q0I=");
        // The manifests are applied again.
        cluster.put(&path, serde_json::to_value(object("rouse-system", Some("?"), false)).unwrap());
        assert_eq!((bundle().await, owned.get()), ("Q0I=".into(), 1));
        cluster.put(&path, serde_json::to_value(object("keda", Some("theirs"), false)).unwrap());
        assert_eq!((bundle().await, owned.get()), ("dGhlaXJz".into(), 0));
        let events =
            cluster.requests().into_iter().filter(|r| r.starts_with("POST") && r.ends_with("/events"));
        assert_eq!(events.count(), 1);
    }
}
