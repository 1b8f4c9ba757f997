//! The NetworkPolicies of a test's namespace: default-deny, and beside it what a user applies.
//!
//! ```text
//! docs/reference/ports.md              pods with a sidecar, and their clients
//! network-policies/namespace.yaml      DNS, and the commands to the client pod
//! network-policies/default-deny.yaml   all else; `on-cluster` applies it to rouse-system as well
//! ```
//!
//! The documented policies are read from the page, so that the tests run with the text that users
//! copy. On a cluster that does not enforce NetworkPolicies they have no effect.

use anyhow::{Context, Result, ensure};
use autoscaler::contract::sidecar_ports::SidecarPorts;
use docs::page::{pages, root};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{Api, DeleteParams, PostParams};
use kube::{Client, ResourceExt};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cluster::namespace::TestNamespace;

const PAGE: &str = "docs/reference/ports.md";
const MANIFEST: &str = "deploy/network-policies.yaml";
const DEFAULT_DENY: &str = include_str!("../../network-policies/default-deny.yaml");
const NAMESPACE: &str = include_str!("../../network-policies/namespace.yaml");
/// Name of the policy that allows all connections.
const OPEN: &str = "open";

/// The policies that the documents tell users to apply to a namespace of theirs.
///
/// # Errors
/// When the page has none, or one that is not YAML.
pub fn documented() -> Result<Vec<Value>> {
    let pages = pages(&root())?;
    let page = pages.iter().find(|page| page.path.ends_with(PAGE)).with_context(|| PAGE)?;
    let blocks = page.blocks().into_iter().filter(|block| block.language == "yaml");
    let all: Vec<Vec<Value>> = blocks.map(|block| objects(&block.text)).collect::<Result<_>>()?;
    let policies: Vec<Value> = all.into_iter().flatten().filter(is_policy).collect();
    ensure!(!policies.is_empty(), "{PAGE} has no NetworkPolicy");
    Ok(policies)
}

/// The policies of Rouse's own pods.
///
/// # Errors
/// When the manifest cannot be read.
pub fn deployed() -> Result<Vec<Value>> {
    objects(&std::fs::read_to_string(root().join(MANIFEST)).context(MANIFEST)?)
}

/// Closes the namespace to all connections except the ones that its policies allow. Default-deny
/// comes last, so that no allowed connection is dropped meanwhile.
///
/// # Errors
/// When the API refuses a policy.
pub async fn isolate(namespace: &TestNamespace) -> Result<()> {
    let policies = [documented()?, objects(NAMESPACE)?, objects(DEFAULT_DENY)?];
    for policy in policies.into_iter().flatten() {
        create(namespace, policy).await?;
    }
    Ok(())
}

/// Opens the namespace again, as one without NetworkPolicies is.
///
/// # Errors
/// When the API refuses the policy.
pub async fn open(namespace: &TestNamespace) -> Result<()> {
    create(namespace, open_policy()).await
}

/// Opens the namespace of the installation in the same way, for attacks on all of its ports.
///
/// # Errors
/// When the API refuses the policy.
pub async fn open_installation(client: &Client) -> Result<()> {
    match policies_of_installation(client)
        .create(&PostParams::default(), &serde_json::from_value(open_policy())?)
        .await
    {
        // Left by a run that was killed.
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        created => drop(created?),
    }
    Ok(())
}

/// Ends [`open_installation`].
///
/// # Errors
/// When the API refuses.
pub async fn close_installation(client: &Client) -> Result<()> {
    policies_of_installation(client).delete(OPEN, &DeleteParams::default()).await?;
    Ok(())
}

fn policies_of_installation(client: &Client) -> Api<NetworkPolicy> {
    Api::namespaced(client.clone(), autoscaler::contract::SYSTEM_NAMESPACE)
}

fn open_policy() -> Value {
    let spec =
        json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"], "ingress": [{}], "egress": [{}]});
    json!({"metadata": {"name": OPEN}, "spec": spec})
}

/// Applies one policy to the namespace.
///
/// # Errors
/// When the API refuses it.
pub async fn create(namespace: &TestNamespace, policy: Value) -> Result<()> {
    let policy: NetworkPolicy = serde_json::from_value(policy)?;
    let created = namespace.api().create(&PostParams::default(), &policy).await;
    created.with_context(|| format!("the NetworkPolicy {}", policy.name_any()))?;
    Ok(())
}

/// Opens a port of the pods labelled with this `app` to activators, in a namespace that is closed
/// otherwise.
///
/// # Errors
/// When the API refuses the policy.
pub async fn admit_activators(namespace: &TestNamespace, app: &str, port: Value) -> Result<()> {
    let activators = json!({
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "rouse-system"}},
        "podSelector": {"matchLabels": {"app.kubernetes.io/name": "activator"}},
    });
    let spec = json!({
        "podSelector": {"matchLabels": {"app": app}},
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [activators], "ports": [{"port": port, "protocol": "TCP"}]}],
    });
    create(namespace, json!({"metadata": {"name": app}, "spec": spec})).await
}

/// Opens these ports of sidecars, as the documented policies open the default ones.
///
/// # Errors
/// When the API refuses a policy.
pub async fn admit_sidecar_ports(namespace: &TestNamespace, ports: SidecarPorts) -> Result<()> {
    let numbers: Vec<_> = SidecarPorts::default().all().into_iter().zip(ports.all()).collect();
    for mut policy in documented()? {
        replace_ports(&mut policy, &numbers);
        if let Some(fields) = policy.as_object_mut() {
            fields.insert("metadata".to_owned(), json!({"generateName": "sidecar-ports-"}));
        }
        create(namespace, policy).await?;
    }
    Ok(())
}

fn replace_ports(value: &mut Value, numbers: &[(u16, u16)]) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| replace_ports(item, numbers)),
        Value::Object(fields) => fields.values_mut().for_each(|field| replace_ports(field, numbers)),
        Value::Number(number) => {
            let other = numbers.iter().find(|(default, _)| number.as_u64() == Some(u64::from(*default)));
            if let Some((_, other)) = other {
                *value = json!(other);
            }
        }
        _ => {}
    }
}

fn is_policy(object: &Value) -> bool {
    object.get("kind").is_some_and(|kind| kind == "NetworkPolicy")
}

fn objects(text: &str) -> Result<Vec<Value>> {
    serde_yaml_ng::Deserializer::from_str(text).map(|document| Ok(Value::deserialize(document)?)).collect()
}
