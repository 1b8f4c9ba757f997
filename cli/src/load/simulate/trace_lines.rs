//! TraceLines: the JSON lines of a trace, of bounded length, with errors that name file, line and
//! position.

use std::io::{self, BufRead, BufReader, Read};

use autoscaler::scaling::replay::{ReplayError, TraceLine};

/// Longest line in bytes, including its end. The format needs a few hundred.
const MAX_LINE: usize = 64 << 10;
/// Characters of the text before an error that are shown.
const SHOWN: usize = 40;

/// Reads a trace line by line.
pub(crate) struct TraceLines<R> {
    /// File name, for errors.
    name: String,
    input: BufReader<R>,
    /// The current line.
    line: Vec<u8>,
    /// Its number, from 1.
    number: u64,
}

/// Why a trace cannot be read further.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadTraceError {
    #[error("{name}: {source}")]
    Io { name: String, source: io::Error },
    #[error("{name}:{number}: {error}")]
    Line { name: String, number: u64, error: LineError },
}

/// Why a line is invalid.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LineError {
    #[error("the line is longer than {MAX_LINE} bytes")]
    TooLong,
    #[error("the line is not a JSON object")]
    NoObject,
    #[error("{message}, after {before}")]
    Json { message: String, before: String },
    #[error(transparent)]
    Replay(#[from] ReplayError),
}

// === impl TraceLines ===

impl<R: Read> TraceLines<R> {
    pub(crate) fn new(name: String, input: BufReader<R>) -> Self {
        Self { name, input, line: Vec::new(), number: 0 }
    }

    pub(crate) fn into_name(self) -> String {
        self.name
    }

    /// Whether the next line can be read without blocking.
    pub(crate) fn is_next_buffered(&self) -> bool {
        self.input.buffer().contains(&b'\n')
    }

    /// The next line that is not blank; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<TraceLine>, ReadTraceError> {
        while self.read()? {
            let text = self.line.trim_ascii();
            if !text.is_empty() {
                return parse(text).map(Some).map_err(|error| self.error(error));
            }
        }
        Ok(None)
    }

    /// An error in the current line.
    pub(crate) fn error(&self, error: LineError) -> ReadTraceError {
        ReadTraceError::Line { name: self.name.clone(), number: self.number, error }
    }

    /// Reads a line, with or without a line end. Returns false at the end of input.
    fn read(&mut self) -> Result<bool, ReadTraceError> {
        self.line.clear();
        let limit = MAX_LINE as u64 + 1;
        let read = (&mut self.input)
            .take(limit)
            .read_until(b'\n', &mut self.line)
            .map_err(|source| ReadTraceError::Io { name: self.name.clone(), source })?;
        self.number += u64::from(read > 0);
        if read > MAX_LINE { Err(self.error(LineError::TooLong)) } else { Ok(read > 0) }
    }
}

// === impl LineError ===

impl LineError {
    /// Removes the parser's own position, which counts lines from this one.
    fn json(error: &serde_json::Error, line: &[u8]) -> Self {
        let place = format!(" at line {} column {}", error.line(), error.column());
        let text = error.to_string();
        let message = text.strip_suffix(&place).unwrap_or(&text).to_owned();
        Self::Json { message, before: excerpt(line.get(..error.column()).unwrap_or(line)) }
    }
}

fn parse(text: &[u8]) -> Result<TraceLine, LineError> {
    if !text.starts_with(b"{") {
        return Err(LineError::NoObject);
    }
    serde_json::from_slice(text).map_err(|error| LineError::json(&error, text))
}

/// The last characters before an error, with control characters replaced.
fn excerpt(before: &[u8]) -> String {
    let text = String::from_utf8_lossy(before.trim_ascii_end());
    let skipped = text.chars().count().saturating_sub(SHOWN);
    let shown =
        text.chars().skip(skipped).map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c });
    let dots = if skipped > 0 { "…" } else { "" };
    dots.chars().chain(shown).collect()
}
