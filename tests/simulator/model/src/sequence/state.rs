//! The state of the cluster. Times are ages in ticks, so that the number of states is finite.

use autoscaler::routing::sks_mode::SksMode;
use autoscaler::scaling::scale_to_zero::ActivePhase;

/// Milliseconds of a tick: longer than a report may be late, so that an activator that is silent
/// for a tick is silent for the programs.
pub(super) const TICK_MS: i64 = 3000;
/// Ages are counted up to here, where each period of the settings is over.
pub(super) const OLD: u8 = 2;
/// Milliseconds of the stable window and of the grace period.
pub(super) const PERIOD_MS: i64 = OLD as i64 * TICK_MS;
/// A wall clock that is wrong is wrong by this time.
pub(super) const SKEW_MS: i64 = 3_600_000;

/// The cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// `spec.replicas` of the target.
    pub(super) size: u8,
    pub(super) objects: Objects,
    /// Where the EndpointSlices lead.
    pub(super) slices: Mode,
    /// Where the kube-proxies of the nodes lead.
    pub(super) nodes: [Mode; 2],
    pub(super) scalers: [ZeroScaler; 2],
    pub(super) leader: usize,
    /// A write of 0 that has not landed, and whether its precondition still holds.
    pub(super) pending: Option<bool>,
    pub(super) adapter: Adapter,
    /// How long activator B is silent for the metrics-adapter and for each zero-scaler.
    pub(super) silence: [Silence; 3],
    pub(super) request: Option<Request>,
    pub(super) violation: Option<Violation>,
    pub(super) faults: Faults,
}

/// What the zero-scalers write about the workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Objects {
    pub(super) phase: Phase,
    pub(super) phase_since: Stamp,
    /// Whether the last status has size 0.
    pub(super) at_zero: bool,
    /// The mode that the ServerlessService should have.
    pub(super) mode: Mode,
    pub(super) proxied_since: Option<Stamp>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ZeroScaler {
    /// The size in its cache.
    pub(super) size: u8,
    /// Whether its cache has the newest version of the target.
    pub(super) is_current: bool,
    /// The objects in its cache.
    pub(super) objects: Objects,
    pub(super) decision: Option<ReceivedDecision>,
    /// Ages of the time since which a decision reports idleness, and of its first arrival.
    pub(super) idle: Option<(u8, u8)>,
    /// Age of the last request that an activator reported.
    pub(super) requested: Option<u8>,
    /// The times in the objects, phase and proxied, each with the age of its first observation.
    pub(super) seen: [Option<(Stamp, u8)>; 2],
    pub(super) clock_is_ahead: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ReceivedDecision {
    /// Age of the time since which the workload is idle.
    pub(super) idle: Option<u8>,
    pub(super) ready: u8,
    /// Whether the adapter misses reports.
    pub(super) misses_reports: bool,
    pub(super) is_late: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Adapter {
    pub(super) clock: Clock,
    pub(super) idle: Option<u8>,
}

/// A wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Clock {
    Right,
    Ahead,
    Behind,
}

/// A time in an object: its age, and whether the clock of its writer was ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Stamp {
    pub(super) age: u8,
    pub(super) is_ahead: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Mode {
    Proxy,
    Serve,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    Active,
    Activating,
    Inactive,
}

/// How long one receiver has no report of activator B.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Silence {
    None,
    Short,
    /// Longer than a drain: it leaves the endpoints.
    Drain,
    /// Longer than two drains: it is due no more.
    TwoDrains,
}

/// The request of a client. One is enough: two are lost if one of them is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Request {
    pub(super) path: RequestPath,
    /// Whether it began in an earlier tick.
    pub(super) is_old: bool,
    /// Ticks for which it was held while its activator was connected.
    pub(super) held: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum RequestPath {
    /// Straight to a pod.
    Direct,
    /// Through activator B, which may be cut off.
    B,
}

/// A property that does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Violation {
    RequestEnded,
    NodeBypassesActivators,
    HeldForLong,
}

/// Faults that may still happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Faults {
    pub(super) clock_jumps: u8,
    pub(super) leader_changes: u8,
}

// === impl Objects ===

impl Objects {
    fn age(&mut self) {
        self.phase_since.age();
        self.proxied_since.iter_mut().for_each(Stamp::age);
    }
}

// === impl ZeroScaler ===

impl ZeroScaler {
    pub(super) fn new(size: u8, objects: Objects) -> Self {
        Self {
            size,
            is_current: true,
            objects,
            decision: None,
            idle: None,
            requested: None,
            seen: [None, None],
            clock_is_ahead: false,
        }
    }

    pub(super) fn age(&mut self) {
        self.objects.age();
        if let Some((since, seen)) = &mut self.idle {
            older(since);
            older(seen);
        }
        if let Some(decision) = &mut self.decision {
            decision.idle.iter_mut().for_each(older);
        }
        // An older one has no effect.
        self.requested = self.requested.map(|age| age + 1).filter(|age| *age <= OLD);
        for (stamp, age) in self.seen.iter_mut().flatten() {
            stamp.age();
            older(age);
        }
    }

    /// Drops what has no effect any more, because it will not lead again.
    pub(super) fn stay_follower(&mut self, objects: Objects) {
        let Self { size, is_current, clock_is_ahead, .. } = *self;
        *self = Self::new(size, objects);
        (self.is_current, self.clock_is_ahead) = (is_current, clock_is_ahead);
    }

    pub(super) fn now(&self) -> i64 {
        if self.clock_is_ahead { SKEW_MS } else { 0 }
    }

    pub(super) fn stamp(&self) -> Stamp {
        Stamp { age: 0, is_ahead: self.clock_is_ahead }
    }
}

// === impl State ===

impl State {
    pub(super) fn age(&mut self) {
        self.objects.age();
        self.adapter.idle.iter_mut().for_each(older);
        self.scalers.iter_mut().for_each(ZeroScaler::age);
    }

    /// Takes a new size; every version in a cache is an old one then.
    pub(super) fn set_size(&mut self, size: u8) {
        self.size = size;
        self.scalers.iter_mut().for_each(|scaler| scaler.is_current = false);
        self.pending = self.pending.map(|_| false);
    }
}

// === impl Silence ===

impl Silence {
    /// After the time of a drain.
    pub(super) fn longer(self) -> Self {
        match self {
            Self::None | Self::Short => Self::Drain,
            Self::Drain | Self::TwoDrains => Self::TwoDrains,
        }
    }
}

// === impl Clock ===

impl Clock {
    pub(super) fn skew(self) -> i64 {
        match self {
            Self::Right => 0,
            Self::Ahead => SKEW_MS,
            Self::Behind => -SKEW_MS,
        }
    }
}

// === impl Stamp ===

impl Stamp {
    fn age(&mut self) {
        older(&mut self.age);
    }

    /// Milliseconds relative to the present of a right clock.
    pub(super) fn millis(self) -> i64 {
        let skew = if self.is_ahead { SKEW_MS } else { 0 };
        skew - i64::from(self.age) * TICK_MS
    }
}

// === impl Mode ===

impl From<SksMode> for Mode {
    fn from(mode: SksMode) -> Self {
        match mode {
            SksMode::Proxy => Self::Proxy,
            SksMode::Serve => Self::Serve,
        }
    }
}

impl From<Mode> for SksMode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Proxy => Self::Proxy,
            Mode::Serve => Self::Serve,
        }
    }
}

// === impl Phase ===

impl From<ActivePhase> for Phase {
    fn from(phase: ActivePhase) -> Self {
        match phase {
            ActivePhase::Active => Self::Active,
            ActivePhase::Activating => Self::Activating,
            ActivePhase::Inactive => Self::Inactive,
        }
    }
}

impl From<Phase> for ActivePhase {
    fn from(phase: Phase) -> Self {
        match phase {
            Phase::Active => Self::Active,
            Phase::Activating => Self::Activating,
            Phase::Inactive => Self::Inactive,
        }
    }
}

pub(super) fn older(age: &mut u8) {
    *age = (*age + 1).min(OLD);
}
