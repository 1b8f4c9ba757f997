//! A database at zero: Debian's Redis in a StatefulSet with a volume goes to zero, and a plain
//! client wakes it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use autoscaler::contract::PROTOCOL;
use autoscaler::contract::sidecar_ports::SidecarPorts;
use bench_proxies::debian;
use futures::future::try_join_all;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::{PersistentVolume, Pod, Service};
use kube::api::{Api, DeleteParams, LogParams, PostParams};
use serde_json::{Value, json};
use system_tests::cluster::installation::begin_shared;
use system_tests::cluster::namespace::{SAMPLE_APP, TestNamespace};
use system_tests::cluster::network_policies;
use system_tests::wait;
use system_tests::workloads::deadlines::{POD_START, TO_ZERO};
use system_tests::workloads::injection::port_annotations;
use system_tests::workloads::workload;
use tokio::time::Instant;

/// The Debian packages that Redis needs, down to the loader: its pods have no other files.
const PACKAGES: [&str; 16] = [
    "redis-server",
    "redis-tools",
    "libatomic1",
    "libc6",
    "libcap2",
    "libgcrypt20",
    "libgpg-error0",
    "libjemalloc2",
    "liblz4-1",
    "liblzf1",
    "liblzma5",
    "libssl3",
    "libsystemd0",
    "libzstd1",
    "libgcc-s1",
    "libstdc++6",
];
const SERVER: &str = "usr/bin/redis-server";
const CLIENT: &str = "usr/bin/redis-cli";
/// Directories with those packages' files.
const ROOTS: [&str; 3] = ["usr", "lib", "lib64"];
const PORT: u16 = 6379;
/// Of the sidecar of the attached one.
const OTHER_PORTS: SidecarPorts = SidecarPorts { traffic: 18012, admin: 18022, stats: 19090 };
/// Number of clients, each in a pod of its own, that may find Redis still loading its data.
const MOST_LOADING: u32 = 5;

/// A Redis to apply.
pub(crate) struct Redis {
    name: &'static str,
    attached: bool,
    has_sidecar: bool,
    /// Directory of the Debian packages' files.
    root: PathBuf,
    data: PathBuf,
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse, on this machine and as root: run make test-system"]
async fn redis_at_zero_wakes_for_plain_client_and_keeps_its_data() -> Result<()> {
    let namespace = begin_shared("redis").await?;
    network_policies::admit_sidecar_ports(&namespace, OTHER_PORTS).await?;
    let all = [
        Redis::new("managed", false, true)?,
        Redis::new("attached", true, true)?,
        Redis::new("plain", false, false)?,
    ];
    try_join_all(all.iter().map(|redis| wakes_with_data(&namespace, redis))).await?;
    namespace.end().await
}

async fn wakes_with_data(namespace: &TestNamespace, redis: &Redis) -> Result<()> {
    to_zero_and_back(namespace, redis).await.with_context(|| format!("the Redis {}", redis.name))
}

async fn to_zero_and_back(namespace: &TestNamespace, redis: &Redis) -> Result<()> {
    redis.create(namespace).await?;
    let ip = redis.cluster_ip(namespace).await?;
    redis.set_greeting(namespace, &ip).await?;
    // It sends a command once an hour. An open connection without requests does not keep the
    // workload above zero.
    redis.start_client(namespace, "idle", &["-h", &ip, "-r", "-1", "-i", "3600", "PING"]).await?;

    redis.until_at_zero(namespace).await?;
    let pods: Api<Pod> = namespace.api();
    let pod = format!("{}-0", redis.name);
    wait::until(&format!("{pod} to be gone"), POD_START, || async {
        Ok(pods.get_opt(&pod).await?.is_none().then_some(()))
    })
    .await?;
    let began = Instant::now();
    let value = redis.greeting(namespace, &ip).await?;
    println!("Redis {}: response {:?} after its client was created", redis.name, began.elapsed());
    // A pod can only be one that the client woke. It may be gone again by now.
    ensure!(
        value == "good morning",
        "the response to GET was {value:?}, {}",
        workload::state(namespace, redis.name).await
    );
    redis.delete(namespace).await
}

fn cache() -> Result<PathBuf> {
    let cache = std::env::var_os("ROUSE_CACHE").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache/rouse"));
    Ok(cache.or_else(home).context("neither ROUSE_CACHE nor HOME is set")?.join("redis"))
}

// === impl Redis ===

impl Redis {
    /// One with Debian's files, which are installed first if they are not.
    pub(crate) fn new(name: &'static str, attached: bool, has_sidecar: bool) -> Result<Self> {
        let cache = cache()?;
        let root = debian::ensure(&cache, &PACKAGES, &[SERVER, CLIENT])?.root;
        Ok(Self { name, attached, has_sidecar, root, data: cache.join("data").join(name) })
    }

    pub(crate) async fn create(&self, namespace: &TestNamespace) -> Result<()> {
        if self.data.exists() {
            std::fs::remove_dir_all(&self.data)?;
        }
        std::fs::create_dir_all(&self.data)?;
        let volumes: Api<PersistentVolume> = Api::all(namespace.client.clone());
        let volume = self.volume_name();
        if volumes.get_opt(&volume).await?.is_some() {
            volumes.delete(&volume, &DeleteParams::default()).await?;
            wait::until("the volume of before to be gone", POD_START, || async {
                Ok(volumes.get_opt(&volume).await?.is_none().then_some(()))
            })
            .await?;
        }
        let create = PostParams::default();
        volumes.create(&create, &serde_json::from_value(self.volume())?).await?;
        let sets: Api<StatefulSet> = namespace.api();
        sets.create(&create, &serde_json::from_value(self.stateful_set())?).await?;
        let services: Api<Service> = namespace.api();
        services.create(&create, &serde_json::from_value(self.service())?).await?;
        let autoscalers: Api<HorizontalPodAutoscaler> = namespace.api();
        autoscalers.create(&create, &serde_json::from_value(self.autoscaler())?).await?;
        if !self.has_sidecar {
            network_policies::admit_activators(namespace, self.name, json!(PORT)).await?;
        }
        Ok(())
    }

    /// Deletes the volume, which is not in the namespace.
    pub(crate) async fn delete(&self, namespace: &TestNamespace) -> Result<()> {
        let volumes: Api<PersistentVolume> = Api::all(namespace.client.clone());
        volumes.delete(&self.volume_name(), &DeleteParams::default()).await?;
        Ok(())
    }

    /// Retries, because connections are refused until kube-proxy has programmed the Service.
    pub(crate) async fn set_greeting(&self, namespace: &TestNamespace, ip: &str) -> Result<()> {
        let began = Instant::now();
        for attempt in 1.. {
            let set = ["-h", ip, "SET", "greeting", "good morning"];
            match self.client(namespace, &format!("set-{attempt}"), &set).await {
                Ok(response) if response == "OK" => {
                    println!("Redis {}: SET succeeded {:?} after its start", self.name, began.elapsed());
                    return Ok(());
                }
                response if began.elapsed() >= POD_START => {
                    let state = workload::state(namespace, self.name).await;
                    bail!("the response to SET was {response:?} after {attempt} attempts, {state}")
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The stored value. Redis accepts connections before it has loaded its data and responds with
    /// LOADING; clients retry then.
    async fn greeting(&self, namespace: &TestNamespace, ip: &str) -> Result<String> {
        let mut attempt = 1;
        loop {
            let got =
                self.client(namespace, &format!("get-{attempt}"), &["-h", ip, "GET", "greeting"]).await?;
            if !got.starts_with("LOADING") || attempt == MOST_LOADING {
                return Ok(got);
            }
            attempt += 1;
        }
    }

    /// The output of a client in a pod of its own, which opens one connection.
    async fn client(&self, namespace: &TestNamespace, name: &str, arguments: &[&str]) -> Result<String> {
        let pod = self.start_client(namespace, name, arguments).await?;
        let pods: Api<Pod> = namespace.api();
        wait::until(&format!("{pod} to end"), POD_START, || async {
            let status = pods.get(&pod).await?.status.unwrap_or_default();
            match status.phase.as_deref() {
                Some("Succeeded" | "Failed") => Ok(Some(())),
                phase => bail!("{phase:?}, {}", workload::state(namespace, self.name).await),
            }
        })
        .await?;
        Ok(pods.logs(&pod, &LogParams::default()).await?.trim().to_owned())
    }

    async fn start_client(
        &self,
        namespace: &TestNamespace,
        name: &str,
        arguments: &[&str],
    ) -> Result<String> {
        let name = format!("{}-{name}", self.name);
        let command: Vec<&str> = ["/usr/bin/redis-cli"].iter().chain(arguments).copied().collect();
        let once = json!({"restartPolicy": "Never", "terminationGracePeriodSeconds": 0});
        let spec = self.pod_spec(&json!(command), None, once);
        let pod: Pod = serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec}))?;
        let pods: Api<Pod> = namespace.api();
        pods.create(&PostParams::default(), &pod).await?;
        Ok(name)
    }

    pub(crate) async fn cluster_ip(&self, namespace: &TestNamespace) -> Result<String> {
        let services: Api<Service> = namespace.api();
        let spec = services.get(self.name).await?.spec.unwrap_or_default();
        spec.cluster_ip.context("the Service has no address")
    }

    pub(crate) async fn until_at_zero(&self, namespace: &TestNamespace) -> Result<()> {
        let sets: Api<StatefulSet> = namespace.api();
        wait::until(&format!("{} at zero", self.name), TO_ZERO, || async {
            let now = sets.get(self.name).await?.spec.replicas;
            if now == Some(0) {
                return Ok(Some(()));
            }
            bail!("spec.replicas is {now:?}, {}", workload::state(namespace, self.name).await)
        })
        .await
    }

    /// A pod spec whose container has Debian's files and `data`, and nothing else; `rest` is merged
    /// into it.
    fn pod_spec(&self, command: &Value, data: Option<Value>, rest: Value) -> Value {
        let roots: Vec<&str> = ROOTS.into_iter().filter(|root| self.root.join(root).is_dir()).collect();
        let mut mounts: Vec<Value> = roots
            .iter()
            .map(|root| json!({"name": root, "mountPath": format!("/{root}"), "readOnly": true}))
            .collect();
        let volumes: Vec<Value> = roots
            .iter()
            .map(
                |root| json!({"name": root, "hostPath": {"path": self.root.join(root), "type": "Directory"}}),
            )
            .collect();
        mounts.extend(data);
        let mut spec = json!({
            "automountServiceAccountToken": false,
            "securityContext": {"runAsUser": 0},
            "volumes": volumes,
            "containers": [{
                "name": "redis",
                // Only for its small file system.
                "image": SAMPLE_APP,
                "imagePullPolicy": "IfNotPresent",
                "command": command,
                "ports": [{"containerPort": PORT}],
                "volumeMounts": mounts,
            }],
        });
        if let (Some(spec), Value::Object(rest)) = (spec.as_object_mut(), rest) {
            spec.extend(rest);
        }
        spec
    }

    fn volume_name(&self) -> String {
        format!("rouse-test-redis-{}", self.name)
    }

    fn volume(&self) -> Value {
        json!({
            "metadata": {"name": self.volume_name()},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain",
                "storageClassName": self.volume_name(),
                "hostPath": {"path": self.data, "type": "Directory"},
            },
        })
    }

    fn stateful_set(&self) -> Value {
        // Protected mode refuses connections from other addresses than loopback, so those of a
        // sidecar too.
        let command = json!([
            "/usr/bin/redis-server",
            "--dir",
            "/data",
            "--appendonly",
            "yes",
            "--save",
            "",
            "--protected-mode",
            "no",
        ]);
        let data = json!({"name": "data", "mountPath": "/data"});
        let mut spec = self.pod_spec(&command, Some(data), json!({}));
        let mut annotations = BTreeMap::from([(PROTOCOL, "tcp".to_owned())]);
        if self.attached {
            // Activators connect to the admin port, and metrics-adapters read from the statistics
            // port.
            annotations.extend(port_annotations(OTHER_PORTS));
        }
        let mut metadata = json!({
            "labels": {"app": self.name, "autoscaling.rouse.dev/inject": "true"},
            "annotations": annotations,
        });
        if !self.has_sidecar {
            metadata = json!({"labels": {"app": self.name}});
            let container = spec.pointer_mut("/containers/0").and_then(Value::as_object_mut);
            let probe = ("readinessProbe".to_owned(), json!({"tcpSocket": {"port": PORT}}));
            container.into_iter().for_each(|container| container.extend([probe.clone()]));
        }
        json!({
            "metadata": {"name": self.name},
            "spec": {
                "replicas": 1,
                "serviceName": self.name,
                "selector": {"matchLabels": {"app": self.name}},
                "template": {
                    "metadata": metadata,
                    "spec": spec,
                },
                "volumeClaimTemplates": [{
                    "metadata": {"name": "data"},
                    "spec": {
                        "accessModes": ["ReadWriteOnce"],
                        "storageClassName": self.volume_name(),
                        "resources": {"requests": {"storage": "1Gi"}},
                    },
                }],
            },
        })
    }

    fn service(&self) -> Value {
        let selector = if self.attached { json!({"app": self.name}) } else { Value::Null };
        let target_port = if self.has_sidecar { json!("queue-proxy") } else { json!(PORT) };
        json!({
            "metadata": {"name": self.name},
            "spec": {
                "selector": selector,
                "ports": [{"name": "redis", "port": PORT, "targetPort": target_port, "appProtocol": "redis"}],
            },
        })
    }

    fn autoscaler(&self) -> Value {
        json!({
            "metadata": {
                "name": self.name,
                "annotations": {
                    "autoscaling.rouse.dev/scale-to-zero": "true",
                    "autoscaling.rouse.dev/window": "6s",
                    // No spare capacity: requests go straight to the pod while there is one.
                    "autoscaling.rouse.dev/target-burst-capacity": "0",
                },
            },
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": self.name},
                "minReplicas": 1,
                "maxReplicas": 1,
                "metrics": [{
                    "type": "External",
                    "external": {
                        "metric": {"name": "concurrency", "selector": {"matchLabels": {"service": self.name}}},
                        "target": {"type": "AverageValue", "averageValue": "100"},
                    },
                }],
            },
        })
    }
}
