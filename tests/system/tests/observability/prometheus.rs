//! A Prometheus that scrapes the cluster by the PodMonitors of `deploy/monitoring`: every panel of
//! the dashboards has data, and every alert can be evaluated. That each alert fires is a test of
//! the crate `docs`.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use docs::monitoring::alert::{alerts, rule_file};
use docs::monitoring::dashboard::dashboards;
use docs::monitoring::pod_monitor::pod_monitors;
use docs::monitoring::query::selectors;
use docs::page::root;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use system_tests::cluster::installation::{self, begin_shared};
use system_tests::cluster::kubectl::ApiProxy;
use system_tests::cluster::namespace::TestNamespace;
use system_tests::cluster::network_policies;
use system_tests::monitoring::discovery;
use system_tests::monitoring::prometheus::Prometheus;
use system_tests::monitoring::scrape_config::scrape_configs;
use system_tests::traffic::load::{Load, create_at_zero, ensure_all_ok, until_activators_respond};
use system_tests::wait;
use system_tests::workloads::deadlines::POD_START;
use system_tests::workloads::workload::{Workload, until_replicas};

/// With learn-target Apply; the dashboard's variables have its values.
const APPLIED: &str = "monitored";
const RECOMMENDED: &str = "recommended";
/// With a sidecar that relays bytes; it alone has metrics of connections.
const RELAYED: &str = "relayed";
/// From the last response to zero, and until an activator is in the path.
const TO_ZERO: Duration = Duration::from_secs(90);
/// Clients that are held at each wake: so many that one activator at least holds some at both, as
/// kube-proxy selects activators at random.
const CLIENTS: u32 = 8;
/// The rate of a counter is visible after two scrapes; the adapter's windows need six seconds.
const LOAD: Duration = Duration::from_secs(12);
/// For `$__rate_interval`: several scrapes.
const RATE_INTERVAL: &str = "10s";

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn every_panel_has_data_and_every_alert_is_evaluated() -> Result<()> {
    let namespace = begin_shared("monitoring").await?;
    network_policies::open(&namespace).await?;
    let api = ApiProxy::start().await?;
    let configs = scrape_configs(&pod_monitors(&root())?, api.address, &namespace.name);
    let prometheus = Prometheus::start(&configs, &rule_file(&root())?).await?;
    let namespaces = vec![installation::NAMESPACE.to_owned(), namespace.name.clone()];
    let _targets = discovery::follow(namespace.client.clone(), namespaces, prometheus.folder());
    relay(&namespace).await?;
    tokio::try_join!(
        sleep_and_wake(&namespace, APPLIED, "Apply"),
        sleep_and_wake(&namespace, RECOMMENDED, "Recommend"),
    )?;
    let queries = queries(&namespace)?;
    wait::until("all queries to have data", Duration::from_secs(45), || async {
        let mut empty = Vec::new();
        for (place, query) in &queries {
            if !prometheus.has_data(query).await? {
                empty.push(format!("{place}: {query}"));
            }
        }
        ensure!(empty.is_empty(), "{} of {} have none:\n{}", empty.len(), queries.len(), empty.join("\n"));
        Ok(Some(()))
    })
    .await?;
    let failed = prometheus.failed_rules().await?;
    ensure!(failed.is_empty(), "{failed:?}");
    println!("{} queries have data", queries.len());
    namespace.end().await
}

/// Wakes twice: an activator's first cold start makes its series, which has no rate yet.
async fn sleep_and_wake(namespace: &TestNamespace, name: &str, learning: &str) -> Result<()> {
    let workload = Workload::new(name).annotated("learn-target", learning);
    let url = create_at_zero(&workload, namespace, POD_START).await?;
    for _ in 0..2 {
        until_activators_respond(&url, namespace, TO_ZERO).await?;
        let work = Duration::from_millis(100);
        let responses = Load::concurrency(&url, CLIENTS, work, LOAD).run(namespace).await?;
        ensure_all_ok(&responses).with_context(|| name.to_owned())?;
        until_replicas(namespace, name, |replicas| replicas == 0, TO_ZERO).await?;
    }
    Ok(())
}

/// Creates pods of the protocol TCP.
async fn relay(namespace: &TestNamespace) -> Result<()> {
    Workload::new(RELAYED).create_deployment(namespace).await?;
    let annotations = json!({"autoscaling.rouse.dev/protocol": "tcp"});
    let patch = json!({"spec": {"template": {"metadata": {"annotations": annotations}}}});
    let deployments: Api<Deployment> = namespace.api();
    deployments.patch(RELAYED, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

/// The panels' queries, and the series of the alerts, each with the place where it is.
fn queries(namespace: &TestNamespace) -> Result<Vec<(String, String)>> {
    let filled = |query: &str| {
        [
            ("$__rate_interval", RATE_INTERVAL),
            ("$namespace", &namespace.name),
            ("$owner", APPLIED),
            ("$workload", APPLIED),
        ]
        .iter()
        .fold(query.to_owned(), |query, (variable, value)| query.replace(variable, value))
    };
    let mut queries = Vec::new();
    for dashboard in dashboards(&root())? {
        for panel in &dashboard.panels {
            let place = format!("{} / {}", dashboard.title, panel.title);
            // What one workload cannot have.
            let other = |query: &str| {
                if query.contains("recommended_target") {
                    query.replace("$workload", RECOMMENDED)
                } else if query.contains("tcp_connections") {
                    query.replace("$owner", RELAYED)
                } else {
                    query.to_owned()
                }
            };
            queries.extend(panel.targets.iter().map(|target| (place.clone(), filled(&other(&target.expr)))));
        }
    }
    for alert in alerts(&root())? {
        queries
            .extend(selectors(&alert.expr).into_iter().map(|selector| (alert.name.clone(), selector.series)));
    }
    Ok(queries)
}
