//! Sampler: which traces are exported, by the rules of the OpenTelemetry specification.

use std::str::FromStr;

use opentelemetry::trace::TraceId;

/// A sampler of the specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SamplerKind {
    /// Whether a request's own trace context decides where it has one.
    follows_parent: bool,
    rule: Rule,
}

/// A sampler with its argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampler {
    kind: SamplerKind,
    /// Of 2⁶³ trace ids.
    selected: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    All,
    None,
    Ratio,
}

/// The name is not one of the specification, or of a sampler that is not supported.
#[derive(Debug, thiserror::Error)]
#[error(
    "it must be always_on, always_off, traceidratio, parentbased_always_on, parentbased_always_off or \
     parentbased_traceidratio"
)]
pub struct UnknownSampler;

// === impl SamplerKind ===

impl FromStr for SamplerKind {
    type Err = UnknownSampler;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let name = if name.is_empty() { "parentbased_traceidratio" } else { name };
        let own = name.strip_prefix("parentbased_");
        let rule = match own.unwrap_or(name) {
            "always_on" => Rule::All,
            "always_off" => Rule::None,
            "traceidratio" => Rule::Ratio,
            _ => return Err(UnknownSampler),
        };
        Ok(Self { follows_parent: own.is_some(), rule })
    }
}

// === impl Sampler ===

impl Sampler {
    /// A sampler with this ratio, from 0 to 1.
    pub fn new(kind: SamplerKind, ratio: f64) -> Self {
        Self { kind, selected: (ratio * (1_u64 << 63) as f64) as u64 }
    }

    /// Whether a trace is exported; `parent` is the decision of its parent, if it has one.
    pub fn samples(&self, parent: Option<bool>, trace: TraceId) -> bool {
        match parent.filter(|_| self.kind.follows_parent) {
            Some(is_sampled) => is_sampled,
            None => match self.kind.rule {
                Rule::All => true,
                Rule::None => false,
                // As in the SDKs, so that all services with one ratio select the same traces.
                Rule::Ratio => (low_half(trace) >> 1) < self.selected,
            },
        }
    }
}

fn low_half(trace: TraceId) -> u64 {
    u128::from_be_bytes(trace.to_bytes()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampler(name: &str, ratio: f64) -> Sampler {
        Sampler::new(name.parse().unwrap(), ratio)
    }

    #[test]
    fn parent_decides_only_for_samplers_based_on_it() {
        let id = TraceId::from(1);
        for (name, without, sampled, unsampled) in [
            ("always_on", true, true, true),
            ("always_off", false, false, false),
            ("parentbased_always_on", true, true, false),
            ("parentbased_always_off", false, true, false),
        ] {
            let decisions =
                [None, Some(true), Some(false)].map(|parent| sampler(name, 0.5).samples(parent, id));
            assert_eq!(decisions, [without, sampled, unsampled], "{name}");
        }
    }

    #[test]
    fn ratio_selects_that_part_of_trace_ids() {
        let selected = |ratio| {
            let sampler = sampler("", ratio);
            (0..1000_u64).filter(|i| sampler.samples(None, TraceId::from(u128::from(i << 54)))).count()
        };
        assert_eq!([0.0, 0.25, 1.0].map(selected), [0, 256, 1000]);
    }
}
