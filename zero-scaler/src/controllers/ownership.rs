//! Which of several workloads has what all of them name: a Service, or something to scale.
//!
//! Asked by the reconcilers of both kinds. Two that write one object would take turns for ever, so one has it and the others
//! say so. All looks come to the same answer, whatever else they know: first who is reachable, then who is older, then by name. The
//! half of a blue-green pair that is marked as unreachable gives way so, whenever it was made.

use autoscaler::Key;
use autoscaler::api::PodAutoscaler;
use kube::ResourceExt;

use crate::controllers::context::Context;

/// The less, the better the right.
type Rank = (bool, bool, i64, Key);

/// The workload that has a better right to this Service than `key`.
pub fn holder_of_service(key: &Key, service: &str, context: &Context) -> Option<Key> {
    let names_it = |other: &Key| {
        let sks = context.cache.serverless_service(other);
        sks.is_some_and(|sks| sks.spec.service == service && sks.metadata.deletion_timestamp.is_none())
    };
    best(key, context.cache.workloads_of_service(&key.namespace, service), names_it, context)
}

/// The workload that has a better right than `key` to what it scales.
pub fn holder_of_target(key: &Key, autoscaler: &PodAutoscaler, context: &Context) -> Option<Key> {
    let target = &autoscaler.spec.scale_target_ref;
    let group = |version: &str| version.split_once('/').map(|(group, _)| group.to_owned());
    let scales_it = |other: &Key| {
        let other = context.cache.autoscaler(other).filter(|o| o.metadata.deletion_timestamp.is_none());
        other.is_some_and(|other| {
            group(&other.spec.scale_target_ref.api_version) == group(&target.api_version)
        })
    };
    let all = context.cache.workloads_of_target(&key.namespace, &target.kind, &target.name);
    best(key, all, scales_it, context)
}

/// The first of those who want what `key` wants, unless that is `key` itself.
fn best(key: &Key, all: Vec<Key>, wants: impl Fn(&Key) -> bool, context: &Context) -> Option<Key> {
    // Nearly always nobody: then nothing is to be read.
    let others: Vec<Key> = all.into_iter().filter(|other| other != key && wants(other)).collect();
    let best = others.into_iter().map(|other| rank(other, context)).min()?;
    (best < rank(key.clone(), context)).then_some(best.3)
}

fn rank(key: Key, context: &Context) -> Rank {
    let Some(autoscaler) = context.cache.autoscaler(&key) else { return (true, true, i64::MAX, key) };
    let (settings, _) = autoscaler.spec.settings(&context.config(), autoscaler.annotations());
    let created = autoscaler.metadata.creation_timestamp.as_ref().map_or(i64::MAX, |t| t.0.as_second());
    (false, !settings.reachability.is_reachable(), created, key)
}
