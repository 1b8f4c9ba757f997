//! Links of a page, and the anchors that GitHub gives to headings.

use std::collections::HashMap;

/// A link or an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Line of the link, from 1.
    pub line: usize,
    /// Target as written: `file.md#anchor`, or a URL.
    pub target: String,
}

// === impl Link ===

impl Link {
    /// Whether the target is outside of the repository.
    pub fn is_external(&self) -> bool {
        self.target.contains("://") || self.target.starts_with("mailto:")
    }

    /// File and anchor of the target; either may be empty.
    pub fn parts(&self) -> (&str, &str) {
        self.target.split_once('#').unwrap_or((&self.target, ""))
    }
}

/// The links of a text, in order. Fenced blocks and code spans have none.
pub fn links(text: &str) -> Vec<Link> {
    prose(text)
        .flat_map(|(line, prose)| {
            targets(&without_code(prose)).into_iter().map(move |target| Link { line, target })
        })
        .collect()
}

/// The anchors of a text's headings. A repeated heading gets a number, as on GitHub.
pub fn anchors(text: &str) -> Vec<String> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    prose(text)
        .filter(|(_, line)| line.starts_with('#'))
        .map(|(_, line)| {
            let anchor = anchor(line.trim_start_matches('#').trim());
            let count = seen.entry(anchor.clone()).or_default();
            *count += 1;
            if *count == 1 { anchor } else { format!("{anchor}-{}", *count - 1) }
        })
        .collect()
}

/// Lines outside of fenced blocks, with their numbers from 1.
pub fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        (!fence && !fenced).then_some((index + 1, line))
    })
}

fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("``")
}

fn targets(line: &str) -> Vec<String> {
    let until = |rest: &str, end: char| rest.split(end).next().unwrap_or_default().to_owned();
    let inline = line.split("](").skip(1).map(|rest| until(rest, ')'));
    let images = line.split("<img src=\"").skip(1).map(|rest| until(rest, '"'));
    // A <source> of a <picture>, with one image.
    let sources = line.split(" srcset=\"").skip(1).map(|rest| until(rest, '"'));
    inline.chain(images).chain(sources).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_links_and_images_outside_of_code() {
        let text = "see [a](b.md#c) and `[x](y)` [z](https://z)\n```\n[no](no.md)\n```\n<img src=\"i.svg\" alt=\"\">\n<source srcset=\"d.png\">\n";
        let found: Vec<_> = links(text).into_iter().map(|link| (link.line, link.target)).collect();
        let expected = [(1, "b.md#c"), (1, "https://z"), (5, "i.svg"), (6, "d.png")];
        assert_eq!(found, expected.map(|(line, target)| (line, target.to_owned())));
    }

    #[test]
    fn makes_anchors_as_github_does() {
        let text = "# `custom` metrics, v2\n## Why\n## Why\n```sh\n# a comment\n```\n";
        assert_eq!(anchors(text), ["custom-metrics-v2", "why", "why-1"]);
    }
}
