//! Laws for any spec, averages, pods and times: non-finite floats, clocks that stand still, step
//! back or overflow.

use proptest::prelude::*;

use super::*;

const T0: Duration = Duration::from_secs(1_600_000_000);

/// The input of one decision.
#[derive(Clone, Debug)]
struct Tick {
    spec: DeciderSpec,
    averages: Option<WindowAverages>,
    ready: u32,
    now: Duration,
}

/// A sensible value in 8 of 10 cases.
fn odd(sensible: std::ops::Range<f64>) -> impl Strategy<Value = f64> {
    let special =
        prop::sample::select(vec![0.0, -0.0, -1.0, 1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 5e-324]);
    prop_oneof![8 => sensible, 1 => special, 1 => prop::num::f64::ANY]
}

fn specs() -> impl Strategy<Value = DeciderSpec> {
    let window = prop_oneof![8 => (0..100_u64).prop_map(Duration::from_secs), 1 => Just(Duration::MAX)];
    (
        (odd(0.01..200.0), odd(0.01..300.0), odd(-1.0..300.0), odd(1.1..10.0)),
        (odd(1.01..1000.0), odd(1.01..10.0)),
        (window, prop_oneof![4 => 1..10_u32, 1 => any::<u32>()], any::<bool>()),
    )
        .prop_map(|(numbers, rates, (stable_window, activation_scale, reachable))| DeciderSpec {
            target: numbers.0,
            total: numbers.1,
            target_burst_capacity: numbers.2.into(),
            panic_threshold: numbers.3,
            max_scale_up_rate: rates.0,
            max_scale_down_rate: rates.1,
            stable_window,
            scale_down_delay: Duration::ZERO,
            activation_scale,
            reachable,
        })
}

fn pods() -> impl Strategy<Value = u32> {
    prop_oneof![8 => 0..50_u32, 1 => any::<u32>(), 1 => Just(u32::MAX)]
}

fn times() -> impl Strategy<Value = Duration> {
    prop_oneof![
        12 => (0..400_000_u64).prop_map(|ms| T0 + Duration::from_millis(ms)),
        1 => Just(Duration::ZERO),
        1 => Just(Duration::MAX),
    ]
}

fn ticks() -> impl Strategy<Value = Vec<Tick>> {
    let averages =
        (odd(0.0..5000.0), odd(0.0..5000.0)).prop_map(|(stable, panic)| WindowAverages { stable, panic });
    let averages = prop_oneof![9 => averages.prop_map(Some), 1 => Just(None)];
    let tick = (specs(), averages, pods(), times());
    let ticks = prop::collection::vec(
        tick.prop_map(|(spec, averages, ready, now)| Tick { spec, averages, ready, now }),
        1..40,
    );
    // Half of the sequences have one spec, and half of these are in order of time. Otherwise a
    // panic hardly ever ends.
    (ticks, any::<bool>(), any::<bool>()).prop_map(|(mut ticks, one_spec, in_order)| {
        if let Some(Tick { spec, .. }) = ticks.first().filter(|_| one_spec).cloned() {
            ticks.iter_mut().for_each(|tick| tick.spec = spec.clone());
        }
        if in_order {
            ticks.sort_by_key(|tick| tick.now);
        }
        ticks
    })
}

/// The pods that the rates allow; a rate that is not a number does not limit.
fn rate_bounds(tick: &Tick) -> (u32, u32) {
    let ready = f64::from(tick.ready.max(1));
    let up = (ready * tick.spec.max_scale_up_rate).ceil();
    let up = if up.is_nan() { u32::MAX } else { up as u32 };
    let down = if tick.spec.reachable { (ready / tick.spec.max_scale_down_rate).floor() as u32 } else { 0 };
    (down.min(up), up)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn decision_stays_within_bounds_and_never_falls_in_panic(ready in pods(), ticks in ticks()) {
        let mut decider = Decider::new(&ticks[0].spec, ready, ticks[0].now);
        let mut held = ready;
        for tick in ticks {
            let was_panicking = decider.is_panicking();
            let Some(result) = decider.decide(&tick.spec, tick.averages, tick.ready, tick.now) else {
                prop_assert_eq!(decider.is_panicking(), was_panicking, "no data changes nothing");
                continue;
            };
            let (least, most) = rate_bounds(&tick);
            prop_assert!(result.desired >= least, "{result:?} of {tick:?}");
            let panics = decider.is_panicking();
            let held_before = if was_panicking && panics { held } else { 0 };
            prop_assert!(result.desired >= held_before, "{result:?} of {tick:?} after {held}");
            let most = most.max(tick.spec.activation_scale).max(held_before);
            prop_assert!(result.desired <= most, "{result:?} of {tick:?} after {held}");
            held = result.desired;
        }
    }

    #[test]
    fn no_load_wants_only_the_pods_held_by_the_down_rate(ready in 0..2_u32, spec in specs(), now in times()) {
        let averages = Some(WindowAverages { stable: 0.0, panic: 0.0 });
        let tick = Tick { spec: DeciderSpec { target: 1.0, panic_threshold: 2.0, ..spec }, averages, ready, now };
        let result = Decider::new(&tick.spec, ready, now).decide(&tick.spec, averages, ready, now);
        prop_assert_eq!(result.map(|v| v.desired), Some(rate_bounds(&tick).0));
    }

    #[test]
    fn scale_down_delay_returns_largest_decision_within_it(
        delay in prop_oneof![8 => (1..300_u64).prop_map(Duration::from_secs), 1 => Just(Duration::MAX)],
        ready in pods(),
        ticks in ticks(),
    ) {
        let delayed = DeciderSpec { scale_down_delay: delay, ..ticks[0].spec.clone() };
        let mut decider = Decider::new(&delayed, ready, ticks[0].now);
        let mut undelayed = Decider::new(&ticks[0].spec, ready, ticks[0].now);
        let mut decided: Vec<(u64, u32)> = Vec::new();
        for tick in ticks {
            let got = decider.decide(&tick.spec, tick.averages, tick.ready, tick.now).map(|v| v.desired);
            let now = undelayed.decide(&tick.spec, tick.averages, tick.ready, tick.now).map(|v| v.desired);
            if let (true, Some(now)) = (tick.spec.reachable, now) {
                let slot = (tick.now.as_secs() / 2).max(decided.last().map_or(0, |&(slot, _)| slot));
                decided.push((slot, now));
                let within = decided.iter().filter(|(old, _)| slot - old < delay.as_secs().div_ceil(2));
                prop_assert_eq!(got, within.map(|&(_, pods)| pods).max());
            } else {
                prop_assert_eq!(got, now);
            }
            prop_assert_eq!(decider.is_panicking(), undelayed.is_panicking());
        }
    }
}
