//! Fenced blocks and their info strings, such as `yaml file=hpa.yaml` or `sh run`.

/// A fenced block of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Line of the opening fence, from 1.
    pub line: usize,
    /// First word of the info string; empty without one.
    pub language: String,
    /// The other words of the info string.
    pub attributes: Vec<String>,
    /// The content, without the indentation of the opening fence.
    pub text: String,
}

// === impl Block ===

impl Block {
    /// Whether the info string has this word.
    pub fn has(&self, attribute: &str) -> bool {
        self.attributes.iter().any(|word| word == attribute)
    }

    /// The file name of `file=NAME` in the info string.
    pub fn file(&self) -> Option<&str> {
        self.attributes.iter().find_map(|word| word.strip_prefix("file="))
    }
}

/// The fenced blocks of a text, in order. A block without a closing fence ends with the text.
pub fn blocks(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<(Block, usize)> = None;
    for (index, line) in text.lines().enumerate() {
        let content = line.trim_start();
        let fence = content.strip_prefix("```");
        match (&mut open, fence) {
            (None, Some(info)) => open = Some((start(index + 1, info), line.len() - content.len())),
            (None, None) => {}
            (Some(_), Some(_)) => blocks.extend(open.take().map(|(block, _)| block)),
            (Some((block, indent)), None) => {
                let own = line.len() - content.len();
                block.text.push_str(line.get(own.min(*indent)..).unwrap_or_default());
                block.text.push('\n');
            }
        }
    }
    blocks.extend(open.map(|(block, _)| block));
    blocks
}

fn start(line: usize, info: &str) -> Block {
    let mut words = info.split_whitespace().map(str::to_owned);
    let language = words.next().unwrap_or_default();
    Block { line, language, attributes: words.collect(), text: String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_language_attributes_and_unindented_text() {
        let text = "a\n\n   ```yaml file=web.yaml run\n   a:\n     b: 1\n   ```\n\n```\nplain\n```\n";
        let blocks = blocks(text);
        assert_eq!(blocks.len(), 2);
        assert_eq!((blocks[0].line, blocks[0].language.as_str()), (3, "yaml"));
        assert_eq!(
            (blocks[0].file(), blocks[0].has("run"), blocks[0].has("fragment")),
            (Some("web.yaml"), true, false)
        );
        assert_eq!(blocks[0].text, "a:\n  b: 1\n");
        assert_eq!((blocks[1].language.as_str(), blocks[1].text.as_str()), ("", "plain\n"));
    }
}
