//! Gathers the state of one workload into one value.
//!
//! Nearly all inputs are cached. Only a target of an unwatched kind, or one whose size was just
//! written, is read from the API server.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use autoscaler::api::{
    PodAutoscaler, PortLease, Scaler, ServerlessService, SksMode, StartFailure, condition,
};
use autoscaler::findings::Problem;
use autoscaler::findings::hpa::HpaAcceptance;
use autoscaler::findings::service::ServiceFields;
use autoscaler::findings::sidecar::Sidecar;
use autoscaler::findings::wake::NextPods;
use autoscaler::scaling::scale_to_zero::SeenFor;
use autoscaler::settings::{ScheduledMinimum, SettingError, Settings, SidecarMode};
use autoscaler::{Decision, Key};
use k8s_openapi::Resource;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;

use super::rival::{Rival, another_target};
use super::sidecar_evidence::SidecarEvidence;
use crate::activators::path_probe::ProbedAddress;
use crate::activators::path_verification::{PathError, PathVerification, VerificationRequest};
use crate::cache::cached_target::footprint::PodFootprint;
use crate::cache::cached_target::scale::Scale;
use crate::cache::cluster_cache::CollectedMetric;
use crate::cache::last_activation::ACTIVE;
use crate::cache::service::{cluster_ips, has_local_internal_policy, keeps_endpoints};
use crate::clock::now;
use crate::controllers::context::Context;
use crate::controllers::hpa::evaluate;
use crate::controllers::ownership::other_owner_of_target;
use crate::controllers::serverless_service::{ACTIVATORS_POPULATED, READY};
use crate::kubernetes::conditions;
use crate::kubernetes::reasons::Reason;
use crate::pods::endpoints::{PodEndpoint, is_managed, is_ready, pods, ready, routable_ports};
use crate::pods::pod_selection::{PodSelection, SelectorSources};
use crate::pods::start_watch::UnusablePod;
use crate::scaling::scale_targets::{ScaleAccess, ScaleError};

/// Interval at which targets of unwatched kinds are read.
pub(super) const POLL_EVERY: Duration = Duration::from_secs(15);

/// Whether the HPA of a workload is followed.
#[derive(Debug)]
pub(super) enum HpaState {
    /// It is followed. Carries advice.
    Accepted(Vec<Problem>),
    /// It cannot be followed; the PodAutoscaler keeps the spec from before.
    Rejected(Problem),
    /// The workload needs one and has none.
    Missing(Problem),
    /// It has no metric of Rouse, or it is deleted and garbage collection will delete the
    /// PodAutoscaler.
    Inactive(Problem),
}

/// The state of one workload.
#[derive(Debug)]
pub(super) struct ObservedWorkload {
    pub(super) key: Key,
    pub(super) autoscaler: PodAutoscaler,
    /// With the minimum of the schedule.
    pub(super) settings: Settings,
    /// What the schedule requires now.
    pub(super) scheduled: Option<ScheduledMinimum>,
    pub(super) bad_settings: Vec<SettingError>,
    /// The target's size, or why it could not be read.
    pub(super) scale: Result<Scale, ScaleError>,
    /// Whether a watch reports changes of the size; otherwise it is polled.
    pub(super) watched: bool,
    pub(super) decision: Option<Decision>,
    /// Time at which the decision was received, in Unix milliseconds.
    pub(super) decision_received: Option<i64>,
    pub(super) learning_workloads: u32,
    /// The sidecar in the pod template, if the target's kind is watched.
    pub(super) sidecar: Option<Sidecar>,
    /// Requests that a pod of the template serves at a time; `None` means no limit.
    pub(super) pod_limit: Option<u32>,
    pub(super) footprint: PodFootprint,
    /// What the target states about its next pods, if its kind is watched.
    pub(super) next_pods: NextPods,
    /// Whether these would serve after zero; `None` if it is not known.
    pub(super) wake_check: Option<Result<(), Problem>>,
    /// Annotations of the target and its template that have no effect there.
    pub(super) target_annotations: Vec<Problem>,
    pub(super) sidecar_mode: SidecarMode,
    /// Time of the last request that an activator reported, in Unix milliseconds.
    pub(super) last_requested: Option<i64>,
    /// For how long this process has observed that there is no request, and the conditions.
    pub(super) seen: SeenFor,
    pub(super) ready: u32,
    pub(super) service: Option<Arc<Service>>,
    pub(super) metric: Option<Arc<CollectedMetric>>,
    pub(super) serverless_service: Option<ServerlessService>,
    pub(super) rival: Option<Rival>,
    /// Another workload that owns the target.
    pub(super) target_owner: Option<Key>,
    /// Why the pods of a workload that wakes do not start.
    pub(super) start_failure: Option<StartFailure>,
    /// Number of pods, if all are on nodes that do not respond.
    pub(super) pods_on_unresponsive_nodes: u32,
    /// A ready pod that gets no requests, if all ready pods of the target are such.
    pub(super) unusable_pod: Option<UnusablePod>,
    /// `None` for a workload that needs no HPA.
    pub(super) hpa: Option<HpaState>,
    /// Which activators do not report, and since when; `None` while all do.
    pub(super) silent_activators: Option<String>,
    /// A metric that the HPA controller cannot read, or the time until that counts.
    pub(super) metric_failure: Option<Result<Problem, Duration>>,
    /// Time since the last activator disappeared; `None` while there is one.
    pub(super) without_activators: Option<Duration>,
    pub(super) now: jiff::Timestamp,
}

// === impl ObservedWorkload ===

impl ObservedWorkload {
    /// The leases of the Service's ports.
    pub(super) fn leases(&self) -> &[PortLease] {
        let status = self.serverless_service.as_ref().and_then(|service| service.status.as_ref());
        status.map(|status| status.ports.as_slice()).unwrap_or_default()
    }

    /// The selector of the target; `None` if it is unknown, or the target has none.
    pub(super) fn target_selector(&self) -> Option<&str> {
        let scale = self.scale.as_ref().ok()?;
        Some(scale.selector.as_str()).filter(|selector| !selector.is_empty())
    }

    /// Which pods get the Service's requests; `None` without the target's selector.
    pub(super) fn pod_selection(&self) -> Option<PodSelection> {
        let service = &self.autoscaler.spec.service;
        let before = self.serverless_service.as_ref().map(|existing| &existing.spec);
        let named = self.autoscaler.spec.pod_selector(&self.settings);
        let sources = SelectorSources {
            service: self.service.as_deref(),
            named: named.as_ref(),
            before: before.filter(|before| before.service == *service),
            target: self.target_selector()?,
        };
        Some(sources.select())
    }

    /// Whether the schedule keeps pods at present.
    pub(super) fn is_scheduled(&self) -> bool {
        self.scheduled.is_some_and(|scheduled| scheduled.minimum > 0)
    }

    /// Whether the annotation `paused` keeps the size as it is.
    pub(super) fn is_paused(&self) -> bool {
        self.settings.scale.pause.is_in_force(self.now.as_millisecond())
    }

    /// Time until the schedule requires another size, or until the end of a pause.
    pub(super) fn until_change(&self) -> Option<Duration> {
        let scheduled = self.scheduled.and_then(|scheduled| scheduled.next).map(|next| next.at);
        let ends = self.settings.scale.pause.end().filter(|_| self.is_paused());
        let next = scheduled.into_iter().chain(ends).min()?;
        u64::try_from(next.saturating_sub(self.now.as_millisecond())).ok().map(Duration::from_millis)
    }

    /// Whether the endpoints should not change with the mode, for a load balancer in front.
    pub(super) fn keeps_endpoints(&self) -> bool {
        self.service.as_ref().is_some_and(|service| keeps_endpoints(service))
    }

    /// Whether nothing counts the requests: pods have no sidecar, and activators are not in the
    /// path.
    pub(super) fn is_uncounted(&self) -> bool {
        let status = self.serverless_service.as_ref().and_then(|service| service.status.as_ref());
        let reconciled = status.filter(|status| condition(&status.conditions, READY).is_some());
        !self.sidecar_mode.is_required()
            && reconciled.is_some_and(|status| status.mode != Some(SksMode::Proxy))
    }

    /// Whether requests can bypass the activators: by all ports of the Service, or on nodes without
    /// one.
    pub(super) fn bypasses_activators(&self) -> bool {
        if self.service.as_ref().is_some_and(|service| has_local_internal_policy(service)) {
            return true;
        }
        let status = self.serverless_service.as_ref().and_then(|service| service.status.as_ref());
        let ready = status.and_then(|status| condition(&status.conditions, READY));
        let bypassed = [Reason::SidecarBypassed, Reason::ServiceHasSelector].map(Reason::as_str);
        ready.is_some_and(|ready| ready.status == "False" && bypassed.contains(&ready.reason.as_str()))
    }

    /// The writer of sizes above zero that is in force.
    pub(super) fn scaler(&self) -> Scaler {
        match self.autoscaler.spec.scaler {
            Scaler::Direct if self.rival.is_some() => Scaler::Other,
            scaler => scaler,
        }
    }

    /// Whether another controller reverts sizes.
    pub(super) fn is_reverted(&self) -> bool {
        matches!(self.rival, Some(Rival::Writer(_)))
    }

    /// Time since when activators are in the EndpointSlices, in Unix milliseconds.
    pub(super) fn proxied_since(&self) -> Option<i64> {
        let status = self.serverless_service.as_ref()?.status.as_ref()?;
        let populated = condition(&status.conditions, ACTIVATORS_POPULATED).filter(|c| c.status == "True")?;
        (status.mode == Some(SksMode::Proxy)).then(|| conditions::since(populated))
    }
}

pub(super) async fn observe(key: &Key, autoscaler: &PodAutoscaler, context: &Context) -> ObservedWorkload {
    let (mut settings, bad_settings) = autoscaler.spec.settings(&context.config(), autoscaler.annotations());
    let now_wall = context.clock.now();
    let scheduled = settings.apply_schedule(now_wall.as_millisecond());
    let target = &autoscaler.spec.scale_target_ref;
    let cached = context.scaling.scales.cached(&key.namespace, target);
    let watched = cached.is_some();
    let scale = match cached {
        Some(scale) => Ok(scale),
        None => context.scaling.scales.read(&key.namespace, target).await,
    };
    let serverless_service = context.cache.serverless_service(key);
    let service = context.cache.service(&key.namespace, &autoscaler.spec.service);
    let private = serverless_service.as_ref().and_then(|s| s.status.as_ref()?.private_service.clone());
    let pods_with = |mode| {
        let pods = |service| pods(&context.cache.slices, &key.namespace, service, private.as_deref(), mode);
        service.as_deref().map(pods).unwrap_or_default()
    };
    let cached = context.scaling.scales.watched(&key.namespace, target);
    let sidecar = cached.as_ref().map(|cached| cached.sidecar.clone());
    let mode_before = serverless_service.as_ref().map_or(SidecarMode::Required, |sks| sks.spec.sidecar);
    let evidence = SidecarEvidence {
        template: sidecar.as_ref(),
        before: mode_before,
        is_managed: service.as_deref().is_none_or(is_managed),
        ready: if mode_before.is_required() { Vec::new() } else { ready_pods(pods_with(mode_before)) },
        unusable: context.scaling.starts.unusable_pod(key),
    };
    let sidecar_mode = evidence.mode(autoscaler.spec.sidecar(&settings));
    settings.apply_sidecar_mode(sidecar_mode);
    evidence.apply_rules(&mut settings);
    let ready = ready(&pods_with(sidecar_mode));
    let metric = context.cache.metric(key);
    let rival = Rival::of(key, autoscaler, scale.as_ref().ok(), context);
    let mut observed = ObservedWorkload {
        key: key.clone(),
        autoscaler: autoscaler.clone(),
        settings,
        scheduled,
        bad_settings,
        scale,
        watched,
        decision: None,
        decision_received: None,
        learning_workloads: context.scaling.decisions.learning_workloads(),
        pod_limit: evidence.limit(metric.as_ref().and_then(|it| it.spec.container_concurrency)),
        unusable_pod: evidence.unusable,
        sidecar,
        footprint: cached.as_ref().map(|cached| cached.footprint).unwrap_or_default(),
        next_pods: cached.as_ref().map(|cached| cached.next_pods.clone()).unwrap_or_default(),
        wake_check: None,
        target_annotations: cached.as_ref().map(|cached| cached.annotations.clone()).unwrap_or_default(),
        sidecar_mode,
        last_requested: None,
        seen: SeenFor { idle: Duration::ZERO, phase: Duration::ZERO, proxied: Duration::ZERO },
        ready,
        service,
        metric,
        start_failure: context.scaling.starts.failure(key, reported_failure(serverless_service.as_ref())),
        serverless_service,
        pods_on_unresponsive_nodes: context.scaling.starts.pods_on_unresponsive_nodes(key),
        hpa: hpa(key, autoscaler, context),
        rival,
        metric_failure: None,
        target_owner: other_owner_of_target(key, autoscaler, context),
        silent_activators: context.routing.activators.silence(key),
        without_activators: context.routing.activators.absent_for(now()),
        now: now_wall,
    };
    add_reports(&mut observed, context);
    observed
}

fn ready_pods(pods: Vec<PodEndpoint>) -> Vec<PodEndpoint> {
    pods.into_iter().filter(|pod| is_ready(&pod.endpoint)).collect()
}

pub(super) fn reported_failure(sks: Option<&ServerlessService>) -> Option<&StartFailure> {
    sks?.status.as_ref()?.start_failure.as_ref()
}

/// Adds the last reports of metrics-adapters and activators.
fn add_reports(observed: &mut ObservedWorkload, context: &Context) {
    let (now, unix_now) = (now(), observed.now.as_millisecond());
    let unix = |at: Instant| {
        let age = now.saturating_duration_since(at).as_millis();
        unix_now.saturating_sub(i64::try_from(age).unwrap_or(i64::MAX))
    };
    let newest = context.scaling.decisions.newest(&observed.key, now);
    observed.decision_received = newest.as_ref().map(|received| unix(received.received_at));
    observed.last_requested = context.scaling.wake.last_requested(&observed.key).map(unix);
    observed.decision = newest.map(|received| received.decision);
    let idle_since = context.scaling.decisions.idle_since(&observed.key);
    let active = condition(conditions::of(&observed.autoscaler), ACTIVE).map(conditions::since);
    let times = [active, observed.proxied_since()];
    let [phase, proxied] = context.scaling.first_seen.update(&observed.key, times, now);
    let idle = idle_since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
    observed.seen = SeenFor { idle, phase, proxied };
}

/// The result of the activator path probes, or the reason why none can be sent.
pub(super) fn verification(observed: &ObservedWorkload, context: &Context) -> PathVerification {
    match verification_request(observed, context) {
        Ok(request) => context.routing.verifications.check(&observed.key, request),
        // No retry: only a change of an object can remove the cause, and that triggers a reconcile.
        Err(error) => PathVerification { result: Some(Err(error)), retry_after: None },
    }
}

fn verification_request(
    observed: &ObservedWorkload,
    context: &Context,
) -> Result<VerificationRequest, PathError> {
    let name = &observed.autoscaler.spec.service;
    let service = observed.service.as_deref().ok_or_else(|| PathError::NoService(name.clone()))?;
    if let Some(problem) = ServiceFields::of(service).keeps_above_zero() {
        return Err(PathError::Blocked(problem.message()));
    }
    let ips = cluster_ips(service);
    if ips.is_empty() {
        return Err(PathError::NoClusterIp);
    }
    let admin_addresses = context.routing.activators.admin_addresses();
    let addresses = probed_addresses(&ips, service, observed.leases(), &admin_addresses)?;
    if addresses.is_empty() {
        return Err(PathError::NoTcpPort);
    }
    Ok(VerificationRequest { addresses, is_managed: is_managed(service) })
}

/// One address for each cluster IP and port: each IP family has EndpointSlices of its own.
fn probed_addresses(
    ips: &[IpAddr],
    service: &Service,
    leases: &[PortLease],
    admin_addresses: &[SocketAddr],
) -> Result<Vec<ProbedAddress>, PathError> {
    let mut addresses = Vec::new();
    for port in routable_ports(service) {
        let lease = leases.iter().find(|lease| i32::from(lease.service_port) == port.port);
        let lease = lease.ok_or(PathError::PortNotLeased(port.port))?;
        addresses.extend(ips.iter().map(|ip| ProbedAddress {
            address: SocketAddr::new(*ip, lease.service_port),
            protocol: lease.protocol,
            activator_port: lease.activator_port,
            admin_addresses: admin_addresses.to_vec(),
        }));
    }
    Ok(addresses)
}

fn hpa(key: &Key, autoscaler: &PodAutoscaler, context: &Context) -> Option<HpaState> {
    match autoscaler.spec.scaler {
        Scaler::Direct => return None,
        // Beside a PodAutoscaler of a user, the other autoscaler may be anything.
        Scaler::Other if !is_of_hpa(autoscaler) => return None,
        Scaler::Hpa | Scaler::Other => {}
    }
    if let Some(error) = context.cache.hpa_error(key) {
        let problem = format!("the HPA of this name cannot be decoded: {error}");
        return Some(HpaState::Rejected(Problem::with_usual_fix(Reason::HPAUndecodable, problem)));
    }
    let Some(hpa) = context.cache.hpa(key) else {
        let problem = "no HPA of this name exists to write sizes above 0";
        let problem = Problem::with_usual_fix(Reason::HPANotFound, problem);
        let state = if is_of_hpa(autoscaler) { HpaState::Inactive } else { HpaState::Missing };
        return Some(state(problem));
    };
    Some(match evaluate(key, &hpa, context) {
        HpaAcceptance::Accepted(accepted) => match another_target(autoscaler, &accepted.spec) {
            Some(problem) if !is_of_hpa(autoscaler) => HpaState::Missing(problem),
            _ => HpaState::Accepted(accepted.advice),
        },
        HpaAcceptance::Rejected(problem) => HpaState::Rejected(problem),
        HpaAcceptance::Foreign => HpaState::Inactive(Problem::with_usual_fix(
            Reason::NoMetric,
            "the HPA of this name has no metric of Rouse",
        )),
    })
}

/// Whether an HPA owns it.
pub(super) fn is_of_hpa(autoscaler: &PodAutoscaler) -> bool {
    autoscaler.owner_references().iter().any(|owner| owner.kind == HorizontalPodAutoscaler::KIND)
}
