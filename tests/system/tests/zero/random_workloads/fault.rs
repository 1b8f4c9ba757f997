//! The faults of random workloads: how each begins, and how its user mends it.

use std::time::Duration;

use anyhow::{Context, Result};
use autoscaler::api::PodAutoscaler;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::{PersistentVolume, Pod, Service};
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use serde_json::{Value, json};
use system_tests::cluster::namespace::SAMPLE_APP;
use system_tests::wait;
use system_tests::workloads::limits::{create_limit, create_quota, delete_limit, delete_quota};
use system_tests::workloads::orphaned_autoscaler;
use system_tests::workloads::random::description::Fault;
use system_tests::workloads::random::manifests::retention;

use super::course::{Course, RECONCILED};

/// Name of the quota or LimitRange that refuses objects.
const SMALL: &str = "small";
/// The first port of a Service that is made again.
const OTHER_PORT: u16 = 8888;
/// From one write of the second writer to its next read.
const SECOND_WRITER: Duration = Duration::from_millis(500);

// === impl Course ===

impl Course {
    /// Begins the fault.
    pub(super) async fn begin_fault(&mut self, fault: Fault) -> Result<()> {
        match fault {
            Fault::ObjectsRefused => {
                self.quota(json!({"count/serverlessservices.autoscaling.rouse.dev": "0"})).await
            }
            // Of a field of the HPA, which is applied later.
            Fault::MisspelledAnnotation => Ok(()),
            Fault::QuotaFull => self.quota(json!({"pods": "1"})).await,
            Fault::VolumesDeleted => self.create_volume().await,
            Fault::ImageGone => self.patch_app(json!({"image": "rouse/sample-app:no-such-version"})).await,
            Fault::RolloutStuck => {
                self.patch_app(json!({"args": ["serve", "--start-delay-ms=3600000"]})).await
            }
            Fault::NodeGone => self.select_node(json!("gone")).await,
            Fault::TemplateChanged => self.patch_app(json!({"args": ["serve", "--start-delay-ms=1"]})).await,
            Fault::QuotaLowered | Fault::QuotaGone => self.quota(json!({"pods": "0"})).await,
            Fault::LimitLowered => {
                create_limit(&self.namespace, SMALL, json!({"type": "Pod", "max": {"memory": "1Mi"}})).await
            }
            Fault::SecondWriter => {
                self.start_second_writer();
                Ok(())
            }
            Fault::HpaAppliedAgain => self.apply_hpa_again().await,
            Fault::ServiceMadeAgain => self.make_service_again().await,
            Fault::ScaledByHand => self.target.scale(1).await,
        }
    }

    /// Does what the message of the fault asks for.
    pub(super) async fn end_fault(&self, fault: Fault) -> Result<()> {
        match fault {
            Fault::ObjectsRefused | Fault::QuotaLowered | Fault::QuotaGone => {
                delete_quota(&self.namespace, SMALL).await
            }
            Fault::LimitLowered => delete_limit(&self.namespace, SMALL).await,
            Fault::VolumesDeleted => {
                self.target.patch(json!({"persistentVolumeClaimRetentionPolicy": retention("Retain")})).await
            }
            Fault::ImageGone => self.patch_app(json!({"image": SAMPLE_APP})).await,
            Fault::RolloutStuck => self.patch_app(json!({"args": ["serve", "--start-delay-ms=0"]})).await,
            Fault::NodeGone => {
                self.select_node(Value::Null).await?;
                self.delete_pods().await
            }
            // So that a pod of the present template starts.
            Fault::TemplateChanged => self.delete_pods().await,
            _ => Ok(()),
        }
    }

    async fn quota(&self, hard: Value) -> Result<()> {
        create_quota(&self.namespace, SMALL, hard).await
    }

    async fn patch_app(&self, mut app: Value) -> Result<()> {
        app.as_object_mut().context("no object")?.insert("name".to_owned(), json!("app"));
        self.target.patch_template(json!({"spec": {"containers": [app]}})).await
    }

    async fn select_node(&self, value: Value) -> Result<()> {
        self.target.patch_template(json!({"spec": {"nodeSelector": {"tests.rouse.dev/node": value}}})).await
    }

    async fn delete_pods(&self) -> Result<()> {
        let selected = ListParams::default().labels(&format!("app={}", self.workload.app()));
        self.namespace.api::<Pod>().delete_collection(&DeleteParams::default(), &selected).await?;
        Ok(())
    }

    async fn create_volume(&self) -> Result<()> {
        let name = self.workload.storage_class();
        let volumes: Api<PersistentVolume> = Api::all(self.namespace.client.clone());
        // Of an earlier run.
        let _ = volumes.delete(&name, &DeleteParams::default()).await;
        wait::until("the former volume to be gone", RECONCILED, || async {
            Ok(volumes.get_opt(&name).await?.is_none().then_some(()))
        })
        .await?;
        let volume = json!({"metadata": {"name": name}, "spec": {
            "storageClassName": name, "capacity": {"storage": "1Mi"}, "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": format!("/tmp/rouse-test-{name}"), "type": "DirectoryOrCreate"}}});
        volumes.create(&PostParams::default(), &serde_json::from_value(volume)?).await?;
        Ok(())
    }

    pub(super) async fn delete_volume(&self) -> Result<()> {
        let volumes: Api<PersistentVolume> = Api::all(self.namespace.client.clone());
        volumes.delete(&self.workload.storage_class(), &DeleteParams::default()).await?;
        Ok(())
    }

    fn start_second_writer(&mut self) {
        let target = self.target.clone();
        self.tasks.spawn(async move {
            loop {
                if target.size().await.is_ok_and(|size| size == 0)
                    && let Err(error) = target.scale(1).await
                {
                    println!("second writer: {error:#}");
                }
                tokio::time::sleep(SECOND_WRITER).await;
            }
        });
    }

    async fn apply_hpa_again(&self) -> Result<()> {
        let hpas: Api<HorizontalPodAutoscaler> = self.namespace.api();
        let name = &self.workload.names.hpa;
        orphaned_autoscaler::delete_hpa(&self.namespace, name).await?;
        wait::until("the HPA to be gone", RECONCILED, || async {
            Ok(hpas.get_opt(name).await?.is_none().then_some(()))
        })
        .await?;
        let hpa = self.workload.hpa(self.workload.hpa.max_replicas)?;
        let uid = hpas.create(&PostParams::default(), &hpa).await?.metadata.uid;
        let autoscalers: Api<PodAutoscaler> = self.namespace.api();
        wait::until("the PodAutoscaler to be of the new HPA", RECONCILED, || async {
            let owners = autoscalers.get(name).await?.metadata.owner_references.unwrap_or_default();
            Ok(owners.iter().any(|owner| Some(&owner.uid) == uid.as_ref()).then_some(()))
        })
        .await
    }

    async fn make_service_again(&mut self) -> Result<()> {
        let services: Api<Service> = self.namespace.api();
        let name = self.workload.names.service.clone();
        services.delete(&name, &DeleteParams::default()).await?;
        wait::until("the Service to be gone", RECONCILED, || async {
            Ok(services.get_opt(&name).await?.is_none().then_some(()))
        })
        .await?;
        self.ports = self.workload.ports(OTHER_PORT);
        self.create_service().await?;
        self.until_first_responses().await
    }
}
