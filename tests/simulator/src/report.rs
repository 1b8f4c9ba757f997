//! Report: what happened in a run. Its text is what a failed test prints, so it tells the story: counts, changes of size with
//! their writer, and a timeline.

pub mod latencies;

use std::fmt;
use std::time::Duration;

use autoscaler::routing::sks_mode::SksMode;

use crate::clock::Time;
use crate::report::latencies::Latencies;
use crate::workload::replica_set::{SizeChange, Writer};

/// Lines of the timeline, and changes of size, that are printed.
const PRINTED: usize = 60;

/// What happened in a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Requests that arrived.
    pub arrived: u64,
    /// Requests that were answered.
    pub served: u64,
    /// Requests that met a full queue.
    pub refused: u64,
    /// Requests whose client gave up waiting.
    pub timed_out: u64,
    /// Requests that a pod works on at the end.
    pub running: usize,
    /// Requests that wait at the end, in activators and sidecars.
    pub held: usize,
    /// From arrival to answer, of those that were answered.
    pub latencies: Latencies,
    /// Every change of size.
    pub changes: Vec<SizeChange>,
    /// The state at each decision.
    pub timeline: Vec<TimelineSample>,
    /// The most requests that any pod had at a time.
    pub most_running: usize,
    /// The longest time for which one pod had nothing to do while an activator held one and the same request.
    pub longest_idle: Duration,
}

/// The state at one instant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimelineSample {
    /// When.
    pub at: Time,
    /// What the decider wants; `None` while nothing was decided.
    pub desired: Option<u32>,
    /// Whether it panics.
    pub panicking: bool,
    /// The stable average that was decided by.
    pub stable: f64,
    /// The panic average that was decided by.
    pub panic: f64,
    /// `spec.replicas`.
    pub spec: u32,
    /// Ready pods.
    pub ready: u32,
    /// Requests that pods work on.
    pub running: usize,
    /// Requests that wait.
    pub held: usize,
    /// Where clients' requests go.
    pub mode: SksMode,
}

// === impl Report ===

impl Report {
    /// The size at the end.
    pub fn final_size(&self) -> u32 {
        self.timeline.last().map_or(0, |sample| sample.spec)
    }

    /// Changes of size in this span.
    pub fn changes_between(&self, from: Time, until: Time) -> impl Iterator<Item = &SizeChange> {
        self.changes.iter().filter(move |change| (from..until).contains(&change.at))
    }

    /// The most changes of size in any span of this length that begins after `from`.
    pub fn most_changes_in(&self, length: Duration, from: Time) -> usize {
        let later = || self.changes.iter().filter(|change| change.at >= from);
        later().map(|first| self.changes_between(first.at, first.at + length).count()).max().unwrap_or(0)
    }

    /// Pairs of changes in a panic in which the HPA and the zero-scaler took back what the other had just written.
    pub fn opposed_in_panic(&self) -> usize {
        let pairs = self.changes.iter().zip(self.changes.iter().skip(1));
        let opposed = |one: &SizeChange, next: &SizeChange| (one.from < one.to) != (next.from < next.to);
        pairs
            .filter(|(one, next)| one.panicking && next.panicking)
            .filter(|(one, next)| one.writer.is_hpa() != next.writer.is_hpa() && opposed(one, next))
            .count()
    }

    /// Sizes that the HPA wrote below what the decider held in panic.
    pub fn pulled_below_panic(&self, max_replicas: u32) -> Vec<SizeChange> {
        let below = |change: &&SizeChange| {
            change.desired.is_some_and(|desired| change.to < desired.min(max_replicas))
        };
        self.changes.iter().filter(|c| c.panicking && c.writer.is_hpa()).filter(below).copied().collect()
    }

    /// The first time the size was this, at or after `from`.
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
        writeln!(f, "a pod idle beside a held request: at most {:?}", self.longest_idle)?;
        writeln!(f, "{} changes of size:", self.changes.len())?;
        for change in self.changes.iter().take(PRINTED) {
            writeln!(f, "  {change}")?;
        }
        if self.changes.len() > PRINTED {
            writeln!(f, "  and so on")?;
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
    /// Whether it is the HPA.
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
