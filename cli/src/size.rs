//! `wake`, `sleep`, `pause` and `resume`: write the replica count of one workload, or keep it, with
//! the user's rights.
//!
//! A workload at zero that gets a replica count above it is active for the zero-scaler, and goes
//! through the whole scale-to-zero sequence again. One that is set to 0 where it may be at zero
//! counts as at zero: activators hold the next request and wake it.

mod pause;
mod scale_target;
mod sleep_refusals;

use std::io::Write;

use autoscaler::Key;
use autoscaler::api::{PodAutoscaler, ServerlessService};
use jiff::Timestamp;
use kube::Api;
use serde::Serialize;

use crate::args::{OutputFormat, WorkloadArgs};
use crate::connection::Session;
use crate::error::{CommandError, is_not_found};
use crate::output::write_json;
use crate::workloads::report;
pub use pause::{pause, resume};
use scale_target::ScaleTarget;
use sleep_refusals::{ObservedIdleness, refusals};

/// How often a target is read and written while other writers change it.
const ATTEMPTS: usize = 10;

/// The result of a command.
#[derive(Debug, Serialize)]
struct SizeChange {
    workload: String,
    target: String,
    from: i32,
    to: i32,
}

/// Scales a workload at zero to its first size.
///
/// # Errors
/// When it does not exist, or its target cannot be read or written.
pub async fn wake(
    args: &WorkloadArgs,
    session: &Session,
    format: OutputFormat,
    out: &mut dyn Write,
) -> Result<(), CommandError> {
    let (key, workload, target) = select(session, &args.name).await?;
    let (from, to) = target.leave_zero(&workload, &key).await?;
    print(&key, &target, from, to, format, out)
}

/// Scales an idle workload to zero, if no request can be lost.
///
/// # Errors
/// When a request could be lost, or its target cannot be read or written.
pub async fn sleep(
    args: &WorkloadArgs,
    session: &Session,
    now: Timestamp,
    format: OutputFormat,
    out: &mut dyn Write,
) -> Result<(), CommandError> {
    let (key, workload, target) = select(session, &args.name).await?;
    for _ in 0..ATTEMPTS {
        // Read first: nothing is written if the target changes during the checks.
        let scale = target.read().await?;
        if scale.replicas <= 0 {
            return print(&key, &target, scale.replicas, 0, format, out);
        }
        let services: Api<ServerlessService> = Api::namespaced(session.client.clone(), &key.namespace);
        let service = services.get_opt(&key.name).await;
        let service =
            service.map_err(|error| CommandError::request(format!("ServerlessService {key}"), error))?;
        let report = report(session, &key).await.map_err(|error| error.to_string());
        let refusals =
            refusals(&ObservedIdleness { workload: &workload, service: service.as_ref(), report, now });
        if !refusals.is_empty() {
            let message = format!("{key} stays at {}: requests could be lost", scale.replicas);
            return Err(CommandError::Refused(format!("{message}\n  - {}", refusals.join("\n  - "))));
        }
        if target.write(0, &scale).await? {
            return print(&key, &target, scale.replicas, 0, format, out);
        }
    }
    Err(keeps_changing(&key, &target))
}

// === impl ScaleTarget ===

impl ScaleTarget {
    /// Writes the first size of a workload at zero; returns the size before and after.
    async fn leave_zero(&self, workload: &PodAutoscaler, key: &Key) -> Result<(i32, i32), CommandError> {
        let first = workload.spec.min_replicas.unwrap_or(1).max(1);
        for _ in 0..ATTEMPTS {
            let from = self.read().await?;
            let to = if from.replicas > 0 { from.replicas } else { first };
            if to == from.replicas || self.write(to, &from).await? {
                return Ok((from.replicas, to));
            }
        }
        Err(keeps_changing(key, self))
    }
}

fn keeps_changing(key: &Key, target: &ScaleTarget) -> CommandError {
    CommandError::Refused(format!(
        "{key}: {target} changed between each read and write; run the command again"
    ))
}

/// The workload of this name, and its target.
async fn select(session: &Session, name: &str) -> Result<(Key, PodAutoscaler, ScaleTarget), CommandError> {
    let key = session.workload(name)?;
    let workload = pod_autoscaler(session, &key).await?;
    let target = ScaleTarget::find(session, &key.namespace, &workload.spec.scale_target_ref).await?;
    Ok((key, workload, target))
}

async fn pod_autoscaler(session: &Session, key: &Key) -> Result<PodAutoscaler, CommandError> {
    let workloads: Api<PodAutoscaler> = Api::namespaced(session.client.clone(), &key.namespace);
    workloads.get(&key.name).await.map_err(|error| {
        let hint = if is_not_found(&error) { " (kubectl rouse status lists all workloads)" } else { "" };
        CommandError::request(format!("PodAutoscaler {key}{hint}"), error)
    })
}

fn print(
    key: &Key,
    target: &ScaleTarget,
    from: i32,
    to: i32,
    format: OutputFormat,
    out: &mut dyn Write,
) -> Result<(), CommandError> {
    let target = target.to_string();
    match format {
        OutputFormat::Json => write_json(&SizeChange { workload: key.to_string(), target, from, to }, out)?,
        OutputFormat::Text if from == to => writeln!(out, "{key}: {target} is at {to} already")?,
        OutputFormat::Text => writeln!(out, "{key}: {target} scaled from {from} to {to}")?,
    }
    Ok(())
}
