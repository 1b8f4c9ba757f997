//! Files of Rust with more lines, and lines of comments with more columns, than CONTRIBUTING
//! allows.
//!
//! rustfmt does not wrap comments on a stable toolchain.

/// Lines of a file before its module of tests.
const MAX_LINES: usize = 400;
/// Lines of a file with its tests, and of a file of tests alone.
const MAX_LINES_WITH_TESTS: usize = 650;
/// Columns of a comment, with its indentation.
const MAX_COLUMNS: usize = 100;

/// What is too long in a file, each with its place.
pub(crate) fn faults(path: &str, text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let mut faults: Vec<String> = wide_comments(&lines)
        .map(|line| format!("{path}:{line}: the comment has more than {MAX_COLUMNS} columns"))
        .collect();
    let code = if is_test(path) { 0 } else { lines_before_tests(&lines) };
    if code > MAX_LINES {
        faults.push(format!("{path}:{code}: {code} lines without tests, at most {MAX_LINES} are allowed"));
    }
    if lines.len() > MAX_LINES_WITH_TESTS {
        let lines = lines.len();
        faults.push(format!("{path}:{lines}: {lines} lines, at most {MAX_LINES_WITH_TESTS} are allowed"));
    }
    faults
}

fn wide_comments<'a>(lines: &'a [&'a str]) -> impl Iterator<Item = usize> + 'a {
    let is_wide = |line: &str| line.trim_start().starts_with("//") && line.chars().count() > MAX_COLUMNS;
    lines.iter().enumerate().filter(move |(_, line)| is_wide(line)).map(|(number, _)| number + 1)
}

/// Whether a file is of tests alone: it belongs to the folders of tests and benchmarks, or is the
/// module of tests of another file.
fn is_test(path: &str) -> bool {
    path.split('/').any(|part| matches!(part, "tests" | "benches")) || path.ends_with("tests.rs")
}

/// By convention the module of tests is the last item.
fn lines_before_tests(lines: &[&str]) -> usize {
    let begins = |pair: &[&str]| match pair {
        [attribute, item] => *attribute == "#[cfg(test)]" && item.contains("mod ") && item.ends_with('{'),
        _ => false,
    };
    lines.windows(2).position(begins).unwrap_or(lines.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_wide_comments_by_characters() {
        let wide =
            format!("fn f() {{}}\n    /// {}\n//! {}\n// {}", "x".repeat(93), "─".repeat(96), "x".repeat(98));
        let expected = [
            "a.rs:2: the comment has more than 100 columns",
            "a.rs:4: the comment has more than 100 columns",
        ];
        assert_eq!(faults("a.rs", &wide), expected);
    }

    #[test]
    fn counts_the_lines_before_the_tests() {
        let file = |code: usize, tests: usize| {
            format!("{}#[cfg(test)]\nmod tests {{\n{}", "//\n".repeat(code), "//\n".repeat(tests - 2))
        };
        assert_eq!(faults("src/a.rs", &file(400, 250)), [""; 0]);
        assert_eq!(faults("src/a.rs", &file(401, 2)).len(), 1);
        assert_eq!(faults("src/a.rs", &file(400, 251)).len(), 1);
    }

    #[test]
    fn gives_tests_more_lines() {
        let lines = "//\n".repeat(650);
        for path in ["a/tests/b.rs", "tests/a/src/b.rs", "a/src/b/tests.rs", "a/src/b_tests.rs"] {
            assert_eq!(faults(path, &lines), [""; 0], "{path}");
        }
        assert_eq!(
            faults("a/src/b.rs", &lines),
            ["a/src/b.rs:650: 650 lines without tests, at most 400 are allowed"]
        );
    }
}
