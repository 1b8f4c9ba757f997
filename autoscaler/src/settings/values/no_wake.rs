//! The setting `no-wake`: requests that neither wake a workload nor count as load, such as
//! `GET /healthz, HEAD, User-Agent: *UptimeRobot*`.
//!
//! Activators and sidecars parse the same text, and both match requests against it. A request
//! matches if one of the rules does. A path is compared as the client sent it, without its query
//! and without decoding.

use std::fmt;
use std::str::FromStr;

use crate::settings::setting::Format;

/// Longest text, in bytes: the rules are compared with every request.
const MAX_BYTES: usize = 1024;
/// Most rules, for the same reason.
const MAX_RULES: usize = 32;
/// Longest method.
const MAX_METHOD_BYTES: usize = 20;
/// What begins a rule on the user agent, in any case.
const USER_AGENT: &str = "user-agent:";

/// The requests that do not wake a workload. Without rules, every request wakes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NoWakeRules {
    rules: Vec<NoWakeRule>,
}

/// Some requests.
#[derive(Clone, Debug, PartialEq, Eq)]
enum NoWakeRule {
    /// Those of a method, of a path, or of both.
    Request { method: Option<Box<str>>, path: Option<TextPattern> },
    /// Those with such a user agent.
    UserAgent(TextPattern),
}

/// A text, with a `*` at an end at which more may follow.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TextPattern {
    text: Box<str>,
    open_start: bool,
    open_end: bool,
}

/// Error for a text that is not a list of rules.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0:?} must be {words}", words = NoWakeRules::FORMAT.words)]
pub struct ParseNoWakeError(String);

// === impl NoWakeRules ===

impl NoWakeRules {
    pub(crate) const FORMAT: Format<Self> = Format {
        words: "rules, separated by commas, such as `GET /healthz`, `HEAD`, `/static/*` or \
                `User-Agent: *UptimeRobot*` (at most 32, and 1024 bytes)",
        parse: Self::parse,
        print: |rules| (!rules.is_empty()).then(|| rules.to_string()),
    };
    /// No request.
    pub(in crate::settings) const NONE: Self = Self { rules: Vec::new() };

    /// Parses the text form: rules, separated by commas.
    pub fn parse(text: &str) -> Option<Self> {
        let rules = text.split(',').map(|rule| NoWakeRule::parse(rule.trim()));
        let rules = rules.take(MAX_RULES + 1).collect::<Option<Vec<_>>>()?;
        (text.len() <= MAX_BYTES && rules.len() <= MAX_RULES).then_some(Self { rules })
    }

    /// Whether a request with this method, path and user agent does not wake the workload.
    pub fn matches(&self, method: &str, path: &str, agent: Option<&[u8]>) -> bool {
        self.rules.iter().any(|rule| rule.matches(method, path, agent))
    }

    /// Whether no request is meant.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }
}

impl FromStr for NoWakeRules {
    type Err = ParseNoWakeError;

    fn from_str(text: &str) -> Result<Self, ParseNoWakeError> {
        Self::parse(text.trim()).ok_or_else(|| ParseNoWakeError(text.to_owned()))
    }
}

impl fmt::Display for NoWakeRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, rule) in self.rules.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            rule.fmt(f)?;
        }
        Ok(())
    }
}

// === impl NoWakeRule ===

impl NoWakeRule {
    fn parse(text: &str) -> Option<Self> {
        if let Some((name, agent)) = text.split_at_checked(USER_AGENT.len())
            && name.eq_ignore_ascii_case(USER_AGENT)
        {
            let is_visible = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
            return TextPattern::parse(agent.trim(), is_visible).map(Self::UserAgent);
        }
        if text.starts_with('/') {
            return Some(Self::Request { method: None, path: Some(parse_path(text)?) });
        }
        let (method, path) = match text.split_once(' ') {
            Some((method, path)) => (method, Some(parse_path(path.trim_start())?)),
            None => (text, None),
        };
        let is_method = (1..=MAX_METHOD_BYTES).contains(&method.len())
            && method.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-');
        is_method.then(|| Self::Request { method: Some(method.into()), path })
    }

    fn matches(&self, method: &str, path: &str, agent: Option<&[u8]>) -> bool {
        match self {
            Self::Request { method: of, path: at } => {
                of.as_deref().is_none_or(|of| of == method)
                    && at.as_ref().is_none_or(|at| at.matches(path.as_bytes()))
            }
            Self::UserAgent(pattern) => agent.is_some_and(|agent| pattern.matches(agent)),
        }
    }
}

impl fmt::Display for NoWakeRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request { method: Some(method), path: Some(path) } => write!(f, "{method} {path}"),
            Self::Request { method, path } => {
                f.write_str(method.as_deref().unwrap_or_default())?;
                path.as_ref().map_or(Ok(()), |path| path.fmt(f))
            }
            Self::UserAgent(pattern) => write!(f, "User-Agent: {pattern}"),
        }
    }
}

/// A path, which may be open at its end only. A query would never match.
fn parse_path(text: &str) -> Option<TextPattern> {
    let is_of_path = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'?' | b'#');
    TextPattern::parse(text, is_of_path).filter(|path| path.text.starts_with('/') && !path.open_start)
}

// === impl TextPattern ===

impl TextPattern {
    /// Parses a text of these characters, which is not empty.
    fn parse(text: &str, accepts: impl Fn(u8) -> bool) -> Option<Self> {
        let (open_start, text) = text.strip_prefix('*').map_or((false, text), |rest| (true, rest));
        let (open_end, text) = text.strip_suffix('*').map_or((false, text), |rest| (true, rest));
        let is_valid = !text.is_empty() && text.bytes().all(|byte| byte != b'*' && accepts(byte));
        // Blanks at the ends would be lost when the text is parsed again.
        let is_valid = is_valid && text.trim() == text;
        is_valid.then(|| Self { text: text.into(), open_start, open_end })
    }

    fn matches(&self, value: &[u8]) -> bool {
        let text = self.text.as_bytes();
        match (self.open_start, self.open_end) {
            (false, false) => value == text,
            (false, true) => value.starts_with(text),
            (true, false) => value.ends_with(text),
            (true, true) => value.windows(text.len()).any(|part| part == text),
        }
    }
}

impl fmt::Display for TextPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let star = |open| if open { "*" } else { "" };
        write!(f, "{}{}{}", star(self.open_start), self.text, star(self.open_end))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ROBOT: &str = "Mozilla/5.0+(compatible; UptimeRobot/2.0; http://www.uptimerobot.com/)";

    fn matches(rules: &str, method: &str, path: &str, agent: Option<&str>) -> bool {
        NoWakeRules::parse(rules).unwrap().matches(method, path, agent.map(str::as_bytes))
    }

    #[test]
    fn matches_method_and_path_of_one_rule() {
        for (rules, method, path, expected) in [
            ("GET /healthz", "GET", "/healthz", true),
            ("GET /healthz", "GET", "/healthz/", false),
            ("GET /healthz", "HEAD", "/healthz", false),
            ("GET /healthz", "GET", "/", false),
            ("GET   /healthz", "GET", "/healthz", true),
            ("/healthz", "POST", "/healthz", true),
            ("HEAD", "HEAD", "/any/path", true),
            ("HEAD", "GET", "/any/path", false),
            ("GET /static/*", "GET", "/static/", true),
            ("GET /static/*", "GET", "/static/a/b", true),
            ("GET /static/*", "GET", "/static", false),
            ("/*", "DELETE", "/", true),
            ("GET /a, HEAD /b", "HEAD", "/b", true),
            ("GET /a, HEAD /b", "HEAD", "/a", false),
            ("GET /caf%C3%A9", "GET", "/caf%c3%a9", false),
        ] {
            assert_eq!(matches(rules, method, path, None), expected, "{rules}: {method} {path}");
        }
    }

    #[test]
    fn matches_user_agent_as_a_whole_or_open_at_its_ends() {
        for (rule, agent, expected) in [
            ("User-Agent: *UptimeRobot*", Some(ROBOT), true),
            ("user-agent:*UptimeRobot*", Some(ROBOT), true),
            ("User-Agent: UptimeRobot*", Some(ROBOT), false),
            ("User-Agent: curl/*", Some("curl/8.14.1"), true),
            ("User-Agent: *bot", Some("robot"), true),
            ("User-Agent: *bot", Some("robots"), false),
            ("User-Agent: probe", Some("probe"), true),
            ("User-Agent: probe", Some("probe/1"), false),
            ("User-Agent: *a*", Some(""), false),
            ("User-Agent: *a*", None, false),
        ] {
            assert_eq!(matches(rule, "GET", "/", agent), expected, "{rule}: {agent:?}");
        }
    }

    #[test]
    fn rejects_other_texts() {
        let long = format!("/{}", "a".repeat(MAX_BYTES));
        let many = ["/"; MAX_RULES + 1].join(",");
        for bad in [
            "",
            ",",
            "GET /,",
            "get /",
            "GET healthz",
            "GET /a /b",
            "GET /a?b=c",
            "GET /a#b",
            "GET /a*b",
            "GET */a",
            "GET *",
            "*",
            "User-Agent:",
            "User-Agent: *",
            "User-Agent: **",
            "User-Agent: a*b",
            "User-Agent: * a*",
            "User-Agent: ü",
            "Accept: text/html",
            "/ü",
            "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
            &long,
            &many,
        ] {
            assert_eq!(NoWakeRules::parse(bad.trim()), None, "{bad:?}");
        }
        let error = "get /".parse::<NoWakeRules>().unwrap_err().to_string();
        assert!(error.contains("GET /healthz"), "{error}");
    }

    proptest! {
        #[test]
        fn any_text_gives_bounded_rules_that_round_trip_or_none(
            text in "(((GET|HEAD|P[A-Z]{0,4}) ?)?(/[a-z*%?.]{0,6})?|[Uu]ser-[Aa]gent: ?[*a-z ]{0,8}|\\PC{0,6})\
                     (, ?((GET )?/[a-z*]{0,4}|\\PC{0,6})){0,3}",
            path in "/[a-z]{0,4}",
            agent in "[a-z ]{0,8}",
        ) {
            if let Some(rules) = NoWakeRules::parse(&text) {
                prop_assert!((1..=MAX_RULES).contains(&rules.rules.len()));
                prop_assert_eq!(NoWakeRules::parse(&rules.to_string()), Some(rules.clone()));
                // A rule of several means what it means alone.
                let alone = text.split(',').any(|rule| matches(rule.trim(), "GET", &path, Some(&agent)));
                prop_assert_eq!(rules.matches("GET", &path, Some(agent.as_bytes())), alone);
            }
        }
    }
}
