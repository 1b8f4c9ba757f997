//! The file of the waiting page's template, which a ConfigMap may provide.
//!
//! A file that does not exist leaves the built-in page. An invalid file is logged, and the last
//! valid template stays in effect: an activator serves requests without its page, too.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::WaitingPage;
use super::template::{MAX_BYTES, Template};

/// How often to read the file. A kubelet updates a ConfigMap within a minute.
const INTERVAL: Duration = Duration::from_secs(10);

/// A file that is followed.
#[derive(Debug)]
struct TemplateFile {
    path: PathBuf,
    page: WaitingPage,
    /// The text that was evaluated last; `None` if there was no file.
    evaluated: Option<String>,
    /// Whether the last read failed, which is logged once.
    failed: bool,
}

/// Follows the file at `path`, forever.
pub async fn follow(path: PathBuf, page: WaitingPage) {
    let mut file = TemplateFile { path, page, evaluated: None, failed: false };
    loop {
        let path = file.path.clone();
        let text = tokio::task::spawn_blocking(move || read(&path)).await.map_err(io::Error::other);
        file.apply(text.flatten());
        tokio::time::sleep(INTERVAL).await;
    }
}

// === impl TemplateFile ===

impl TemplateFile {
    fn apply(&mut self, read: io::Result<Option<String>>) {
        let path = self.path.display();
        match read {
            Ok(text) => {
                self.failed = false;
                if text == self.evaluated {
                    return;
                }
                match text.as_deref().map_or_else(|| Ok(Template::built_in()), Template::parse) {
                    Ok(template) => {
                        tracing::info!(file = %path, built_in = text.is_none(), "waiting page applied");
                        self.page.set_template(template);
                    }
                    Err(error) => {
                        tracing::warn!(file = %path, %error, "waiting page invalid, keeping the last one");
                    }
                }
                self.evaluated = text;
            }
            Err(error) if !self.failed => {
                tracing::warn!(file = %path, %error, "waiting page unreadable, keeping the last one");
                self.failed = true;
            }
            Err(_) => {}
        }
    }
}

/// The text, of which so much is read that one that is too long is recognized; `None` without a
/// file.
fn read(path: &Path) -> io::Result<Option<String>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let mut text = Vec::new();
    file.take(MAX_BYTES as u64 + 1).read_to_end(&mut text)?;
    // The cut may be within a character.
    Ok(Some(String::from_utf8_lossy(&text).into_owned()))
}

#[cfg(test)]
mod tests {
    use autoscaler::Key;
    use http_body_util::BodyExt;

    use super::*;

    async fn shown(page: &WaitingPage) -> String {
        let body = page.respond(&Key::new("shop", "web"), None).into_body().collect().await.unwrap();
        String::from_utf8(body.to_bytes().into()).unwrap()
    }

    #[tokio::test]
    async fn last_valid_template_stays_and_a_removed_file_gives_the_built_in_page() {
        let path = std::env::temp_dir().join(format!("waiting-page-{}.html", std::process::id()));
        let page = WaitingPage::new(Duration::ZERO);
        let mut file =
            TemplateFile { path: path.clone(), page: page.clone(), evaluated: None, failed: false };
        file.apply(read(&path));
        assert!(shown(&page).await.contains("<h1>web is starting</h1>"), "no file");

        std::fs::write(&path, "<p>{{name}} kommt gleich{{script}}").unwrap();
        file.apply(read(&path));
        assert!(shown(&page).await.starts_with("<p>web kommt gleich<script "));
        for invalid in ["<p>no script", "{{host}}{{script}}", &"é".repeat(MAX_BYTES)] {
            std::fs::write(&path, invalid).unwrap();
            file.apply(read(&path));
            assert!(shown(&page).await.starts_with("<p>web kommt gleich<script "), "{invalid:.20}");
        }
        file.apply(Err(io::ErrorKind::PermissionDenied.into()));
        assert!(shown(&page).await.starts_with("<p>web kommt gleich<script "), "unreadable");

        std::fs::remove_file(&path).unwrap();
        file.apply(read(&path));
        assert!(shown(&page).await.contains("<h1>web is starting</h1>"));
    }
}
