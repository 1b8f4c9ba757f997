//! Lines: the JSON lines of a trace, of bounded length, and what is wrong with them in words that find the place.

use std::io::{BufRead, BufReader, Read};

use autoscaler::replay::{Line, ReplayError};

use super::Error;

/// Bytes in a line, its end included. The longest that the format gives is a few hundred.
const MAX_LINE: usize = 64 << 10;
/// Characters shown of what stands before a mistake.
const SHOWN: usize = 40;

/// A trace being read.
pub(super) struct Lines<R> {
    /// Where it comes from.
    name: String,
    input: BufReader<R>,
    /// The newest line.
    line: Vec<u8>,
    /// Its number, from 1.
    number: u64,
}

/// What is wrong with a line.
#[derive(Debug, thiserror::Error)]
pub(super) enum Problem {
    #[error("the line is longer than {MAX_LINE} bytes, which no line of a trace is")]
    TooLong,
    #[error("the line is no JSON object, which each line of a trace is")]
    NoObject,
    #[error("{mistake}, after {before}")]
    Json { mistake: String, before: String },
    #[error(transparent)]
    Replay(#[from] ReplayError),
}

// === impl Lines ===

impl<R: Read> Lines<R> {
    pub(super) fn new(name: String, input: BufReader<R>) -> Self {
        Self { name, input, line: Vec::new(), number: 0 }
    }

    pub(super) fn into_name(self) -> String {
        self.name
    }

    /// Whether the next line can be read without waiting for anybody.
    pub(super) fn is_next_here(&self) -> bool {
        self.input.buffer().contains(&b'\n')
    }

    /// The next line that is not blank; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Line>, Error> {
        while self.read()? {
            let text = self.line.trim_ascii();
            if !text.is_empty() {
                return parse(text).map(Some).map_err(|problem| self.refused(problem));
            }
        }
        Ok(None)
    }

    /// The error that says this of the newest line.
    pub(super) fn refused(&self, problem: Problem) -> Error {
        Error::Line { name: self.name.clone(), number: self.number, problem }
    }

    /// Reads a line, with or without an end; false if there is none.
    fn read(&mut self) -> Result<bool, Error> {
        self.line.clear();
        let limit = MAX_LINE as u64 + 1;
        let read = (&mut self.input)
            .take(limit)
            .read_until(b'\n', &mut self.line)
            .map_err(|source| Error::Read { name: self.name.clone(), source })?;
        self.number += u64::from(read > 0);
        if read > MAX_LINE { Err(self.refused(Problem::TooLong)) } else { Ok(read > 0) }
    }
}

// === impl Problem ===

impl Problem {
    /// The parser numbers lines itself, and sees just one.
    fn json(error: &serde_json::Error, line: &[u8]) -> Self {
        let place = format!(" at line {} column {}", error.line(), error.column());
        let text = error.to_string();
        let mistake = text.strip_suffix(&place).unwrap_or(&text).to_owned();
        Self::Json { mistake, before: excerpt(line.get(..error.column()).unwrap_or(line)) }
    }
}

fn parse(text: &[u8]) -> Result<Line, Problem> {
    if !text.starts_with(b"{") {
        return Err(Problem::NoObject);
    }
    serde_json::from_slice(text).map_err(|error| Problem::json(&error, text))
}

/// The end of what stands before a mistake, fit to be printed.
fn excerpt(before: &[u8]) -> String {
    let text = String::from_utf8_lossy(before.trim_ascii_end());
    let skipped = text.chars().count().saturating_sub(SHOWN);
    let shown =
        text.chars().skip(skipped).map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c });
    let dots = if skipped > 0 { "…" } else { "" };
    dots.chars().chain(shown).collect()
}
