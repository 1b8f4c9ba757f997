//! A wake and the controllers beside it: both react to the same request, and one of them writes.

use std::time::Duration;

use fake_api::Outage;

use crate::harness::cluster::DEPLOYMENT;
use crate::harness::scenario::Scenario;

/// The decision arrives right after the activator's report.
#[tokio::test(start_paused = true)]
async fn report_and_decision_for_one_request_cause_one_write() {
    let mut scenario = Scenario::at_zero().await;
    let written = scenario.cluster.scale_writes();
    scenario.poke();
    scenario.decide(1, None);
    scenario.until_serving().await;
    assert_eq!(scenario.cluster.observed().sizes, [1, 0, 1]);
    assert_eq!(scenario.cluster.scale_writes() - written, 1);
    assert_eq!(scenario.cluster.events("ScaledFromZero").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn sends_no_other_request_for_a_workload_during_its_wake() {
    let mut scenario = Scenario::at_zero().await;
    let before = scenario.cluster.api.requests().len();
    scenario.cluster.api.set_outage(Some(Outage::Hanging));
    scenario.poke();
    scenario.decide(2, None);
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(scenario.cluster.api.requests_since(before), [format!("PUT {DEPLOYMENT}/scale")]);

    // That request never gets a response. After five seconds one more is sent beside it.
    scenario.cluster.api.set_outage(None);
    scenario.until("the first size", |cluster| cluster.size() == 1).await;
    assert_eq!(scenario.crashes, 0);
}
