//! A leased port that one workload gives back and another one gets: the zero-scaler, two
//! activators, the kube-proxies of two nodes, and a client of the first workload's Service.
//!
//! All other ports are taken, so the second workload gets this one or none. The zero-scaler's book
//! is the program's: each lease is granted by a book that gets the same events at the same times.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::time::Duration;

use autoscaler::Key;
use autoscaler::api::ServerlessService;
use serde_json::json;
use stateright::{Model, Property};
use tokio::time::Instant;
use zero_scaler::cache::port_leases::PortLeases;

/// The only free port.
const PORT: u16 = 20_000;
const SERVICE_PORT: u16 = 80;
/// A node follows within two of them, and a port rests for as long.
const TICK: Duration = Duration::from_secs(30);
const LAST_TICK: u32 = 6;

/// The model.
#[derive(Clone, Copy, Debug)]
pub struct PortHandover {
    start: Instant,
    /// How often the zero-scaler may restart.
    restarts: u8,
}

/// The cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    tick: u32,
    first_exists: bool,
    /// Whether the status of the second workload has the port.
    second_has_port: bool,
    /// Whether the slices of each workload lead to the port.
    slices: [bool; 2],
    nodes: [Node; 2],
    /// Where each activator's port leads.
    activators: [Option<Workload>; 2],
    /// What the zero-scaler's process observed and did, in which tick.
    events: Vec<(u32, Event)>,
    restarts: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Workload {
    First,
    Second,
}

/// A kube-proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Node {
    /// Whether it leads the Service of the first workload to the port.
    leads_to_port: bool,
    /// Whether it is behind the slices since an earlier tick.
    is_late: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Event {
    FirstExists,
    FirstIsGone,
    SecondHasPort,
    SlicesLeave,
    Granted,
}

/// A step of one part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    DeleteFirst,
    SlicesOfFirstAreDeleted,
    WatchOfFirst,
    WatchOfSlices,
    Grant,
    ActivatorFollows(usize),
    NodeFollows(usize),
    ZeroScalerRestarts,
    Tick,
}

// === impl PortHandover ===

impl PortHandover {
    /// The zero-scaler runs all the time.
    pub fn new() -> Self {
        Self { start: Instant::now(), restarts: 0 }
    }

    /// The zero-scaler may restart once.
    #[must_use]
    pub fn with_restart(self) -> Self {
        Self { restarts: 1, ..self }
    }

    /// The zero-scaler's book after all events.
    fn book(&self, state: &State) -> PortLeases {
        let book = PortLeases::new(NonZeroU32::MAX);
        let [first, second] = keys();
        for (tick, event) in &state.events {
            let now = (self.start + TICK * *tick).into_std();
            match event {
                Event::FirstExists => book.observe(&first, object(&first).as_ref(), now),
                Event::FirstIsGone => book.observe(&first, None, now),
                Event::SecondHasPort => book.observe(&second, object(&second).as_ref(), now),
                Event::SlicesLeave => book.left_by_slices(&[PORT], now),
                Event::Granted => {
                    self.grant(&book, state, *tick);
                }
            }
        }
        book
    }

    /// Whether the second workload gets the port.
    fn grant(&self, book: &PortLeases, state: &State, tick: u32) -> bool {
        let [_, second] = keys();
        let sees_slices = !state.events.iter().any(|(_, event)| *event == Event::SlicesLeave);
        let is_led_to = |port| port != PORT || sees_slices;
        let now = (self.start + TICK * tick).into_std();
        let granted = book.grant(&second, "u-second", &BTreeSet::from([SERVICE_PORT]), is_led_to, now);
        granted.is_ok_and(|ports| ports.get(&SERVICE_PORT) == Some(&PORT))
    }

    fn apply(&self, state: &mut State, action: Action) {
        match action {
            Action::DeleteFirst => state.first_exists = false,
            Action::SlicesOfFirstAreDeleted => state.slices[0] = false,
            Action::WatchOfFirst => state.events.push((state.tick, Event::FirstIsGone)),
            Action::WatchOfSlices => state.events.push((state.tick, Event::SlicesLeave)),
            Action::Grant => {
                if self.grant(&self.book(state), state, state.tick) {
                    state.events.push((state.tick, Event::Granted));
                    state.second_has_port = true;
                }
            }
            Action::ActivatorFollows(activator) => {
                let second = Some(Workload::Second).filter(|_| state.second_has_port);
                state.activators[activator] = if state.first_exists { Some(Workload::First) } else { second };
            }
            Action::NodeFollows(node) => {
                state.nodes[node] = Node { leads_to_port: state.slices[0], is_late: false };
            }
            Action::ZeroScalerRestarts => self.restart(state),
            Action::Tick => {
                state.tick += 1;
                for node in &mut state.nodes {
                    node.is_late = node.leads_to_port != state.slices[0];
                }
            }
        }
    }

    fn restart(&self, state: &mut State) {
        state.restarts -= 1;
        let listed = [
            (state.first_exists, Event::FirstExists),
            (!state.slices[0], Event::SlicesLeave),
            (state.second_has_port, Event::SecondHasPort),
        ];
        let listed = listed.into_iter().filter(|(is_listed, _)| *is_listed);
        state.events = listed.map(|(_, event)| (state.tick, event)).collect();
    }

    fn has(state: &State, wanted: Event) -> bool {
        state.events.iter().any(|(_, event)| *event == wanted)
    }
}

impl Default for PortHandover {
    fn default() -> Self {
        Self::new()
    }
}

impl Model for PortHandover {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            tick: 0,
            first_exists: true,
            second_has_port: false,
            slices: [true, false],
            nodes: [Node { leads_to_port: true, is_late: false }; 2],
            activators: [Some(Workload::First); 2],
            events: vec![(0, Event::FirstExists)],
            restarts: self.restarts,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.first_exists {
            actions.push(Action::DeleteFirst);
        } else {
            if state.slices[0] {
                actions.push(Action::SlicesOfFirstAreDeleted);
            }
            if Self::has(state, Event::FirstExists) && !Self::has(state, Event::FirstIsGone) {
                actions.push(Action::WatchOfFirst);
            }
        }
        if !state.slices[0] && !Self::has(state, Event::SlicesLeave) {
            actions.push(Action::WatchOfSlices);
        }
        if !state.second_has_port {
            actions.push(Action::Grant);
        }
        actions.extend([0, 1].map(Action::ActivatorFollows));
        actions.extend([0, 1].map(Action::NodeFollows));
        if state.restarts > 0 {
            actions.push(Action::ZeroScalerRestarts);
        }
        let is_behind = |node: &Node| node.is_late && node.leads_to_port != state.slices[0];
        if state.tick < LAST_TICK && !state.nodes.iter().any(is_behind) {
            actions.push(Action::Tick);
        }
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut state = before.clone();
        self.apply(&mut state, action);
        (state != *before).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("one workload answers on a port", |_, state: &State| {
                let is_led_to_second = state.activators.contains(&Some(Workload::Second));
                !(is_led_to_second && state.nodes.iter().any(|node| node.leads_to_port))
            }),
            Property::sometimes("the port is leased again", |_, state: &State| {
                state.activators == [Some(Workload::Second); 2]
            }),
        ]
    }
}

fn keys() -> [Key; 2] {
    ["first", "second"].map(|name| Key::new("shop", name))
}

/// A ServerlessService with the port in its status.
fn object(key: &Key) -> Option<ServerlessService> {
    let name = &key.name;
    let object = json!({
        "metadata": {"name": name, "namespace": key.namespace, "ownerReferences": [{
            "apiVersion": "v1", "kind": "PodAutoscaler", "name": name, "uid": "u", "controller": true}]},
        "spec": {"service": name, "selector": "app=a", "mode": "Proxy", "numActivators": 2,
            "containerConcurrency": 0},
        "status": {"activators": 2, "ports": [{
            "name": "http", "servicePort": SERVICE_PORT, "activatorPort": PORT, "podPort": 8012}]},
    });
    serde_json::from_value(object).ok()
}
