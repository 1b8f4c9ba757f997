//! The current result of the election, for the parts that act on it.

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntGauge, Registry};
use tokio::sync::watch;
use tokio::time::Instant;

use super::election::Election;
use crate::metrics::metric_name;

/// Whether this replica leads, and the identity of the leader. Clones follow the same election.
#[derive(Clone, Debug)]
pub struct Leadership(watch::Receiver<LeadershipState>);

/// The metric `rouse_<component>_leader`, computed at each scrape.
struct LeaderGauge {
    leadership: Leadership,
    gauge: IntGauge,
}

/// The sending half, held by the election.
#[derive(Debug)]
pub(super) struct Publisher(watch::Sender<LeadershipState>);

#[derive(Clone, Debug, Default, PartialEq)]
struct LeadershipState {
    leads: bool,
    leader: Option<String>,
    /// When `is_leader` expires without an update; `None` never. A process that was suspended
    /// resumes with outdated state.
    until: Option<Instant>,
    /// The election is over and the lease is released.
    is_over: bool,
}

/// The two halves: not leading, without a leader.
pub(super) fn channel() -> (Publisher, Leadership) {
    let (sender, receiver) = watch::channel(LeadershipState::default());
    (Publisher(sender), Leadership(receiver))
}

// === impl Leadership ===

impl Leadership {
    /// Leads for ever: for a process without a cluster, and for tests.
    pub fn always_leading() -> Self {
        Self(watch::channel(LeadershipState { leads: true, ..LeadershipState::default() }).1)
    }

    /// Follows `leader` for ever, for tests.
    pub fn following(leader: &str) -> Self {
        Self(
            watch::channel(LeadershipState { leader: Some(leader.to_owned()), ..LeadershipState::default() })
                .1,
        )
    }

    /// Registers the metric `rouse_<component>_leader`: 1 while this replica leads.
    ///
    /// # Errors
    /// When the registry has it already.
    pub fn register(&self, registry: &Registry, component: &str) -> Result<(), prometheus::Error> {
        let gauge =
            IntGauge::new(metric_name(component, "leader"), "1 on the replica that leads, 0 on the others")?;
        registry.register(Box::new(LeaderGauge { leadership: self.clone(), gauge }))
    }

    /// Whether this replica leads now.
    pub fn is_leader(&self) -> bool {
        self.0.borrow().holds()
    }

    /// The identity of the leader, if there is one.
    pub fn leader(&self) -> Option<String> {
        self.0.borrow().leader.clone()
    }

    /// Waits until this replica leads.
    pub async fn acquired(&mut self) {
        self.wait_for(true).await;
    }

    /// Waits until this replica does not lead.
    pub async fn lost(&mut self) {
        self.wait_for(false).await;
    }

    /// Waits until this replica leads, or does not lead.
    pub async fn wait_for(&mut self, leads: bool) {
        self.wait_until(|state| state.holds() == leads).await;
    }

    /// Waits until `wanted` is true for the leader's identity.
    pub async fn wait_for_leader(&mut self, wanted: impl Fn(Option<&str>) -> bool) {
        self.wait_until(|state| wanted(state.leader.as_deref())).await;
    }

    /// Waits until the lease is released after the stop; await it before the process ends.
    pub async fn released(&mut self) {
        // An error means that there is no election, hence nothing to release.
        let _ = self.0.wait_for(|state| state.is_over).await;
    }

    async fn wait_until(&mut self, wanted: impl FnMut(&LeadershipState) -> bool) {
        if self.0.wait_for(wanted).await.is_err() {
            // The election is over, or there never was one: nothing changes any more.
            std::future::pending().await
        }
    }
}

// === impl LeaderGauge ===

impl Collector for LeaderGauge {
    fn desc(&self) -> Vec<&Desc> {
        self.gauge.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.gauge.set(i64::from(self.leadership.is_leader()));
        self.gauge.collect()
    }
}

// === impl LeadershipState ===

impl LeadershipState {
    fn holds(&self) -> bool {
        self.leads && self.until.is_none_or(|until| Instant::now() < until)
    }
}

// === impl Publisher ===

impl Publisher {
    pub(super) fn publish(&self, election: &Election, now: Instant) {
        let new = LeadershipState {
            leads: election.leads(now),
            leader: election.leader(now).map(str::to_owned),
            until: election.leads_until(),
            is_over: self.0.borrow().is_over,
        };
        self.0.send_if_modified(|current| {
            let changed = (new.leads, &new.leader) != (current.leads, &current.leader);
            *current = new;
            changed
        });
    }

    /// Marks the election as is_over.
    pub(super) fn end(&self) {
        self.0.send_modify(|state| state.is_over = true);
    }
}
