//! Two candidates of one Lease. Requests and responses are late or lost, watch events are late, and
//! a write may still land though its response is lost.
//!
//! A process that stops for a while is one that takes no step while time passes.

use std::hash::{Hash, Hasher};
use std::time::Duration;

use component_base::kubernetes::lease::election::{Election, Step};
use k8s_openapi::api::coordination::v1::Lease;
use stateright::{Model, Property};
use tokio::time::Instant;

/// Seconds in which a response counts (the timeout of the programs).
const REQUEST: u64 = 3;
/// Seconds that pass at once. A leader's deadline and a lease's duration are multiples of it, so
/// that the end of one leader and the begin of another may fall together.
const TICK: u64 = 3;

/// The model, with its bounds.
#[derive(Clone, Debug)]
pub struct Candidates {
    start: Instant,
    seconds: u64,
    /// Whether the API server checks the version of a write.
    preconditions: bool,
}

/// The API server and the candidates.
#[derive(Clone, Debug)]
pub struct State {
    second: u64,
    lease: Option<Lease>,
    version: u64,
    candidates: [Candidate; 2],
}

#[derive(Clone, Debug)]
struct Candidate {
    election: Election,
    request: Option<Request>,
    /// A write that timed out here and may still land.
    stray: Option<Write>,
}

#[derive(Clone, Debug)]
struct Request {
    sent: u64,
    until: u64,
    progress: Progress,
}

#[derive(Clone, Debug)]
enum Progress {
    Sent(Write),
    Written(Lease),
    Refused,
}

/// The object to write, and the version over which it is written.
#[derive(Clone, Debug)]
struct Write {
    object: Lease,
    over: Option<String>,
}

/// A step of one candidate, of its request, or of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    Send(usize),
    Lands(usize),
    StrayLands(usize),
    Response(usize),
    TimesOut(usize),
    Watch(usize),
    Tick,
}

// === impl Candidates ===

impl Candidates {
    /// For this time.
    pub fn for_seconds(seconds: u64) -> Self {
        Self { start: Instant::now(), seconds, preconditions: true }
    }

    /// The API server accepts each write.
    #[must_use]
    pub fn without_preconditions(self) -> Self {
        Self { preconditions: false, ..self }
    }

    fn now(&self, state: &State) -> Instant {
        self.start + Duration::from_secs(state.second)
    }

    fn leaders(&self, state: &State) -> usize {
        let now = self.now(state);
        state.candidates.iter().filter(|candidate| candidate.election.leads(now)).count()
    }

    fn send(&self, state: &mut State, index: usize) {
        let (now, second) = (self.now(state), state.second);
        let candidate = &mut state.candidates[index];
        if candidate.election.due(now).is_none_or(|due| due > now) {
            return;
        }
        let wall = Duration::from_secs(second);
        let Some(step) = candidate.election.step(now, wall) else { return };
        let write = match step {
            Step::Create(spec) => {
                Write { object: Lease { spec: Some(spec), ..Lease::default() }, over: None }
            }
            Step::Replace(object) => {
                Write { over: object.metadata.resource_version.clone(), object: *object }
            }
        };
        let left =
            candidate.election.leads_until().map(|until| until.saturating_duration_since(now).as_secs());
        let time = left.filter(|left| *left > 0).map_or(REQUEST, |left| left.min(REQUEST));
        let until = second + time;
        candidate.request = Some(Request { sent: second, until, progress: Progress::Sent(write) });
    }

    fn land(&self, state: &mut State, write: Write) -> Progress {
        let version = state.lease.as_ref().and_then(|lease| lease.metadata.resource_version.clone());
        if self.preconditions && version != write.over {
            return Progress::Refused;
        }
        state.version += 1;
        let mut object = write.object;
        object.metadata.resource_version = Some(state.version.to_string());
        state.lease = Some(object.clone());
        Progress::Written(object)
    }

    fn respond(&self, state: &mut State, index: usize) {
        let (now, lease) = (self.now(state), state.lease.clone());
        let candidate = &mut state.candidates[index];
        let Some(Request { sent, progress, .. }) = candidate.request.take() else { return };
        match progress {
            Progress::Sent(_) => {}
            Progress::Written(object) => {
                candidate.election.written(object, self.start + Duration::from_secs(sent));
            }
            // It reads the Lease then.
            Progress::Refused => candidate.election.read(lease, now),
        }
    }

    fn time_out(&self, state: &mut State, index: usize) {
        let now = self.now(state);
        let candidate = &mut state.candidates[index];
        candidate.election.failed(now);
        if let Some(Request { progress: Progress::Sent(write), .. }) = candidate.request.take() {
            candidate.stray = Some(write);
        }
    }

    fn apply(&self, state: &mut State, action: &Action) {
        match *action {
            Action::Send(index) => self.send(state, index),
            Action::Lands(index) => {
                let Some(request) = state.candidates[index].request.take() else { return };
                if let Progress::Sent(write) = request.progress {
                    let progress = self.land(state, write);
                    state.candidates[index].request = Some(Request { progress, ..request });
                }
            }
            Action::StrayLands(index) => {
                if let Some(write) = state.candidates[index].stray.take() {
                    self.land(state, write);
                }
            }
            Action::Response(index) => self.respond(state, index),
            Action::TimesOut(index) => self.time_out(state, index),
            Action::Watch(index) => {
                let (now, lease) = (self.now(state), state.lease.clone());
                state.candidates[index].election.observe(lease, now);
            }
            Action::Tick => state.second += TICK,
        }
    }
}

impl Model for Candidates {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let candidate =
            |identity| Candidate { election: Election::new(identity), request: None, stray: None };
        let candidates = ["a", "b"].map(candidate);
        vec![State { second: 0, lease: None, version: 0, candidates }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let mut may_pass = state.second < self.seconds;
        for (index, candidate) in state.candidates.iter().enumerate() {
            match &candidate.request {
                None => actions.push(Action::Send(index)),
                Some(Request { until, progress, .. }) => {
                    may_pass &= state.second < *until;
                    if state.second >= *until {
                        actions.push(Action::TimesOut(index));
                    }
                    actions.push(match progress {
                        Progress::Sent(_) => Action::Lands(index),
                        Progress::Written(_) | Progress::Refused => Action::Response(index),
                    });
                }
            }
            if candidate.stray.is_some() {
                actions.push(Action::StrayLands(index));
            }
            actions.push(Action::Watch(index));
        }
        if may_pass {
            actions.push(Action::Tick);
        }
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut state = before.clone();
        self.apply(&mut state, &action);
        // The others change the state.
        let may_be_idle = matches!(action, Action::Send(_) | Action::Watch(_));
        (!may_be_idle || state != *before).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("one replica leads", |model, state: &State| model.leaders(state) <= 1),
            Property::sometimes("the other one leads later", |model, state: &State| {
                let transitions =
                    state.lease.as_ref().and_then(|lease| lease.spec.as_ref()?.lease_transitions);
                model.leaders(state) == 1 && transitions >= Some(2)
            }),
        ]
    }
}

// === impl State ===

// An election has neither; its debug format has all of its fields.
impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        format!("{self:?}") == format!("{other:?}")
    }
}

impl Hash for State {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        format!("{self:?}").hash(hasher);
    }
}
