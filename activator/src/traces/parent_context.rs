//! ParentContext: the trace context of a request (W3C Trace Context).
//!
//! A context that cannot be read belongs to another version or system: such a request is not
//! traced, and its headers pass as they are.

use http::{HeaderMap, HeaderName, HeaderValue};
use opentelemetry::trace::{SpanId, TraceFlags, TraceId, TraceState};

/// Carries the trace, the caller's span and whether they are sampled.
pub const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// Length of version 00.
const LENGTH: usize = 55;
/// Flag of ids that are random (level 2 of the specification), which continues with them.
const RANDOM: TraceFlags = TraceFlags::new(2);
/// Longest list that is exported. The specification requires at least so much; it passes to the app
/// in any length.
const MAX_STATE: usize = 512;

/// The caller's span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParentContext {
    /// Of all spans of the trace.
    pub trace: TraceId,
    /// The span that sent the request.
    pub span: SpanId,
    /// Whether the caller exports its spans, and flags of its trace.
    pub flags: TraceFlags,
}

/// The header is not one valid trace context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid traceparent")]
pub struct InvalidContext;

// === impl ParentContext ===

impl ParentContext {
    /// The context in these headers, if they have one.
    ///
    /// # Errors
    /// [`InvalidContext`].
    pub fn of(headers: &HeaderMap) -> Result<Option<Self>, InvalidContext> {
        let mut values = headers.get_all(TRACEPARENT).iter();
        match (values.next(), values.next()) {
            (None, _) => Ok(None),
            (Some(value), None) => parse(value.as_bytes()).map(Some).ok_or(InvalidContext),
            (Some(_), Some(_)) => Err(InvalidContext),
        }
    }

    /// The flags of spans that continue the trace here.
    pub fn sampled_flags(&self) -> TraceFlags {
        self.flags & RANDOM | TraceFlags::SAMPLED
    }
}

/// The state of systems that take part in the trace; empty if it cannot be exported.
pub fn state(headers: &HeaderMap) -> TraceState {
    let values: Vec<_> = headers.get_all(TRACESTATE).iter().filter_map(|value| value.to_str().ok()).collect();
    let length: usize = values.iter().map(|value| value.len() + 1).sum();
    if length > MAX_STATE + 1 {
        return TraceState::default();
    }
    values.join(",").parse().unwrap_or_default()
}

/// The header of requests that this span sends.
pub fn header(trace: TraceId, span: SpanId, flags: TraceFlags) -> Option<HeaderValue> {
    HeaderValue::try_from(format!("00-{trace}-{span}-{flags:02x}")).ok()
}

/// A later version may have more after the fields of version 00.
fn parse(value: &[u8]) -> Option<ParentContext> {
    let (known, rest) = value.split_at_checked(LENGTH)?;
    let mut fields = known.split(|byte| *byte == b'-');
    let version = hex(fields.next()?, 2)?;
    let (trace, span, flags) = (hex(fields.next()?, 32)?, hex(fields.next()?, 16)?, hex(fields.next()?, 2)?);
    let ends = if version == 0 { rest.is_empty() } else { rest.first().is_none_or(|byte| *byte == b'-') };
    let is_valid = ends && version != 0xff && trace != 0 && span != 0;
    let span = u64::try_from(span).ok()?;
    let flags = TraceFlags::new(u8::try_from(flags).ok()?);
    is_valid.then(|| ParentContext { trace: TraceId::from(trace), span: SpanId::from(span), flags })
}

/// Lower-case digits, exactly so many.
fn hex(digits: &[u8], count: usize) -> Option<u128> {
    let digit = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
    let text =
        std::str::from_utf8(digits).ok().filter(|_| digits.len() == count && digits.iter().all(digit))?;
    u128::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDS: &str = "4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7";

    fn of(values: &[&str]) -> Result<Option<ParentContext>, InvalidContext> {
        let values = values.iter().map(|value| (TRACEPARENT, value.parse().unwrap()));
        ParentContext::of(&values.collect())
    }

    #[test]
    fn reads_ids_and_the_sampled_flag() {
        assert_eq!(of(&[]), Ok(None));
        for (value, is_sampled, continued) in [
            (format!("00-{IDS}-01"), true, "01"),
            (format!("00-{IDS}-02"), false, "03"),
            (format!("cc-{IDS}-ff"), true, "03"),
            (format!("cc-{IDS}-00-what-the-future-brings"), false, "01"),
        ] {
            let parent = of(&[&value]).unwrap().unwrap();
            assert_eq!(format!("{}-{}", parent.trace, parent.span), IDS);
            assert_eq!(parent.flags.is_sampled(), is_sampled, "{value}");
            let header = header(parent.trace, parent.span, parent.sampled_flags()).unwrap();
            assert_eq!(header, format!("00-{IDS}-{continued}"), "{value}");
        }
    }

    #[test]
    fn rejects_other_values() {
        for value in [
            String::new(),
            "cc-00-what-the-future-brings".to_owned(),
            format!("00-{IDS}-01-more"),
            format!("cc-{IDS}-01more"),
            format!("ff-{IDS}-01"),
            format!("00-{IDS}-0+").to_uppercase(),
            format!("00-{}-01", IDS.replace("4bf9", "4BF9")),
            format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32)),
            format!("00-4bf92f3577b34da6a3ce929d0e0e4736-{}-01", "0".repeat(16)),
            format!("00_{IDS}-01"),
        ] {
            assert_eq!(of(&[&value]), Err(InvalidContext), "{value}");
        }
        let valid = format!("00-{IDS}-01");
        assert_eq!(of(&[&valid, &valid]), Err(InvalidContext));
    }

    #[test]
    fn exports_bounded_state() {
        let state_of = |values: &[&str]| {
            state(&values.iter().map(|value| (TRACESTATE, value.parse().unwrap())).collect()).header()
        };
        assert_eq!(state_of(&["rojo=1", "congo=2"]), "rojo=1,congo=2");
        assert_eq!(state_of(&["broken"]), "");
        assert_eq!(state_of(&[&format!("a={}", "x".repeat(200)), &format!("b={}", "x".repeat(400))]), "");
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(value in proptest::collection::vec(0x20_u8..=0xff, 0..70)) {
            let _ = parse(&value);
        }
    }
}
