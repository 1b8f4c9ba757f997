//! One rule: a port of an entry of a policy, or an entry for all ports.

use std::fmt;

use anyhow::{Context, Result};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};
use system_tests::cluster::namespace::TestNamespace;
use system_tests::cluster::network_policies::{deployed, documented};

const DIRECTIONS: [&str; 2] = ["ingress", "egress"];

/// A rule of a policy. Its text is `POLICY DIRECTION PROTOCOL PORT`, or `POLICY DIRECTION` for an
/// entry for all ports.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    policy: Value,
    direction: &'static str,
    entry: usize,
    port: Option<usize>,
}

/// All rules of the manifest and of the documents, in their order.
pub(super) fn rules() -> Result<Vec<Rule>> {
    Ok(deployed()?.into_iter().chain(documented()?).flat_map(|policy| rules_of(&policy)).collect())
}

fn rules_of(policy: &Value) -> Vec<Rule> {
    let rule = |direction, entry, port| Rule { policy: policy.clone(), direction, entry, port };
    let mut rules = Vec::new();
    for direction in DIRECTIONS {
        for (entry, content) in items(policy.pointer(&format!("/spec/{direction}"))).enumerate() {
            let ports = items(content.get("ports")).count();
            rules.extend((0..ports).map(|port| rule(direction, entry, Some(port))));
            rules.extend((ports == 0).then(|| rule(direction, entry, None)));
        }
    }
    rules
}

fn items(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}

// === impl Rule ===

impl Rule {
    /// Removes it from the live policy. Established connections stay.
    pub(super) async fn remove(&self, namespace: &TestNamespace) -> Result<()> {
        self.write(namespace, self.spec_without().context("no such rule")?).await
    }

    /// Writes the whole policy again.
    pub(super) async fn restore(&self, namespace: &TestNamespace) -> Result<()> {
        self.write(namespace, self.policy.get("spec").cloned().unwrap_or_default()).await
    }

    /// An entry goes with its last port, because an entry without ports is one for all ports.
    fn spec_without(&self) -> Option<Value> {
        let mut spec = self.policy.get("spec")?.clone();
        let entries = spec.get_mut(self.direction)?.as_array_mut()?;
        let ports = entries.get_mut(self.entry)?.get_mut("ports").and_then(Value::as_array_mut);
        match (self.port, ports) {
            (Some(port), Some(ports)) if ports.len() > 1 => drop(ports.remove(port)),
            _ => drop(entries.remove(self.entry)),
        }
        Some(spec)
    }

    async fn write(&self, namespace: &TestNamespace, spec: Value) -> Result<()> {
        let text = |path| self.policy.pointer(path).and_then(Value::as_str);
        let name = text("/metadata/name").context("no name")?;
        let place = text("/metadata/namespace").unwrap_or(&namespace.name);
        let policies: Api<NetworkPolicy> = Api::namespaced(namespace.client.clone(), place);
        policies.patch(name, &PatchParams::default(), &Patch::Merge(json!({"spec": spec}))).await?;
        Ok(())
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.policy.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        write!(f, "{name} {}", self.direction)?;
        let Some(port) = self.port else { return Ok(()) };
        let path = format!("/spec/{}/{}/ports/{port}", self.direction, self.entry);
        let port = self.policy.pointer(&path).unwrap_or(&Value::Null);
        let text = |key| port.get(key).map(|value| value.to_string().replace('"', ""));
        let (protocol, first) =
            (text("protocol").unwrap_or_else(|| "TCP".to_owned()), text("port").unwrap_or_default());
        write!(f, " {protocol} {first}")?;
        text("endPort").map_or(Ok(()), |last| write!(f, "-{last}"))
    }
}
