//! Leadership: what the election says at this moment.

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntGauge, Registry};
use tokio::sync::watch;
use tokio::time::Instant;

use super::election::Election;

/// Whether this replica leads, and who does. Clones follow the same election.
#[derive(Clone, Debug)]
pub struct Leadership(watch::Receiver<Standing>);

/// The metric `rouse_leader`, read from the election whenever it is asked for.
struct Gauge {
    leadership: Leadership,
    gauge: IntGauge,
}

/// Where the election writes it.
#[derive(Debug)]
pub(super) struct Publisher(watch::Sender<Standing>);

#[derive(Clone, Debug, Default, PartialEq)]
struct Standing {
    leads: bool,
    leader: Option<String>,
    /// Until when `leads` may be believed without a new word; `None`: for ever. A process that was stopped for a while wakes up to old words.
    until: Option<Instant>,
    /// This replica stands for election no more, and has given away what it had.
    over: bool,
}

/// Everybody follows.
pub(super) fn channel() -> (Publisher, Leadership) {
    let (sender, receiver) = watch::channel(Standing::default());
    (Publisher(sender), Leadership(receiver))
}

// === impl Leadership ===

impl Leadership {
    /// The leadership of a process that is alone: without a cluster, and in tests.
    pub fn always_leading() -> Self {
        Self(watch::channel(Standing { leads: true, ..Standing::default() }).1)
    }

    /// The leadership of a process that follows `leader` for ever, for tests.
    pub fn following(leader: &str) -> Self {
        Self(watch::channel(Standing { leader: Some(leader.to_owned()), ..Standing::default() }).1)
    }

    /// Registers the metric `rouse_leader`: 1 while this replica leads.
    ///
    /// # Errors
    /// When the registry has it already.
    pub fn register(&self, registry: &Registry) -> Result<(), prometheus::Error> {
        let gauge = IntGauge::new("rouse_leader", "Whether this replica leads.")?;
        registry.register(Box::new(Gauge { leadership: self.clone(), gauge }))
    }

    /// Whether this replica leads now.
    pub fn is_leader(&self) -> bool {
        self.0.borrow().holds()
    }

    /// The identity of whoever leads, if anybody is known to.
    pub fn leader(&self) -> Option<String> {
        self.0.borrow().leader.clone()
    }

    /// Until this replica leads.
    pub async fn acquired(&mut self) {
        self.wait_for(true).await;
    }

    /// Until this replica does not lead.
    pub async fn lost(&mut self) {
        self.wait_for(false).await;
    }

    /// Until this replica leads, or until it does not.
    pub async fn wait_for(&mut self, leads: bool) {
        self.wait_until(|standing| standing.holds() == leads).await;
    }

    /// Until what is known of the leader's identity is as `wanted`.
    pub async fn wait_for_leader(&mut self, wanted: impl Fn(Option<&str>) -> bool) {
        self.wait_until(|standing| wanted(standing.leader.as_deref())).await;
    }

    /// Until the lease was given away, after the stop; to be awaited before the process ends.
    pub async fn released(&mut self) {
        // If there is no election, there is nothing to give.
        let _ = self.0.wait_for(|standing| standing.over).await;
    }

    async fn wait_until(&mut self, wanted: impl FnMut(&Standing) -> bool) {
        if self.0.wait_for(wanted).await.is_err() {
            // The election is over, or there is none: nothing changes any more.
            std::future::pending().await
        }
    }
}

// === impl Gauge ===

impl Collector for Gauge {
    fn desc(&self) -> Vec<&Desc> {
        self.gauge.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.gauge.set(i64::from(self.leadership.is_leader()));
        self.gauge.collect()
    }
}

// === impl Standing ===

impl Standing {
    fn holds(&self) -> bool {
        self.leads && self.until.is_none_or(|until| Instant::now() < until)
    }
}

// === impl Publisher ===

impl Publisher {
    pub(super) fn publish(&self, election: &Election, now: Instant) {
        let new = Standing {
            leads: election.leads(now),
            leader: election.leader(now).map(str::to_owned),
            until: election.leads_until(),
            over: self.0.borrow().over,
        };
        self.0.send_if_modified(|known| {
            let news = (new.leads, &new.leader) != (known.leads, &known.leader);
            *known = new;
            news
        });
    }

    /// This replica stands for election no more.
    pub(super) fn conclude(&self) {
        self.0.send_modify(|standing| standing.over = true);
    }
}
