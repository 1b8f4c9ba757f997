//! Annotations of Rouse's group that nothing reads: misspelt ones, and those on the wrong object.
//!
//! Input: the annotations of an object. Output: a [`Problem`] for each, with the nearest name.
//! Values are checked where they are read.

use crate::contract::GROUP;
use crate::findings::Problem;
use crate::findings::reasons::Reason;
use crate::settings::{SettingReference, reference};

/// Annotations of pods, as docs/reference/pods.md has them.
const OF_PODS: [&str; 20] = [
    "app-port",
    "container-concurrency",
    "queue-depth",
    "timeout",
    "response-start-timeout",
    "idle-timeout",
    "health-check-agents",
    "no-wake",
    "readiness-path",
    "app-first",
    "protocol",
    "tcp-silence",
    "tcp-answer-time",
    "sidecar-cpu-limit",
    "sidecar-cpu-request",
    "sidecar-memory-request",
    "sidecar-memory-limit",
    "sidecar-port",
    "sidecar-admin-port",
    "sidecar-stats-port",
];

/// Annotations of HPAs that are fields of a PodAutoscaler.
const FIELDS: [&str; 3] = ["scale-to-zero", "container-concurrency", "service"];

/// An object with annotations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnnotatedObject {
    Hpa,
    PodAutoscaler,
    PodTemplate,
    /// A Deployment or StatefulSet.
    Target,
}

/// The annotations of Rouse's group among these names that have no effect on such an object.
pub fn without_effect<'a>(
    names: impl Iterator<Item = &'a String> + 'a,
    object: AnnotatedObject,
) -> impl Iterator<Item = Problem> + 'a {
    let own = names.filter_map(|key| Some((key.as_str(), name_of_group(key)?)));
    own.filter(move |(key, name)| !(is_read_as_written(key) && object.reads(name)))
        .map(move |(key, name)| object.problem(key, name))
}

/// The name of an annotation of Rouse's group. The API server accepts capitals in a group, and
/// keeps them.
pub fn name_of_group(key: &str) -> Option<&str> {
    key.split_once('/').filter(|(group, _)| group.eq_ignore_ascii_case(GROUP)).map(|(_, name)| name)
}

fn is_read_as_written(key: &str) -> bool {
    key.starts_with(GROUP)
}

// === impl AnnotatedObject ===

impl AnnotatedObject {
    fn reads(self, name: &str) -> bool {
        match self {
            Self::Hpa => is_of_workload(name) || FIELDS.contains(&name),
            Self::PodAutoscaler => is_of_workload(name),
            Self::PodTemplate => OF_PODS.contains(&name),
            Self::Target => false,
        }
    }

    fn problem(self, key: &str, name: &str) -> Problem {
        let is_field = FIELDS.contains(&name);
        let read_on = match (is_of_workload(name) || is_field, OF_PODS.contains(&name)) {
            _ if !is_read_as_written(key) => return Self::unknown(key, name),
            (true, _) if is_field && self == Self::PodAutoscaler => "a field of its spec",
            (true, true) => "the HPA or PodAutoscaler and the pod template",
            (true, false) => "the HPA or PodAutoscaler",
            (false, true) => "the pod template",
            (false, false) => return Self::unknown(key, name),
        };
        let problem = format!("annotation {key} has no effect on {}", self.noun());
        Problem::new(Reason::MisplacedAnnotation, problem, format!("move it to {read_on}"))
    }

    fn unknown(key: &str, name: &str) -> Problem {
        let problem = format!("Rouse has no annotation {key}, so it has no effect");
        let Some(nearest) = nearest(name) else {
            return Problem::with_usual_fix(Reason::UnknownAnnotation, problem);
        };
        let fix = format!("correct its name (the nearest is {GROUP}/{nearest}), or remove it");
        Problem::new(Reason::UnknownAnnotation, problem, fix)
    }

    fn noun(self) -> &'static str {
        match self {
            Self::Hpa => "an HPA",
            Self::PodAutoscaler => "a PodAutoscaler",
            Self::PodTemplate => "a pod template",
            Self::Target => "a Deployment or StatefulSet itself",
        }
    }
}

fn is_of_workload(name: &str) -> bool {
    reference().iter().any(|row| row.annotation == Some(name))
}

/// The annotation that a name most likely means: that of the same key of the ConfigMap, or the one
/// with the fewest different letters, at most a third of them.
fn nearest(name: &str) -> Option<&'static str> {
    let reference = reference();
    let of_key = |row: &&SettingReference| row.config_map_key == Some(name);
    if let Some(annotation) = reference.iter().find(of_key).and_then(|row| row.annotation) {
        return Some(annotation);
    }
    let written = folded(name);
    let workload = reference.iter().filter_map(|row| row.annotation);
    let all = workload.chain(FIELDS).chain(OF_PODS);
    let (distance, nearest) = all.map(|it| (distance(&written, &folded(it)), it)).min_by_key(|it| it.0)?;
    (distance.saturating_mul(3) <= written.len()).then_some(nearest)
}

/// Without what differs between styles: `scaleToZero`, `scale_to_zero` and `scale-to-zero`. Longer
/// texts than any annotation are cut, which bounds the time of a comparison.
fn folded(name: &str) -> Vec<u8> {
    let letters = name.bytes().filter(u8::is_ascii_alphanumeric).map(|byte| byte.to_ascii_lowercase());
    letters.take(100).collect()
}

/// The number of letters to insert, remove or replace (Levenshtein).
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, letter) in a.iter().enumerate() {
        let mut next = vec![i + 1];
        for (other, above) in b.iter().zip(row.windows(2)) {
            let [diagonal, above] = above else { continue };
            let left = next.last().copied().unwrap_or_default();
            next.push((diagonal + usize::from(letter != other)).min(above + 1).min(left + 1));
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(name: &str, object: AnnotatedObject) -> Option<String> {
        let key = format!("{GROUP}/{name}");
        let problems: Vec<Problem> = without_effect([key].iter(), object).collect();
        problems.first().map(Problem::message)
    }

    #[test]
    fn names_the_nearest_annotation_of_an_unknown_one() {
        for (name, nearest) in [
            ("stable-window", "window"),
            ("scale-down-dealy", "scale-down-delay"),
            ("scaleToZero", "scale-to-zero"),
            ("scale_to_zero", "scale-to-zero"),
            ("wake-timout", "wake-timeout"),
            ("sidecar-ports", "sidecar-port"),
        ] {
            let message = message(name, AnnotatedObject::Hpa).unwrap();
            assert!(message.contains(&format!("(the nearest is {GROUP}/{nearest})")), "{message}");
        }
        let unlike = message("example", AnnotatedObject::Hpa).unwrap();
        assert!(unlike.contains("docs/reference/annotations.md"), "{unlike}");
    }

    #[test]
    fn names_an_annotation_of_the_group_in_capitals() {
        let keys = ["Autoscaling.Rouse.Dev/window".to_owned(), "example.com/window".to_owned()];
        let problems: Vec<Problem> = without_effect(keys.iter(), AnnotatedObject::Hpa).collect();
        let [problem] = &problems[..] else { panic!("{problems:?}") };
        assert_eq!(problem.reason, Reason::UnknownAnnotation);
        assert!(problem.message().contains("(the nearest is autoscaling.rouse.dev/window)"), "{problem:?}");
    }

    #[test]
    fn annotation_counts_on_the_object_that_reads_it() {
        use AnnotatedObject::{Hpa, PodAutoscaler, PodTemplate, Target};
        for (name, object) in [
            ("window", Hpa),
            ("scale-to-zero", Hpa),
            ("window", PodAutoscaler),
            ("app-port", PodTemplate),
            ("container-concurrency", PodTemplate),
        ] {
            assert_eq!(message(name, object), None, "{name} {object:?}");
        }
        for (name, object, fix) in [
            ("window", Target, "move it to the HPA or PodAutoscaler"),
            ("window", PodTemplate, "move it to the HPA or PodAutoscaler"),
            ("app-port", Hpa, "move it to the pod template"),
            ("scale-to-zero", PodAutoscaler, "move it to a field of its spec"),
        ] {
            let message = message(name, object).unwrap();
            assert!(message.ends_with(fix), "{message}");
        }
        let foreign = ["example.com/window".to_owned(), "autoscaling.rouse.dev.example/window".to_owned()];
        assert_eq!(without_effect(foreign.iter(), Hpa).count(), 0);
    }
}
