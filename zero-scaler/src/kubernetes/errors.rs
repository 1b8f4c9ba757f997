//! Classification of API errors.

use component_base::kubernetes::is_conflict;

/// The API server's reason against a write: by a quota, an admission policy or webhook, or
/// validation. Other errors are of the moment: a conflict with another write, an outage.
pub fn refusal(error: &kube::Error) -> Option<&str> {
    let kube::Error::Api(status) = error else { return None };
    let is_of_the_moment =
        is_conflict(error) || matches!(status.code, 401 | 404 | 408 | 429) || is_being_deleted(error);
    let is_answer = (400..500).contains(&status.code) && !is_of_the_moment;
    (is_answer || is_webhook_failure(error)).then_some(status.message.as_str())
}

/// Whether a webhook that has to allow a write could not be called. It may be back at any moment.
pub fn is_webhook_failure(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    status.code == 500 && status.message.contains("failed calling webhook")
}

/// Whether the API server may be back at any moment: it sheds load, or does not respond. Other
/// errors, of a webhook for example, last until an object or a configuration changes.
pub fn is_outage(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => matches!(status.code, 429 | 502 | 503 | 504),
        kube::Error::Service(_) | kube::Error::HyperError(_) => true,
        _ => false,
    }
}

/// Whether a write failed because its object or namespace is being deleted, which needs no retry.
pub fn is_being_deleted(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    let causes = status.details.iter().flat_map(|details| &details.causes);
    status.code == 404 || causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn error(code: u16, message: &str, causes: serde_json::Value) -> kube::Error {
        let status = json!({"status": "Failure", "code": code, "message": message, "reason": "",
            "metadata": {}, "details": {"causes": causes}});
        kube::Error::Api(Box::new(serde_json::from_value(status).unwrap()))
    }

    #[test]
    fn refusal_is_an_answer_about_the_object() {
        let is_refused = |code, message| refusal(&error(code, message, json!([]))).is_some();
        for (code, message) in [
            (403, "exceeded quota"),
            (422, "is invalid"),
            (400, "admission webhook denied the request"),
            (409, "Apply failed with 1 conflict"),
            (409, "admission webhook \"a\" denied the request: taken"),
            (500, "Internal error occurred: failed calling webhook \"a\": context deadline exceeded"),
        ] {
            assert!(is_refused(code, message), "{code} {message}");
        }
        for (code, message) in [
            (409, "Operation cannot be fulfilled on services \"a\": the object has been modified"),
            (409, "Operation cannot be fulfilled on services \"a\": StorageError: invalid object, Code: 4"),
            (401, "Unauthorized"),
            (404, "not found"),
            (429, "too many requests"),
            (500, "Internal error occurred: etcdserver: request timed out"),
        ] {
            assert!(!is_refused(code, message), "{code} {message}");
        }
        let terminating = json!([{"reason": "NamespaceTerminating", "message": "", "field": ""}]);
        assert_eq!(refusal(&error(403, "is being terminated", terminating)), None);
    }
}
