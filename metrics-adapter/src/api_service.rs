//! The APIServices that lead here: keeps their caBundle true, so that the aggregation layer trusts our certificate.
//!
//! There is one such object for each API group in a cluster, and it may be somebody else's: another metrics adapter's, for
//! instance. It is ours exactly if it points at our Service; otherwise it is left alone, and the log, an event on it and
//! the metric `api_service_ours` say so.

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

/// The one of external metrics.
pub const EXTERNAL: &str = "v1beta1.external.metrics.k8s.io";
/// The one of custom metrics, which is there only if somebody wants it.
pub const CUSTOM: &str = "v1beta2.custom.metrics.k8s.io";
/// Who we are to the API server's field management.
const FIELD_MANAGER: &str = "metrics-adapter";
/// Wait after a failed patch.
const RETRY: Duration = Duration::from_secs(5);

/// What is to be done about an APIService.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    /// Nothing: it trusts our CA.
    True,
    /// Our CA is not in it.
    Stale,
    /// It belongs to somebody else: this is what it points at.
    Foreign(String),
    /// There is none.
    Missing,
}

/// What it takes to keep one.
#[derive(Clone)]
pub struct Keeper {
    /// The API server.
    pub client: Client,
    /// The object's name.
    pub name: &'static str,
    /// Namespace and name of our Service.
    pub service: (String, String),
    /// Where events are told.
    pub recorder: Recorder,
    /// 1 while the object leads here.
    pub ours: IntGauge,
}

/// Keeps the APIService true while `ca` changes.
pub async fn follow(keeper: Keeper, mut ca: watch::Receiver<Option<String>>) {
    let Keeper { client, name, service: (namespace, service), recorder, ours } = keeper;
    let api: Api<APIService> = Api::all(client);
    let events = watch_object(api.clone(), name).default_backoff();
    pin_mut!(events);
    let mut newest: Option<Option<APIService>> = None;
    let mut said: Option<Verdict> = None;
    let mut retry = false;
    loop {
        tokio::select! {
            event = events.next() => match event {
                Some(Ok(object)) => newest = Some(object),
                Some(Err(error)) => tracing::warn!(api_service = name, %error, "watch failed; it is tried again"),
                None => return,
            },
            changed = ca.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(RETRY), if retry => {}
        }
        retry = false;
        let bundle = ca.borrow_and_update().clone();
        let (Some(object), Some(bundle)) = (&newest, bundle) else { continue };
        let verdict = judge(object.as_ref(), &namespace, &service, &bundle);
        if verdict == Verdict::Stale {
            retry = patch(&api, name, &bundle).await.is_err();
        }
        ours.set(i64::from(matches!(verdict, Verdict::True | Verdict::Stale)));
        if said.as_ref() != Some(&verdict) {
            say(name, &verdict);
            if let (Verdict::Foreign(owner), Some(object)) = (&verdict, object) {
                tell(&recorder, object, owner).await;
            }
            said = Some(verdict);
        }
    }
}

fn judge(object: Option<&APIService>, namespace: &str, service: &str, ca: &str) -> Verdict {
    let Some(spec) = object.and_then(|object| object.spec.as_ref()) else { return Verdict::Missing };
    let target = spec
        .service
        .as_ref()
        .map(|s| (s.namespace.clone().unwrap_or_default(), s.name.clone().unwrap_or_default()));
    match target {
        Some((ns, name)) if ns == namespace && name == service => {}
        Some((ns, name)) => return Verdict::Foreign(format!("Service {ns}/{name}")),
        None => return Verdict::Foreign("kube-apiserver itself".to_owned()),
    }
    let trusted = spec.ca_bundle.as_ref().is_some_and(|bundle| bundle.0 == ca.as_bytes());
    let skips = spec.insecure_skip_tls_verify == Some(true);
    if trusted && !skips { Verdict::True } else { Verdict::Stale }
}

async fn patch(api: &Api<APIService>, name: &str, ca: &str) -> Result<(), kube::Error> {
    let bundle = ByteString(ca.as_bytes().to_vec());
    // A bundle and no verification exclude each other.
    let patch = json!({"spec": {"caBundle": bundle, "insecureSkipTLSVerify": false}});
    let patched = api.patch(name, &PatchParams::apply(FIELD_MANAGER), &Patch::Merge(patch)).await;
    match &patched {
        Ok(_) => tracing::info!(api_service = name, "caBundle written"),
        Err(error) => {
            tracing::error!(api_service = name, %error, "caBundle could not be written; it is tried again")
        }
    }
    patched.map(drop)
}

/// For whoever looks at the object, and at the cluster's events.
async fn tell(recorder: &Recorder, object: &APIService, owner: &str) {
    let event = Event {
        type_: EventType::Warning,
        reason: "NotOurs".to_owned(),
        note: Some(format!(
            "it leads to {owner}, so HPAs do not get Rouse's metrics from it; Rouse leaves it alone. PodAutoscalers with \
             scaler: Direct work all the same, and so does custom.metrics.k8s.io, if that is ours"
        )),
        action: "Serving".to_owned(),
        secondary: None,
    };
    if let Err(error) = recorder.publish(&event, &object.object_ref(&())).await {
        tracing::warn!(%error, "event not written");
    }
}

fn say(name: &str, verdict: &Verdict) {
    match verdict {
        Verdict::True => tracing::info!(api_service = name, "it trusts our certificate"),
        Verdict::Stale => tracing::info!(api_service = name, "its caBundle is not our CA"),
        Verdict::Foreign(owner) => tracing::error!(
            api_service = name,
            %owner,
            "it belongs to somebody else and is left alone: HPAs do not get our metrics; PodAutoscalers with \
             scaler: Direct work all the same"
        ),
        Verdict::Missing => {
            tracing::warn!(api_service = name, "there is none yet: HPAs do not get our metrics");
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
    fn only_our_own_is_touched() {
        let judge = |object: Option<&APIService>| judge(object, "rouse-system", "metrics-adapter", "CA");
        assert_eq!(judge(None), Verdict::Missing);
        assert_eq!(judge(Some(&object("rouse-system", Some("CA"), false))), Verdict::True);
        assert_eq!(judge(Some(&object("rouse-system", Some("old"), false))), Verdict::Stale);
        assert_eq!(judge(Some(&object("rouse-system", None, true))), Verdict::Stale);
        let foreign = Verdict::Foreign("Service keda/metrics-adapter".to_owned());
        assert_eq!(judge(Some(&object("keda", Some("CA"), false))), foreign);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stale_bundle_is_written_again_and_somebody_elses_object_is_told_of_and_left_alone() {
        let path = format!("/apis/apiregistration.k8s.io/v1/apiservices/{EXTERNAL}");
        let cluster = FakeApi::default();
        let (ca, changes) = watch::channel(Some("CA".to_owned()));
        let ours = IntGauge::new("a", "b").unwrap();
        let recorder = Recorder::new(cluster.client(), Reporter::from("metrics-adapter"));
        let service = ("rouse-system".to_owned(), "metrics-adapter".to_owned());
        let keeper =
            Keeper { client: cluster.client(), name: EXTERNAL, service, recorder, ours: ours.clone() };
        let _task = AbortOnDropHandle::new(tokio::spawn(follow(keeper, changes)));
        let bundle = async || {
            tokio::time::sleep(Duration::from_secs(20)).await;
            cluster.get(&path).unwrap()["spec"]["caBundle"].clone()
        };
        cluster.put(&path, serde_json::to_value(object("rouse-system", None, true)).unwrap());
        assert_eq!(bundle().await, "Q0E=");
        ca.send_replace(Some("CB".to_owned()));
        assert_eq!(bundle().await, "Q0I=");
        // Somebody applied the manifests again.
        cluster.put(&path, serde_json::to_value(object("rouse-system", Some("?"), false)).unwrap());
        assert_eq!((bundle().await, ours.get()), ("Q0I=".into(), 1));
        cluster.put(&path, serde_json::to_value(object("keda", Some("theirs"), false)).unwrap());
        assert_eq!((bundle().await, ours.get()), ("dGhlaXJz".into(), 0));
        let events =
            cluster.requests().into_iter().filter(|r| r.starts_with("POST") && r.ends_with("/events"));
        assert_eq!(events.count(), 1);
    }
}
