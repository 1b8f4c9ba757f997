//! Classification of API errors.

/// Whether a write failed because its object or namespace is being deleted, which needs no retry.
pub fn is_being_deleted(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    let causes = status.details.iter().flat_map(|details| &details.causes);
    status.code == 404 || causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating")
}
