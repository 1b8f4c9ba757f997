//! The setting `no-wake-response`: what a request that does not wake a workload gets while there is
//! no pod, such as `200 asleep`.

use std::borrow::Cow;
use std::fmt;

use crate::settings::setting::Format;

/// Longest text, in bytes.
const MAX_TEXT_BYTES: usize = 256;
/// Statuses of responses without a body.
const WITHOUT_BODY: [u16; 3] = [204, 205, 304];

/// A status and a short text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoWakeResponse {
    status: u16,
    text: Cow<'static, str>,
}

// === impl NoWakeResponse ===

impl NoWakeResponse {
    pub(crate) const FORMAT: Format<Self> = Format {
        words: "a status from 200 to 599, then a text of at most 256 bytes, which 204, 205 and 304 do not have",
        parse: Self::parse,
        print: |response| Some(response.to_string()),
    };
    /// The default. An uptime monitor takes it for a working app, which is correct: a request of
    /// any other client would wake the workload and be served.
    pub(in crate::settings) const ASLEEP: Self = Self { status: 200, text: Cow::Borrowed("asleep") };

    /// Parses the text form: a status, then the text if there is one.
    pub fn parse(text: &str) -> Option<Self> {
        let (status, text) = text.split_once(' ').unwrap_or((text, ""));
        let is_status = status.len() == 3 && status.bytes().all(|byte| byte.is_ascii_digit());
        let status = status.parse().ok().filter(|status| is_status && (200..=599).contains(status))?;
        let text = text.trim();
        let is_text = text.len() <= MAX_TEXT_BYTES && !text.chars().any(char::is_control);
        let has_place = text.is_empty() || !WITHOUT_BODY.contains(&status);
        (is_text && has_place).then(|| Self { status, text: text.to_owned().into() })
    }

    /// The status code, from 200 to 599.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// The body; may be empty.
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl Default for NoWakeResponse {
    fn default() -> Self {
        Self::ASLEEP
    }
}

impl fmt::Display for NoWakeResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { status, text } = self;
        if text.is_empty() { write!(f, "{status}") } else { write!(f, "{status} {text}") }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parses_status_and_text() {
        for (text, status, body) in [
            ("200 asleep", 200, "asleep"),
            ("503", 503, ""),
            ("204", 204, ""),
            ("200  at zero, a request wakes it ", 200, "at zero, a request wakes it"),
        ] {
            let response = NoWakeResponse::parse(text).unwrap();
            assert_eq!((response.status(), response.text()), (status, body), "{text}");
        }
        assert_eq!(NoWakeResponse::parse("200 asleep"), Some(NoWakeResponse::default()));
    }

    #[test]
    fn rejects_other_texts() {
        let long = format!("200 {}", "a".repeat(MAX_TEXT_BYTES + 1));
        for bad in ["", "asleep", "199", "600", "20", "+200", "0200", "204 text", "200 a\nb", &long] {
            assert_eq!(NoWakeResponse::parse(bad), None, "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_gives_a_response_that_round_trips_or_none(text in "([0-9]{1,4}( \\PC{0,8})?|\\PC{0,8})") {
            if let Some(response) = NoWakeResponse::parse(&text) {
                prop_assert!((200..=599).contains(&response.status()));
                prop_assert_eq!(NoWakeResponse::parse(&response.to_string()), Some(response));
            }
        }
    }
}
