//! The APIService of external.metrics.k8s.io: keeps its caBundle true, so that the aggregation layer trusts our certificate.
//!
//! There is one such object in a cluster, and it may be somebody else's: another metrics adapter's, for instance. It is ours
//! exactly if it points at our Service; otherwise it is left alone, and the log says whose it is.

use std::time::Duration;

use futures::{StreamExt, pin_mut};
use k8s_openapi::ByteString;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::{Patch, PatchParams};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::watch_object;
use kube::{Api, Client};
use serde_json::json;
use tokio::sync::watch;

/// Name of the object.
const NAME: &str = "v1beta1.external.metrics.k8s.io";
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

/// Keeps the APIService true while `ca` changes.
pub async fn follow(
    client: Client,
    namespace: String,
    service: String,
    mut ca: watch::Receiver<Option<String>>,
) {
    let api: Api<APIService> = Api::all(client);
    let events = watch_object(api.clone(), NAME).default_backoff();
    pin_mut!(events);
    let mut newest: Option<Option<APIService>> = None;
    let mut said: Option<Verdict> = None;
    let mut retry = false;
    loop {
        tokio::select! {
            event = events.next() => match event {
                Some(Ok(object)) => newest = Some(object),
                Some(Err(error)) => tracing::warn!(api_service = NAME, %error, "watch failed; it is tried again"),
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
            retry = patch(&api, &bundle).await.is_err();
        }
        if said.as_ref() != Some(&verdict) {
            say(&verdict);
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

async fn patch(api: &Api<APIService>, ca: &str) -> Result<(), kube::Error> {
    let bundle = ByteString(ca.as_bytes().to_vec());
    // A bundle and no verification exclude each other.
    let patch = json!({"spec": {"caBundle": bundle, "insecureSkipTLSVerify": false}});
    let patched = api.patch(NAME, &PatchParams::apply(FIELD_MANAGER), &Patch::Merge(patch)).await;
    match &patched {
        Ok(_) => tracing::info!(api_service = NAME, "caBundle written"),
        Err(error) => {
            tracing::error!(api_service = NAME, %error, "caBundle could not be written; it is tried again")
        }
    }
    patched.map(drop)
}

fn say(verdict: &Verdict) {
    match verdict {
        Verdict::True => tracing::info!(api_service = NAME, "it trusts our certificate"),
        Verdict::Stale => tracing::info!(api_service = NAME, "its caBundle is not our CA"),
        Verdict::Foreign(owner) => tracing::error!(
            api_service = NAME,
            %owner,
            "it belongs to somebody else and is left alone: HPAs do not get our metrics; PodAutoscalers with \
             scaler: Direct work all the same"
        ),
        Verdict::Missing => {
            tracing::warn!(api_service = NAME, "there is none yet: HPAs do not get our metrics");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(namespace: &str, bundle: Option<&str>, skip: bool) -> APIService {
        let bundle = bundle.map(|pem| ByteString(pem.as_bytes().to_vec()));
        serde_json::from_value(json!({
            "metadata": {"name": NAME},
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
}
