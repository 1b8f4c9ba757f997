//! Workloads as the commands show them: each PodAutoscaler, and what the metrics-adapter reports
//! about its decisions. `status`, `top` and `why` print them.

pub mod row;
pub mod status;
pub mod top;
pub mod why;
pub mod why_report;

use autoscaler::Key;
use autoscaler::api::{PodAutoscaler, key_of};
use futures::{StreamExt, stream};
use jiff::Timestamp;
use kube::api::{Api, ListParams};

use crate::connection::Session;
use crate::error::{CommandError, is_not_found};
use row::WorkloadRow;
use why_report::WhyReport;

/// Objects on one page of a list.
const PAGE: u32 = 500;
/// Requests for reports at the same time.
const CONCURRENT_REPORTS: usize = 16;

/// All objects behind `api`, page by page.
///
/// # Errors
/// When a request fails.
pub async fn list_all<K>(api: &Api<K>) -> Result<Vec<K>, kube::Error>
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let mut objects = Vec::new();
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let page = api.list(&params).await?;
        objects.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(objects),
        }
    }
}

/// The PodAutoscalers in the selected namespaces.
///
/// # Errors
/// When the request fails, or Rouse's custom resources are not installed.
pub async fn pod_autoscalers(session: &Session) -> Result<Vec<PodAutoscaler>, CommandError> {
    list_all(&session.selected::<PodAutoscaler>()).await.map_err(|error| {
        if is_not_found(&error) {
            let message =
                "the cluster has no PodAutoscalers: Rouse is not installed; see kubectl rouse check";
            return CommandError::Request { what: message.to_owned(), source: Box::new(error) };
        }
        CommandError::request("list PodAutoscalers", error)
    })
}

/// A row for each workload in the selected namespaces, by namespace and name.
///
/// # Errors
/// When the PodAutoscalers cannot be listed. A workload without a report has a row without load.
pub async fn rows(session: &Session) -> Result<Vec<WorkloadRow>, CommandError> {
    let workloads = pod_autoscalers(session).await?;
    let keyed = workloads.into_iter().filter_map(|workload| Some((key_of(&workload)?, workload)));
    let mut rows: Vec<WorkloadRow> = stream::iter(keyed)
        .map(|(key, workload)| async move {
            let report = report(session, &key).await;
            WorkloadRow::new(&key, &workload, report.as_ref().map_err(ToString::to_string), Timestamp::now())
        })
        .buffer_unordered(CONCURRENT_REPORTS)
        .collect()
        .await;
    rows.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    Ok(rows)
}

/// The metrics-adapter's report on one workload.
///
/// # Errors
/// When the request fails, or the response has another form.
pub async fn report(session: &Session, key: &Key) -> Result<WhyReport, CommandError> {
    let text = why_report::request(session, key, why_report::Format::Json).await?;
    serde_json::from_str(&text)
        .map_err(|source| CommandError::Response { what: format!("why {key}"), source })
}
