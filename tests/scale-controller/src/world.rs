//! The users' objects: a Deployment, a Service and an HPA for each workload, of realistic size, the
//! EndpointSlices of the active workloads, and the installation's EndpointSlices.

#![allow(clippy::indexing_slicing, reason = "an absent field of a JSON value is null")]
use autoscaler::contract::{
    INJECT_LABEL, QUEUE_PROXY, QUEUE_PROXY_PORT, SCALE_TO_ZERO, SERVICE_SELECTOR, STATS_PORT_NAME,
    SYSTEM_NAMESPACE,
};
use autoscaler::{Decision, Key};
use fake_api::FakeApi;
use serde_json::{Value, json};

/// Number of workloads in a namespace.
const PER_NAMESPACE: usize = 100;
/// Since when the workloads at zero have had no requests, in Unix milliseconds.
const IDLE_SINCE: i64 = 1_790_000_000_000;
/// Number of environment variables, which makes a Deployment about 4 KiB large.
const VARIABLES: usize = 24;

/// The size of the simulated cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) struct World {
    pub(crate) workloads: usize,
    /// Whether pods have no sidecar. Each workload is then in a namespace of its own.
    pub(crate) plain: bool,
    /// Port of the decision stream.
    pub(crate) decisions: u16,
    /// Port of the zero-scaler that receives reports.
    pub(crate) reports: u16,
}

// === impl World ===

impl World {
    /// Creates all objects.
    pub(crate) fn create(&self, api: &FakeApi) {
        for i in 0..self.workloads {
            let (namespace, name) = (self.namespace(i), name(i));
            let put = |group: &str, plural: &str, object| {
                api.put(&format!("{group}/namespaces/{namespace}/{plural}/{name}"), object);
            };
            put("/apis/autoscaling/v2", "horizontalpodautoscalers", hpa(&name));
            put("/api/v1", "services", self.service(i, &name));
            put("/apis/apps/v1", "deployments", self.deployment(i, &name));
            if is_active(i) {
                put("/apis/discovery.k8s.io/v1", "endpointslices", pods(i, &name));
            }
        }
        self.create_installation(api);
    }

    /// Changes the upper bound of one workload's HPA.
    pub(crate) fn change_one(&self, api: &FakeApi) {
        let (namespace, name) = (self.namespace(0), name(0));
        let path = format!("/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers/{name}");
        let mut changed = hpa(&name);
        changed["spec"]["maxReplicas"] = 51.into();
        api.put(&path, changed);
    }

    pub(crate) fn decision(&self, i: usize) -> Decision {
        let active = is_active(i);
        Decision {
            key: Key::new(self.namespace(i), name(i)),
            desired: u32::from(active),
            panicking: false,
            held: false,
            excess_burst_capacity: if active { 100 } else { -211 },
            stable: if active { 12.5 } else { 0.0 },
            panic: if active { 12.5 } else { 0.0 },
            ready: u32::from(active),
            idle_since: (!active).then_some(IDLE_SINCE),
            decided_at: component_base::clock::unix_millis(),
            learning: None,
            hpa_lag: None,
        }
    }

    /// The ready activators, by their numbers. One process has all of their addresses, and reports
    /// as the first.
    pub(crate) fn set_activators(&self, api: &FakeApi, numbers: &[u8]) {
        let mut endpoints = Vec::new();
        for number in numbers {
            let address = format!("127.0.0.{number}");
            endpoints.push(slice(&activator_name(*number), "http", 0, &address)["endpoints"][0].take());
        }
        let mut activators = slice("activator", "http", 0, "127.0.0.1");
        activators["endpoints"] = endpoints.into();
        api.put(&installation_slice("activator"), activators);
    }

    fn namespace(&self, i: usize) -> String {
        format!("shop-{}", if self.plain { i } else { i / PER_NAMESPACE })
    }

    fn service(&self, i: usize, name: &str) -> Value {
        let port: Value = if self.plain { 8080.into() } else { QUEUE_PROXY.into() };
        json!({
            "metadata": {"labels": {"app": name, "team": "shop"}, "managedFields": fields("kubectl", 20)},
            "spec": {
                "clusterIP": address(i + 100_000), "clusterIPs": [address(i + 100_000)], "type": "ClusterIP",
                "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "sessionAffinity": "None",
                "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": port}],
            },
        })
    }

    fn deployment(&self, i: usize, name: &str) -> Value {
        let variables: Vec<Value> = (0..VARIABLES)
            .map(|n| json!({"name": format!("VARIABLE_{n}"), "value": format!("the value of variable {n} of {name}")}))
            .collect();
        let mut labels = json!({"app": name, "team": "shop"});
        if !self.plain {
            labels[INJECT_LABEL] = "true".into();
        }
        json!({
            "metadata": {"labels": labels, "managedFields": fields("kubectl", 60),
                "annotations": {"deployment.kubernetes.io/revision": "1"}},
            "spec": {
                "replicas": i32::from(is_active(i)),
                "selector": {"matchLabels": {"app": name}},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [{
                    "name": "app", "image": "registry.example/shop/web:1.0", "env": variables,
                    "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}},
                    "ports": [{"containerPort": 8080}],
                    "readinessProbe": {"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1}}]}},
            },
            "status": {"replicas": i32::from(is_active(i)), "conditions": [condition("Available", "it has minimum availability")]},
        })
    }

    /// The EndpointSlices of the installation's Services.
    fn create_installation(&self, api: &FakeApi) {
        self.set_activators(api, &[1]);
        let ports = [
            ("metrics-adapter", STATS_PORT_NAME, self.decisions),
            // The activator reports to it.
            ("zero-scaler", STATS_PORT_NAME, self.reports),
        ];
        for (service, port, number) in ports {
            api.put(&installation_slice(service), slice(service, port, number, "127.0.0.1"));
        }
    }
}

fn installation_slice(service: &str) -> String {
    format!("/apis/discovery.k8s.io/v1/namespaces/{SYSTEM_NAMESPACE}/endpointslices/{service}-x")
}

/// The name of an activator, of which [`pod`] makes that of its pod.
pub(crate) fn activator_name(number: u8) -> String {
    format!("activator-{number}")
}

fn name(i: usize) -> String {
    format!("web-{i}")
}

fn is_active(i: usize) -> bool {
    i.is_multiple_of(2)
}

fn address(i: usize) -> String {
    format!("10.{}.{}.{}", 1 + i / 65_536, i / 256 % 256, i % 256)
}

fn hpa(name: &str) -> Value {
    json!({
        "metadata": {"annotations": {SCALE_TO_ZERO: "true"}, "labels": {"app": name, "team": "shop"},
            "managedFields": fields("kubectl-client-side-apply", 40)},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "minReplicas": 1, "maxReplicas": 50,
            "metrics": [{"type": "External", "external": {
                "metric": {"name": "concurrency", "selector": {"matchLabels": {SERVICE_SELECTOR: name}}},
                "target": {"type": "AverageValue", "averageValue": "70"}}}],
            "behavior": {
                "scaleUp": {"stabilizationWindowSeconds": 0, "tolerance": "0", "selectPolicy": "Max", "policies": [
                    {"type": "Percent", "value": 99900, "periodSeconds": 15},
                    {"type": "Pods", "value": 1000, "periodSeconds": 15}]},
                "scaleDown": {"stabilizationWindowSeconds": 0, "tolerance": "0", "selectPolicy": "Max",
                    "policies": [{"type": "Percent", "value": 50, "periodSeconds": 15}]},
            },
        },
        "status": {"currentReplicas": 1, "desiredReplicas": 1, "conditions": [
            condition("AbleToScale", "recommended size matches current size"),
            condition("ScalingActive", "the HPA was able to successfully calculate a replica count"),
            condition("ScalingLimited", "the desired count is within the acceptable range")]},
    })
}

fn condition(r#type: &str, message: &str) -> Value {
    json!({"type": r#type, "status": "True", "reason": "ReadyForNewScale", "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z"})
}

/// Managed fields, which are a large part of real objects.
fn fields(manager: &str, count: usize) -> Value {
    let fields: serde_json::Map<String, Value> =
        (0..count).map(|n| (format!("f:someFieldOfIt{n}"), json!({".": {}, "f:value": {}}))).collect();
    json!([{"manager": manager, "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": fields}}])
}

/// The EndpointSlice that Kubernetes writes for the private Service.
fn pods(i: usize, name: &str) -> Value {
    slice(&format!("{name}-private"), "http", QUEUE_PROXY_PORT, &address(i))
}

/// The name of the only pod of a Service, or of an activator.
pub(crate) fn pod(service: &str) -> String {
    format!("{service}-5d8f7c6b9-abcde")
}

fn slice(service: &str, port: &str, number: u16, address: &str) -> Value {
    json!({
        "metadata": {"labels": {
            "kubernetes.io/service-name": service,
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address], "conditions": {"ready": true, "serving": true, "terminating": false},
            "nodeName": "node-1", "targetRef": {"kind": "Pod", "name": pod(service),
                "namespace": "shop", "uid": "0a1b2c3d-0000-4000-8000-000000000000"}}],
        "ports": [{"name": port, "port": number, "protocol": "TCP"}],
    })
}
