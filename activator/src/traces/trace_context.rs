//! The trace context of a request (W3C Trace Context), by the SDK's propagator.

use http::{HeaderMap, HeaderName, HeaderValue};
use opentelemetry::Context;
use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry::trace::TraceContextExt;
use opentelemetry_sdk::propagation::TraceContextPropagator;

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// Longest `tracestate` that is exported, so that the queue of spans is bounded in bytes. The
/// specification requires at least so much; it passes to the app in any length.
const MAX_VALUE: usize = 512;

/// Headers that are there once and not too long.
struct BoundedHeaders<'a>(&'a HeaderMap);

/// The context with the caller's span; without one if there is no valid `traceparent`.
pub(super) fn of(headers: &HeaderMap) -> Context {
    TraceContextPropagator::new().extract_with_context(&Context::new(), &BoundedHeaders(headers))
}

/// Makes the span of `context` the caller of the request. Its `tracestate` stays.
pub(super) fn insert(context: &Context, headers: &mut HeaderMap) {
    let span = context.span();
    let ids = span.span_context();
    let value = format!("00-{}-{}-{:02x}", ids.trace_id(), ids.span_id(), ids.trace_flags());
    if let Ok(value) = HeaderValue::try_from(value) {
        headers.insert(TRACEPARENT, value);
    }
}

// === impl BoundedHeaders ===

impl Extractor for BoundedHeaders<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        let mut values = self.0.get_all(key).iter();
        let value = values.next().filter(|value| value.len() <= MAX_VALUE)?;
        values.next().is_none().then(|| value.to_str().ok())?
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(HeaderName::as_str).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDS: &str = "4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7";

    fn headers(values: &[(&'static str, &str)]) -> HeaderMap {
        values.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    #[test]
    fn reads_ids_and_the_sampled_flag_of_one_valid_header() {
        for (values, expected) in [
            (&["00-{IDS}-01"][..], Some(true)),
            (&["00-{IDS}-00"], Some(false)),
            (&["cc-{IDS}-01-what-the-future-brings"], Some(true)),
            (&[], None),
            (&["00-{IDS}-01-more"], None),
            (&["ff-{IDS}-01"], None),
            (&["00-00000000000000000000000000000000-00f067aa0ba902b7-01"], None),
            (&["00-{IDS}-01", "00-{IDS}-01"], None),
        ] {
            let values: Vec<_> = values.iter().map(|value| value.replace("{IDS}", IDS)).collect();
            let context =
                of(&headers(&values.iter().map(|v| ("traceparent", v.as_str())).collect::<Vec<_>>()));
            let span = context.span();
            let ids = span.span_context();
            assert_eq!(ids.is_valid().then(|| ids.is_sampled()), expected, "{values:?}");
        }
    }

    #[test]
    fn exports_bounded_state() {
        let parent = format!("00-{IDS}-01");
        let state_of = |state: &str| {
            let context = of(&headers(&[("traceparent", &parent), ("tracestate", state)]));
            context.span().span_context().trace_state().header()
        };
        assert_eq!(state_of("rojo=1,congo=2"), "rojo=1,congo=2");
        assert_eq!(state_of("broken"), "");
        assert_eq!(state_of(&format!("a={}", "x".repeat(600))), "");
    }
}
