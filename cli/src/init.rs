//! `init`: prints the changes after which a Deployment or StatefulSet is scaled by Rouse.
//!
//! ```text
//!  target, Services, HPAs ─► plan ─┬─ pods:    the label that requests the sidecar, if wanted
//!                                  └─ traffic: the Service, the HPA
//! ```
//!
//! The pods stay as they are, and the Service follows from them: without a selector for pods
//! without a sidecar, with its port at the sidecar for others.
//!
//! Without `--apply` nothing is written. The output is YAML for `kubectl apply --filename -`, with
//! the same changes as `kubectl patch` in comments. There are two steps, because a Service with a
//! port that leads to the sidecar has no endpoints among pods without one.

mod app_port;
mod apply;
mod change;
mod difference;
mod hpa;
mod object;
mod plan;
mod pod_template;
mod service;
mod sidecar_ports;
mod target;

use std::io::Write;

use serde_json::Value;

use crate::args::{InitArgs, OutputFormat};
use crate::connection::Session;
use crate::error::CommandError;
use crate::output::write_json;
use change::Change;
use plan::{InitPlan, TargetObjects};

const CUSTOM_METRICS: &str = "/apis/custom.metrics.k8s.io/v1beta2";
/// The name of Rouse's own metric there.
const DESIRED_OF_SERVICES: &str = "services/desired-replicas";

/// Runs the command.
///
/// # Errors
/// When the target does not exist, has not exactly one usable Service, or cannot be read.
pub async fn run(
    args: &InitArgs,
    session: &Session,
    format: OutputFormat,
    out: &mut dyn Write,
) -> Result<(), CommandError> {
    let (kind, name) = parse_target(&args.target)?;
    let objects = TargetObjects {
        target: get(session, kind, name).await?,
        services: list(session, "Service").await?,
        hpas: list(session, "HorizontalPodAutoscaler").await?,
        custom_metrics: serves_custom_metrics(session).await,
    };
    let plan = plan::plan(&objects, args).map_err(CommandError::Refused)?;
    if args.apply {
        return apply::apply(&plan, session, out).await;
    }
    match format {
        OutputFormat::Json => write_json(&plan, out)?,
        OutputFormat::Text => write_yaml(args, &session.namespace, &plan, out)?,
    }
    Ok(())
}

/// Kind and name of `deploy/web`.
pub(crate) fn parse_target(text: &str) -> Result<(&'static str, &str), CommandError> {
    let (kind, name) = text.split_once('/').unwrap_or(("deployment", text));
    let kind = match kind {
        "deploy" | "deployment" | "deployments" | "deployment.apps" => "Deployment",
        "sts" | "statefulset" | "statefulsets" | "statefulset.apps" => "StatefulSet",
        other => {
            let message = format!("kind {other} is not supported; use deployment/NAME or statefulset/NAME");
            return Err(CommandError::Argument(message));
        }
    };
    if name.is_empty() || name.contains('/') {
        return Err(CommandError::Argument(format!("{text} names no object; use deployment/NAME")));
    }
    Ok((kind, name))
}

/// Whether Rouse serves custom.metrics.k8s.io, as it does beside KEDA: HPAs then find its metrics
/// there alone. Each user may read what an API has.
async fn serves_custom_metrics(session: &Session) -> bool {
    let listed: Option<Value> = request(session, CUSTOM_METRICS).await.ok();
    let resources = listed.as_ref().map(|listed| object::items(listed, "/resources")).unwrap_or_default();
    resources.iter().any(|resource| object::text(resource, "/name") == Some(DESIRED_OF_SERVICES))
}

async fn get(session: &Session, kind: &str, name: &str) -> Result<Value, CommandError> {
    let path = format!("{}/{name}", object::collection(kind, &session.namespace));
    let mut object: Value = request(session, &path).await?;
    object::set_kind(&mut object, kind);
    Ok(object)
}

/// The objects of a collection, in the session's namespace. Those of a list have no kind.
async fn list(session: &Session, kind: &str) -> Result<Vec<Value>, CommandError> {
    let list: Value = request(session, &object::collection(kind, &session.namespace)).await?;
    let mut items = object::items(&list, "/items").to_vec();
    items.iter_mut().for_each(|object| object::set_kind(object, kind));
    Ok(items)
}

async fn request(session: &Session, path: &str) -> Result<Value, CommandError> {
    let request = http::Request::get(path).body(Vec::new());
    let request = request.map_err(|_| CommandError::Argument(format!("{path} is not a valid path")))?;
    session.client.request(request).await.map_err(|error| CommandError::request(format!("get {path}"), error))
}

fn write_yaml(
    args: &InitArgs,
    namespace: &str,
    plan: &InitPlan,
    out: &mut dyn Write,
) -> Result<(), CommandError> {
    writeln!(
        out,
        "# What Rouse needs to scale {} in {namespace}; apply it by kubectl apply --filename -",
        args.target
    )?;
    for note in &plan.notes {
        writeln!(out, "# {note}")?;
    }
    for Change { summary, command, object, .. } in &plan.changes {
        writeln!(out, "---\n# {summary}")?;
        if let Some(command) = command {
            writeln!(out, "# The same as a patch:\n#   {command}")?;
        }
        out.write_all(serde_yaml_ng::to_string(object)?.as_bytes())?;
    }
    if plan.changes.is_empty() {
        writeln!(out, "# Nothing is to be changed.")?;
    }
    Ok(())
}
