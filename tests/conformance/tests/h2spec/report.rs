//! The program's report in JUnit's XML, of which only the names of cases and their failures matter.

/// Section of the program's specification and description of the case.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct CaseId {
    pub(crate) section: String,
    pub(crate) case: String,
}

#[derive(Debug)]
pub(crate) struct CaseResult {
    pub(crate) id: CaseId,
    /// What the program expected and received.
    pub(crate) failure: Option<String>,
}

/// Reads the report. Its texts are not escaped within failures, so it is no XML that a parser would
/// accept.
pub(crate) fn parse(text: &str) -> Vec<CaseResult> {
    text.split("<testcase ").skip(1).filter_map(parse_case).collect()
}

fn parse_case(text: &str) -> Option<CaseResult> {
    let text = text.split_once("</testcase>").map_or(text, |(inside, _)| inside);
    let id = CaseId { section: attribute(text, "package")?, case: attribute(text, "classname")? };
    let failure = ["failure", "error"].iter().find_map(|kind| element(text, kind));
    Some(CaseResult { id, failure })
}

fn attribute(text: &str, name: &str) -> Option<String> {
    let (_, rest) = text.split_once(&format!("{name}=\""))?;
    Some(unescape(rest.split_once('"')?.0))
}

fn element(text: &str, name: &str) -> Option<String> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    Some(rest.split_once(&format!("</{name}>"))?.0.to_owned())
}

/// The escapes of Go's encoder.
fn unescape(text: &str) -> String {
    let escapes = [("&#34;", "\""), ("&#39;", "'"), ("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")];
    escapes.iter().fold(text.to_owned(), |text, (escape, plain)| text.replace(escape, plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"<testsuites><testsuite name="6.1. DATA" package="http2/6.1">
    <testcase package="http2/6.1" classname="Sends &#34;a&#34;" time="0.1"></testcase>
    <testcase package="http2/6.2" classname="Sends b" time="2.0">
      <error>Timeout</error>
    </testcase>
    <testcase package="http2/6.3" classname="Sends c" time="0.0">
      <skipped></skipped>
    </testcase></testsuite></testsuites>"#;

    #[test]
    fn reads_names_and_failures() {
        let results = parse(REPORT);
        let id = |at: usize| results.get(at).map(|result| (&*result.id.section, &*result.id.case));
        assert_eq!(id(0), Some(("http2/6.1", "Sends \"a\"")));
        assert_eq!(id(1), Some(("http2/6.2", "Sends b")));
        let failures: Vec<_> = results.iter().map(|result| result.failure.as_deref()).collect();
        assert_eq!(failures, [None, Some("Timeout"), None]);
    }
}
