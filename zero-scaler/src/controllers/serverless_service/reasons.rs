//! Condition types and reasons of a ServerlessService.

/// True while requests are led to somebody.
pub const READY: &str = "Ready";
pub(crate) const ENDPOINTS_POPULATED: &str = "EndpointsPopulated";
/// True while activators are in the endpoints; since when is the clock of the grace period.
pub const ACTIVATORS_POPULATED: &str = "ActivatorEndpointsPopulated";

/// A port's requests go to the app itself.
pub const SIDECAR_BYPASSED: &str = "SidecarBypassed";
/// A port's own target is not followed.
pub(crate) const TARGET_PORT_IGNORED: &str = "TargetPortIgnored";

/// What a Service that is Ready may have to be told of: Ready's reasons then.
pub const ADVICE: [&str; 2] = [SIDECAR_BYPASSED, TARGET_PORT_IGNORED];
