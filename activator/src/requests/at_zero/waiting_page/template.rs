//! Template: the text of the waiting page, with places for values.
//!
//! `{{name}}` and `{{namespace}}` are the workload's, escaped; `{{seconds}}` is how long its last
//! wake took, or empty if this process saw none; `{{nonce}}` is for `<style>`;
//! `{{script}}` is the element with the script that retries, without which the page would stay
//! forever. Text in braces that is not one word of lower-case letters stays as it is.

use std::fmt::Write;
use std::time::Duration;

use autoscaler::Key;

/// Longest template, in bytes. Like a response that passes through, a page may wait for a slow
/// client beyond the memory budget.
pub const MAX_BYTES: usize = 32 << 10;

const BUILT_IN: &str = include_str!("page.html");
const SCRIPT: &str = include_str!("script.js");

/// A parsed template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    parts: Vec<TemplatePart>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum TemplatePart {
    Text(Box<str>),
    Name,
    Namespace,
    Seconds,
    Nonce,
    Script,
}

/// Why a template is invalid.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    #[error("longer than {MAX_BYTES} bytes")]
    TooLong,
    /// It has a place for a value that does not exist.
    #[error(
        "{{{{{0}}}}} is not one of {{{{name}}}}, {{{{namespace}}}}, {{{{seconds}}}}, {{{{nonce}}}} and {{{{script}}}}"
    )]
    UnknownValue(String),
    /// It would never load the app.
    #[error("no {{{{script}}}}, which loads the app")]
    NoScript,
}

// === impl Template ===

impl Template {
    /// The template of this program.
    pub fn built_in() -> Self {
        // A test parses it.
        Self::parse(BUILT_IN).unwrap_or(Self { parts: vec![TemplatePart::Script] })
    }

    /// Parses a text.
    ///
    /// # Errors
    /// See [`TemplateError`].
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        if text.len() > MAX_BYTES {
            return Err(TemplateError::TooLong);
        }
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{{") {
            literal.push_str(before);
            match after.split_once("}}").filter(|(word, _)| is_word(word)) {
                Some((word, after)) => {
                    take_literal(&mut literal, &mut parts);
                    parts.push(TemplatePart::of(word)?);
                    rest = after;
                }
                None => {
                    literal.push_str("{{");
                    rest = after;
                }
            }
        }
        literal.push_str(rest);
        take_literal(&mut literal, &mut parts);
        if parts.contains(&TemplatePart::Script) { Ok(Self { parts }) } else { Err(TemplateError::NoScript) }
    }

    /// The page of a workload.
    pub fn render(&self, workload: &Key, nonce: &str, last_wake: Option<Duration>) -> String {
        let mut page = String::new();
        for part in &self.parts {
            match part {
                TemplatePart::Text(text) => page.push_str(text),
                TemplatePart::Name => push_escaped(&mut page, &workload.name),
                TemplatePart::Namespace => push_escaped(&mut page, &workload.namespace),
                TemplatePart::Seconds => {
                    let seconds = last_wake.map(|took| took.as_secs_f64().ceil().to_string());
                    page.push_str(&seconds.unwrap_or_default());
                }
                TemplatePart::Nonce => push_escaped(&mut page, nonce),
                TemplatePart::Script => {
                    // A String takes all that is written.
                    let _ = write!(page, "<script type=\"module\" nonce=\"{nonce}\">\n{SCRIPT}</script>");
                }
            }
        }
        page
    }
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_lowercase())
}

fn take_literal(literal: &mut String, parts: &mut Vec<TemplatePart>) {
    if !literal.is_empty() {
        parts.push(TemplatePart::Text(std::mem::take(literal).into()));
    }
}

/// Escapes for text and for attributes in quotes.
fn push_escaped(page: &mut String, value: &str) {
    for character in value.chars() {
        match character {
            '&' => page.push_str("&amp;"),
            '<' => page.push_str("&lt;"),
            '>' => page.push_str("&gt;"),
            '"' => page.push_str("&quot;"),
            '\'' => page.push_str("&#39;"),
            other => page.push(other),
        }
    }
}

// === impl TemplatePart ===

impl TemplatePart {
    fn of(word: &str) -> Result<Self, TemplateError> {
        match word {
            "name" => Ok(Self::Name),
            "namespace" => Ok(Self::Namespace),
            "seconds" => Ok(Self::Seconds),
            "nonce" => Ok(Self::Nonce),
            "script" => Ok(Self::Script),
            other => Err(TemplateError::UnknownValue(other.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn built_in_page_is_a_small_template_without_foreign_resources() {
        let template = Template::parse(BUILT_IN).unwrap();
        let page = template.render(&Key::new("shop", "web"), "n0", Some(Duration::from_millis(8100)));
        assert!(page.contains("<p data-seconds=\"9\">The last start took 9 s.</p>"), "{page}");
        let unknown = template.render(&Key::new("shop", "web"), "n0", None);
        assert!(
            unknown.contains("<p data-seconds=\"\">") && unknown.contains("[data-seconds=\"\"]"),
            "hidden"
        );
        assert!(page.len() < 4096, "{} bytes", page.len());
        assert!(page.contains("<h1>web is starting</h1>"), "{page}");
        let refresh = "<noscript><meta http-equiv=\"refresh\" content=\"5\"></noscript>";
        assert!(page.contains(refresh), "a browser without scripts would stay on {page}");
        for foreign in ["://", "src=", "{{", "}}"] {
            assert!(!page.contains(foreign), "{foreign} in {page}");
        }
    }

    #[test]
    fn values_are_escaped() {
        let template = Template::parse("<p title='{{namespace}}'>{{name}}{{script}}").unwrap();
        let page = template.render(&Key::new("a'b", "<script>&\"{{nonce}}"), "n0", None);
        assert!(page.starts_with("<p title='a&#39;b'>&lt;script&gt;&amp;&quot;{{nonce}}<script "), "{page}");
    }

    #[test]
    fn rejects_template_that_would_not_work() {
        assert_eq!(Template::parse("<p>starting"), Err(TemplateError::NoScript));
        let unknown = Template::parse("{{host}}{{script}}").unwrap_err();
        assert_eq!(
            unknown.to_string(),
            "{{host}} is not one of {{name}}, {{namespace}}, {{seconds}}, {{nonce}} and {{script}}"
        );
        let long = format!("{{{{script}}}}{}", "a".repeat(MAX_BYTES));
        assert_eq!(Template::parse(&long), Err(TemplateError::TooLong));
    }

    proptest! {
        #[test]
        fn text_between_values_stays_as_it_is(text in "[a-z{} \n<é]{0,40}") {
            let text = format!("{{{{script}}}}{text}");
            if let Ok(template) = Template::parse(&text) {
                let render = |name: &str| template.render(&Key::new("", name), "", None);
                let script = Template::parse("{{script}}").unwrap().render(&Key::new("", ""), "", None);
                let expected = text.replacen("{{script}}", &script, 1);
                if !text[10..].contains("}}") {
                    prop_assert_eq!(render("x"), expected);
                }
            }
        }
    }
}
