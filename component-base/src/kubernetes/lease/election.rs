//! The state machine of one candidate, without I/O. Instants are arguments.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease as Object, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;

/// Validity of a lease after an observed renewal: how long there is no leader after one has
/// crashed. Whole seconds, as in the object.
pub const DURATION: Duration = Duration::from_secs(9);
/// How long a leader acts without a renewal. The rest of [`DURATION`] covers work in progress.
pub(super) const RENEW_DEADLINE: Duration = Duration::from_secs(6);
/// Time between renewals, and between retries.
pub(super) const RETRY: Duration = Duration::from_secs(2);
/// The duration that a holder writes when it releases the lease, as client-go does.
const RELEASED: Duration = Duration::from_secs(1);

/// One candidate's view of the lease.
#[derive(Clone, Debug)]
pub struct Election {
    identity: String,
    /// `None` until the first observation.
    observed: Option<Observed>,
    /// When our last successful write was sent. The renewal counts from then.
    renewed: Option<Instant>,
    /// No write before this instant, after a failure.
    not_before: Option<Instant>,
}

#[derive(Clone, Debug)]
struct Observed {
    /// `None`: the object does not exist.
    object: Option<Object>,
    /// When its last renewal was observed.
    at: Instant,
}

/// A write to the Lease.
#[derive(Debug)]
pub enum Step {
    Create(LeaseSpec),
    Replace(Box<Object>),
}

// === impl Election ===

impl Election {
    pub fn new(identity: &str) -> Self {
        Self { identity: identity.to_owned(), observed: None, renewed: None, not_before: None }
    }

    /// Records a state of the object from a watch, if it is newer than the recorded one.
    pub fn observe(&mut self, object: Option<Object>, now: Instant) {
        if self.observed.as_ref().is_none_or(|observed| is_newer(observed.object.as_ref(), object.as_ref())) {
            self.read(object, now);
        }
    }

    /// Records the object's current state. After a restore of etcd its version is lower than the
    /// recorded one, with which each write is a conflict.
    pub fn read(&mut self, object: Option<Object>, now: Instant) {
        if object.as_ref().and_then(holder) != Some(self.identity.as_str()) {
            self.renewed = None;
        }
        // An edit without a renewal does not reset its age.
        let at = match &self.observed {
            Some(observed) if renewal(&observed.object) == renewal(&object) => observed.at,
            _ => now,
        };
        self.observed = Some(Observed { object, at });
    }

    /// Records the result of our write, sent at `sent`.
    pub fn written(&mut self, object: Object, sent: Instant) {
        self.observed = Some(Observed { object: Some(object), at: sent });
        self.renewed = Some(sent);
        self.not_before = None;
    }

    /// Records a failed request.
    pub fn failed(&mut self, now: Instant) {
        // Several retries fit before the leadership ends.
        self.not_before = Some(now + RETRY / 4);
    }

    /// Whether this replica leads.
    pub fn leads(&self, now: Instant) -> bool {
        self.leads_until().is_some_and(|until| now < until)
    }

    /// When the leadership ends without another renewal.
    pub fn leads_until(&self) -> Option<Instant> {
        self.renewed.map(|renewed| renewed + RENEW_DEADLINE)
    }

    /// The holder of a lease that has not expired.
    pub fn leader(&self, now: Instant) -> Option<&str> {
        let observed = self.observed.as_ref()?;
        let holder = observed.object.as_ref().and_then(holder)?;
        // Our own lease counts only while we may act on it.
        let holds = if holder == self.identity { self.leads(now) } else { now < observed.end() };
        holds.then_some(holder)
    }

    /// When the next write is due, or a lease expires.
    pub fn due(&self, now: Instant) -> Option<Instant> {
        let observed = self.observed.as_ref()?;
        let due = match self.renewed {
            Some(renewed) => renewed + RETRY,
            None if self.is_held_by_another(observed) => observed.end(),
            None => now,
        };
        Some(self.not_before.map_or(due, |not_before| due.max(not_before)))
    }

    /// The write that is due now, if any.
    pub fn step(&self, now: Instant, wall: Duration) -> Option<Step> {
        let observed = self.observed.as_ref()?;
        if self.is_held_by_another(observed) && now < observed.end() {
            return None;
        }
        let Some(object) = &observed.object else { return Some(Step::Create(self.spec(None, wall))) };
        Some(Step::Replace(Box::new(Object {
            spec: Some(self.spec(object.spec.as_ref(), wall)),
            ..object.clone()
        })))
    }

    /// Ends the leadership; returns the write that releases the lease, if we hold it.
    pub fn resign(&mut self, wall: Duration) -> Option<Step> {
        self.renewed = None;
        let observed = self.observed.as_ref()?;
        if self.is_held_by_another(observed) {
            return None;
        }
        let mut object = observed.object.clone().filter(|object| holder(object).is_some())?;
        let spec = object.spec.get_or_insert_default();
        spec.holder_identity = Some(String::new());
        spec.lease_duration_seconds = seconds(RELEASED);
        spec.renew_time = Some(timestamp(wall));
        Some(Step::Replace(Box::new(object)))
    }

    /// True if another replica holds it. A lease with our identity that we do not lead by is from
    /// before a restart, or of a write without a response.
    fn is_held_by_another(&self, observed: &Observed) -> bool {
        observed.object.as_ref().and_then(holder).is_some_and(|holder| holder != self.identity)
    }

    fn spec(&self, before: Option<&LeaseSpec>, wall: Duration) -> LeaseSpec {
        let before = before.cloned().unwrap_or_default();
        let ours = before.holder_identity.as_deref() == Some(self.identity.as_str());
        let transitions = before.lease_transitions.unwrap_or(0);
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: seconds(DURATION),
            renew_time: Some(timestamp(wall)),
            acquire_time: if ours { before.acquire_time.clone() } else { Some(timestamp(wall)) },
            lease_transitions: Some(if ours { transitions } else { transitions.saturating_add(1) }),
            ..before
        }
    }
}

// === impl Observed ===

impl Observed {
    /// When the lease expires without a renewal, by the duration that its holder wrote.
    fn end(&self) -> Instant {
        let spec = self.object.as_ref().and_then(|object| object.spec.as_ref());
        let duration = spec.and_then(|spec| u64::try_from(spec.lease_duration_seconds?).ok());
        // Bounded, so that an invalid duration does not block the election for ever.
        let duration = duration.map_or(DURATION, |seconds| Duration::from_secs(seconds.clamp(1, 60)));
        self.at + duration
    }
}

/// True if `new` is a newer state than `current`. A watch event may arrive after the response that
/// overtook it.
fn is_newer(current: Option<&Object>, new: Option<&Object>) -> bool {
    let version =
        |object: Option<&Object>| object.and_then(|object| object.metadata.resource_version.clone());
    let (current, new) = (version(current), version(new));
    let number = |version: &Option<String>| version.as_deref().and_then(|text| text.parse::<u64>().ok());
    match (number(&current), number(&new)) {
        (Some(current), Some(new)) => new > current,
        _ => current != new,
    }
}

fn holder(object: &Object) -> Option<&str> {
    object.spec.as_ref()?.holder_identity.as_deref().filter(|holder| !holder.is_empty())
}

/// The fields that change with each renewal.
fn renewal(object: &Option<Object>) -> Option<(Option<String>, Option<MicroTime>)> {
    let spec = object.as_ref()?.spec.as_ref()?;
    Some((spec.holder_identity.clone(), spec.renew_time.clone()))
}

fn seconds(duration: Duration) -> Option<i32> {
    i32::try_from(duration.as_secs()).ok()
}

fn timestamp(wall: Duration) -> MicroTime {
    let micros = i64::try_from(wall.as_micros()).unwrap_or(i64::MAX);
    MicroTime(Timestamp::from_microsecond(micros).unwrap_or_default())
}
