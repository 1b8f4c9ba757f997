//! Leadership: what the election says at this moment.

use tokio::sync::watch;
use tokio::time::Instant;

use super::election::Election;

/// Whether this replica leads, and who does. Clones follow the same election.
#[derive(Clone, Debug)]
pub struct Leadership(watch::Receiver<Standing>);

/// Where the election writes it.
#[derive(Debug)]
pub(super) struct Publisher(watch::Sender<Standing>);

#[derive(Clone, Debug, Default, PartialEq)]
struct Standing {
    leads: bool,
    leader: Option<String>,
    /// Until when `leads` may be believed without a new word; `None`: for ever. A process that was stopped for a while wakes up to old words.
    until: Option<Instant>,
}

/// Everybody follows.
pub(super) fn channel() -> (Publisher, Leadership) {
    let (sender, receiver) = watch::channel(Standing::default());
    (Publisher(sender), Leadership(receiver))
}

// === impl Leadership ===

impl Leadership {
    /// The leadership of a process that is alone: without a cluster, and in tests.
    pub fn alone() -> Self {
        Self(watch::channel(Standing { leads: true, leader: None, until: None }).1)
    }

    /// Whether this replica leads now.
    pub fn leads(&self) -> bool {
        let standing = self.0.borrow();
        standing.leads && standing.until.is_none_or(|until| Instant::now() < until)
    }

    /// The identity of whoever leads, if anybody is known to.
    pub fn leader(&self) -> Option<String> {
        self.0.borrow().leader.clone()
    }

    /// Until this replica leads.
    pub async fn won(&mut self) {
        self.wait(|standing| standing.leads).await;
    }

    /// Until this replica does not lead.
    pub async fn lost(&mut self) {
        self.wait(|standing| !standing.leads).await;
    }

    async fn wait(&mut self, wanted: impl FnMut(&Standing) -> bool) {
        if self.0.wait_for(wanted).await.is_err() {
            // The election is over, or there is none: nothing changes any more.
            std::future::pending().await
        }
    }
}

// === impl Publisher ===

impl Publisher {
    pub(super) fn publish(&self, election: &Election, now: Instant) {
        let new = Standing {
            leads: election.leads(now),
            leader: election.leader(now).map(str::to_owned),
            until: election.leads_until(),
        };
        self.0.send_if_modified(|known| {
            let news = (new.leads, &new.leader) != (known.leads, &known.leader);
            *known = new;
            news
        });
    }

    /// From now on this replica does not lead.
    pub(super) fn withdraw(&self) {
        self.0.send_replace(Standing::default());
    }
}
