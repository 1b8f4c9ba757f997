//! One random workload: its objects, its fault, what changes later, and how it ends.

use crate::workloads::workload::Sidecar;

/// A workload, its course, and what is expected of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Its number, which is in the label of its pods and in the name of its namespace.
    pub index: usize,
    pub kind: Kind,
    pub names: Names,
    pub sidecar: Sidecar,
    pub service: ServiceForm,
    pub pods: PodForm,
    pub hpa: HpaForm,
    pub fault: Option<Fault>,
    pub change: Change,
    pub end: End,
}

/// What the HPA scales.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Deployment,
    StatefulSet,
    ReplicaSet,
    /// With the subresource `/scale`; the pods are of a Deployment that follows it.
    CustomResource,
}

/// The names of the objects, which a user chooses independently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    pub target: String,
    pub service: String,
    pub hpa: String,
}

/// The Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceForm {
    /// Whether it selects its pods itself.
    pub attached: bool,
    /// TCP ports, all to the app.
    pub ports: u16,
    /// Whether they name the port of the pods.
    pub named_target: bool,
    pub udp: bool,
    pub app_protocol: bool,
    pub node_port: bool,
    pub publishes_not_ready: bool,
}

/// The pods, and what their namespace limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodForm {
    /// Whether the selector of the target has a second label, by an expression.
    pub second_label: bool,
    /// Whether a LimitRange sets requests, and a quota on them has room.
    pub limited: bool,
    /// Requests that a pod serves at a time; 0 means no limit.
    pub concurrency: u32,
}

/// The HPA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HpaForm {
    pub max_replicas: i32,
    pub behavior: Behavior,
    /// `target-burst-capacity`.
    pub burst_capacity: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behavior {
    /// Without a stabilization window.
    Fast,
    /// That of Kubernetes.
    Default,
    /// Which never scales down.
    NeverDown,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// A quota refuses an object that Rouse writes.
    ObjectsRefused,
    /// An annotation of the HPA is misspelled.
    MisspelledAnnotation,
    /// A quota has room for one pod.
    QuotaFull,
    /// A StatefulSet deletes its volumes when it is scaled down.
    VolumesDeleted,
    /// A rollout to an image that does not exist.
    ImageGone,
    /// A rollout to pods that never become ready.
    RolloutStuck,
    /// The template of a ReplicaSet changes, which its pods do not follow.
    TemplateChanged,
    /// A quota is lowered below what is used.
    QuotaLowered,
    /// A LimitRange refuses further pods.
    LimitLowered,
    /// An operator writes 1 whenever it reads 0.
    SecondWriter,
    /// At zero the template changes to pods for which there is no node.
    NodeGone,
    /// At zero a quota has no room for a pod.
    QuotaGone,
    /// At zero the HPA is deleted without its dependents, and applied again.
    HpaAppliedAgain,
    /// At zero the Service is deleted, and made again with another port.
    ServiceMadeAgain,
    /// At zero a person scales to 1.
    ScaledByHand,
}

/// When a fault begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Before the objects of the workload.
    Created,
    /// While it serves.
    Serving,
    AtZero,
}

/// What becomes of a workload while its fault lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It goes to zero and wakes.
    Sleeps,
    /// It serves and does not go to zero.
    StaysUp,
    /// It cannot be served; its requests wait for the end of the fault.
    Waits,
}

/// What the user changes under load, after a wake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    Nothing,
    Rollout,
    /// The bounds of the HPA.
    Bounds,
    /// One more port of the Service.
    Port,
    /// A Service without a selector gets one.
    Selector,
}

/// How a workload ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// The HPA is deleted at zero.
    HpaDeleted,
    /// The HPA is deleted at zero without its dependents, then its PodAutoscaler.
    HpaOrphaned,
    /// The HPA gets another target at zero.
    TargetChanged,
    /// The HPA of a Service that selects its pods is deleted under load.
    HpaDeletedUnderLoad,
    /// The namespace is deleted at zero.
    NamespaceDeleted,
}

// === impl Description ===

impl Description {
    /// The label `app` of its pods.
    pub fn app(&self) -> String {
        format!("w{}", self.index)
    }

    /// What becomes of it while its fault lasts.
    pub fn outcome(&self) -> Outcome {
        self.fault.map_or(Outcome::Sleeps, Fault::outcome)
    }
}

// === impl Fault ===

impl Fault {
    pub const ALL: [Self; 15] = [
        Self::ObjectsRefused,
        Self::MisspelledAnnotation,
        Self::QuotaFull,
        Self::VolumesDeleted,
        Self::ImageGone,
        Self::RolloutStuck,
        Self::TemplateChanged,
        Self::QuotaLowered,
        Self::LimitLowered,
        Self::QuotaGone,
        Self::NodeGone,
        Self::SecondWriter,
        Self::HpaAppliedAgain,
        Self::ServiceMadeAgain,
        Self::ScaledByHand,
    ];

    pub fn phase(self) -> Phase {
        match self {
            Self::ObjectsRefused | Self::MisspelledAnnotation | Self::QuotaFull | Self::VolumesDeleted => {
                Phase::Created
            }
            Self::NodeGone
            | Self::QuotaGone
            | Self::HpaAppliedAgain
            | Self::ServiceMadeAgain
            | Self::ScaledByHand => Phase::AtZero,
            _ => Phase::Serving,
        }
    }

    pub fn outcome(self) -> Outcome {
        match self {
            Self::ObjectsRefused | Self::NodeGone | Self::QuotaGone => Outcome::Waits,
            Self::MisspelledAnnotation
            | Self::QuotaFull
            | Self::HpaAppliedAgain
            | Self::ServiceMadeAgain
            | Self::ScaledByHand => Outcome::Sleeps,
            _ => Outcome::StaysUp,
        }
    }

    /// The reason of a condition or event that the user gets, and a part of its message.
    pub fn report(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::ObjectsRefused => Some(("WriteRefused", "exceeded quota")),
            Self::MisspelledAnnotation => Some(("UnknownAnnotation", "scale-down-delay")),
            Self::VolumesDeleted => Some(("VolumesDeleted", "whenScaled")),
            Self::ImageGone | Self::RolloutStuck => Some(("RolloutIncomplete", "newest template")),
            Self::TemplateChanged => Some(("RolloutIncomplete", "template")),
            Self::QuotaLowered => Some(("PodsRefused", "exceeded quota")),
            Self::LimitLowered => Some(("PodsRefused", "maximum memory usage")),
            Self::SecondWriter => Some(("ScaleConflict", "system-tests")),
            Self::NodeGone => Some(("Unschedulable", "node")),
            Self::QuotaGone => Some(("PodsNotCreated", "exceeded quota")),
            Self::QuotaFull | Self::HpaAppliedAgain | Self::ServiceMadeAgain | Self::ScaledByHand => None,
        }
    }

    /// Whether a workload can have the fault.
    pub fn applies_to(self, kind: Kind, sidecar: Sidecar) -> bool {
        match self {
            Self::VolumesDeleted => kind == Kind::StatefulSet,
            // A StatefulSet replaces its only pod at once, so Kubernetes alone would not serve.
            Self::ImageGone | Self::RolloutStuck => kind == Kind::Deployment,
            Self::TemplateChanged => kind == Kind::ReplicaSet,
            Self::NodeGone | Self::QuotaGone | Self::SecondWriter => kind != Kind::CustomResource,
            // Of a Service without a selector nothing is served before Rouse writes its objects.
            Self::ObjectsRefused => sidecar == Sidecar::None,
            _ => true,
        }
    }
}
