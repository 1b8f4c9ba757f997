//! A wake and the controllers beside it: both hear of the same request, and one writes for it.

use std::time::Duration;

use fake_api::Outage;

use crate::harness::cluster::DEPLOYMENT;
use crate::harness::scenario::Scenario;

/// The decider's word comes right behind the activator's.
#[tokio::test(start_paused = true)]
async fn two_words_of_one_request_are_one_write() {
    let mut scenario = Scenario::at_zero().await;
    let written = scenario.cluster.scale_writes();
    scenario.poke();
    scenario.decide(1, None);
    scenario.until_serving().await;
    assert_eq!(scenario.cluster.observed().sizes, [1, 0, 1]);
    assert_eq!(scenario.cluster.scale_writes() - written, 1);
    assert_eq!(scenario.cluster.events("Woken").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn while_a_wake_is_under_way_nothing_else_is_sent_for_its_workload() {
    let mut scenario = Scenario::at_zero().await;
    let asked = scenario.cluster.api.requests().len();
    scenario.cluster.api.set_outage(Some(Outage::Hanging));
    scenario.poke();
    scenario.decide(2, None);
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(scenario.cluster.api.requests_since(asked), [format!("PUT {DEPLOYMENT}/scale")]);

    // That one is never answered. It is given up, and the look after it writes what is wanted by then.
    scenario.cluster.api.set_outage(None);
    scenario.until("it is awake", |cluster| cluster.size() == 2).await;
    assert_eq!(scenario.crashes, 0);
}
