//! Condition types of a ServerlessService.

/// True while a ready pod or an activator serves the Service.
pub const READY: &str = "Ready";
/// True while pods are ready.
pub(crate) const ENDPOINTS_POPULATED: &str = "EndpointsPopulated";
/// True while activators are in the endpoints. Its transition time starts the grace period.
pub const ACTIVATORS_POPULATED: &str = "ActivatorEndpointsPopulated";
