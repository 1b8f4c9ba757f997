//! What a learned target rests on: as text with a curve, and as JSON.
//!
//! What is not known has its reason in the text, and is null in JSON. It is never 0.

use std::fmt::Write as _;

use autoscaler::scaling::readable::CompactNumber;
use learning::{CpuRoom, CurvePoint, MemoryRoom, TargetBasis, TargetBound};
use serde_json::{Value, json};

/// Characters of the longest bar.
const BAR: f64 = 32.0;

pub(super) fn json(basis: &TargetBasis) -> Value {
    let most = |wanted| basis.setting.filter(|(bound, _)| *bound == wanted).map(|(_, most)| most);
    let point = |CurvePoint { load, time, throughput }: &CurvePoint| json!({"load": load, "milliseconds": millis(*time), "requestsPerSecond": throughput});
    json!({
        "unloadedMilliseconds": basis.unloaded_time.map(millis),
        "fullPodRequestsPerSecond": basis.throughput,
        "room": basis.room(),
        "memory": match basis.memory {
            MemoryRoom::Most(most) => Some(most),
            MemoryRoom::Unknown | MemoryRoom::Unbounded => None,
        },
        "cpu": basis.cpu.map(|cpu| cpu.load),
        "tooMuch": basis.too_much,
        "containerConcurrency": most(TargetBound::ContainerConcurrency),
        "factor": most(TargetBound::Factor),
        "boundBy": basis.binding.map(name),
        "missing": missing(basis),
        "curve": basis.curve.iter().map(point).collect::<Vec<_>>(),
    })
}

pub(super) fn text(basis: &TargetBasis) -> String {
    let mut text = String::new();
    for (bound, sentence) in sentences(basis) {
        let binds = if basis.binding == Some(bound) { "  <- binds" } else { "" };
        // Writing into a String cannot fail.
        let _ = writeln!(text, "  {sentence}{binds}");
    }
    for missing in missing(basis) {
        let _ = writeln!(text, "  not known: {missing}");
    }
    text + &curve(&basis.curve)
}

/// Each known bound in words.
fn sentences(basis: &TargetBasis) -> Vec<(TargetBound, String)> {
    let mut sentences = Vec::new();
    if let (Some(time), Some(throughput), Some(room)) = (basis.unloaded_time, basis.throughput, basis.room())
    {
        let (time, throughput, room) =
            (CompactNumber(millis(time)), CompactNumber(throughput), CompactNumber(room));
        let sentence = format!(
            "room: a request without load takes {time} ms, a full pod ends {throughput} a second, so it works on \
             {room} at a time"
        );
        sentences.push((TargetBound::Room, sentence));
    }
    match basis.memory {
        MemoryRoom::Most(most) => {
            let sentence = format!("memory: {} fit into the limit", CompactNumber(most));
            sentences.push((TargetBound::Memory, sentence));
        }
        MemoryRoom::Unbounded => {
            sentences.push((TargetBound::Memory, "memory: does not grow with the load".to_owned()));
        }
        MemoryRoom::Unknown => {}
    }
    if let Some(CpuRoom { throughput, load }) = basis.cpu {
        let (throughput, load) = (CompactNumber(throughput), CompactNumber(load));
        let sentence = format!("CPU: the limit is enough for {throughput} a second, {load} at a time");
        sentences.push((TargetBound::Cpu, sentence));
    }
    if let Some(bad) = basis.too_much {
        let sentence =
            format!("too much: a target of {} missed the objective or overloaded pods", CompactNumber(bad));
        sentences.push((TargetBound::TooMuch, sentence));
    }
    if let Some((bound, most)) = basis.setting {
        let setting =
            if bound == TargetBound::Factor { "learn-target-factor" } else { "container-concurrency" };
        sentences.push((bound, format!("settings: {setting} allows {}", CompactNumber(most))));
    }
    sentences
}

/// What nothing has shown yet, with the reason.
fn missing(basis: &TargetBasis) -> Vec<String> {
    let mut missing = Vec::new();
    match (basis.unloaded_time, basis.throughput) {
        (None, _) => missing.push(
            "the time of a request without load: too few requests at less than half the target".to_owned(),
        ),
        (Some(time), None) => missing.push(format!(
            "the room of a pod: requests have not waited for each other yet; without load one takes {} ms",
            CompactNumber(millis(time))
        )),
        (Some(_), Some(_)) => {}
    }
    if basis.memory == MemoryRoom::Unknown {
        missing.push("what memory allows: no reading of a pod's memory".to_owned());
    }
    if basis.cpu.is_none() {
        missing.push(
            "what CPU allows: no reading of a pod with a CPU limit, or no time without load".to_owned(),
        );
    }
    missing
}

/// A line for each load, with a bar of the time.
fn curve(points: &[CurvePoint]) -> String {
    let longest = points.iter().map(|point| point.time).fold(0.0, f64::max);
    if longest <= 0.0 {
        return String::new();
    }
    let mut text = format!("  {:>10} {:>10} {:>10}\n", "load", "ms", "requests/s");
    for CurvePoint { load, time, throughput } in points {
        // `as` saturates, and is 0 for NaN.
        let bar = "#".repeat(((time / longest * BAR).round() as usize).min(BAR as usize));
        let _ = writeln!(text, "  {load:>10.2} {:>10.1} {throughput:>10.1} {bar}", millis(*time));
    }
    text
}

fn millis(seconds: f64) -> f64 {
    seconds * 1000.0
}

/// The name of a bound, as the fields of the JSON have it.
fn name(bound: TargetBound) -> &'static str {
    match bound {
        TargetBound::Room => "room",
        TargetBound::Memory => "memory",
        TargetBound::Cpu => "cpu",
        TargetBound::TooMuch => "tooMuch",
        TargetBound::ContainerConcurrency => "containerConcurrency",
        TargetBound::Factor => "factor",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> TargetBasis {
        TargetBasis {
            unloaded_time: Some(0.1),
            throughput: Some(80.0),
            memory: MemoryRoom::Most(12.4),
            cpu: Some(CpuRoom { throughput: 85.0, load: 13.1 }),
            too_much: Some(10.0),
            setting: Some((TargetBound::ContainerConcurrency, 70.0)),
            binding: Some(TargetBound::Room),
            curve: vec![
                CurvePoint { load: 1.0, time: 0.1, throughput: 10.0 },
                CurvePoint { load: 16.0, time: 0.2, throughput: 80.0 },
            ],
        }
    }

    fn unknown() -> TargetBasis {
        TargetBasis {
            unloaded_time: None,
            throughput: None,
            memory: MemoryRoom::Unknown,
            cpu: None,
            too_much: None,
            setting: None,
            binding: None,
            curve: Vec::new(),
        }
    }

    #[test]
    fn text_names_each_bound_and_the_one_that_binds() {
        let text = text(&known());
        for line in [
            "  room: a request without load takes 100 ms, a full pod ends 80 a second, so it works on 8 at a time  <- binds\n",
            "  memory: 12.4 fit into the limit\n",
            "  CPU: the limit is enough for 85 a second, 13.1 at a time\n",
            "  too much: a target of 10 missed the objective or overloaded pods\n",
            "  settings: container-concurrency allows 70\n",
            "        1.00      100.0       10.0 ################\n",
            "       16.00      200.0       80.0 ################################\n",
        ] {
            assert!(text.contains(line), "{line:?} is not in {text}");
        }
        assert!(!text.contains("not known"), "{text}");
    }

    #[test]
    fn what_is_not_known_has_its_reason_and_is_never_zero() {
        let report = text(&unknown());
        assert_eq!(report.matches("not known: ").count(), 3, "{report}");
        assert!(report.contains("no reading of a pod's memory") && !report.contains('0'), "{report}");
        let json = json(&unknown());
        for field in ["unloadedMilliseconds", "fullPodRequestsPerSecond", "room", "memory", "cpu", "boundBy"]
        {
            assert_eq!(json[field], Value::Null, "{field}");
        }
        let unloaded = TargetBasis { unloaded_time: Some(0.1), ..unknown() };
        assert!(
            text(&unloaded).contains("have not waited for each other yet; without load one takes 100 ms")
        );
    }

    #[test]
    fn memory_that_does_not_grow_is_not_missing() {
        let basis = TargetBasis { memory: MemoryRoom::Unbounded, ..known() };
        assert!(text(&basis).contains("memory: does not grow with the load"));
        assert_eq!(
            (json(&basis)["memory"].clone(), json(&basis)["missing"].clone()),
            (Value::Null, json!([]))
        );
    }
}
