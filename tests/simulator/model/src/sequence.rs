//! The scale-to-zero sequence between two zero-scalers, two activators, the kube-proxies of two
//! nodes, the HPA and a client.
//!
//! | Part | Does, in any order | Within |
//! |---|---|---|
//! | client | begins a request on the path that a node has, and ends it | |
//! | HPA | writes 1 or 2 over sizes above 0 | |
//! | leader | reconciles the PodAutoscaler and the ServerlessService | a tick |
//! | write of 0 | lands, or is lost | a tick |
//! | node | follows the slices | a tick; grace lasts for two |
//! | watches | bring the target, and the other objects, to each zero-scaler | a tick |
//! | activator B | reports, or not, to each receiver | |
//! | decisions | arrive, or not, at each zero-scaler | after two ticks the connection is dead |
//! | wall clocks | jump by an hour; the adapter's is right, ahead or behind | |
//! | Lease | passes to the other zero-scaler | |
//!
//! What surprises: pods do not report requests of activators here. With a sidecar they do, which
//! only adds safety.

mod reconcile;
mod rules;
mod state;
mod steps;

use stateright::{Model, Property};
use tokio::time::Instant;

pub use self::state::State;

use self::rules::Rules;
use self::state::{
    Adapter, Clock, Faults, Mode, OLD, Objects, Phase, RequestPath, Silence, Stamp, Violation, ZeroScaler,
};

/// The model, with its rules and bounds.
#[derive(Clone, Debug)]
pub struct Sequence {
    rules: Rules,
    bounds: Bounds,
}

/// What the search includes.
#[derive(Clone, Debug)]
struct Bounds {
    faults: Faults,
    clocks: Vec<Clock>,
    /// The zero-scalers lose reports and decisions one by one, not together.
    one_by_one: bool,
    /// The HPA writes.
    hpa: bool,
    /// Watches of the objects may be late for any time, also those of the leader's own writes.
    late_objects: bool,
    /// Activator B may be silent for minutes.
    long_silences: bool,
}

/// A step of one part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    BeginDirect,
    /// `is_reported`: the report of a first request arrives.
    BeginThroughB {
        is_reported: bool,
    },
    EndRequest,
    HpaWrites(u8),
    ReconcilePodAutoscaler,
    ReconcileServerlessService,
    WriteOfZeroLands,
    WriteOfZeroIsLost,
    NodeFollows(usize),
    WatchOfTarget(usize),
    WatchOfObjects(usize),
    /// Of a follower it would have no effect before it leads.
    LeadersClockJumps,
    LeaderChanges,
    /// Three seconds pass.
    Tick {
        /// The receivers that B reaches: metrics-adapter, zero-scalers.
        reached: [bool; 3],
        /// The zero-scalers that get the decision.
        decided: [bool; 2],
    },
    /// A drain passes, in which only reports are sent, not those of B to these receivers.
    LongSilence([bool; 3]),
}

// === impl Sequence ===

impl Sequence {
    /// A jump of the leader's clock, and reports and decisions that are lost.
    pub fn with_clock_jump() -> Self {
        Self {
            rules: Rules::new(Instant::now().into_std()),
            bounds: Bounds {
                faults: Faults { clock_jumps: 1, leader_changes: 0 },
                clocks: vec![Clock::Behind],
                one_by_one: false,
                hpa: false,
                late_objects: false,
                long_silences: false,
            },
        }
    }

    /// A change of the leader in place of the jump.
    pub fn with_leader_change() -> Self {
        let mut model = Self::with_clock_jump();
        model.bounds.faults = Faults { clock_jumps: 0, leader_changes: 1 };
        model
    }

    /// Each of these with one more kind of behaviour. All of them together are too many states.
    pub fn larger() -> Vec<Self> {
        let kinds: [fn(&mut Bounds); 6] = [
            |bounds| bounds.clocks = vec![Clock::Right, Clock::Ahead],
            |bounds| bounds.one_by_one = true,
            |bounds| bounds.hpa = true,
            |bounds| bounds.late_objects = true,
            |bounds| bounds.long_silences = true,
            |bounds| bounds.faults = Faults { clock_jumps: 1, leader_changes: 1 },
        ];
        let bases = [Self::with_clock_jump(), Self::with_leader_change()];
        let with = |base: &Self, kind: fn(&mut Bounds)| {
            let mut model = base.clone();
            kind(&mut model.bounds);
            model
        };
        kinds.into_iter().flat_map(|kind| bases.each_ref().map(|base| with(base, kind))).collect()
    }

    /// Silence of an activator counts as idleness, as before activators had a heartbeat.
    #[must_use]
    pub fn without_heartbeat(self) -> Self {
        Self { rules: self.rules.without_heartbeat(), ..self }
    }

    /// A period is over by the wall clock alone.
    #[must_use]
    pub fn with_wall_clock_alone(self) -> Self {
        Self { rules: self.rules.with_wall_clock_alone(), ..self }
    }

    /// Whether nothing is due before time may pass.
    fn may_pass(&self, state: &State) -> bool {
        let nodes_follow = state.nodes.iter().all(|node| *node == state.slices);
        let is_fresh = |scaler: &ZeroScaler| {
            scaler.is_current && (self.bounds.late_objects || scaler.objects == state.objects)
        };
        let mut reconciled = state.clone();
        reconcile::serverless_service(&mut reconciled);
        let is_reconciled = reconciled.slices == state.slices && reconciled.objects == state.objects;
        nodes_follow && state.pending.is_none() && state.scalers.iter().all(is_fresh) && is_reconciled
    }

    fn ticks(&self, state: &State, actions: &mut Vec<Action>) {
        let together = [[true; 3], [false, true, true], [true, false, false], [false; 3]];
        let alone = [[true, false, true], [true, true, false]];
        let single = self.bounds.one_by_one;
        for reached in together.into_iter().chain(alone.into_iter().filter(|_| single)) {
            for decided in [[true; 2], [false; 2]]
                .into_iter()
                .chain([[false, true], [true, false]].into_iter().filter(|_| single))
            {
                actions.push(Action::Tick { reached, decided });
            }
        }
        let silent = state.silence.map(|silence| silence != Silence::None);
        if self.bounds.long_silences && silent.contains(&true) {
            actions.push(Action::LongSilence(silent));
        }
    }

    fn tick(&self, state: &mut State, reached: [bool; 3], decided: [bool; 2]) {
        steps::tick(&self.rules, state, reached, decided);
        steps::check_nodes(state);
        // A new decision triggers a reconcile.
        if state.scalers[state.leader].size == 0 {
            reconcile::pod_autoscaler(&self.rules, state);
            self.observe_own_writes(state);
        }
        steps::hold(state, reached[1] || reached[2] || (reached[0] && decided[state.leader]));
    }

    fn observe_own_writes(&self, state: &mut State) {
        if !self.bounds.late_objects {
            state.scalers[state.leader].objects = state.objects;
        }
    }

    fn apply(&self, state: &mut State, action: Action) {
        match action {
            Action::BeginDirect => steps::begin(state, RequestPath::Direct),
            Action::BeginThroughB { is_reported } => {
                steps::begin(state, RequestPath::B);
                if is_reported {
                    [0, 1].into_iter().for_each(|scaler| steps::report_request(state, scaler));
                }
            }
            Action::EndRequest => state.request = None,
            Action::HpaWrites(size) => state.set_size(size),
            Action::ReconcilePodAutoscaler => {
                reconcile::pod_autoscaler(&self.rules, state);
                self.observe_own_writes(state);
            }
            Action::ReconcileServerlessService => {
                reconcile::serverless_service(state);
                self.observe_own_writes(state);
            }
            Action::WriteOfZeroLands => steps::land(state),
            Action::WriteOfZeroIsLost => state.pending = None,
            Action::NodeFollows(node) => state.nodes[node] = state.slices,
            Action::WatchOfTarget(scaler) => {
                let size = state.size;
                let scaler = &mut state.scalers[scaler];
                (scaler.size, scaler.is_current) = (size, true);
            }
            Action::WatchOfObjects(scaler) => state.scalers[scaler].objects = state.objects,
            Action::LeadersClockJumps => {
                state.faults.clock_jumps -= 1;
                state.scalers[state.leader].clock_is_ahead = true;
            }
            Action::LeaderChanges => {
                state.faults.leader_changes -= 1;
                state.leader = 1 - state.leader;
            }
            Action::Tick { reached, decided } => self.tick(state, reached, decided),
            Action::LongSilence(silent) => {
                for (silence, is_silent) in state.silence.iter_mut().zip(silent) {
                    if is_silent {
                        *silence = silence.longer();
                    }
                }
                let reached = silent.map(|is_silent| !is_silent);
                (0..OLD).for_each(|_| self.tick(state, reached, [true, true]));
            }
        }
        if state.faults.leader_changes == 0 {
            let objects = state.objects;
            state.scalers[1 - state.leader].stay_follower(objects);
        }
    }
}

impl Model for Sequence {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let objects = Objects {
            phase: Phase::Active,
            phase_since: Stamp { age: OLD, is_ahead: false },
            at_zero: false,
            mode: Mode::Serve,
            proxied_since: None,
        };
        let scaler = ZeroScaler::new(1, objects);
        let start = |clock| State {
            size: 1,
            objects,
            slices: Mode::Serve,
            nodes: [Mode::Serve; 2],
            scalers: [scaler.clone(), scaler.clone()],
            leader: 0,
            pending: None,
            adapter: Adapter { clock, idle: None },
            silence: [Silence::None; 3],
            request: None,
            violation: None,
            faults: self.bounds.faults,
        };
        self.bounds.clocks.iter().map(|clock| start(*clock)).collect()
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.violation.is_some() {
            return;
        }
        if state.request.is_some() {
            actions.push(Action::EndRequest);
        } else {
            let leads_to = |mode| state.nodes.contains(&mode);
            if leads_to(Mode::Serve) {
                actions.push(Action::BeginDirect);
            }
            if leads_to(Mode::Proxy) {
                let leaves = |silence: &Silence| self.rules.of(*silence).leaves_endpoints;
                if !state.silence.iter().any(leaves) {
                    actions.push(Action::BeginThroughB { is_reported: true });
                    actions.push(Action::BeginThroughB { is_reported: false });
                }
            }
        }
        if self.bounds.hpa && state.size > 0 {
            actions.push(Action::HpaWrites(3 - state.size));
        }
        if state.pending.is_some() {
            actions.extend([Action::WriteOfZeroLands, Action::WriteOfZeroIsLost]);
        } else {
            actions.extend([Action::ReconcilePodAutoscaler, Action::ReconcileServerlessService]);
        }
        for (index, node) in state.nodes.iter().enumerate() {
            if *node != state.slices {
                actions.push(Action::NodeFollows(index));
            }
        }
        for (index, scaler) in state.scalers.iter().enumerate() {
            if !scaler.is_current {
                actions.push(Action::WatchOfTarget(index));
            }
            if scaler.objects != state.objects {
                actions.push(Action::WatchOfObjects(index));
            }
        }
        if state.faults.clock_jumps > 0 && !state.scalers[state.leader].clock_is_ahead {
            actions.push(Action::LeadersClockJumps);
        }
        if state.faults.leader_changes > 0 {
            actions.push(Action::LeaderChanges);
        }
        if self.may_pass(state) {
            self.ticks(state, actions);
        }
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut state = before.clone();
        self.apply(&mut state, action);
        (state != *before).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("zero ends no request", |_, state: &State| {
                state.violation != Some(Violation::RequestEnded)
            }),
            Property::always("at zero every node leads to activators", |_, state: &State| {
                state.violation != Some(Violation::NodeBypassesActivators)
            }),
            Property::always("a held request gets a size", |_, state: &State| {
                state.violation != Some(Violation::HeldForLong)
            }),
            Property::sometimes("the workload sleeps", |_, state: &State| state.size == 0),
            Property::sometimes("a request wakes it", |_, state: &State| {
                state.size > 0 && state.objects.at_zero && state.request.is_some()
            }),
        ]
    }
}
