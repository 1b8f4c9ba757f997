use autoscaler::scaling::decider::{DeciderSpec, DecisionRule, ScaleResult};
use autoscaler::settings::Aggregation;
use autoscaler::stats::collection::{WindowAverages, WindowSpec};

use super::*;

fn decision(t: f64, desired: Option<u32>) -> ReplayedDecision {
    let averages = |pods| WindowAverages { stable: f64::from(pods), panic: f64::from(pods) };
    let result = desired.map(|desired| ScaleResult {
        desired,
        excess_burst_capacity: 0,
        averages: averages(desired),
        rule: DecisionRule::Stable,
        held: false,
    });
    let spec = DeciderSpec::default();
    let windows = WindowSpec {
        stable: spec.stable_window,
        panic: spec.stable_window / 10,
        aggregation: Aggregation::Linear,
    };
    ReplayedDecision {
        t,
        result,
        panicking: false,
        calm: None,
        has_data: desired.is_some(),
        ready: 1,
        spec,
        windows,
    }
}

fn peaks(decisions: impl IntoIterator<Item = ReplayedDecision>, columns: usize) -> Vec<Option<f64>> {
    let mut timeline = Timeline::default();
    decisions.into_iter().for_each(|decision| timeline.add(&decision));
    timeline.columns(columns).iter().map(|column| column.peak.map(|sample| sample.desired)).collect()
}

#[test]
fn shows_a_spike_of_one_decision_in_a_month_at_its_time_and_height() {
    // A decision each minute: twenty times as many as the timeline has bins.
    let month = 30 * 24 * 60u32;
    for spike in [0, 1, month / 3, month - 1] {
        let decisions =
            (0..month).map(|n| decision(f64::from(60 * n), Some(if n == spike { 99 } else { 1 })));
        let seen = peaks(decisions, 80);
        let at = (spike * 80 / month) as usize;
        for (column, peak) in seen.iter().enumerate() {
            let expected = if column == at { 99.0 } else { 1.0 };
            assert_eq!(*peak, Some(expected), "spike {spike}, column {column}");
        }
    }
}

#[test]
fn repeats_a_decision_until_the_next_one_and_leaves_a_gap_without_data() {
    let decisions =
        [decision(10.0, Some(1)), decision(12.0, Some(2)), decision(14.0, None), decision(18.0, Some(4))];
    let (one, two, four) = (Some(1.0), Some(2.0), Some(4.0));
    assert_eq!(peaks(decisions, 8), [one, two, two, None, None, None, None, four]);
    assert_eq!(peaks([decision(5.0, Some(3))], 2), [Some(3.0); 2]);
    assert!(peaks([], 2).is_empty());
}

#[test]
fn plot_respects_the_width_limits_and_is_plain_without_colours() {
    for (width, widest) in [(0, 48), (77, 77), (usize::MAX, 400)] {
        let mut plot = Plot::new(width, false);
        let mut text = Vec::new();
        for n in 0..1000u32 {
            plot.write(&decision(f64::from(n), Some(n % 50)), &mut text).unwrap();
        }
        assert!(text.is_empty(), "no output before the end");
        plot.end(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let chart = text.lines().take_while(|line| !line.is_empty());
        assert_eq!(chart.map(|line| line.chars().count()).max(), Some(widest));
        assert!(!text.contains('\x1b') && text.lines().all(|line| !line.ends_with(' ')), "{text}");
    }
    let mut text = Vec::new();
    let mut plot = Plot::new(80, true);
    plot.write(&decision(0.0, Some(1)), &mut text).unwrap();
    plot.end(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("\x1b[33m"));
    for line in text.lines() {
        let last_code = line.rsplit_once('\x1b').map_or("[0m", |(_, rest)| rest);
        assert!(last_code.starts_with("[0m"), "a colour leaks: {line:?}");
    }
}
