//! The deadline of a call. `grpc-timeout` is a time from the call's arrival, so it loses the time
//! that a proxy holds the call.

use std::time::Duration;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use tokio::time::Instant;

const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");
/// Microseconds of each unit, without nanoseconds.
const UNITS: [(u8, u64); 5] =
    [(b'u', 1), (b'm', 1_000), (b'S', 1_000_000), (b'M', 60_000_000), (b'H', 3_600_000_000)];
/// A timeout has at most eight digits.
const MAX_DIGITS: usize = 8;
const MAX_VALUE: u64 = 99_999_999;

/// The deadline of the call passed before it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the deadline of the call passed before it was sent to the app (grpc-timeout)")]
pub struct DeadlineExceeded;

/// The deadline of a call that arrived at this time.
pub fn call_deadline(headers: &HeaderMap, arrived: Instant) -> Option<Instant> {
    arrived.checked_add(parse(headers.get(GRPC_TIMEOUT)?.as_bytes())?)
}

/// Reduces the timeout of a call to the time that is left to its `deadline`.
///
/// # Errors
/// When there is none.
pub fn reduce_timeout(
    headers: &mut HeaderMap,
    deadline: Option<Instant>,
    now: Instant,
) -> Result<(), DeadlineExceeded> {
    let Some(deadline) = deadline else { return Ok(()) };
    let left = format(deadline.saturating_duration_since(now)).ok_or(DeadlineExceeded)?;
    if let Ok(left) = HeaderValue::try_from(left) {
        headers.insert(GRPC_TIMEOUT, left);
    }
    Ok(())
}

fn parse(timeout: &[u8]) -> Option<Duration> {
    let (unit, digits) = timeout.split_last()?;
    if digits.len() > MAX_DIGITS || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = std::str::from_utf8(digits).ok()?.parse().ok()?;
    if *unit == b'n' {
        return Some(Duration::from_nanos(value));
    }
    let (_, micros) = UNITS.iter().find(|(of, _)| of == unit)?;
    Some(Duration::from_micros(micros.saturating_mul(value)))
}

/// In the smallest unit that fits; `None` for less than one.
fn format(left: Duration) -> Option<String> {
    let micros = u64::try_from(left.as_micros()).unwrap_or(u64::MAX);
    let (unit, of) = UNITS.iter().find(|(_, of)| micros / of <= MAX_VALUE)?;
    let value = micros / of;
    (value > 0).then(|| format!("{value}{}", char::from(*unit)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reduced(timeout: &str, held: Duration) -> Result<String, DeadlineExceeded> {
        let arrived = Instant::now();
        let mut headers = HeaderMap::from_iter([(GRPC_TIMEOUT, HeaderValue::from_str(timeout).unwrap())]);
        let deadline = call_deadline(&headers, arrived);
        reduce_timeout(&mut headers, deadline, arrived + held)?;
        Ok(headers[GRPC_TIMEOUT].to_str().unwrap().to_owned())
    }

    #[test]
    fn timeout_loses_the_time_that_the_call_was_held() {
        let held = Duration::from_secs(2);
        for (timeout, left) in [
            ("10S", "8000000u"),
            ("5000m", "3000000u"),
            ("99999999m", "99997999m"),
            ("1M", "58000000u"),
            ("3H", "10798000m"),
            ("9999S", "9997000m"),
        ] {
            assert_eq!(reduced(timeout, held).as_deref(), Ok(left), "{timeout}");
        }
        assert_eq!(
            reduced("2500000000n", held).as_deref(),
            Ok("2500000000n"),
            "ten digits are not a timeout"
        );
    }

    #[test]
    fn call_without_time_left_is_not_sent() {
        for timeout in ["2S", "1999m", "1u", "0S", "99999999n"] {
            assert_eq!(reduced(timeout, Duration::from_secs(2)), Err(DeadlineExceeded), "{timeout}");
        }
    }

    #[test]
    fn invalid_timeout_is_passed_on() {
        for timeout in ["", "S", "1", "1x", "-1S", "123456789S", "1 S", "+1S"] {
            assert_eq!(reduced(timeout, Duration::from_secs(9)).as_deref(), Ok(timeout));
        }
    }
}
