//! The custom resource definitions: whether they exist, are served, and have all fields.

use autoscaler::api::{Metric, PodAutoscaler, ServerlessService};
use autoscaler::findings::reasons::CheckReason;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use serde_json::Value;

use crate::check::cluster_objects::ClusterObjects;
use crate::check::fetched::Fetched;
use crate::check::finding::Finding;

const FIX: &str = CheckReason::NotServed.fix();

pub(super) fn check(cluster: &ClusterObjects) -> Vec<Finding> {
    let definitions = cluster.custom_resources.iter();
    definitions.filter_map(|(name, object)| check_one(cluster, name, object)).collect()
}

fn check_one(
    cluster: &ClusterObjects,
    name: &str,
    object: &Fetched<CustomResourceDefinition>,
) -> Option<Finding> {
    let described = format!("CustomResourceDefinition {name}");
    let definition = match object {
        Fetched::Found(definition) => definition,
        Fetched::NotFound => {
            let problem = "it does not exist, so Rouse cannot manage workloads";
            return Some(Finding::error(described, CheckReason::NotInstalled, problem).with_fix(FIX));
        }
        Fetched::Unreadable(_) => return None,
    };
    if definition.metadata.deletion_timestamp.is_some() {
        let problem = "it is being deleted, and with it all objects of its kind";
        let fix = "when the deletion has ended, kubectl apply --filename deploy/crds.yaml";
        return Some(Finding::error(described, CheckReason::Terminating, problem).with_fix(fix));
    }
    if let Some(problem) = not_served(definition) {
        return Some(Finding::error(described, CheckReason::NotServed, problem));
    }
    let field = lacking_field(definition).filter(|_| cluster.is_of_this_version())?;
    let problem =
        format!("its schema has no {field}, so the API server drops that field: it is older than Rouse");
    Some(Finding::warning(described, CheckReason::OutdatedDefinition, problem))
}

fn not_served(definition: &CustomResourceDefinition) -> Option<String> {
    let conditions = definition.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let mut failing = conditions
        .filter(|it| it.status == "False" && matches!(it.type_.as_str(), "Established" | "NamesAccepted"));
    if let Some(condition) = failing.next() {
        let message = condition.message.as_deref().unwrap_or("no message");
        return Some(format!("the API server does not serve it: {message}"));
    }
    let version = autoscaler::contract::VERSION;
    let is_served = definition.spec.versions.iter().any(|it| it.name == version && it.served);
    (!is_served).then(|| format!("it does not serve version {version}"))
}

/// The first field of this program's definition that a schema lacks.
fn lacking_field(definition: &CustomResourceDefinition) -> Option<String> {
    let known = match definition.spec.names.kind.as_str() {
        "PodAutoscaler" => PodAutoscaler::crd(),
        "Metric" => Metric::crd(),
        "ServerlessService" => ServerlessService::crd(),
        _ => return None,
    };
    lacking(&schema(&known)?, &schema(definition)?, "")
}

fn schema(definition: &CustomResourceDefinition) -> Option<Value> {
    let version = definition.spec.versions.iter().find(|it| it.name == autoscaler::contract::VERSION)?;
    serde_json::to_value(version.schema.as_ref()?.open_api_v3_schema.as_ref()?).ok()
}

fn lacking(expected: &Value, found: &Value, path: &str) -> Option<String> {
    if let (Some(expected), Some(found)) = (expected.get("items"), found.get("items")) {
        return lacking(expected, found, path);
    }
    let properties = expected.get("properties")?.as_object()?;
    // A schema that preserves unknown fields has no properties, and drops nothing.
    let has = found.get("properties")?.as_object()?;
    properties.iter().find_map(|(name, schema)| {
        let path = format!("{path}.{name}");
        match has.get(name) {
            Some(found) => lacking(schema, found, &path),
            None => Some(path.trim_start_matches('.').to_owned()),
        }
    })
}
