//! `shadow`: what Rouse would have decided on the load of a workload, beside the pods that it had.
//!
//! The load comes from the metrics-adapter or from a recorded trace. The workload is the one of a
//! Deployment or StatefulSet that an HPA with its own metrics scales: its requests are counted
//! already, and Rouse writes no size above zero. Nothing is written.

use std::fs::File;
use std::io::{BufReader, Write};
use std::path::Path;
use std::time::Duration;

use autoscaler::Key;
use autoscaler::api::{PodAutoscaler, PodAutoscalerSpec, key_of};
use autoscaler::scaling::replay::{Shadow, ShadowOptions};
use kube::api::Api;

use super::shadow_report::Report;
use super::trace_source::TraceSource;
use crate::args::{OutputFormat, ShadowArgs};
use crate::connection::Session;
use crate::error::CommandError;
use crate::init::parse_target;
use crate::load::simulate::trace_lines::{LineError, TraceLines};
use crate::output::write_json;
use crate::workloads::list_all;

/// Buffer of a trace's file, in bytes.
const BUFFER: usize = 64 << 10;
/// Cluster-wide default of scale-to-zero-grace-period.
const GRACE: Duration = Duration::from_secs(30);

/// Runs the command on the load of the cluster.
///
/// # Errors
/// When Rouse counts no requests of the target, or the load cannot be read.
pub async fn run(
    args: &ShadowArgs,
    session: &Session,
    format: OutputFormat,
    out: &mut dyn Write,
) -> Result<(), CommandError> {
    let target = args.target.as_deref().unwrap_or_default();
    let (key, spec) = find(session, target).await?;
    let mut report = Report::new(key.to_string(), Shadow::new(options(args, Some(&spec))));
    let mut source = TraceSource::new(session, key.clone());
    source
        .read_for(args.duration, |line| {
            let what = || format!("the load of {key}");
            let line = line.parsed().map_err(|source| CommandError::Response { what: what(), source })?;
            report.take(line).map_err(|error| CommandError::Trace(format!("{}: {error}", what())))
        })
        .await?;
    write(&report, format, out)
}

/// Runs the command on a recorded trace, which needs no cluster.
///
/// # Errors
/// When the trace is invalid.
pub fn run_recorded(
    args: &ShadowArgs,
    file: &Path,
    format: OutputFormat,
    out: &mut dyn Write,
) -> Result<(), CommandError> {
    let name = file.display().to_string();
    let input = File::open(file).map_err(|error| CommandError::Trace(format!("{name}: {error}")))?;
    let mut report = Report::new(name.clone(), Shadow::new(options(args, None)));
    let mut lines = TraceLines::new(name, BufReader::with_capacity(BUFFER, input));
    let invalid = |error: &dyn std::fmt::Display| CommandError::Trace(error.to_string());
    while let Some(line) = lines.next().map_err(|error| invalid(&error))? {
        report.take(line).map_err(|error| invalid(&lines.error(LineError::Replay(error))))?;
    }
    write(&report, format, out)
}

fn write(report: &Report, format: OutputFormat, out: &mut dyn Write) -> Result<(), CommandError> {
    match format {
        OutputFormat::Json => write_json(report, out)?,
        OutputFormat::Text => report.write(out)?,
    }
    Ok(())
}

/// The bounds of the command line, else the workload's.
fn options(args: &ShadowArgs, spec: Option<&PodAutoscalerSpec>) -> ShadowOptions {
    let bound = |bound: Option<i32>| bound.and_then(|bound| u32::try_from(bound).ok());
    let min = args.min.or_else(|| bound(spec?.min_replicas)).unwrap_or(1).max(1);
    let max = args.max.or_else(|| bound(spec?.max_replicas)).unwrap_or(u32::MAX).max(min);
    let scale_to_zero = args.scale_to_zero || spec.is_some_and(|spec| spec.scale_to_zero);
    ShadowOptions { min, max, grace: scale_to_zero.then_some(GRACE), pod_start: args.pod_start }
}

/// The workload of a Deployment or StatefulSet.
async fn find(session: &Session, target: &str) -> Result<(Key, PodAutoscalerSpec), CommandError> {
    let (kind, name) = parse_target(target)?;
    let api: Api<PodAutoscaler> = Api::namespaced(session.client.clone(), &session.namespace);
    let workloads = list_all(&api).await;
    let workloads = workloads.map_err(|error| CommandError::request("list PodAutoscalers", error))?;
    let scales = |workload: &PodAutoscaler| {
        workload.spec.scale_target_ref.kind == kind && workload.spec.scale_target_ref.name == name
    };
    let found = workloads.into_iter().find(scales);
    let found = found.and_then(|workload| Some((key_of(&workload)?, workload.spec)));
    found.ok_or_else(|| {
        CommandError::Refused(format!(
            "no requests of {target} are counted: annotate its HPA autoscaling.rouse.dev/metric: none and \
             autoscaling.rouse.dev/service: NAME, and give the pods the sidecar; the HPA then scales as before"
        ))
    })
}
