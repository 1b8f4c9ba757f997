//! Flags of the sidecar, and the settings that they make.

use autoscaler::contract::quantity::{ParseQuantityError, parse_milli};
use clap::Args;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// Flags of the sidecar that the webhook adds. They have the policy's defaults.
#[derive(Clone, Debug, Args)]
pub struct SidecarArgs {
    /// Image of the sidecar. With it, /mutate-pods of the API port is an admission webhook that
    /// adds the sidecar to labelled pods, for clusters without MutatingAdmissionPolicy v1.
    #[arg(long, env = "ROUSE_SIDECAR_IMAGE", value_name = "IMAGE")]
    pub sidecar_image: Option<String>,
    /// CPU request of the sidecar.
    #[arg(long, env = "ROUSE_SIDECAR_CPU_REQUEST", default_value = "25m", value_parser = parse_quantity)]
    pub sidecar_cpu_request: Quantity,
    /// Memory request of the sidecar.
    #[arg(long, env = "ROUSE_SIDECAR_MEMORY_REQUEST", default_value = "16Mi", value_parser = parse_quantity)]
    pub sidecar_memory_request: Quantity,
    /// Memory limit of the sidecar.
    #[arg(long, env = "ROUSE_SIDECAR_MEMORY_LIMIT", default_value = "128Mi", value_parser = parse_quantity)]
    pub sidecar_memory_limit: Quantity,
}

/// What every sidecar of an installation has.
#[derive(Clone, Debug)]
pub struct SidecarSettings {
    /// Its image.
    pub image: String,
    /// CPU request.
    pub cpu_request: Quantity,
    /// Memory request.
    pub memory_request: Quantity,
    /// Memory limit.
    pub memory_limit: Quantity,
}

/// Why a flag is not accepted.
#[derive(Debug, thiserror::Error)]
enum InvalidQuantity {
    #[error(transparent)]
    Unparsable(#[from] ParseQuantityError),
    #[error("a request or limit is not below 0")]
    Negative,
}

// === impl SidecarArgs ===

impl SidecarArgs {
    /// The settings; `None` without an image.
    pub fn settings(&self) -> Option<SidecarSettings> {
        let image = self.sidecar_image.clone().filter(|image| !image.is_empty())?;
        Some(SidecarSettings {
            image,
            cpu_request: self.sidecar_cpu_request.clone(),
            memory_request: self.sidecar_memory_request.clone(),
            memory_limit: self.sidecar_memory_limit.clone(),
        })
    }
}

/// The API server rejects a pod with a patch that it cannot decode, whatever the failure policy is.
/// So an invalid quantity must end the process, and not reach a pod.
fn parse_quantity(text: &str) -> Result<Quantity, InvalidQuantity> {
    if parse_milli(text)? < 0 {
        return Err(InvalidQuantity::Negative);
    }
    Ok(Quantity(text.to_owned()))
}
