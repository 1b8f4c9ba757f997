//! `pause` and `resume`: write and remove the setting `paused` of a workload, and its size.
//!
//! The setting is an annotation of the HPA from which the zero-scaler makes the PodAutoscaler, and
//! a field of a PodAutoscaler that a user wrote. A size is written only after the zero-scaler has
//! reported the pause: before that, a request could change it again.

use std::io::Write;
use std::time::Duration;

use autoscaler::Key;
use autoscaler::api::{PodAutoscaler, WorkloadPhase};
use autoscaler::contract::PAUSED;
use autoscaler::settings::Pause;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::api::{Patch, PatchParams};
use kube::{Api, Resource, ResourceExt};
use serde::Serialize;
use serde_json::{Value, json};

use super::scale_target::ScaleTarget;
use super::{ATTEMPTS, keeps_changing, pod_autoscaler, select};
use crate::args::{OutputFormat, PauseArgs, WorkloadArgs};
use crate::connection::Session;
use crate::error::CommandError;
use crate::output::write_json;

/// Interval of the reads of a status.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// How long the zero-scaler may take to report.
const REPORTED_WITHIN: Duration = Duration::from_secs(15);

/// The result of a command.
#[derive(Debug, Serialize)]
struct PausedWorkload {
    workload: String,
    target: String,
    paused: String,
    size: i32,
}

/// Keeps a workload at its size, or at another one.
///
/// # Errors
/// When it does not exist, or a write or the zero-scaler's report fails.
pub async fn pause(
    args: &PauseArgs,
    session: &Session,
    now: Timestamp,
    format: OutputFormat,
    out: &mut dyn Write,
) -> Result<(), CommandError> {
    let (key, workload, target) = select(session, &args.name).await?;
    let pause = args.duration.map_or(Ok(Pause::On), |duration| ends_after(now, duration))?;
    write_setting(session, &workload, &key, json!(pause.to_string())).await?;
    if let Some(size) = args.at {
        keep_at(session, &key, &target, size).await?;
    }
    let size = target.read().await?.replicas;
    print(&key, &target, pause, size, format, out)
}

/// Ends a pause. A workload at zero that may not be there gets its first size.
///
/// # Errors
/// When it does not exist, or a write fails.
pub async fn resume(
    args: &WorkloadArgs,
    session: &Session,
    format: OutputFormat,
    out: &mut dyn Write,
) -> Result<(), CommandError> {
    let (key, workload, target) = select(session, &args.name).await?;
    write_setting(session, &workload, &key, Value::Null).await?;
    let size = if workload.spec.scale_to_zero {
        target.read().await?.replicas
    } else {
        target.leave_zero(&workload, &key).await?.1
    };
    print(&key, &target, Pause::Off, size, format, out)
}

fn ends_after(now: Timestamp, duration: Duration) -> Result<Pause, CommandError> {
    let duration = SignedDuration::try_from(duration).ok();
    let end = duration.and_then(|duration| now.checked_add(duration).ok());
    let end = end.ok_or_else(|| CommandError::Argument("--for is too long".to_owned()))?;
    Ok(Pause::Until(end.as_second().saturating_mul(1000)))
}

/// Null removes it.
async fn write_setting(
    session: &Session,
    workload: &PodAutoscaler,
    key: &Key,
    value: Value,
) -> Result<(), CommandError> {
    let kind = HorizontalPodAutoscaler::kind(&());
    if workload.owner_references().iter().any(|owner| owner.kind == kind) {
        let changes = json!({"metadata": {"annotations": {PAUSED: value}}});
        return patch::<HorizontalPodAutoscaler>(session, key, changes).await;
    }
    let changes = json!({"metadata": {"annotations": {PAUSED: null}}, "spec": {"paused": value}});
    patch::<PodAutoscaler>(session, key, changes).await
}

async fn patch<K>(session: &Session, key: &Key, changes: Value) -> Result<(), CommandError>
where
    K: Resource<Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
    K::DynamicType: Default,
{
    let objects: Api<K> = Api::namespaced(session.client.clone(), &key.namespace);
    let patched = objects.patch(&key.name, &PatchParams::default(), &Patch::Merge(changes)).await;
    let what = || format!("{} {key}", K::kind(&K::DynamicType::default()));
    patched.map(drop).map_err(|error| CommandError::request(what(), error))
}

/// An HPA that read the metric of the size before may write that one once more.
async fn keep_at(session: &Session, key: &Key, target: &ScaleTarget, size: i32) -> Result<(), CommandError> {
    until_reported(session, key, "the pause", |phase, _| phase == Some(WorkloadPhase::Paused)).await?;
    for _ in 0..ATTEMPTS {
        let read = target.read().await?;
        if read.replicas != size && !target.write(size, &read).await? {
            continue;
        }
        until_reported(session, key, "the size", |_, replicas| replicas == Some(size)).await?;
        if target.read().await?.replicas == size {
            return Ok(());
        }
    }
    Err(keeps_changing(key, target))
}

async fn until_reported(
    session: &Session,
    key: &Key,
    what: &str,
    is_reported: impl Fn(Option<WorkloadPhase>, Option<i32>) -> bool,
) -> Result<(), CommandError> {
    let poll = async {
        loop {
            let status = pod_autoscaler(session, key).await?.status.unwrap_or_default();
            if is_reported(status.phase, status.replicas) {
                return Ok(());
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    tokio::time::timeout(REPORTED_WITHIN, poll).await.unwrap_or_else(|_| {
        Err(CommandError::Refused(format!(
            "{key}: no zero-scaler has reported {what} within {REPORTED_WITHIN:?}; the pause is written \
             (kubectl rouse check finds what is wrong)"
        )))
    })
}

fn print(
    key: &Key,
    target: &ScaleTarget,
    pause: Pause,
    size: i32,
    format: OutputFormat,
    out: &mut dyn Write,
) -> Result<(), CommandError> {
    let (workload, target, paused) = (key.to_string(), target.to_string(), pause.to_string());
    match (format, pause) {
        (OutputFormat::Json, _) => {
            write_json(&PausedWorkload { workload, target, paused, size }, out)?;
        }
        (OutputFormat::Text, Pause::Off) => writeln!(out, "{workload}: resumed, {target} is at {size}")?,
        (OutputFormat::Text, Pause::On) => writeln!(out, "{workload}: paused, {target} stays at {size}")?,
        (OutputFormat::Text, Pause::Until(_)) => {
            writeln!(out, "{workload}: paused, {target} stays at {size} until {paused}")?;
        }
    }
    Ok(())
}
