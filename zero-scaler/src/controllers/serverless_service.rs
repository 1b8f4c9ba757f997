//! One Service: lease its ports, find out who can answer, write its endpoints.
//!
//! ```text
//!  observe ──► lease ports (status first: activators open them) ──► who listens? ──► desired ──► apply ──► status
//! ```
//!
//! Input: a ServerlessService, its Service, the pods and the activators. Output: our EndpointSlices, the private Service, and
//! the status that tells the mode in force.

mod apply;
mod condition_types;
mod desired;
mod observe;
mod private_name;
mod status;

use std::sync::Arc;
use std::time::Duration;

use autoscaler::api::{ServerlessService, key_of};
use kube::runtime::controller::Action;

use crate::activators::directory::{ListeningActivators, PortHolder};
use crate::cache::cluster_cache::Guarded;
use crate::controllers::context::Context;
use crate::controllers::reconciler::{RESYNC, ReconcileError};

pub use condition_types::{ACTIVATORS_POPULATED, READY};

/// How soon to ask again for ports, where all were taken. No event tells that one came free.
const EXHAUSTED_RETRY: Duration = Duration::from_secs(30);

/// Looks at one Service.
///
/// # Errors
/// When the API server refuses a write.
pub async fn reconcile(
    object: Arc<Guarded<ServerlessService>>,
    context: Arc<Context>,
) -> Result<Action, ReconcileError> {
    let (Ok(sks), Some(key)) = (&object.0, key_of(object.as_ref())) else {
        return Ok(Action::await_change());
    };
    if sks.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    let observed = match observe::observe(&key, sks, &context) {
        Ok(observed) => observed,
        Err(unfit) => {
            apply::withdraw(&key, sks, &context).await?;
            apply::status(sks, status::unfit(sks, &unfit, context.clock.now()), &context).await?;
            return Ok(Action::requeue(RESYNC));
        }
    };
    if observed.ports != observed.status().ports {
        // Activators read this to know which ports to open; they are asked with the next look.
        apply::status(sks, status::leased(&observed), &context).await?;
    }
    let lessee = PortHolder { key: &key, uid: sks.metadata.uid.as_deref().unwrap_or_default() };
    let ListeningActivators { endpoints, all } =
        context.activators.listening(lessee, &observed.ports, sks.spec.num_activators).await;
    let path = desired::ServingPath::new(&observed, endpoints);
    apply::private_service(&observed, &context).await?;
    apply::slices(&observed, &desired::slices(&observed, &path), &context).await?;
    apply::leave(&key, sks, &context).await?;
    apply::status(sks, status::populated(&observed, &path), &context).await?;
    let again = if observed.exhausted.is_some() { EXHAUSTED_RETRY } else { RESYNC };
    Ok(Action::requeue(context.activators.retry_after(&key, all).unwrap_or(again)))
}
