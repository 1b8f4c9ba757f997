//! Rival: another writer of the size of a workload's target, and the rule by which Rouse yields.
//!
//! - Beside an HPA, a PodAutoscaler with `scaler: Direct` is one with `scaler: Other`: it writes
//!   sizes from and to zero only.
//! - A controller, or a human, that reverted the last writes keeps its size for some minutes
//!   ([`crate::scaling::size_conflicts`]): Rouse writes from zero only.

use std::sync::Arc;

use autoscaler::Key;
use autoscaler::api::{PodAutoscaler, PodAutoscalerSpec, Scaler, group_of};
use autoscaler::findings::Problem;
use autoscaler::findings::hpa::deletion_of;
use kube::ResourceExt;

use crate::cache::cached_target::scale::Scale;
use crate::clock::now;
use crate::controllers::context::Context;
use crate::kubernetes::reasons::Reason;

/// Another writer of the size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Rival {
    /// An HPA beside a PodAutoscaler that writes every size, and how to delete it.
    Hpa { name: String, deletion: String },
    /// A field manager that reverts sizes.
    Writer(Arc<str>),
}

// === impl Rival ===

impl Rival {
    /// The rival of a workload, if it has one.
    pub(super) fn of(
        key: &Key,
        autoscaler: &PodAutoscaler,
        scale: Option<&Scale>,
        context: &Context,
    ) -> Option<Self> {
        hpa(key, autoscaler, context)
            .or_else(|| context.scaling.size_conflicts.rival(key, scale?, now()).map(Self::Writer))
    }

    /// What is wrong, and what to change.
    pub(super) fn problem(&self, autoscaler: &PodAutoscaler) -> Problem {
        let (kind, name) = (&autoscaler.spec.scale_target_ref.kind, &autoscaler.spec.scale_target_ref.name);
        let (problem, fix) = match self {
            Self::Hpa { name: hpa, deletion } => (
                format!(
                    "HPA {hpa} scales {kind} {name:?} too, so Rouse writes sizes from and to zero only, as with \
                     scaler: Other"
                ),
                deletion.clone(),
            ),
            Self::Writer(manager) => (
                format!(
                    "another controller, field manager {manager:?}, reverts the sizes of {kind} {name:?} that Rouse \
                     writes, so Rouse leaves them to it for ten minutes"
                ),
                "remove spec.replicas from what it applies, or delete the HPA or PodAutoscaler".to_owned(),
            ),
        };
        Problem::new(Reason::ScaleConflict, problem, fix)
    }
}

/// Any HPA of the target: none of them follows this workload.
fn hpa(key: &Key, autoscaler: &PodAutoscaler, context: &Context) -> Option<Rival> {
    if autoscaler.spec.scaler != Scaler::Direct {
        return None;
    }
    let target = &autoscaler.spec.scale_target_ref;
    let hpas = context.cache.hpas_of_target(&key.namespace, &target.kind, &target.name);
    let is_rival = |hpa: &k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler| {
        let version = hpa.spec.scale_target_ref.api_version.as_deref().unwrap_or_default();
        hpa.metadata.deletion_timestamp.is_none() && group_of(version) == target.group()
    };
    let (_, hpa) = hpas.into_iter().find(|(_, hpa)| is_rival(hpa))?;
    Some(Rival::Hpa { name: hpa.name_any(), deletion: deletion_of(&hpa) })
}

/// Whether an HPA of its name, with this spec, scales another target, and so writes no size of it.
pub(super) fn another_target(autoscaler: &PodAutoscaler, of_hpa: &PodAutoscalerSpec) -> Option<Problem> {
    let target = &of_hpa.scale_target_ref;
    let (kind, name) = (&target.kind, &target.name);
    (!target.is_same_object(&autoscaler.spec.scale_target_ref)).then(|| {
        let problem = format!("the HPA of this name scales {kind} {name:?}, so none writes sizes above 0");
        Problem::with_usual_fix(Reason::HPANotFound, problem)
    })
}
