//! InferencePool: pods that a gateway selects by their labels, past every Service.
//!
//! Input: objects of the Gateway API Inference Extension; a cluster may not have their kinds. An
//! endpoint picker sends requests to the addresses of pods: no activator sees them, so at zero they
//! fail and wake nothing. Those to another port than the sidecar's are not counted either, and a
//! busy workload seems idle.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

use super::Problem;
use super::reasons::Reason;

/// Kind of the objects.
pub const KIND: &str = "InferencePool";
/// The groups that have it, with the version to read: the present one and the one before.
pub const GROUPS: [(&str, &str); 2] =
    [("inference.networking.k8s.io", "v1"), ("inference.networking.x-k8s.io", "v1alpha2")];

/// The pods of a pool in its own namespace, and their ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InferencePool {
    /// Its name.
    pub name: String,
    selector: BTreeMap<String, String>,
    ports: Vec<u16>,
}

// === impl InferencePool ===

impl InferencePool {
    /// By the object without its metadata.
    pub fn new(name: String, object: &Value) -> Self {
        let selector = object.pointer("/spec/selector");
        // The older version has the labels themselves.
        let labels = selector.and_then(|it| it.get("matchLabels").filter(|it| it.is_object()).or(Some(it)));
        let labels = labels.and_then(Value::as_object).into_iter().flatten();
        let selector = labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
        let several = object.pointer("/spec/targetPorts").and_then(Value::as_array).into_iter().flatten();
        let numbers = several.filter_map(|port| port.get("number"));
        let ports = numbers.chain(object.pointer("/spec/targetPortNumber"));
        let ports = ports.filter_map(|port| u16::try_from(port.as_u64()?).ok());
        Self { name, selector: selector.collect(), ports: ports.collect() }
    }

    /// Whether it selects pods with these labels. Without a readable selector it selects all, as
    /// the endpoint picker does.
    pub fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        self.selector.iter().all(|(key, value)| labels.get(key) == Some(value))
    }

    /// Whether all of its requests pass the sidecar.
    pub fn leads_to(&self, sidecar: u16) -> bool {
        !self.ports.is_empty() && self.ports.iter().all(|port| *port == sidecar)
    }
}

/// Why a workload with these pods must not go to zero.
pub fn bypassed(pools: &[InferencePool], pods: &[Pod]) -> Option<Problem> {
    let none = BTreeMap::new();
    let selects = |pool: &&InferencePool| {
        pods.iter().any(|pod| pool.selects(pod.metadata.labels.as_ref().unwrap_or(&none)))
    };
    let pool = pools.iter().find(selects)?;
    let problem = format!(
        "{KIND} {:?} selects the pods, and its requests reach them past the Service: at zero they would fail and \
         wake nothing; the workload stays above zero",
        pool.name
    );
    Some(Problem::with_usual_fix(Reason::InferencePoolBypass, problem))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pool(spec: Value) -> InferencePool {
        InferencePool::new("llm".to_owned(), &json!({"spec": spec}))
    }

    fn selects(spec: Value, labels: Value) -> bool {
        pool(spec).selects(&serde_json::from_value(labels).unwrap())
    }

    #[test]
    fn selects_pods_by_the_labels_of_either_version() {
        for selector in [json!({"matchLabels": {"app": "llm"}}), json!({"app": "llm"})] {
            let spec = json!({"selector": selector});
            assert!(selects(spec.clone(), json!({"app": "llm", "version": "1"})), "{spec}");
            assert!(!selects(spec.clone(), json!({"app": "web"})), "{spec}");
            assert!(!selects(spec, json!({})));
        }
        assert!(selects(json!({"selector": {"matchLabels": "odd"}}), json!({"matchLabels": "odd"})));
        assert!(
            selects(json!({"selector": {"matchLabels": {}}}), json!({})),
            "the endpoint picker takes all"
        );
        assert!(selects(json!({}), json!({"app": "web"})), "an unreadable selector may select it");
    }

    #[test]
    fn requests_are_counted_only_if_all_ports_are_the_sidecars() {
        let leads = |spec| pool(spec).leads_to(8012);
        assert!(leads(json!({"targetPorts": [{"number": 8012}]})));
        assert!(leads(json!({"targetPortNumber": 8012})));
        assert!(!leads(json!({"targetPorts": [{"number": 8012}, {"number": 8000}]})));
        assert!(!leads(json!({})), "an unknown port");
    }

    #[test]
    fn pool_of_other_pods_does_not_bypass_the_service() {
        let pod: Pod = serde_json::from_value(json!({"metadata": {"labels": {"app": "llm"}}})).unwrap();
        let of = |app: &str| bypassed(&[pool(json!({"selector": {"app": app}}))], std::slice::from_ref(&pod));
        assert_eq!(of("llm").map(|problem| problem.reason), Some(Reason::InferencePoolBypass));
        assert_eq!(of("web"), None);
    }
}
