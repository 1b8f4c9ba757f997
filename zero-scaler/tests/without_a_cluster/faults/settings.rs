//! Settings after a restart beside an invalid ConfigMap: every process takes the accepted copy.

use component_base::kubernetes::watch_settings;
use futures::{StreamExt, pin_mut};
use serde_json::{Value, json};

use crate::harness::scenario::Scenario;

const MAP: &str = "/api/v1/namespaces/rouse-system/configmaps/config-autoscaler";
const COPY: &str = "/api/v1/namespaces/rouse-system/configmaps/config-autoscaler-accepted";

fn settings(capacity: &str) -> Value {
    json!({"data": {"requests-per-second-target-default": capacity}})
}

/// The settings that the metrics-adapter takes after a start.
async fn in_force(scenario: &Scenario) -> Option<String> {
    let client = scenario.cluster.api.client();
    let changes = watch_settings(&client, "rouse-system", "config-autoscaler", "config-autoscaler-accepted");
    pin_mut!(changes);
    changes.next().await.unwrap().in_force().get("requests-per-second-target-default").cloned()
}

fn copies(scenario: &Scenario) -> usize {
    scenario.cluster.api.writes().iter().filter(|write| write.contains("config-autoscaler-accepted")).count()
}

#[tokio::test(start_paused = true)]
async fn writes_no_copy_without_config_map() {
    let mut scenario = Scenario::new(1);
    scenario.until_serving().await;
    assert_eq!(copies(&scenario), 0);
    assert_eq!(in_force(&scenario).await, None);
}

#[tokio::test(start_paused = true)]
async fn processes_agree_after_restart_beside_invalid_settings() {
    let mut scenario = Scenario::new(0);
    scenario.cluster.api.put(MAP, settings("50"));
    assert_eq!(in_force(&scenario).await.as_deref(), Some("50"), "before a copy exists");
    scenario.restart();
    scenario
        .until("the copy", |cluster| cluster.field(COPY, "/data/requests-per-second-target-default") == "50")
        .await;
    scenario.settle().await;
    assert_eq!(scenario.requests_per_second_target_default(), 50.0);

    scenario.cluster.api.put(MAP, settings("0"));
    scenario.restart();
    scenario.settle().await;
    assert_eq!(scenario.requests_per_second_target_default(), 50.0);
    assert_eq!(in_force(&scenario).await.as_deref(), Some("50"));
    assert_eq!(copies(&scenario), 1);
    assert!(!scenario.cluster.notes("BadSetting").is_empty());

    scenario.cluster.api.put(MAP, settings("60"));
    scenario.settle().await;
    assert_eq!(scenario.requests_per_second_target_default(), 60.0);
    scenario.restart();
    scenario.settle().await;
    assert_eq!(copies(&scenario), 2, "an equal copy is not written again");
}
