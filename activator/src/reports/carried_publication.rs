//! CarriedPublication: publishes through the API server which workloads this activator carries
//! requests of, while it cannot report them.
//!
//! Input: whether every receiver of reports is connected, and the workloads with requests here.
//! Output: a Lease with the name of this pod, which metrics-adapters and zero-scalers watch
//! ([`Reporters`](autoscaler::stats::reporters::Reporters)). They scale none of its workloads down.
//!
//! What surprises: the Lease is not renewed. It is valid as long as it exists, so a list stays
//! valid if the API server is lost as well. A list without a workload is published too, because
//! without a Lease the last report is valid. It is deleted when the requests are reported again, by
//! the next container of the pod, and by Kubernetes together with the pod.

use std::collections::VecDeque;
use std::time::Duration;

use autoscaler::contract::CARRIED_WORKLOADS;
use autoscaler::stats::CarriedWorkloads;
use autoscaler::stats::reporters::{BEAT, PUBLISH_AFTER};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

/// Time for which a workload is published after its last request, so that short requests cause few
/// writes.
const KEPT_FOR: Duration = Duration::from_secs(10);
/// Time for the API server to answer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Delay after a failed write, before the next second.
const RETRY_DELAY: Duration = Duration::from_secs(3);
/// Our name in managed fields.
const FIELD_MANAGER: &str = "activator";

/// Publishes the carried workloads of one pod.
#[derive(Clone)]
pub struct CarriedPublication {
    leases: Api<Lease>,
    pods: Api<Pod>,
    pod: String,
}

/// The Lease of this pod.
#[derive(Clone, Debug, PartialEq, Eq)]
enum PublishedLease {
    Absent,
    Carrying(CarriedWorkloads),
}

/// What is published, and when to write again.
#[derive(Debug, Default)]
struct PublicationState {
    /// `None` while it is not known: a former container may have left a Lease.
    published: Option<PublishedLease>,
    unreported_since: Option<Instant>,
    /// What was carried in each of the last seconds.
    carried: VecDeque<(Instant, CarriedWorkloads)>,
}

/// Why a write failed.
#[derive(Debug, thiserror::Error)]
enum PublishError {
    #[error(transparent)]
    Api(#[from] kube::Error),
    #[error("the API server did not answer within {REQUEST_TIMEOUT:?}")]
    Timeout,
}

// === impl CarriedPublication ===

impl CarriedPublication {
    /// Publishes in the name of `pod`, which is in `namespace`.
    pub fn new(client: &Client, namespace: &str, pod: &str) -> Self {
        let (leases, pods) =
            (Api::namespaced(client.clone(), namespace), Api::namespaced(client.clone(), namespace));
        Self { leases, pods, pod: pod.to_owned() }
    }

    /// Runs until dropped; `is_reported` returns whether every receiver of reports is connected
    /// now, and `carried` the workloads with requests.
    pub async fn run(self, is_reported: impl Fn() -> bool, carried: impl Fn() -> CarriedWorkloads) {
        let mut state = PublicationState::default();
        loop {
            sleep(BEAT).await;
            let Some(lease) = state.next(is_reported(), &carried, Instant::now()) else { continue };
            let result = timeout(REQUEST_TIMEOUT, self.write(&lease)).await;
            match result.unwrap_or(Err(PublishError::Timeout)) {
                Ok(()) => state.published = Some(lease),
                Err(error) => {
                    tracing::warn!(%error, "carried workloads not published, retrying");
                    // It may have been written all the same.
                    state.published = None;
                    sleep(RETRY_DELAY).await;
                }
            }
        }
    }

    async fn write(&self, lease: &PublishedLease) -> Result<(), PublishError> {
        let PublishedLease::Carrying(workloads) = lease else {
            return match self.leases.delete(&self.pod, &DeleteParams::default()).await {
                Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
                result => Ok(result.map(drop)?),
            };
        };
        let uid = self.pods.get_metadata(&self.pod).await?.metadata.uid;
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": self.pod,
                "labels": {"app.kubernetes.io/name": "activator"},
                "annotations": {CARRIED_WORKLOADS: workloads.to_string()},
                "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": self.pod, "uid": uid}],
            },
            "spec": {"holderIdentity": self.pod},
        });
        let parameters = PatchParams::apply(FIELD_MANAGER).force();
        self.leases.patch_metadata(&self.pod, &parameters, &Patch::Apply(&lease)).await?;
        tracing::warn!(%workloads, "carried workloads published, as receivers of reports are unreachable");
        Ok(())
    }
}

impl std::fmt::Debug for CarriedPublication {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CarriedPublication").field("pod", &self.pod).finish_non_exhaustive()
    }
}

// === impl PublicationState ===

impl PublicationState {
    /// What has to be written now.
    fn next(
        &mut self,
        is_reported: bool,
        carried: impl FnOnce() -> CarriedWorkloads,
        now: Instant,
    ) -> Option<PublishedLease> {
        let since = self.unreported_since.filter(|_| !is_reported);
        self.unreported_since = (!is_reported).then_some(since.unwrap_or(now));
        let is_due = since.is_some_and(|since| now.saturating_duration_since(since) >= PUBLISH_AFTER);
        let lease = if is_due {
            self.carried.push_back((now, carried()));
            self.carried.retain(|(at, _)| now.saturating_duration_since(*at) < KEPT_FOR);
            let carried = self.carried.iter().map(|(_, workloads)| workloads.clone());
            PublishedLease::Carrying(carried.fold(CarriedWorkloads::none(), CarriedWorkloads::union))
        } else {
            self.carried.clear();
            PublishedLease::Absent
        };
        (self.published.as_ref() != Some(&lease)).then_some(lease)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use autoscaler::Key;
    use fake_api::{FakeApi, Outage};
    use parking_lot::Mutex;
    use tokio_util::task::AbortOnDropHandle;

    use super::*;

    const POD: &str = "/api/v1/namespaces/rouse-system/pods/activator-1";
    const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/rouse-system/leases/activator-1";

    /// Whether all receivers are connected, and the names of the workloads with requests.
    type Requests = Arc<Mutex<(bool, Vec<&'static str>)>>;

    struct Publishing {
        api: FakeApi,
        requests: Requests,
        _running: AbortOnDropHandle<()>,
    }

    impl Publishing {
        fn start(api: FakeApi, is_reported: bool, names: &[&'static str]) -> Self {
            api.put(POD, json!({"metadata": {"uid": "u-1"}}));
            let requests: Requests = Arc::new(Mutex::new((is_reported, names.to_vec())));
            let (reported, carried) = (requests.clone(), requests.clone());
            let publication = CarriedPublication::new(&api.client(), "rouse-system", "activator-1");
            let running = publication.run(
                move || reported.lock().0,
                move || CarriedWorkloads::new(carried.lock().1.iter().map(|name| Key::new("shop", *name))),
            );
            Self { api, requests, _running: AbortOnDropHandle::new(tokio::spawn(running)) }
        }

        /// What is published after some seconds.
        async fn after(&self, seconds: u64) -> Option<String> {
            sleep(Duration::from_secs(seconds)).await;
            let lease = self.api.get(LEASE)?;
            assert_eq!(lease["metadata"]["ownerReferences"][0]["uid"], "u-1");
            lease["metadata"]["annotations"][CARRIED_WORKLOADS].as_str().map(str::to_owned)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn workloads_are_published_while_they_cannot_be_reported() {
        let publishing = Publishing::start(FakeApi::default(), false, &["web", "api"]);
        assert_eq!(publishing.after(PUBLISH_AFTER.as_secs()).await, None, "a lost node, or a restart");
        assert_eq!(publishing.after(5).await.as_deref(), Some("shop/api shop/web"));
        publishing.requests.lock().1 = vec!["web", "new"];
        assert_eq!(publishing.after(3).await.as_deref(), Some("shop/api shop/new shop/web"), "added at once");
        assert_eq!(publishing.after(15).await.as_deref(), Some("shop/new shop/web"));
        let writes = publishing.api.writes().len();
        publishing.requests.lock().1 = vec!["web"];
        assert_eq!(publishing.after(60).await.as_deref(), Some("shop/web"));
        assert_eq!(publishing.api.writes().len(), writes + 1, "it is not renewed");
        publishing.requests.lock().1.clear();
        assert_eq!(publishing.after(15).await.as_deref(), Some(""), "the last request has ended");
        publishing.requests.lock().1 = vec!["web"];
        assert_eq!(publishing.after(3).await.as_deref(), Some("shop/web"));
        publishing.requests.lock().0 = true;
        assert_eq!(publishing.after(15).await, None, "it is reported again");
    }

    #[tokio::test(start_paused = true)]
    async fn container_deletes_what_a_former_one_left() {
        let api = FakeApi::default();
        api.put(LEASE, json!({"metadata": {"ownerReferences": [{"uid": "u-1"}]}}));
        let publishing = Publishing::start(api, true, &["web"]);
        publishing.after(3).await;
        assert_eq!(publishing.api.get(LEASE), None);
        publishing.after(600).await;
        assert_eq!(publishing.api.requests().len(), 1, "without a fault no more is sent");
    }

    #[tokio::test(start_paused = true)]
    async fn list_is_published_within_5_seconds_after_api_server_shed_load() {
        for status in [429, 503, 504] {
            let publishing = Publishing::start(FakeApi::default(), false, &["web"]);
            publishing.api.set_outage(Some(Outage::Shedding(status)));
            assert_eq!(publishing.after(PUBLISH_AFTER.as_secs() + 92).await, None);
            publishing.api.set_outage(None);
            assert_eq!(publishing.after(5).await.as_deref(), Some("shop/web"), "{status}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn published_list_stays_while_the_api_server_is_lost_and_follows_afterwards() {
        let publishing = Publishing::start(FakeApi::default(), false, &["web"]);
        assert_eq!(publishing.after(70).await.as_deref(), Some("shop/web"));
        publishing.api.set_outage(Some(Outage::Hanging));
        publishing.requests.lock().1 = vec!["web", "api"];
        assert_eq!(publishing.after(300).await.as_deref(), Some("shop/web"));
        publishing.api.set_outage(None);
        assert_eq!(publishing.after(15).await.as_deref(), Some("shop/api shop/web"));
    }
}
