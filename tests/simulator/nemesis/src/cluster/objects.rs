//! The objects of the user, and EndpointSlices as Kubernetes writes them.

use serde_json::{Value, json};

/// The HPA's target for one pod.
pub const TARGET: i64 = 10;
pub const MAX_PODS: i64 = 4;
pub(super) const CLUSTER_IP: &str = "10.96.0.10";

/// What a seed draws of a workload.
#[derive(Clone, Copy, Debug)]
pub struct WorkloadKind {
    /// Whether its pods have sidecars.
    pub sidecars: bool,
    /// Whether activators leave the path while pods are ready.
    pub serves: bool,
}

// === impl WorkloadKind ===

impl WorkloadKind {
    pub(super) fn hpa(self) -> Value {
        let annotations = json!({
            "autoscaling.rouse.dev/scale-to-zero": "true",
            "autoscaling.rouse.dev/window": "6s",
            "autoscaling.rouse.dev/target-burst-capacity": if self.serves { "0" } else { "-1" },
        });
        json!({
            "metadata": {"annotations": annotations},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "minReplicas": 1, "maxReplicas": MAX_PODS,
                "metrics": [{"type": "External", "external": {
                    "metric": {"name": "concurrency", "selector": {"matchLabels": {"service": "web"}}},
                    "target": {"type": "AverageValue", "averageValue": TARGET.to_string()}}}],
                "behavior": {"scaleUp": {"tolerance": "0"}, "scaleDown": {"tolerance": "0"}},
            },
        })
    }

    pub(super) fn deployment(self) -> Value {
        let mut labels = json!({"app": "web"});
        if self.sidecars {
            labels["autoscaling.rouse.dev/inject"] = "true".into();
        }
        json!({"spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": []}}}})
    }

    pub(super) fn service(self) -> Value {
        let target = if self.sidecars { "queue-proxy" } else { "web" };
        json!({"spec": {"clusterIP": CLUSTER_IP, "type": "ClusterIP", "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": target}]}})
    }

    /// The ports in the slices of the private Service.
    pub(super) fn pod_ports(self) -> Value {
        let port = if self.sidecars { 8012 } else { 3000 };
        json!([{"name": "http", "port": port, "protocol": "TCP"}])
    }
}

/// A pod as the metrics-adapter watches it.
pub(super) fn pod(name: &str, address: &str, ready: bool, sidecars: bool) -> Value {
    let mut labels = json!({"app": "web"});
    if sidecars {
        labels["autoscaling.rouse.dev/inject"] = "true".into();
    }
    let status = if ready { "True" } else { "False" };
    json!({
        "metadata": {"name": name, "namespace": "shop", "labels": labels},
        "spec": {"containers": []},
        "status": {"phase": "Running", "podIP": address, "conditions": [{"type": "Ready", "status": status}]},
    })
}

/// An EndpointSlice with these endpoints: name of the pod, address, whether it is ready.
pub(super) fn slice(service: &str, endpoints: &[(String, String, bool)], ports: Value) -> Value {
    let endpoints: Vec<Value> = (endpoints.iter())
        .map(|(name, address, ready)| {
            json!({"addresses": [address], "conditions": {"ready": ready},
                "targetRef": {"kind": "Pod", "name": name}})
        })
        .collect();
    json!({
        "metadata": {"labels": {"kubernetes.io/service-name": service,
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}},
        "addressType": "IPv4", "endpoints": endpoints, "ports": ports,
    })
}
