//! Whether etcd was restored to an older revision.
//!
//! A watch continues from the revision that it has. After a restore that one lies in the future,
//! and the API server sends nothing until writes have reached it, which may take hours. That is no
//! error of a watch, so each would wait, and no workload would wake. So a process compares the
//! revisions that it reads, and all its watches list again when they went back.

use std::sync::LazyLock;
use std::time::Duration;

use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Client;
use kube::api::{Api, ListParams};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// Between two reads. What was written in this time before a restore may be missed.
const INTERVAL: Duration = Duration::from_secs(10);
const REQUEST: Duration = Duration::from_secs(5);

/// The number of restores. A process has one API server, and so one history of revisions.
static RESTORES: LazyLock<watch::Sender<u64>> = LazyLock::new(watch::Sender::default);

/// Changes when all watches have to list again.
pub(super) fn restores() -> watch::Receiver<u64> {
    RESTORES.subscribe()
}

/// Reads the API server's revision in intervals, and lets all watches of this process list again
/// when it went back. Never ends; spawn it.
pub fn watch_revision(client: Client, namespace: &str) -> impl Future<Output = ()> + Send + use<> {
    // Each part may list these, in its own namespace.
    let slices = Api::namespaced(client, namespace);
    async move { watch_restores(&slices, &RESTORES).await }
}

async fn watch_restores(slices: &Api<EndpointSlice>, restores: &watch::Sender<u64>) {
    let mut latest = 0;
    loop {
        if let Some(revision) = read_revision(slices).await {
            if revision < latest {
                tracing::error!(
                    latest,
                    revision,
                    "etcd restored to an older revision, listing all objects again"
                );
                restores.send_modify(|count| *count += 1);
            }
            latest = revision;
        }
        sleep(INTERVAL).await;
    }
}

/// The revision of a list without a version, which is the newest one. `None` if it could not be
/// read, as during the restore itself.
async fn read_revision(slices: &Api<EndpointSlice>) -> Option<u64> {
    let list = timeout(REQUEST, slices.list_metadata(&ListParams::default().limit(1))).await.ok()?.ok()?;
    list.metadata.resource_version?.parse().ok()
}

#[cfg(test)]
mod tests {
    use fake_api::FakeApi;
    use http::StatusCode;

    use super::*;

    const LIST: &str = "/apis/discovery.k8s.io/v1/namespaces/rouse-system/endpointslices";

    fn respond(api: &FakeApi, status: StatusCode, revision: &str) {
        let list = serde_json::json!({
            "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList",
            "metadata": {"resourceVersion": revision}, "items": [],
        });
        api.respond_to_reads(LIST, status, list.to_string());
    }

    #[tokio::test(start_paused = true)]
    async fn signals_a_revision_that_went_back_once() {
        let api = FakeApi::default();
        let (sender, restores) = watch::channel(0);
        let slices = Api::namespaced(api.client(), "rouse-system");
        tokio::spawn(async move { watch_restores(&slices, &sender).await });
        let steps = [
            (StatusCode::OK, "1576", 0),
            (StatusCode::SERVICE_UNAVAILABLE, "1", 0),
            (StatusCode::OK, "955", 1),
            (StatusCode::OK, "955", 1),
            (StatusCode::OK, "1600", 1),
        ];
        for (status, revision, count) in steps {
            respond(&api, status, revision);
            sleep(2 * INTERVAL).await;
            assert_eq!(*restores.borrow(), count, "{status} {revision}");
        }
    }
}
