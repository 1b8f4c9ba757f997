//! Loads: the present load of all workloads, by one request to the metrics API.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use autoscaler::Key;
use autoscaler::history::{CurrentSample, CurrentSamples};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::connection::Session;
use crate::error::reason;

/// Pages within this time share one response; the decider decides every two seconds.
const MIN_AGE: Duration = Duration::from_millis(900);
/// Timeout of the request. The page shows everything else without it.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The loads by workload, or why there are none.
pub(super) type LoadTable = Result<BTreeMap<Key, CurrentSample>, String>;

/// Reads loads, at most about once a second.
#[derive(Debug, Default)]
pub(super) struct Loads {
    newest: Mutex<Option<(Instant, Arc<LoadTable>)>>,
}

// === impl Loads ===

impl Loads {
    /// The present loads. Concurrent calls share one request.
    pub(super) async fn get(&self, session: &Session) -> Arc<LoadTable> {
        let mut newest = self.newest.lock().await;
        if let Some((at, loads)) = newest.as_ref()
            && at.elapsed() < MIN_AGE
        {
            return loads.clone();
        }
        let response = tokio::time::timeout(TIMEOUT, request(session)).await;
        let loads = response.unwrap_or_else(|_| Err(format!("no response within {TIMEOUT:?}")));
        let loads = Arc::new(loads);
        *newest = Some((Instant::now(), loads.clone()));
        loads
    }
}

async fn request(session: &Session) -> LoadTable {
    let namespaces = session.only_namespace.as_ref().map(|namespace| format!("namespaces/{namespace}/"));
    let path = format!("/apis/external.metrics.k8s.io/v1beta1/{}history", namespaces.unwrap_or_default());
    let request = http::Request::get(path).body(Vec::new()).map_err(|error| error.to_string())?;
    let samples: CurrentSamples = session.client.request(request).await.map_err(|error| reason(&error))?;
    let keyed = samples.workloads.into_iter();
    Ok(keyed.map(|sample| (Key::new(&sample.namespace, &sample.name), sample)).collect())
}

#[cfg(test)]
mod tests {
    use fake_api::FakeApi;
    use http::StatusCode;

    use super::*;

    const PATH: &str = "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/history";

    #[tokio::test(start_paused = true)]
    async fn pages_share_one_request_a_second() {
        let api = FakeApi::default();
        let session = Session {
            client: api.client(),
            namespace: "shop".to_owned(),
            only_namespace: Some("shop".to_owned()),
            system_namespace: "rouse-system".to_owned(),
        };
        let sample = r#"{"workloads":[{"namespace":"shop","name":"web","metric":"concurrency","load":1.5,"ready":1,"target":70}]}"#;
        api.respond_to_reads(PATH, StatusCode::OK, sample);
        let loads = Loads::default();
        let (one, other) = tokio::join!(loads.get(&session), loads.get(&session));
        assert_eq!(one.as_ref().as_ref().unwrap()[&Key::new("shop", "web")].sample.load, Some(1.5));
        assert_eq!((one, api.requests().len()), (other, 1));
        api.respond_to_reads(PATH, StatusCode::FORBIDDEN, "no");
        tokio::time::advance(MIN_AGE / 2).await;
        assert!(loads.get(&session).await.is_ok());
        tokio::time::advance(MIN_AGE).await;
        assert!(loads.get(&session).await.is_err(), "an old load is not shown");
        assert_eq!(api.requests().len(), 2);
    }
}
