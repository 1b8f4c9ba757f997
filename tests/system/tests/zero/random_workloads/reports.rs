//! What Rouse reports to the user of a workload, wherever it does.

use anyhow::Result;
use autoscaler::api::{PodAutoscaler, ServerlessService};
use k8s_openapi::api::core::v1::Event;
use kube::api::ListParams;
use system_tests::cluster::namespace::TestNamespace;

/// All reasons with their messages, of the conditions and statuses of a workload's objects and of
/// the events of its namespace.
pub(super) async fn reports(namespace: &TestNamespace) -> Result<Vec<(String, String)>> {
    let all = ListParams::default();
    let mut reports = Vec::new();
    for autoscaler in namespace.api::<PodAutoscaler>().list(&all).await?.items {
        let Some(status) = autoscaler.status else { continue };
        reports.extend(status.reason.zip(status.message));
        reports.extend(status.conditions.into_iter().map(|it| (it.reason, it.message)));
    }
    for service in namespace.api::<ServerlessService>().list(&all).await?.items {
        let conditions = service.status.unwrap_or_default().conditions;
        reports.extend(conditions.into_iter().map(|it| (it.reason, it.message)));
    }
    let events = namespace.api::<Event>().list(&all).await?.items;
    reports.extend(events.into_iter().filter_map(|event| event.reason.zip(event.message)));
    Ok(reports)
}
