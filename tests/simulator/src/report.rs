//! Report: the results of a run. Failed tests print it: counts, changes of size with their writer,
//! and a timeline.

pub mod latencies;

use std::fmt;
use std::time::Duration;

use autoscaler::learning_report::Phase;
use autoscaler::routing::sks_mode::SksMode;

use crate::clock::Time;
use crate::report::latencies::Latencies;
use crate::workload::replica_set::{SizeChange, Writer};

/// Maximum number of printed lines of the timeline, and of printed changes.
const PRINTED: usize = 60;

/// The results of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Requests that arrived.
    pub arrived: u64,
    /// Requests with a response.
    pub served: u64,
    /// Requests refused by a full queue or for lack of a backend.
    pub refused: u64,
    /// Requests whose client timeout expired.
    pub timed_out: u64,
    /// Requests that failed because their pod was killed.
    pub killed: u64,
    /// Requests that failed or took longer than the objective.
    pub misses: u64,
    /// Pods killed above their memory limit.
    pub oom_kills: u64,
    /// Each learned target with its time and phase.
    pub targets: Vec<(Time, f64, Phase)>,
    /// Changes of the learned target, and how many of these restored an earlier target.
    pub target_changes: u64,
    /// Changes of the learned target that restored an earlier one.
    pub target_reverts: u64,
    /// `status.replicas`, summed over all seconds.
    pub pod_seconds: u64,
    /// Requests on pods at the end.
    pub running: usize,
    /// Requests held at the end, in activators and queue-proxies.
    pub held: usize,
    /// Times from arrival to response, of all served requests.
    pub latencies: Latencies,
    pub changes: Vec<SizeChange>,
    /// State of the loop at each decision.
    pub timeline: Vec<TimelineSample>,
    /// The largest number of requests that any pod processed at a time.
    pub most_running: usize,
    /// The longest time for which a pod was idle while an activator held one and the same request.
    pub longest_idle: Duration,
}

/// State of the loop at one instant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimelineSample {
    pub at: Time,
    /// The desired size; `None` before the first decision.
    pub desired: Option<u32>,
    /// Whether the decider is in panic mode.
    pub panicking: bool,
    /// Stable average of the decision.
    pub stable: f64,
    /// Panic average of the decision.
    pub panic: f64,
    /// `spec.replicas`.
    pub spec: u32,
    /// Ready pods.
    pub ready: u32,
    /// Requests on pods.
    pub running: usize,
    /// Held requests.
    pub held: usize,
    /// Mode of the slices that clients use.
    pub mode: SksMode,
}

// === impl Report ===

impl Report {
    /// Requests that failed.
    pub fn errors(&self) -> u64 {
        self.refused + self.timed_out + self.killed
    }

    /// The size at the end.
    pub fn final_size(&self) -> u32 {
        self.timeline.last().map_or(0, |sample| sample.spec)
    }

    /// Changes of size in this interval.
    pub fn changes_between(&self, from: Time, until: Time) -> impl Iterator<Item = &SizeChange> {
        self.changes.iter().filter(move |change| (from..until).contains(&change.at))
    }

    /// The largest number of changes in any interval of this length that begins at or after `from`.
    pub fn most_changes_in(&self, length: Duration, from: Time) -> usize {
        let later = || self.changes.iter().filter(|change| change.at >= from);
        later().map(|first| self.changes_between(first.at, first.at + length).count()).max().unwrap_or(0)
    }

    /// Pairs of consecutive changes in panic, one by the HPA and one by the zero-scaler, in
    /// opposite directions.
    pub fn opposed_in_panic(&self) -> usize {
        let pairs = self.changes.iter().zip(self.changes.iter().skip(1));
        let opposed = |one: &SizeChange, next: &SizeChange| (one.from < one.to) != (next.from < next.to);
        pairs
            .filter(|(one, next)| one.panicking && next.panicking)
            .filter(|(one, next)| one.writer.is_hpa() != next.writer.is_hpa() && opposed(one, next))
            .count()
    }

    /// Sizes that the HPA wrote below the desired size in panic.
    pub fn pulled_below_panic(&self, max_replicas: u32) -> Vec<SizeChange> {
        let below = |change: &&SizeChange| {
            change.desired.is_some_and(|desired| change.to < desired.min(max_replicas))
        };
        self.changes.iter().filter(|c| c.panicking && c.writer.is_hpa()).filter(below).copied().collect()
    }

    /// The first time of this size, at or after `from`.
    pub fn first_at_size(&self, size: u32, from: Time) -> Option<Time> {
        self.changes.iter().find(|change| change.at >= from && change.to == size).map(|change| change.at)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { arrived, served, refused, timed_out, running, held, .. } = self;
        writeln!(
            f,
            "{arrived} arrived: {served} served, {refused} refused, {timed_out} timed out, {running} running, {held} held"
        )?;
        let seconds = |share| self.latencies.quantile(share).as_secs_f64();
        let longest = self.latencies.longest().as_secs_f64();
        writeln!(
            f,
            "latency: p50 {:.3} s, p99 {:.3} s, longest {longest:.3} s",
            seconds(0.5),
            seconds(0.99)
        )?;
        writeln!(f, "longest time of an idle pod beside a held request: {:?}", self.longest_idle)?;
        writeln!(f, "{} changes of size:", self.changes.len())?;
        for change in self.changes.iter().take(PRINTED) {
            writeln!(f, "  {change}")?;
        }
        if self.changes.len() > PRINTED {
            writeln!(f, "  ...")?;
        }
        writeln!(f, "     t   desired      stable   panic avg   spec  ready  running   held  mode")?;
        let step = self.timeline.len().div_ceil(PRINTED).max(1);
        for sample in self.timeline.iter().step_by(step) {
            writeln!(f, "{sample}")?;
        }
        Ok(())
    }
}

impl fmt::Display for SizeChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, writer, .. } = self;
        let panic = if self.panicking { ", in panic" } else { "" };
        write!(f, "{:9.3} s  {from:>4} -> {to:<4} by {writer}{panic}", self.at.as_secs_f64())
    }
}

impl fmt::Display for TimelineSample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let desired = self.desired.map_or_else(|| "?".to_owned(), |desired| desired.to_string());
        let mark = if self.panicking { '!' } else { ' ' };
        let Self { stable, panic, spec, ready, running, held, mode, .. } = self;
        let at = self.at.as_secs_f64();
        write!(
            f,
            "{at:6.0} {desired:>8}{mark} {stable:>11.3} {panic:>11.3} {spec:>6} {ready:>6} {running:>8} {held:>6}  {mode:?}"
        )
    }
}

// === impl Writer ===

impl Writer {
    /// Whether the writer is the HPA.
    pub fn is_hpa(self) -> bool {
        self == Self::Hpa
    }
}

impl fmt::Display for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hpa => "HPA",
            Self::Wake => "zero-scaler (wake)",
            Self::Wanted => "zero-scaler (wanted)",
            Self::Panic => "zero-scaler (panic)",
            Self::Direct => "zero-scaler (direct)",
            Self::Idle => "zero-scaler (idle)",
        })
    }
}
