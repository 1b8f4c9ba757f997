//! Everything known of one workload, gathered into one value.
//!
//! Most of it is in memory already; only a target of an unwatched kind, or one that we have just written, is asked for.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use autoscaler::api::{
    PodAutoscaler, PortLease, Scaler, ServerlessService, SksMode, StartFailure, condition,
};
use autoscaler::settings::{SettingError, Settings};
use autoscaler::{Decision, Key};
use k8s_openapi::Resource;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::ResourceExt;

use crate::activators::path_probe::ProbedAddress;
use crate::activators::path_verification::{PathVerification, VerificationRequest};
use crate::cache::cluster_cache::CollectedMetric;
use crate::cache::service::Service;
use crate::clock::now;
use crate::controllers::blocking_condition::blocking_condition;
use crate::controllers::context::Context;
use crate::controllers::hpa::{HpaAcceptance, HpaProblem, evaluate};
use crate::controllers::ownership::other_owner_of_target;
use crate::controllers::serverless_service::{ACTIVATORS_POPULATED, READY};
use crate::kubernetes::conditions;
use crate::kubernetes::reasons::Reason;
use crate::pods::endpoints::{is_managed, pods, ready, routable_ports};
use crate::pods::sidecar::Sidecar;
use crate::scaling::scale::Scale;
use crate::scaling::scale_targets::{ScaleAccess, ScaleError};

/// How often targets of unwatched kinds are read.
pub(super) const POLL_EVERY: Duration = Duration::from_secs(15);

/// What becomes of what an HPA says.
#[derive(Debug)]
pub(super) enum HpaState {
    /// It is followed; with advice.
    Accepted(Vec<HpaProblem>),
    /// It is not: what it asked for before holds on.
    Rejected(HpaProblem),
    /// There is none, for a workload that has to have one.
    Missing(HpaProblem),
    /// It does not ask for anything that we know of; or it is deleted, and its workload goes with it.
    Silent(HpaProblem),
}

/// One workload.
#[derive(Debug)]
pub(super) struct ObservedWorkload {
    pub(super) key: Key,
    pub(super) autoscaler: PodAutoscaler,
    pub(super) settings: Settings,
    pub(super) bad_settings: Vec<SettingError>,
    /// The target's size, or why it is not known.
    pub(super) scale: Result<Scale, ScaleError>,
    /// Whether a change of the size asks for a look by itself.
    pub(super) watched: bool,
    pub(super) decision: Option<Decision>,
    /// When that came, in Unix milliseconds.
    pub(super) heard: Option<i64>,
    /// What is said of the pods' sidecars, if that can be seen.
    pub(super) sidecar: Option<Sidecar>,
    /// When an activator last spoke of a request, in Unix milliseconds.
    pub(super) last_requested: Option<i64>,
    /// Ready pods.
    pub(super) ready: u32,
    pub(super) service: Option<Arc<Service>>,
    pub(super) metric: Option<Arc<CollectedMetric>>,
    pub(super) serverless_service: Option<ServerlessService>,
    /// The workload that has a better right to the target.
    pub(super) rival: Option<Key>,
    /// Why no pod starts.
    pub(super) start_failure: Option<StartFailure>,
    /// A pod that is ready and has no sidecar, while none with one is.
    pub(super) bare: Option<String>,
    /// What the HPA says; `None` for a workload that needs none.
    pub(super) hpa: Option<HpaState>,
    /// For how long there has been no activator at all.
    pub(super) without_activators: Option<Duration>,
    pub(super) now: jiff::Timestamp,
}

// === impl ObservedWorkload ===

impl ObservedWorkload {
    /// The Service's ports, as far as they are leased.
    pub(super) fn leases(&self) -> &[PortLease] {
        let status = self.serverless_service.as_ref().and_then(|service| service.status.as_ref());
        status.map(|status| status.ports.as_slice()).unwrap_or_default()
    }

    /// Whether the Service leads callers past the activators: by all of its ports, or on nodes that have none.
    pub(super) fn is_out_of_reach(&self) -> bool {
        if self.service.as_ref().is_some_and(|service| service.has_local_traffic_policy()) {
            return true;
        }
        let status = self.serverless_service.as_ref().and_then(|service| service.status.as_ref());
        let ready = status.and_then(|status| condition(&status.conditions, READY));
        ready.is_some_and(|ready| ready.status == "False" && ready.reason == Reason::SidecarBypassed.as_str())
    }

    /// Since when activators have been in the slices, in Unix milliseconds.
    pub(super) fn proxied_since(&self) -> Option<i64> {
        let status = self.serverless_service.as_ref()?.status.as_ref()?;
        let populated = condition(&status.conditions, ACTIVATORS_POPULATED).filter(|c| c.status == "True")?;
        (status.mode == Some(SksMode::Proxy)).then(|| conditions::since(populated))
    }
}

pub(super) async fn observe(key: &Key, autoscaler: &PodAutoscaler, context: &Context) -> ObservedWorkload {
    let (settings, bad_settings) = autoscaler.spec.settings(&context.config(), autoscaler.annotations());
    let target = &autoscaler.spec.scale_target_ref;
    let known = context.scales.cached(&key.namespace, target);
    let watched = known.is_some();
    let scale = match known {
        Some(scale) => Ok(scale),
        None => context.scales.read(&key.namespace, target).await,
    };
    let serverless_service = context.cache.serverless_service(key);
    let service = context.cache.service(&key.namespace, &autoscaler.spec.service);
    let private = serverless_service.as_ref().and_then(|s| s.status.as_ref()?.private_service.clone());
    let ready = service.as_ref().map_or(0, |service| {
        ready(&pods(&context.cache.slices, &key.namespace, service, private.as_deref()))
    });
    let mut observed = ObservedWorkload {
        key: key.clone(),
        autoscaler: autoscaler.clone(),
        settings,
        bad_settings,
        scale,
        watched,
        decision: None,
        heard: None,
        sidecar: context.scales.sidecar(&key.namespace, target),
        last_requested: None,
        ready,
        service,
        metric: context.cache.metric(key),
        start_failure: context.starts.failure(key, known_failure(serverless_service.as_ref())),
        serverless_service,
        bare: context.starts.ready_pod_without_sidecar(key),
        hpa: hpa(key, autoscaler, context),
        rival: other_owner_of_target(key, autoscaler, context),
        without_activators: context.activators.absent_for(now()),
        now: context.clock.now(),
    };
    receive(&mut observed, context);
    observed
}

/// What the status says of the start of pods.
pub(super) fn known_failure(sks: Option<&ServerlessService>) -> Option<&StartFailure> {
    sks?.status.as_ref()?.start_failure.as_ref()
}

/// Takes in what is said of requests.
fn receive(observed: &mut ObservedWorkload, context: &Context) {
    let (now, unix_now) = (now(), observed.now.as_millisecond());
    let unix = |at: Instant| {
        let age = now.saturating_duration_since(at).as_millis();
        unix_now.saturating_sub(i64::try_from(age).unwrap_or(i64::MAX))
    };
    let newest = context.decisions.newest(&observed.key, now);
    observed.heard = newest.as_ref().map(|heard| unix(heard.at));
    observed.last_requested = context.wake.last_requested(&observed.key).map(unix);
    observed.decision = newest.map(|heard| heard.decision);
}

/// Whether the Service's own address is answered by activators, as far as it is known.
pub(super) fn verification(observed: &ObservedWorkload, context: &Context) -> PathVerification {
    match question(observed, context) {
        Ok(question) => context.verifications.of(&observed.key, question),
        // Nothing that time alone would change.
        Err(error) => PathVerification { outcome: Some(Err(error)), again: None },
    }
}

fn question(observed: &ObservedWorkload, context: &Context) -> Result<VerificationRequest, String> {
    let Some(service) = &observed.service else { return Err("there is no Service to ask".to_owned()) };
    if let Some(blocking_condition) = blocking_condition(service) {
        return Err(blocking_condition.message.to_owned());
    }
    let addresses = service.addresses();
    if addresses.is_empty() {
        return Err("the Service has no cluster IP to ask".to_owned());
    }
    let doors = doors(&addresses, service, observed.leases(), &context.activators.admin_ports())?;
    if doors.is_empty() {
        return Err("the Service has no TCP port to ask".to_owned());
    }
    Ok(VerificationRequest { doors, managed: is_managed(service) })
}

/// One for each of the Service's addresses and ports: each family has slices of its own.
fn doors(
    addresses: &[IpAddr],
    service: &Service,
    leases: &[PortLease],
    activators: &[SocketAddr],
) -> Result<Vec<ProbedAddress>, String> {
    let mut doors = Vec::new();
    for port in routable_ports(service) {
        let lease = leases.iter().find(|lease| i32::from(lease.service_port) == port.port);
        let lease = lease.ok_or_else(|| format!("port {} of the Service is not leased yet", port.port))?;
        doors.extend(addresses.iter().map(|ip| ProbedAddress {
            address: SocketAddr::new(*ip, lease.service_port),
            protocol: lease.protocol,
            activator_port: lease.activator_port,
            activators: activators.to_vec(),
        }));
    }
    Ok(doors)
}

fn hpa(key: &Key, autoscaler: &PodAutoscaler, context: &Context) -> Option<HpaState> {
    if autoscaler.spec.scaler == Scaler::Direct {
        return None;
    }
    let Some(hpa) = context.cache.hpa(key) else {
        let words =
            "there is no HPA of this name to write sizes above 0; make one, or set spec.scaler to Direct";
        let problem = HpaProblem::new(Reason::HPANotFound, words);
        return Some(if is_of_hpa(autoscaler) {
            HpaState::Silent(problem)
        } else {
            HpaState::Missing(problem)
        });
    };
    Some(match evaluate(key, &hpa, context) {
        HpaAcceptance::Accepted(accepted) => HpaState::Accepted(accepted.advice),
        HpaAcceptance::Rejected(problem) => HpaState::Rejected(problem),
        HpaAcceptance::Foreign => HpaState::Silent(HpaProblem::new(
            Reason::NoMetric,
            "the HPA of this name asks for no metric of Rouse; it may never follow",
        )),
    })
}

/// Whether it was made from an HPA.
pub(super) fn is_of_hpa(autoscaler: &PodAutoscaler) -> bool {
    autoscaler.owner_references().iter().any(|owner| owner.kind == HorizontalPodAutoscaler::KIND)
}
