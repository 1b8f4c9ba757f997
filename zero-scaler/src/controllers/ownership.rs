//! Selects one owner among workloads that name the same Service or the same scale target.
//!
//! Used by the reconcilers of PodAutoscalers and ServerlessServices. Two workloads that write one
//! object would overwrite each other for ever, so only the owner writes it. The others report the
//! owner in a condition.
//!
//! The order is that of [`OwnershipRank`].

use autoscaler::Key;
use autoscaler::api::{OwnershipRank, PodAutoscaler};
use kube::ResourceExt;

use crate::controllers::context::Context;

/// The workload that owns the Service instead of `key`; `None` if `key` does.
pub fn other_owner_of_service(key: &Key, service: &str, context: &Context) -> Option<Key> {
    let names_it = |other: &Key| {
        let sks = context.cache.serverless_service(other);
        sks.is_some_and(|sks| sks.spec.service == service && sks.metadata.deletion_timestamp.is_none())
    };
    owner_other_than(key, context.cache.workloads_of_service(&key.namespace, service), names_it, context)
}

/// The workload that owns the scale target instead of `key`; `None` if `key` does.
pub fn other_owner_of_target(key: &Key, autoscaler: &PodAutoscaler, context: &Context) -> Option<Key> {
    let target = &autoscaler.spec.scale_target_ref;
    let scales_it = |other: &Key| {
        let other = context.cache.autoscaler(other).filter(|o| o.metadata.deletion_timestamp.is_none());
        other.is_some_and(|other| other.spec.scale_target_ref.is_same_object(target))
    };
    let all = context.cache.workloads_of_target(&key.namespace, &target.kind, &target.name);
    owner_other_than(key, all, scales_it, context)
}

/// The workload with the least rank, unless that is `key`.
fn owner_other_than(
    key: &Key,
    all: Vec<Key>,
    names_it: impl Fn(&Key) -> bool,
    context: &Context,
) -> Option<Key> {
    // Nearly always empty: then no PodAutoscaler has to be read.
    let others: Vec<Key> = all.into_iter().filter(|other| other != key && names_it(other)).collect();
    let least = others.into_iter().map(|other| rank(other, context)).min()?;
    (least < rank(key.clone(), context)).then_some(least.1)
}

fn rank(key: Key, context: &Context) -> (OwnershipRank, Key) {
    let rank = context.cache.autoscaler(&key).map_or(OwnershipRank::LAST, |autoscaler| {
        let (settings, _) = autoscaler.spec.settings(&context.config(), autoscaler.annotations());
        OwnershipRank::new(&autoscaler, &settings)
    });
    (rank, key)
}
