//! Lost watches, and changes during the outage.

use std::time::Duration;

use fake_api::Outage;
use serde_json::json;

use crate::harness::cluster::{AUTOSCALER, HPA, SERVERLESS_SERVICE};
use crate::harness::scenario::Scenario;

#[tokio::test(start_paused = true)]
async fn applies_changes_after_api_outage_and_keeps_objects() {
    for expire in [false, true] {
        let mut scenario = Scenario::new(1);
        scenario.until_serving().await;
        let before = scenario.cluster.field(SERVERLESS_SERVICE, "/status/ports");
        scenario.cluster.api.set_outage(Some(Outage::Failing));
        scenario.cluster.api.break_watches(expire);
        scenario.cluster.max_replicas(7);
        scenario.advance(Duration::from_secs(20)).await;
        scenario.cluster.api.set_outage(None);
        scenario.until("the new bound", |cluster| cluster.field(AUTOSCALER, "/spec/maxReplicas") == 7).await;
        scenario.settle().await;
        assert_eq!(scenario.cluster.field(SERVERLESS_SERVICE, "/status/ports"), before);
        assert_eq!(scenario.cluster.observed().sizes, [1]);
        assert_eq!(scenario.cluster.observed().lost_requests, Vec::<String>::new());
    }
}

#[tokio::test(start_paused = true)]
async fn first_lists_and_write_are_within_5_seconds_after_api_server_shed_load() {
    for status in [429, 503, 504] {
        let mut scenario = Scenario::new(1);
        scenario.until_serving().await;
        scenario.cluster.api.set_outage(Some(Outage::Shedding(status)));
        scenario.cluster.api.break_watches(true);
        scenario.decide_panic(3, 10.0);
        scenario.advance(Duration::from_secs(90)).await;
        assert_eq!(scenario.cluster.size(), 1);
        scenario.cluster.api.set_outage(None);
        let before = scenario.cluster.api.requests().len();
        scenario.advance(Duration::from_secs(5)).await;
        assert_eq!(scenario.cluster.size(), 3, "{status}");
        let requests = scenario.cluster.api.requests_since(before);
        for kind in [
            "horizontalpodautoscalers",
            "podautoscalers",
            "serverlessservices",
            "deployments",
            "endpointslices",
        ] {
            assert!(requests.iter().any(|request| request.ends_with(kind)), "{status}: no list of {kind}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn failed_reconciles_back_off_up_to_a_minute() {
    let mut scenario = Scenario::new(1);
    scenario.until_serving().await;
    scenario.cluster.api.set_outage(Some(Outage::Failing));
    scenario.decide_panic(3, 10.0);
    scenario.advance(Duration::from_secs(120)).await;
    let requests = scenario.cluster.api.requests().len();
    scenario.advance(Duration::from_secs(120)).await;
    // At a constant two seconds it would be sixty.
    let failed = scenario.cluster.api.requests().len() - requests;
    assert!((1..=20).contains(&failed), "{failed}");
}

#[tokio::test(start_paused = true)]
async fn releases_hpa_that_changed_its_metric_during_outage() {
    let mut scenario = Scenario::new(1);
    scenario.until_serving().await;
    scenario.cluster.api.set_outage(Some(Outage::Failing));
    scenario.cluster.api.break_watches(true);
    let mut hpa = scenario.cluster.api.get(HPA).unwrap();
    hpa["spec"]["metrics"] =
        json!([{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}}]);
    scenario.cluster.api.put(HPA, hpa);
    scenario.advance(Duration::from_secs(5)).await;
    scenario.cluster.api.set_outage(None);
    scenario.until("the PodAutoscaler is gone", |cluster| cluster.api.get(AUTOSCALER).is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn writes_nothing_without_changes_even_after_relist() {
    let mut scenario = Scenario::new(1);
    scenario.until_serving().await;
    let written = scenario.cluster.api.writes().len();
    scenario.cluster.api.break_watches(true);
    scenario.advance(Duration::from_secs(600)).await;
    let all = scenario.cluster.api.writes();
    assert_eq!(&all[written..], Vec::<String>::new());
}
