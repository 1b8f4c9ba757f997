//! Election: what one replica knows of the lease, and what it does next. Instants are arguments.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease as Object, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;

use super::{DURATION, RENEW_DEADLINE, RETRY};

/// What a holder that gave the lease away leaves as its duration, as client-go does.
const RELEASED: Duration = Duration::from_secs(1);

/// One replica's view.
#[derive(Debug)]
pub(super) struct Election {
    identity: String,
    /// `None` until the first look.
    seen: Option<Seen>,
    /// When the last write of ours that succeeded was sent. It holds no longer than from then.
    renewed: Option<Instant>,
    /// Nothing is tried before, after a failure.
    not_before: Option<Instant>,
}

#[derive(Debug)]
struct Seen {
    /// `None`: there is no such object.
    object: Option<Object>,
    /// When its last change was seen.
    at: Instant,
}

/// What to write.
#[derive(Debug)]
pub(super) enum Step {
    Create(LeaseSpec),
    Replace(Box<Object>),
}

// === impl Election ===

impl Election {
    pub(super) fn new(identity: &str) -> Self {
        Self { identity: identity.to_owned(), seen: None, renewed: None, not_before: None }
    }

    /// Takes in the object as it is now.
    pub(super) fn observe(&mut self, object: Option<Object>, now: Instant) {
        if self.seen.as_ref().is_some_and(|seen| !is_news(seen.object.as_ref(), object.as_ref())) {
            // Its age goes on.
            return;
        }
        if object.as_ref().and_then(holder) != Some(self.identity.as_str()) {
            self.renewed = None;
        }
        // Somebody may have edited it without renewing it. Its age goes on then, too.
        let at = match &self.seen {
            Some(seen) if renewal(&seen.object) == renewal(&object) => seen.at,
            _ => now,
        };
        self.seen = Some(Seen { object, at });
    }

    /// A write of ours, sent at `sent`, became this.
    pub(super) fn written(&mut self, object: Object, sent: Instant) {
        self.seen = Some(Seen { object: Some(object), at: sent });
        self.renewed = Some(sent);
        self.not_before = None;
    }

    /// A request failed.
    pub(super) fn failed(&mut self, now: Instant) {
        // A leader has time for several tries before its own end.
        self.not_before = Some(now + RETRY / 4);
    }

    /// Whether this replica leads.
    pub(super) fn leads(&self, now: Instant) -> bool {
        self.leads_until().is_some_and(|until| now < until)
    }

    /// Until when it leads without another renewal.
    pub(super) fn leads_until(&self) -> Option<Instant> {
        self.renewed.map(|renewed| renewed + RENEW_DEADLINE)
    }

    /// Who leads, as far as known: whoever holds a lease that has not ended.
    pub(super) fn leader(&self, now: Instant) -> Option<&str> {
        let seen = self.seen.as_ref()?;
        let holder = seen.object.as_ref().and_then(holder)?;
        // Ours is ours only while we may act on it.
        let holds = if holder == self.identity { self.leads(now) } else { now < seen.end() };
        holds.then_some(holder)
    }

    /// When there is next something to do, or to be told: a write, or the end of a lease.
    pub(super) fn due(&self, now: Instant) -> Option<Instant> {
        let seen = self.seen.as_ref()?;
        let due = match self.renewed {
            Some(renewed) => renewed + RETRY,
            None if self.is_anothers(seen) => seen.end(),
            None => now,
        };
        Some(self.not_before.map_or(due, |not_before| due.max(not_before)))
    }

    /// What to write now, if anything.
    pub(super) fn step(&self, now: Instant, wall: Duration) -> Option<Step> {
        let seen = self.seen.as_ref()?;
        if self.is_anothers(seen) && now < seen.end() {
            return None;
        }
        let Some(object) = &seen.object else { return Some(Step::Create(self.spec(None, wall))) };
        Some(Step::Replace(Box::new(Object {
            spec: Some(self.spec(object.spec.as_ref(), wall)),
            ..object.clone()
        })))
    }

    /// Leads no more; what to write then, if the lease has our name.
    pub(super) fn resign(&mut self, wall: Duration) -> Option<Step> {
        self.renewed = None;
        let seen = self.seen.as_ref()?;
        if self.is_anothers(seen) {
            return None;
        }
        let mut object = seen.object.clone().filter(|object| holder(object).is_some())?;
        let spec = object.spec.get_or_insert_default();
        spec.holder_identity = Some(String::new());
        spec.lease_duration_seconds = seconds(RELEASED);
        spec.renew_time = Some(timestamp(wall));
        Some(Step::Replace(Box::new(object)))
    }

    /// One with our name that we do not lead by is from before our own restart, or of a write whose answer was lost.
    fn is_anothers(&self, seen: &Seen) -> bool {
        seen.object.as_ref().and_then(holder).is_some_and(|holder| holder != self.identity)
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

// === impl Seen ===

impl Seen {
    /// When the lease ends if it is not renewed, by what its holder says of its duration.
    fn end(&self) -> Instant {
        let spec = self.object.as_ref().and_then(|object| object.spec.as_ref());
        let said = spec.and_then(|spec| u64::try_from(spec.lease_duration_seconds?).ok());
        // A bound, so that a senseless one does not keep everybody waiting for ever.
        let said = said.map_or(DURATION, |seconds| Duration::from_secs(seconds.clamp(1, 60)));
        self.at + said
    }
}

/// Whether `new` is another state than `known`, and not an earlier one: a watch may bring late what an answer has overtaken.
fn is_news(known: Option<&Object>, new: Option<&Object>) -> bool {
    let version =
        |object: Option<&Object>| object.and_then(|object| object.metadata.resource_version.clone());
    let (known, new) = (version(known), version(new));
    let number = |version: &Option<String>| version.as_deref().and_then(|text| text.parse::<u64>().ok());
    match (number(&known), number(&new)) {
        (Some(known), Some(new)) => new > known,
        _ => known != new,
    }
}

fn holder(object: &Object) -> Option<&str> {
    object.spec.as_ref()?.holder_identity.as_deref().filter(|holder| !holder.is_empty())
}

/// What changes with each renewal.
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
