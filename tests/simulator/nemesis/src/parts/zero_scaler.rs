//! A zero-scaler process: the real controllers and election, with streams in place of its sockets.

use std::net::SocketAddr;
use std::sync::Arc;

use autoscaler::DecisionEvent;
use autoscaler::stats::reporters::{LOST_AFTER, MissingReports};
use autoscaler::stats::{ActivatorReport, CarriedWorkloads, ReportStream};
use axum::extract::ws::Utf8Bytes;
use clap::Parser;
use component_base::kubernetes::lease::{Leadership, Lease};
use component_base::readiness::Readiness;
use prometheus::Registry;
use tokio::sync::broadcast;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use zero_scaler::activators::connections::ActivatorConnections;
use zero_scaler::app::{ExternalInterfaces, activator_connections, controllers};
use zero_scaler::args::Args;
use zero_scaler::controllers::context::Context;
use zero_scaler::metrics::Metrics;

use super::metrics_adapter::MetricsAdapter;
use crate::activator::Activator;
use crate::clock::WallClock;
use crate::cluster::NodeProber;
use crate::network::ProcessNetwork;

/// A running process. It crashes when this is dropped.
pub struct ZeroScaler {
    pub network: ProcessNetwork,
    pub started: Instant,
    context: Arc<Context>,
    connections: Arc<ActivatorConnections>,
    /// The push connections, by activator.
    streams: Vec<Option<Connection>>,
    decisions: Option<DecisionSocket>,
    leadership: Leadership,
    tasks: JoinSet<()>,
}

struct Connection {
    stream: ReportStream,
    last_frame: Instant,
}

struct DecisionSocket {
    events: broadcast::Receiver<Utf8Bytes>,
    last_message: Instant,
}

// === impl ZeroScaler ===

impl ZeroScaler {
    /// Starts a process, which joins the election.
    pub fn start(name: &str, network: ProcessNetwork, clock: &WallClock, prober: NodeProber) -> Self {
        let args = Args::parse_from(["zero-scaler", "--open-stats-port", "--pod-name", name]);
        let (mut tasks, readiness) = (JoinSet::new(), Readiness::default());
        let client = network.client();
        let lease = Lease::new(client.clone(), &args.system_namespace, "zero-scaler", name);
        let (leadership, election) = lease.elect(CancellationToken::new());
        tasks.spawn(election);
        let interfaces =
            ExternalInterfaces { client, clock: clock.of_zero_scaler(), prober: Arc::new(prober) };
        let metrics = Metrics::register(&Registry::new()).unwrap();
        let context = controllers(&args, interfaces, &leadership, metrics, &readiness, &mut tasks);
        Self {
            network,
            started: Instant::now(),
            connections: Arc::new(activator_connections(&context)),
            context,
            streams: Vec::new(),
            decisions: None,
            leadership,
            tasks,
        }
    }

    pub fn leads(&self) -> bool {
        self.leadership.is_leader()
    }

    /// Takes a frame of an activator, over its connection or a new one.
    pub fn receive(&mut self, number: usize, activator: &Activator, report: ActivatorReport) {
        if self.streams.len() <= number {
            self.streams.resize_with(number + 1, || None);
        }
        let now = Instant::now();
        let connection = self.streams[number].get_or_insert_with(|| {
            self.connections.opened(activator.ip);
            Connection { stream: ReportStream::default(), last_frame: now }
        });
        connection.last_frame = now;
        self.connections.report(&mut connection.stream, &report);
        self.context.scaling.wake.receive(report, now.into_std());
    }

    /// As if an activator had reported its second, whatever its connection is.
    pub fn assume_reported(&self, activator: &Activator) {
        self.context.routing.activators.reports().reported(&activator.name, CarriedWorkloads::none());
    }

    /// Ends the connections that are silent.
    pub fn end_silent(&mut self, activators: &[Activator]) {
        for (number, activator) in activators.iter().enumerate() {
            let is_silent = |connection: &Connection| connection.last_frame.elapsed() > LOST_AFTER;
            if self.streams.get(number).and_then(Option::as_ref).is_some_and(is_silent) {
                self.disconnected(number, activator);
            }
        }
    }

    /// The connection of an activator broke.
    pub fn disconnected(&mut self, number: usize, activator: &Activator) {
        let Some(connection) = self.streams.get_mut(number).and_then(Option::take) else { return };
        self.connections.interrupted(&connection.stream);
        let (connections, peer) = (self.connections.clone(), activator.ip);
        self.tasks.spawn(async move { connections.broken(peer).await });
        // The tasks that have ended.
        while self.tasks.try_join_next().is_some() {}
    }

    /// Takes what the adapter sent; `None` if its packets do not arrive.
    pub fn follow_decisions(&mut self, adapter: Option<&MetricsAdapter>) {
        let Some(adapter) = adapter else {
            if self.decisions.as_ref().is_some_and(|socket| socket.last_message.elapsed() > LOST_AFTER) {
                self.decisions_ended();
            }
            return;
        };
        if self.decisions.is_none() {
            let (first, events) = adapter.decisions.subscribe();
            self.decisions = Some(DecisionSocket { events, last_message: Instant::now() });
            first.iter().for_each(|text| self.decided(text));
        }
        loop {
            let Some(socket) = &mut self.decisions else { return };
            socket.last_message = Instant::now();
            match socket.events.try_recv() {
                Ok(text) => self.decided(&text),
                Err(broadcast::error::TryRecvError::Empty) => return,
                Err(_) => return self.decisions_ended(),
            }
        }
    }

    /// The connection to the adapter ended.
    pub fn decisions_ended(&mut self) {
        if self.decisions.take().is_some() {
            self.receive_event(DecisionEvent::Snapshot(Vec::new().into()));
            self.receive_event(DecisionEvent::Missing(MissingReports::default()));
        }
    }

    fn decided(&self, text: &Utf8Bytes) {
        self.receive_event(serde_json::from_str(text.as_str()).unwrap());
    }

    fn receive_event(&self, event: DecisionEvent) {
        let adapter = SocketAddr::from(([10, 0, 8, 8], 8080));
        self.context.scaling.decisions.receive(adapter, event, Instant::now().into_std());
    }
}

impl Drop for ZeroScaler {
    fn drop(&mut self) {
        self.network.kill();
    }
}
