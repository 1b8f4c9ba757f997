//! Writes a Service's EndpointSlices, its private Service and the status. Unchanged objects are not
//! written.

use std::sync::Arc;
use std::time::Duration;

use autoscaler::Key;
use autoscaler::api::{ServerlessService, ServerlessServiceStatus};
use autoscaler::contract::short_name::private_name;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Resource;
use serde_json::Value;

use super::desired::{self, is_as_desired};
use super::observe::ObservedService;
use super::private_service::PrivateServiceNeed;
use crate::cache::slice_index::workload_of;
use crate::controllers::context::Context;
use crate::controllers::reconciler::ReconcileError;
use crate::kubernetes::server_side_apply::{
    apply, apply_new, apply_status, delete, delete_unchanged, is_owned_by,
};

/// Whether an existing object has no owner, or a former one.
pub(super) fn adopts(observed: &ObservedService) -> bool {
    let uid = observed.sks.metadata.uid.as_deref();
    observed.slices.iter().any(|slice| !is_owned_by(slice.as_ref(), uid))
        || observed.private_service.as_ref().is_some_and(|private| !is_owned_by(private.as_ref(), uid))
}

/// Writes the desired slices, then deletes our others, so that the Service is never without
/// endpoints.
pub(super) async fn slices(
    observed: &ObservedService,
    desired: &[EndpointSlice],
    context: &Context,
) -> Result<(), ReconcileError> {
    let mut written = Ok(());
    for slice in desired {
        let existing = observed.slices.iter().find(|existing| existing.metadata.name == slice.metadata.name);
        if existing.is_none_or(|existing| !is_as_desired(existing, slice)) {
            // Serialized, a slice brings its kind along.
            let client = context.clients.urgent.without_rate_limit();
            let applied = apply::<EndpointSlice>(client, &serde_json::to_value(slice)?).await;
            // A refused slice does not keep those of the other address family from their pods.
            written = written.and(applied.map(drop));
        }
    }
    written?;
    for existing in &observed.slices {
        if !desired.iter().any(|slice| slice.metadata.name == existing.metadata.name) {
            delete(context.clients.urgent.without_rate_limit(), existing.as_ref()).await?;
        }
    }
    Ok(())
}

/// Writes the private Service while it is needed, else deletes it. Returns when that is due: the
/// rate limit may not allow it yet, and in its queue it would delay reconciles with urgent writes.
///
/// If the cache does not have it yet, it is created without force: if a user creates a Service of
/// the same name at this moment, the write fails, and the next reconcile reports it. One with
/// another primary address family is replaced, because the API does not change that.
pub(super) async fn private_service(
    observed: &ObservedService,
    context: &Context,
) -> Result<Option<Duration>, ReconcileError> {
    let name = private_name(&observed.sks.spec.service);
    let (existing, desired) = match PrivateServiceNeed::of(observed) {
        PrivateServiceNeed::Needed => (observed.private_service.clone(), desired::private_service(observed)),
        PrivateServiceNeed::KeptFor(left) => return Ok(Some(left)),
        PrivateServiceNeed::Unneeded => {
            let of_attached = || owned_private(&observed.key, &observed.sks, &name, context);
            (observed.private_service.clone().or_else(of_attached), None)
        }
    };
    let kept = existing.as_ref().zip(desired.as_ref()).filter(|(it, to)| has_primary_family_of(it, to));
    let is_current = match kept {
        Some((existing, desired)) => is_as_private(&serde_json::to_value(existing.as_ref())?, desired),
        None => existing.is_none() && desired.is_none(),
    };
    if is_current {
        return Ok(None);
    }
    if let Err(delay) = context.clients.rate_limit.try_acquire(&observed.key, 1) {
        return Ok(Some(delay));
    }
    let client = context.clients.urgent.without_rate_limit();
    if let Some((_, desired)) = kept {
        apply::<Service>(client, desired).await?;
        return Ok(None);
    }
    if let Some(superseded) = &existing {
        delete(client, superseded.as_ref()).await?;
    }
    if let Some(desired) = &desired {
        apply_new::<Service>(client, desired).await?;
    }
    Ok(None)
}

/// Deletes what this workload wrote for a Service that it cannot use. Another workload may own it
/// now.
pub(super) async fn withdraw(
    key: &Key,
    sks: &ServerlessService,
    context: &Context,
) -> Result<(), ReconcileError> {
    let deleted = delete_slices(key, None, context).await;
    let private = delete_private(key, sks, &private_name(&sks.spec.service), context).await;
    deleted.and(private).and(leave(key, sks, context).await)
}

/// Deletes what this workload wrote for its earlier Services.
pub(super) async fn leave(
    key: &Key,
    sks: &ServerlessService,
    context: &Context,
) -> Result<(), ReconcileError> {
    delete_slices(key, Some(&sks.spec.service), context).await?;
    let private = sks.status.as_ref().and_then(|status| status.private_service.as_deref());
    match private.filter(|name| *name != private_name(&sks.spec.service)) {
        Some(private) => delete_private(key, sks, private, context).await,
        None => Ok(()),
    }
}

async fn delete_slices(key: &Key, kept: Option<&str>, context: &Context) -> Result<(), ReconcileError> {
    let slices = &context.cache.slices;
    for service in slices.services_with_slices_of(key).iter().filter(|service| Some(service.as_str()) != kept)
    {
        for slice in slices.of(&key.namespace, service) {
            if workload_of(&slice).as_ref() == Some(key) {
                delete_unchanged(context.clients.urgent.without_rate_limit(), slice.as_ref()).await?;
            }
        }
    }
    Ok(())
}

async fn delete_private(
    key: &Key,
    sks: &ServerlessService,
    name: &str,
    context: &Context,
) -> Result<(), ReconcileError> {
    if let Some(private) = owned_private(key, sks, name, context) {
        delete(&context.clients.rate_limited, private.as_ref()).await?;
    }
    Ok(())
}

/// The private Service, if it belongs to this workload.
fn owned_private(key: &Key, sks: &ServerlessService, name: &str, context: &Context) -> Option<Arc<Service>> {
    let private = context.cache.service(&key.namespace, name);
    private.filter(|private| is_owned_by(private.as_ref(), sks.meta().uid.as_deref()))
}

/// Writes the status.
pub(super) async fn status(
    sks: &ServerlessService,
    after: ServerlessServiceStatus,
    context: &Context,
) -> Result<(), ReconcileError> {
    if sks.status.as_ref() == Some(&after) {
        return Ok(());
    }
    let (namespace, name) = (sks.metadata.namespace.as_deref(), sks.metadata.name.as_deref());
    let (namespace, name) = (namespace.unwrap_or_default(), name.unwrap_or_default());
    apply_status::<ServerlessService, _>(
        context.clients.urgent.without_rate_limit(),
        namespace,
        name,
        &after,
    )
    .await?;
    Ok(())
}

fn has_primary_family_of(existing: &Service, desired: &Value) -> bool {
    let families = existing.spec.as_ref().and_then(|spec| spec.ip_families.as_deref());
    let primary = families.and_then(|families| families.first());
    let desired = desired.pointer("/spec/ipFamilies/0").and_then(Value::as_str);
    primary.is_none_or(|primary| Some(primary.as_str()) == desired)
}

/// Whether a private Service is as desired. Cached objects have no kind and version to compare.
fn is_as_private(existing: &Value, desired: &Value) -> bool {
    let part = |object: &Value, part: &str| object.pointer(part).map(ordered);
    let has = |name| part(existing, name).zip(part(desired, name)).is_some_and(|(e, d)| contains(&e, &d));
    let is_same = |name| value(existing, name) == value(desired, name);
    has("/metadata")
        && has("/spec")
        && is_same("/metadata/annotations")
        && is_same("/spec/trafficDistribution")
}

/// A part of an object; `None` if it is null as well.
fn value<'a>(object: &'a Value, part: &str) -> Option<&'a Value> {
    object.pointer(part).filter(|value| !value.is_null())
}

/// A copy with its ports ordered by number and name: server-side apply merges them in any order.
fn ordered(spec: &Value) -> Value {
    let mut spec = spec.clone();
    if let Some(ports) = spec.get_mut("ports").and_then(Value::as_array_mut) {
        ports.sort_by_key(|port| (port["port"].as_i64(), port["name"].to_string()));
    }
    spec
}

/// Whether an object has all desired fields. Lists must be equal in length and order.
fn contains(existing: &Value, desired: &Value) -> bool {
    match (existing, desired) {
        (Value::Object(existing), Value::Object(desired)) => {
            desired.iter().all(|(key, value)| existing.get(key).is_some_and(|e| contains(e, value)))
        }
        (Value::Array(existing), Value::Array(desired)) => {
            existing.len() == desired.len() && existing.iter().zip(desired).all(|(e, d)| contains(e, d))
        }
        (existing, desired) => existing == desired,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ports_of_private_service_may_have_any_order() {
        let service = |ports: [u16; 2]| {
            let ports = ports.map(|port| json!({"name": port.to_string(), "port": port}));
            json!({"metadata": {"name": "web-private"}, "spec": {"ports": ports}})
        };
        assert!(is_as_private(&service([80, 81]), &service([81, 80])));
        assert!(!is_as_private(&service([80, 82]), &service([81, 80])));
    }

    #[test]
    fn private_service_without_the_topology_of_the_public_one_is_written() {
        let service =
            |distribution: Value| json!({"metadata": {}, "spec": {"trafficDistribution": distribution}});
        let (unset, close) = (json!({"metadata": {}, "spec": {}}), service(json!("PreferClose")));
        assert!(is_as_private(&service(Value::Null), &unset) && is_as_private(&close, &close));
        assert!(!is_as_private(&service(Value::Null), &close), "set");
        assert!(!is_as_private(&close, &unset), "unset");
        let annotated =
            json!({"metadata": {"annotations": {"service.kubernetes.io/topology-mode": "Auto"}}, "spec": {}});
        assert!(!is_as_private(&annotated, &unset) && !is_as_private(&unset, &annotated));
    }

    #[test]
    fn allows_additional_fields_but_no_longer_lists() {
        let existing = json!({"spec": {"ports": [{"port": 80, "protocol": "TCP"}], "clusterIP": "None"}});
        assert!(contains(&existing, &json!({"spec": {"ports": [{"port": 80}]}})));
        assert!(!contains(&existing, &json!({"spec": {"ports": [{"port": 81}]}})));
        assert!(!contains(&existing, &json!({"spec": {"ports": []}})));
        assert!(!contains(&existing, &json!({"spec": {"selector": {}}})));
    }
}
