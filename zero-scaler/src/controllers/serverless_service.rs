//! Reconciles one ServerlessService: leases ports, probes activators, writes the Service's
//! endpoints.
//!
//! ```text
//!  observe ──► lease ports (status first: activators open them) ──► probe activators ──► desired
//!    ──► apply ──► delete leftovers of Kubernetes ──► status ──► (at the end of Rouse) release
//! ```
//!
//! A write that fails ends none of the others: endpoints follow the pods and activators, and the
//! status has the refusal. The reconcile fails afterwards, so that it is retried.
//!
//! Input: a ServerlessService, its Service, the pods and the activators. Output: our
//! EndpointSlices, the private Service, and the status with the mode in force.

mod apply;
mod condition_types;
mod desired;
mod foreign_endpoints;
mod observe;
mod private_service;
mod status;
mod teardown;

use std::sync::Arc;
use std::time::Duration;

use autoscaler::api::{ServerlessService, key_of};
use component_base::kubernetes::Decoded;
use kube::runtime::controller::Action;

use crate::activators::directory::{ListeningActivators, PortHolder};
use crate::controllers::context::Context;
use crate::controllers::reconciler::{RESYNC, ReconcileError};
use crate::kubernetes::server_side_apply::may_adopt;
use foreign_endpoints::ForeignEndpoints;

pub use condition_types::{ACTIVATORS_POPULATED, READY};

/// Retry delay while a Service port has no lease. No event reports a free activator port.
const UNLEASED_RETRY: Duration = Duration::from_secs(30);

/// Reconciles one ServerlessService.
///
/// # Errors
/// When the API server rejects a write.
pub async fn reconcile(
    object: Arc<Decoded<ServerlessService>>,
    context: Arc<Context>,
) -> Result<Action, ReconcileError> {
    let (Ok(sks), Some(key)) = (&object.0, key_of(object.as_ref())) else {
        return Ok(Action::await_change());
    };
    if sks.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    if context.cache.services.is_undecodable(&key.namespace, &sks.spec.service) {
        // Its endpoints stay as they are: it exists, and what it needs is unknown.
        return Ok(Action::await_change());
    }
    let observed = match observe::observe(&key, sks, &context) {
        Ok(observed) => observed,
        Err(unusable) => {
            let awaited = foreign_endpoints::are_awaited(&key, sks, &context);
            let withdrawn = if awaited { Ok(()) } else { apply::withdraw(&key, sks, &context).await };
            apply::status(sks, status::unusable(sks, &unusable, context.clock.now()), &context).await?;
            return withdrawn.map(|()| Action::requeue(RESYNC));
        }
    };
    if teardown::was_released(&observed) && foreign_endpoints::are_awaited(&key, sks, &context) {
        // It was released, and what Kubernetes writes for it replaces what is there.
        return Ok(Action::await_change());
    }
    let client = context.clients.urgent.without_rate_limit();
    if apply::adopts(&observed) && !may_adopt(client, sks.as_ref()).await? {
        return Ok(Action::await_change());
    }
    let mut written = Ok(());
    if observed.ports != observed.status().ports {
        // Activators open the ports of this status. The probe below verifies that they listen.
        written = apply::status(sks, status::leased(&observed), &context).await;
    }
    let lessee = PortHolder { key: &key, uid: sks.metadata.uid.as_deref().unwrap_or_default() };
    let ListeningActivators { endpoints, all, moves_after } =
        context.routing.activators.listening(lessee, &observed.ports, &observed.placement()).await;
    let path = desired::ServingPath::new(&observed, endpoints);
    let slices = desired::slices(&observed, &path);
    let slices_written = apply::slices(&observed, &slices, &context).await;
    // What Kubernetes left serves until slices of Rouse do.
    let foreign = match &slices_written {
        Ok(()) => foreign_endpoints::delete_leftovers(&observed, &slices, &context).await,
        Err(_) => ForeignEndpoints::default(),
    };
    written = written.and(slices_written);
    let private_service = apply::private_service(&observed, &context).await;
    let private_service_due = private_service.as_ref().ok().copied().flatten();
    written = written.and(private_service.map(drop));
    written = written.and(apply::leave(&key, sks, &context).await);
    let refused = written.as_ref().err().and_then(ReconcileError::refusal);
    apply::status(sks, status::populated(&observed, &path, &foreign, refused), &context).await?;
    written?;
    if let Some(error) = foreign.error {
        return Err(error.into());
    }
    if let Some(left) = teardown::release(&observed, client).await? {
        return Ok(Action::requeue(left));
    }
    let again = if observed.unleased.is_some() { UNLEASED_RETRY } else { RESYNC };
    let retry_after = context.routing.activators.retry_after(&key, all).or(moves_after);
    let next = [retry_after, private_service_due].into_iter().flatten().fold(again, Duration::min);
    Ok(Action::requeue(next))
}
