//! The response to an AdmissionReview: bytes of `admission.k8s.io/v1` in, a review out.

use k8s_openapi::api::core::v1::Pod;
use kube::core::DynamicObject;
use kube::core::admission::{
    AdmissionRequest, AdmissionResponse, AdmissionReview, META_API_VERSION_V1, Operation, SerializePatchError,
};

use crate::sidecar_injection::SidecarSettings;
use crate::sidecar_injection::list_lengths::check_list_lengths;
use crate::sidecar_injection::pod_patch::{PodPatchError, pod_patch};

/// Elements of a review, see [`element_count`]. A pod of 100 containers has less than 20,000.
const MAX_ELEMENTS: usize = 50_000;

/// Why a review has no response. The API server creates the pod without a sidecar then.
#[derive(Debug, thiserror::Error)]
pub enum ReviewError {
    /// More than any pod has.
    #[error("the review has more than {MAX_ELEMENTS} JSON elements")]
    TooManyElements,
    /// Not an AdmissionReview of a pod, or a list of the pod is longer than any pod's.
    #[error("the body is not an AdmissionReview of a pod: {0}")]
    Decode(#[source] serde_json::Error),
    /// Another version.
    #[error("the review has apiVersion {0:?}; set admissionReviewVersions to [v1]")]
    OtherVersion(String),
    /// A response, or an empty review.
    #[error("the review has no request")]
    NoRequest,
    /// A request that the rules of the webhook do not select.
    #[error(
        "the request is to {operation:?} {resource:?}; the webhook's rules must select CREATE of pods alone"
    )]
    NotACreation {
        operation: Operation,
        /// Its resource, and the subresource.
        resource: String,
    },
    /// A request without an object.
    #[error("the request has no object")]
    NoObject,
    /// There is no patch of the pod.
    #[error(transparent)]
    PodPatch(#[from] PodPatchError),
    /// The patch could not be encoded.
    #[error(transparent)]
    EncodePatch(#[from] SerializePatchError),
}

/// Responds to a review.
///
/// # Errors
/// When the body is not a review of the creation of a pod.
pub fn respond(
    body: &[u8],
    settings: &SidecarSettings,
) -> Result<AdmissionReview<DynamicObject>, ReviewError> {
    if element_count(body) > MAX_ELEMENTS {
        return Err(ReviewError::TooManyElements);
    }
    check_list_lengths(body).map_err(ReviewError::Decode)?;
    let review: AdmissionReview<Pod> = serde_json::from_slice(body).map_err(ReviewError::Decode)?;
    if review.types.api_version != META_API_VERSION_V1 {
        return Err(ReviewError::OtherVersion(review.types.api_version));
    }
    let request: AdmissionRequest<Pod> = review.try_into().map_err(|_| ReviewError::NoRequest)?;
    require_creation(&request)?;
    let pod = request.object.as_ref().ok_or(ReviewError::NoObject)?;
    let patch = pod_patch(pod, settings)?;
    let mut response = AdmissionResponse::from(&request);
    if !patch.0.is_empty() {
        response = response.with_patch(patch)?;
    }
    Ok(response.into_review())
}

/// The number of objects, lists and separators in a review, also within texts.
pub(super) fn element_count(body: &[u8]) -> usize {
    body.iter().filter(|byte| b"{[,".contains(byte)).count()
}

fn require_creation(request: &AdmissionRequest<Pod>) -> Result<(), ReviewError> {
    let (resource, subresource) = (&request.resource, request.sub_resource.as_deref().unwrap_or_default());
    let is_pod = resource.group.is_empty() && resource.version == "v1" && resource.resource == "pods";
    if is_pod && subresource.is_empty() && request.operation == Operation::Create {
        return Ok(());
    }
    let resource = format!("{}/{}/{}/{subresource}", resource.group, resource.version, resource.resource);
    Err(ReviewError::NotACreation { operation: request.operation.clone(), resource })
}
