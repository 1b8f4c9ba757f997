//! `init --apply`: writes the changes, after a dry run of all of them on the API server.
//!
//! The dry run shows what the API server would store, admission included, as differences. If it
//! refuses one change, none is written. A write has the version of the object that was read, so a
//! change by another writer in between is a conflict and not lost.

use std::io::Write;

use serde_json::{Value, json};

use super::change::Change;
use super::difference::{difference, write_difference};
use super::object::{applicable, collection, kind, merge, name, namespace, patch_command, text};
use super::plan::InitPlan;
use crate::connection::Session;
use crate::error::CommandError;

pub(super) async fn apply(
    plan: &InitPlan,
    session: &Session,
    out: &mut dyn Write,
) -> Result<(), CommandError> {
    for note in &plan.notes {
        writeln!(out, "{note}")?;
    }
    for change in &plan.changes {
        let stored = write(change, session, "?dryRun=All").await?;
        writeln!(out, "{}", change.summary)?;
        let before = change.before.as_ref().map_or_else(|| json!({}), applicable);
        write_difference(&before, &applicable(&stored), out)?;
    }
    if plan.changes.is_empty() {
        writeln!(out, "Nothing is to be changed.")?;
        return Ok(());
    }
    for change in &plan.changes {
        write(change, session, "").await?;
        writeln!(out, "applied: {} {}", kind(&change.object), name(&change.object))?;
    }
    writeln!(out, "To undo it, in this order:")?;
    for change in &plan.changes {
        writeln!(out, "  {}", undo(change))?;
    }
    Ok(())
}

/// Creates or patches the object; returns what the API server stores.
async fn write(change: &Change, session: &Session, query: &str) -> Result<Value, CommandError> {
    let object = &change.object;
    let what = format!("apply {} {}", kind(object), name(object));
    let collection = collection(kind(object), namespace(object));
    let (method, path, body) = match &change.before {
        None => ("POST", format!("{collection}{query}"), object.clone()),
        Some(before) => {
            let mut patch = difference(&applicable(before), object).unwrap_or_else(|| json!({}));
            if let Some(version) = text(before, "/metadata/resourceVersion") {
                merge(&mut patch, &json!({"metadata": {"resourceVersion": version}}));
            }
            ("PATCH", format!("{collection}/{}{query}", name(object)), patch)
        }
    };
    let content = if method == "POST" { "application/json" } else { "application/merge-patch+json" };
    let request = http::Request::builder().method(method).uri(&path).header("content-type", content);
    let request = request.body(body.to_string().into_bytes());
    let request = request.map_err(|_| CommandError::Argument(format!("{path} is not a valid path")))?;
    session.client.request(request).await.map_err(|error| CommandError::request(what, error))
}

/// The command that takes the change back.
fn undo(change: &Change) -> String {
    let object = &change.object;
    let kind = kind(object).to_lowercase();
    match &change.before {
        None => format!("kubectl --namespace {} delete {kind} {}", namespace(object), name(object)),
        Some(before) => {
            let patch = difference(object, &applicable(before)).unwrap_or_else(|| json!({}));
            patch_command(object, &kind, Some("merge"), &patch)
        }
    }
}
