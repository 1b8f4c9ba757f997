//! Each rule of the NetworkPolicies is necessary: without it, the connections that it opens time
//! out.
//!
//! The rules are those of `deploy/network-policies.yaml` and `docs/reference/ports.md`; `table` has
//! the connections that show each rule. The test removes one rule after the other from the live
//! policy and restores it. Established connections survive a removal, so every check opens new
//! ones, from a pod for which the rule is meant.

mod connection;
mod rule;
mod scene;
mod table;

use std::time::Duration;

use anyhow::{Context, Result};
use system_tests::cluster::installation::{self, begin_exclusive};
use tokio::time::Instant;

use rule::rules;
use scene::Scene;
use table::{CLOSED, TABLE, row_of};

/// Time for pods of the test to start.
const STARTED: Duration = Duration::from_secs(60);
/// Time for a changed policy to take effect.
const ENFORCED: Duration = Duration::from_secs(10);

#[test]
fn every_rule_has_one_row_and_every_row_a_rule() {
    let rules: Vec<String> = rules().unwrap().iter().map(ToString::to_string).collect();
    let rows: Vec<&str> = TABLE.iter().map(|row| row.rule).collect();
    assert_eq!(rules, rows, "network_policies/table.rs has the connections of each rule");
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse that enforces NetworkPolicies: run make test-system"]
async fn connections_time_out_without_the_rule_that_opens_them() -> Result<()> {
    let namespace = begin_exclusive("policies").await?;
    let began = Instant::now();
    let scene = Scene::prepare(&namespace).await?;
    for row in TABLE {
        scene.until_first_open(row.connections, STARTED).await.with_context(|| row.rule)?;
    }
    scene.until_closed(&CLOSED, ENFORCED).await.context("connections that no rule opens")?;
    println!("prepared after {:.1?}", began.elapsed());
    for rule in rules()? {
        let row = row_of(&rule)?;
        let began = Instant::now();
        rule.remove(&namespace).await?;
        let closed = scene.until_closed(row.connections, ENFORCED).await;
        rule.restore(&namespace).await?;
        closed.with_context(|| format!("without the rule {rule}"))?;
        scene.until_open(row.connections, ENFORCED).await.with_context(|| format!("{rule} is back"))?;
        println!("{rule}: without it {} ({:.1?})", row.effect, began.elapsed());
    }
    installation::until_ready(&namespace.client, STARTED).await?;
    namespace.end().await
}
