//! Reconciles when activators become silent or report again, and when requests end that one could
//! not report: no other event triggers it.

use std::sync::Arc;

use autoscaler::contract::{ACTIVATOR_LEASES, CARRIED_WORKLOADS};
use autoscaler::stats::CarriedWorkloads;
use autoscaler::stats::reporters::{BEAT, PublishedWorkloads};
use component_base::kubernetes::watch_lease_annotation;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::controllers::context::Context;

/// Follows the reports of activators, and the Leases of those that cannot report.
pub fn follow(context: &Arc<Context>, namespace: &str, tasks: &mut JoinSet<()>) {
    let (carried, watch) = watch_lease_annotation(
        context.clients.urgent.without_rate_limit().clone(),
        namespace,
        ACTIVATOR_LEASES,
        CARRIED_WORKLOADS,
        CarriedWorkloads::parse,
        &context.metrics.decode_errors,
    );
    tasks.spawn(watch);
    tasks.spawn(enqueue_on_changes(context.clone(), carried));
}

async fn enqueue_on_changes(context: Arc<Context>, mut carried: watch::Receiver<Option<PublishedWorkloads>>) {
    let Context { cache, queues, routing, scaling, .. } = context.as_ref();
    loop {
        if let Some(published) = carried.borrow_and_update().clone() {
            match routing.activators.reports().publish(published) {
                CarriedWorkloads::All => queues.autoscalers.enqueue_all(&cache.autoscalers),
                CarriedWorkloads::Listed { keys: ended, .. } => {
                    ended.into_iter().for_each(|key| queues.autoscalers.enqueue(key));
                }
            }
        }
        let adapters = scaling.decisions.missing_reports();
        let changes = routing.activators.update_reports(adapters, context.clock.now());
        context.metrics.silent_activators.set(changes.number as i64);
        if changes.silent {
            queues.autoscalers.enqueue_all(&cache.autoscalers);
        }
        if changes.cut_off {
            queues.serverless_services.enqueue_all(&cache.serverless_services);
        }
        // The result is an error if the watch ended, with the process.
        let _ = tokio::time::timeout(BEAT, carried.changed()).await;
    }
}
