//! The objects of a description, as a user would write them.

use anyhow::{Context, Result};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use serde_json::{Value, json};

use super::description::{Behavior, Description, Fault, Kind};
use crate::workloads::scale_target::ScaleTarget;
use crate::workloads::workload::{Sidecar, Workload};

/// The number of the first port of each Service.
const FIRST_PORT: u16 = 80;
/// The label of pods with a second one.
const TIER: &str = "tier";
/// The group of annotations.
const PREFIX: &str = "autoscaling.rouse.dev";

// === impl Description ===

impl Description {
    /// The workload of the usual tests that has these pods.
    pub fn workload(&self) -> Workload {
        let mut workload = Workload {
            sidecar: self.sidecar,
            max_replicas: self.hpa.max_replicas,
            container_concurrency: self.pods.concurrency,
            target: if self.pods.concurrency == 4 { "4" } else { "10" }.to_owned(),
            ..Workload::new(&self.app())
        }
        .annotated("target-burst-capacity", &self.hpa.burst_capacity.to_string());
        if self.pods.second_label {
            workload.labels.insert(TIER.to_owned(), "web".to_owned());
            // The condition of such a Service without a selector asks for it.
            if !self.service.attached {
                return workload.annotated("selector", &format!("app={}", self.app()));
            }
        }
        workload
    }

    /// The target's resource: API version, kind and plural.
    pub fn resource(&self) -> (&'static str, &'static str, &'static str) {
        match self.kind {
            Kind::Deployment => ("apps/v1", "Deployment", "deployments"),
            Kind::StatefulSet => ("apps/v1", "StatefulSet", "statefulsets"),
            Kind::ReplicaSet => ("apps/v1", "ReplicaSet", "replicasets"),
            Kind::CustomResource => ("tests.rouse.dev/v1", "Target", "targets"),
        }
    }

    /// The object that makes the pods: the target, or the Deployment of a custom resource.
    ///
    /// # Errors
    /// When a field does not fit its type.
    pub fn pod_owner(&self) -> Result<Value> {
        let list = self.workload().manifests()?;
        let deployment = list.pointer("/items/0").context("no Deployment")?;
        let deployment: Deployment = serde_json::from_value(deployment.clone())?;
        let app = self.app();
        let selector = if self.pods.second_label {
            let tier = json!({"key": TIER, "operator": "In", "values": ["web", "api"]});
            json!({"matchLabels": {"app": app}, "matchExpressions": [tier]})
        } else {
            json!({"matchLabels": {"app": app}})
        };
        let mut spec = json!({"replicas": 1, "selector": selector, "template": deployment.spec.template});
        let fields = spec.as_object_mut().context("no object")?;
        if self.kind == Kind::StatefulSet {
            fields.insert("serviceName".to_owned(), json!(self.names.service));
            fields.insert("podManagementPolicy".to_owned(), json!("Parallel"));
        }
        if self.fault == Some(Fault::VolumesDeleted) {
            let claim = json!({"accessModes": ["ReadWriteOnce"], "storageClassName": self.storage_class(),
                "resources": {"requests": {"storage": "1Mi"}}});
            fields.insert(
                "volumeClaimTemplates".to_owned(),
                json!([{"metadata": {"name": "data"}, "spec": claim}]),
            );
            fields.insert("persistentVolumeClaimRetentionPolicy".to_owned(), retention("Delete"));
        }
        let (api_version, kind, name) = match self.kind {
            Kind::CustomResource => ("apps/v1", "Deployment", &app),
            _ => (self.resource().0, self.resource().1, &self.names.target),
        };
        Ok(json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec}))
    }

    /// The custom resource.
    pub fn scale_target(&self) -> ScaleTarget {
        ScaleTarget { selected_app: self.app(), ..ScaleTarget::new(&self.names.target, 1) }
    }

    /// The class of a volume that binds to the claim of no other workload.
    pub fn storage_class(&self) -> String {
        format!("random-{}", self.index)
    }

    /// The selector of an attached Service.
    pub fn selector(&self) -> Value {
        json!({"app": self.app()})
    }

    /// The numbers of the Service's TCP ports, of which the first is `first`.
    pub fn ports(&self, first: u16) -> Vec<u16> {
        (0..self.service.ports).map(|at| first + at * 1000).collect()
    }

    /// The numbers as the Service is created.
    pub fn first_ports(&self) -> Vec<u16> {
        self.ports(FIRST_PORT)
    }

    /// The Service, with these TCP ports.
    pub fn service(&self, ports: &[u16]) -> Value {
        let form = self.service;
        let (name, number) = match self.sidecar {
            Sidecar::None => ("web", 8080),
            _ => ("queue-proxy", 8012),
        };
        let target = if form.named_target { json!(name) } else { json!(number) };
        let tcp = |port: &u16| {
            json!({"name": format!("http-{port}"), "port": port, "targetPort": target,
                "appProtocol": form.app_protocol.then_some("http")})
        };
        let mut all: Vec<Value> = ports.iter().map(tcp).collect();
        let udp = json!({"name": "dns", "port": 53, "protocol": "UDP", "targetPort": 5353});
        all.extend(form.udp.then_some(udp));
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": self.names.service},
            "spec": {
                "type": if form.node_port { "NodePort" } else { "ClusterIP" },
                "selector": form.attached.then(|| self.selector()),
                "publishNotReadyAddresses": form.publishes_not_ready,
                "ports": all,
            },
        })
    }

    /// The HPA.
    ///
    /// # Errors
    /// When a field does not fit its type.
    pub fn hpa(&self, max_replicas: i32) -> Result<HorizontalPodAutoscaler> {
        let list = self.workload().manifests()?;
        let hpa = list.pointer("/items/2").context("no HPA")?;
        let mut hpa: HorizontalPodAutoscaler = serde_json::from_value(hpa.clone())?;
        let (api_version, kind, _) = self.resource();
        hpa.metadata.name = Some(self.names.hpa.clone());
        if self.fault == Some(Fault::MisspelledAnnotation) {
            let annotations = hpa.metadata.annotations.get_or_insert_default();
            annotations.insert(format!("{PREFIX}/scale-down-dealy"), "5s".to_owned());
        }
        hpa.spec.max_replicas = max_replicas;
        hpa.spec.scale_target_ref = serde_json::from_value(
            json!({"apiVersion": api_version, "kind": kind, "name": self.names.target}),
        )?;
        let metrics = Workload { name: self.names.service.clone(), ..self.workload() }.hpa_metrics();
        hpa.spec.metrics = serde_json::from_value(metrics)?;
        let never_down = json!({"scaleDown": {"selectPolicy": "Disabled"}});
        match self.hpa.behavior {
            Behavior::Fast => {}
            Behavior::Default => hpa.spec.behavior = None,
            Behavior::NeverDown => hpa.spec.behavior = serde_json::from_value(never_down)?,
        }
        Ok(hpa)
    }
}

/// A policy for the volumes of a StatefulSet.
pub fn retention(when_scaled: &str) -> Value {
    json!({"whenScaled": when_scaled, "whenDeleted": "Delete"})
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::{ReplicaSet, StatefulSet};
    use k8s_openapi::api::core::v1::Service;

    use super::super::generator::workloads;
    use super::*;

    #[test]
    fn every_object_has_the_types_of_the_api() {
        for workload in workloads(11, 200) {
            let owner = workload.pod_owner().unwrap();
            match workload.kind {
                Kind::StatefulSet => drop(serde_json::from_value::<StatefulSet>(owner).unwrap()),
                Kind::ReplicaSet => drop(serde_json::from_value::<ReplicaSet>(owner).unwrap()),
                _ => drop(serde_json::from_value::<Deployment>(owner).unwrap()),
            }
            let service = workload.service(&workload.first_ports());
            let service: Service = serde_json::from_value(service).unwrap();
            let ports = service.spec.unwrap().ports.unwrap();
            assert_eq!(ports.len(), usize::from(workload.service.ports) + usize::from(workload.service.udp));
            let hpa = serde_json::to_string(&workload.hpa(2).unwrap()).unwrap();
            assert!(hpa.contains(&workload.names.target) && hpa.contains(&workload.names.service));
        }
    }
}
