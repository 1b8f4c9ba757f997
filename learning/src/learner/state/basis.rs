//! TargetBasis: what a learned target rests on, as its stored state shows it.
//!
//! It changes nothing: users read it to see why a target is what it is. What no request or reading
//! has shown yet is `None`.

use super::LearnerState;
use crate::bounds::LearningSpec;
use crate::curve::Sums;
use crate::learner::readings::cpu_line::CpuRoom;
use crate::tuning;

/// What a learned target rests on.
#[derive(Clone, Debug, PartialEq)]
pub struct TargetBasis {
    /// Seconds of a request that does not wait for others: mean at loads below half the target.
    pub unloaded_time: Option<f64>,
    /// Requests a second of one pod in which requests wait for each other: it serves no more.
    pub throughput: Option<f64>,
    /// The largest target that fits into the memory limit.
    pub memory: MemoryRoom,
    /// What the CPU limit allows.
    pub cpu: Option<CpuRoom>,
    /// The smallest target that recently was too much, by missed objectives or an overload.
    pub too_much: Option<f64>,
    /// The largest target by the settings, and the setting.
    pub setting: Option<(TargetBound, f64)>,
    /// The smallest of these that is not below the target: what keeps the target from growing.
    pub binding: Option<TargetBound>,
    /// Time and throughput at each load with enough requests for a mean, the lowest load first.
    pub curve: Vec<CurvePoint>,
}

/// What the memory of the pods allows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MemoryRoom {
    /// There is no reading and was no kill.
    Unknown,
    /// No reading grows with the load.
    Unbounded,
    /// The largest target that fits.
    Most(f64),
}

/// What keeps a target from growing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetBound {
    /// The requests that a full pod works on at a time.
    Room,
    Memory,
    Cpu,
    /// A larger target that was too much.
    TooMuch,
    ContainerConcurrency,
    /// The user's target times `learn-target-factor`.
    Factor,
}

/// A pod at one load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CurvePoint {
    /// Requests at a time.
    pub load: f64,
    /// Mean seconds of a request.
    pub time: f64,
    /// Requests a second.
    pub throughput: f64,
}

// === impl LearnerState ===

impl LearnerState {
    /// What the target rests on, with the settings that it was learned with.
    pub fn basis(&self, spec: &LearningSpec) -> TargetBasis {
        let curve: Vec<Sums> = self.curve.half_octaves().collect();
        let unloaded_time = self.curve.unloaded(self.target).map(|sums| sums.mean_time());
        let throughput = unloaded_time.and_then(|time| full_throughput(&curve, time));
        let mut basis = TargetBasis {
            unloaded_time,
            throughput,
            memory: self.memory_room(),
            cpu: unloaded_time.and_then(|time| self.cpu.sure_room(time)),
            too_much: self.bracket.fresh_bad(self.saved_at),
            setting: setting(spec),
            binding: None,
            curve: curve.iter().map(CurvePoint::from).collect(),
        };
        basis.binding = basis.binding_at(self.target);
        basis
    }

    fn memory_room(&self) -> MemoryRoom {
        let limits = [self.memory.sure_target(), self.memory_cap];
        match limits.into_iter().flatten().reduce(f64::min) {
            None => MemoryRoom::Unknown,
            Some(most) if most.is_finite() => MemoryRoom::Most(most),
            Some(_) => MemoryRoom::Unbounded,
        }
    }
}

// === impl TargetBasis ===

impl TargetBasis {
    /// Requests that a full pod works on at a time; more of them wait.
    pub fn room(&self) -> Option<f64> {
        Some(self.throughput? * self.unloaded_time?)
    }

    /// A target may be above a bound that only raises keep, so that one does not bind. Noise of up
    /// to a raise is none.
    fn binding_at(&self, target: f64) -> Option<TargetBound> {
        let [raise, _] = tuning::steps::RAISES;
        let memory = if let MemoryRoom::Most(most) = self.memory { Some(most) } else { None };
        let bounds = [
            (TargetBound::Memory, memory),
            (TargetBound::Cpu, self.cpu.map(|room| room.load)),
            (TargetBound::Room, self.room()),
            (TargetBound::TooMuch, self.too_much),
        ];
        let known = bounds.into_iter().filter_map(|(bound, most)| Some((bound, most?))).chain(self.setting);
        let binding = known.filter(|(_, most)| *most * raise >= target).min_by(|a, b| a.1.total_cmp(&b.1));
        binding.map(|(bound, _)| bound)
    }
}

// === impl CurvePoint ===

impl From<&Sums> for CurvePoint {
    fn from(sums: &Sums) -> Self {
        Self { load: sums.mean_load(), time: sums.mean_time(), throughput: sums.throughput() }
    }
}

/// Throughput at the loads at which requests wait for each other; `None` if there was none.
fn full_throughput(curve: &[Sums], unloaded_time: f64) -> Option<f64> {
    let mut full = Sums::default();
    let waits = |sums: &&Sums| sums.mean_time() > tuning::pressure::KNEE * unloaded_time;
    curve.iter().filter(waits).for_each(|sums| full.add(sums));
    (full.seconds > 0.0).then(|| full.throughput())
}

/// The bound of the settings, where there is one.
fn setting(spec: &LearningSpec) -> Option<(TargetBound, f64)> {
    let most = *spec.bounds().end();
    match (spec.limit, spec.factor) {
        (Some(limit), _) if limit <= most => Some((TargetBound::ContainerConcurrency, most)),
        (_, Some(_)) => Some((TargetBound::Factor, most)),
        (_, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::bracket::Tried;
    use crate::learner::Learner;

    /// The state at this target of pods that serve eight requests at a time, each in 100 ms.
    fn state(target: f64, loads: &[f64]) -> LearnerState {
        let mut state = Learner::new(free(), 0).state(Duration::ZERO);
        state.target = target;
        for load in loads {
            let throughput = load.min(8.0) * 10.0;
            let completions = throughput * 600.0;
            let (load, time) = (load * 600.0, load / throughput * completions);
            state.curve.add(&Sums { seconds: 600.0, load, completions, time, misses: 0.0 });
        }
        state
    }

    fn free() -> LearningSpec {
        LearningSpec { factor: None, ..LearningSpec::default() }
    }

    #[test]
    fn full_pods_show_the_room() {
        let basis = state(8.0, &[1.0, 3.0, 7.0, 16.0, 20.0]).basis(&free());
        let near = |value: Option<f64>, expected: f64| (value.unwrap() / expected - 1.0).abs() < 1e-9;
        assert!(near(basis.unloaded_time, 0.1) && near(basis.throughput, 80.0), "{basis:?}");
        assert!(near(basis.room(), 8.0), "{basis:?}");
        assert_eq!(basis.binding, Some(TargetBound::Room));
        assert_eq!(basis.curve.len(), 5);
        assert!(basis.curve.is_sorted_by(|a, b| a.load < b.load), "{basis:?}");
    }

    #[test]
    fn what_nothing_has_shown_is_unknown() {
        let basis = state(8.0, &[]).basis(&free());
        let nothing = (basis.unloaded_time, basis.throughput, basis.room(), basis.too_much, basis.setting);
        assert_eq!(nothing, (None, None, None, None, None));
        assert_eq!((basis.memory, basis.binding, basis.curve.len()), (MemoryRoom::Unknown, None, 0));
        let idle = state(8.0, &[1.0, 3.0]).basis(&free());
        assert!(idle.unloaded_time.is_some(), "{idle:?}");
        assert_eq!((idle.throughput, idle.binding), (None, None), "requests have not waited yet");
    }

    #[test]
    fn smallest_bound_that_is_not_below_the_target_binds() {
        let mut state = state(5.0, &[1.0, 3.0, 16.0]);
        let limited = LearningSpec { limit: Some(7.0), ..free() };
        assert_eq!(state.basis(&limited).binding, Some(TargetBound::ContainerConcurrency));
        state.bracket.record_bad(Tried { target: 6.0, severity: 1.5, at: Duration::ZERO });
        assert_eq!(state.basis(&limited).binding, Some(TargetBound::TooMuch));
        state.memory_cap = Some(5.5);
        let basis = state.basis(&limited);
        assert_eq!((basis.memory, basis.binding), (MemoryRoom::Most(5.5), Some(TargetBound::Memory)));
        state.memory_cap = Some(3.0);
        assert_eq!(state.basis(&limited).binding, Some(TargetBound::TooMuch), "the target is above it");
    }

    #[test]
    fn factor_bounds_a_given_target() {
        let given = LearningSpec { user_target: 2.0, ..LearningSpec::default() };
        let basis = state(8.0, &[1.0, 3.0, 16.0]).basis(&given);
        assert_eq!(basis.setting, Some((TargetBound::Factor, 8.0)));
    }
}
