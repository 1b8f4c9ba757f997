//! `check`: everything that keeps workloads from being scaled, each with its fix.
//!
//! ```text
//!  read_cluster ───► ClusterObjects ──────────────────────► cluster::* ──┐
//!  read_namespace ─► NamespaceObjects ─► WorkloadObjects ─► workload::* ─┴► findings ─► text, JSON
//! ```
//!
//! Each check is a pure function from objects to findings. What the zero-scaler reports in
//! conditions is shown as it is; where there is none, the same functions of `autoscaler::findings`
//! are called. An object that the user may not read is listed as unchecked, which is not a finding.

pub mod cluster;
pub mod cluster_objects;
pub mod cluster_version;
pub mod fetched;
pub mod finding;
pub mod front_door;
pub mod namespace_objects;
pub mod peer_authentication;
pub mod pod_failure;
mod read_cluster;
mod read_namespace;
pub mod selection;
pub mod workload;
pub mod workload_objects;

use std::collections::HashSet;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;

use autoscaler::Key;
use autoscaler::findings::pod_start;
use jiff::Timestamp;
use serde::Serialize;

use crate::args::{CheckArgs, OutputFormat};
use crate::connection::Session;
use crate::error::{CommandError, NEGATIVE};
use crate::output::write_json;
use finding::Finding;
use read_namespace::NamespaceReader;

/// The result of all checks.
#[derive(Debug, Serialize)]
struct CheckReport {
    findings: Vec<Finding>,
    /// What would make pods of a named workload start sooner; not a finding.
    advice: Vec<&'static str>,
    /// Objects that could not be read, with the reason.
    unchecked: Vec<String>,
    /// Number of checked workloads.
    workloads: usize,
}

/// Runs the command.
///
/// # Errors
/// When the cluster cannot be reached, or the named workload does not exist.
pub async fn run(
    args: &CheckArgs,
    session: &Session,
    now: Timestamp,
    format: OutputFormat,
    out: &mut dyn Write,
) -> Result<ExitCode, CommandError> {
    let only = args.name.as_deref().map(|name| session.workload(name)).transpose()?;
    let report = if args.preflight {
        preflight(session, now).await?
    } else {
        installed(session, now, only.as_ref()).await?
    };
    match format {
        OutputFormat::Json => write_json(&report, out)?,
        OutputFormat::Text => write_text(&report, args.preflight, out)?,
    }
    Ok(if report.findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(NEGATIVE) })
}

/// What an installation would find.
async fn preflight(session: &Session, now: Timestamp) -> Result<CheckReport, CommandError> {
    let cluster = read_cluster::read(session, now).await?;
    Ok(CheckReport {
        findings: cluster::before_installation(&cluster),
        advice: Vec::new(),
        unchecked: cluster.unreadable(),
        workloads: 0,
    })
}

async fn installed(
    session: &Session,
    now: Timestamp,
    only: Option<&Key>,
) -> Result<CheckReport, CommandError> {
    let cluster = read_cluster::read(session, now).await?;
    let mut reader = NamespaceReader::new(session, cluster.unreadable()).await;
    let mut workloads = Vec::new();
    let mut findings = Vec::new();
    let shared = Arc::new(cluster::shared_facts::shared_facts(&cluster));
    for namespace in reader.namespaces(only).await {
        let objects = Arc::new(reader.read(&namespace).await);
        if only.is_none() {
            findings.extend(workload::without_workload(&objects));
        }
        workloads.extend(workload::workloads_of(&objects, &shared));
    }
    if let Some(key) = only {
        workloads.retain(|workload| workload.key == *key);
        if workloads.is_empty() {
            let message = format!(
                "{key} is not a workload: no PodAutoscaler and no HPA with a metric of Rouse has that name; kubectl \
                 rouse init prints the objects that it needs"
            );
            return Err(CommandError::Argument(message));
        }
    }
    findings.extend(cluster::after_installation(&cluster, &workloads));
    findings.extend(workloads.iter().flat_map(workload::findings));
    findings.sort_by_key(|finding| finding.severity);
    let mut seen = HashSet::new();
    // Objects that workloads share are checked for each workload.
    findings.retain(|finding| seen.insert(finding.clone()));
    let mut unchecked = reader.into_unchecked();
    unchecked.dedup();
    // Of all workloads it would be longer than the findings.
    let advised = workloads.iter().filter(|workload| only.is_some() && workload.goes_to_zero());
    let advice = advised.filter_map(|workload| workload.template.as_ref()).filter_map(pod_start::advice);
    let advice = advice.collect();
    Ok(CheckReport { findings, advice, unchecked, workloads: workloads.len() })
}

fn write_text(report: &CheckReport, preflight: bool, out: &mut dyn Write) -> io::Result<()> {
    for finding in &report.findings {
        writeln!(out, "{finding}\n")?;
    }
    for advice in &report.advice {
        writeln!(out, "advice: {advice}")?;
    }
    for object in &report.unchecked {
        writeln!(out, "not checked: {object}")?;
    }
    let workloads = report.workloads;
    let s = if workloads == 1 { "" } else { "s" };
    match (report.findings.len(), preflight) {
        (0, true) => writeln!(out, "no problems found: Rouse can be installed"),
        (0, false) if workloads == 0 => writeln!(out, "no problems found: Rouse is healthy"),
        (0, false) => {
            writeln!(out, "no problems found: Rouse and {workloads} workload{s} are healthy")
        }
        (1, _) => writeln!(out, "1 finding"),
        (findings, _) => writeln!(out, "{findings} findings"),
    }
}
