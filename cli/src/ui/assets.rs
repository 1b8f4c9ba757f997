//! The files of the page, compiled into the program. The page loads nothing else.

/// A file of the page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asset {
    pub(super) path: &'static str,
    pub(super) content_type: &'static str,
    pub(super) text: &'static str,
}

const JAVASCRIPT: &str = "text/javascript; charset=utf-8";

macro_rules! page {
    ($path:literal, $content_type:expr) => {
        Asset { path: $path, content_type: $content_type, text: include_str!(concat!("page/", $path)) }
    };
}

/// All files.
const ASSETS: [Asset; 11] = [
    page!("index.html", "text/html; charset=utf-8"),
    page!("page.css", "text/css; charset=utf-8"),
    page!("icon.svg", "image/svg+xml"),
    page!("main.js", JAVASCRIPT),
    page!("dom.js", JAVASCRIPT),
    page!("format.js", JAVASCRIPT),
    page!("fleet.js", JAVASCRIPT),
    page!("workload.js", JAVASCRIPT),
    page!("learned.js", JAVASCRIPT),
    page!("charts.js", JAVASCRIPT),
    page!("wakes.js", JAVASCRIPT),
];

/// The file at a path behind the token; the empty path is the page.
pub(super) fn find(path: &str) -> Option<Asset> {
    let path = if path.is_empty() { "index.html" } else { path };
    ASSETS.into_iter().find(|asset| asset.path == path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bound of all files together, in bytes.
    const MAX_BYTES: usize = 300 * 1024;

    #[test]
    fn all_files_together_stay_within_the_bound() {
        let bytes: usize = ASSETS.iter().map(|asset| asset.text.len()).sum();
        assert!(bytes <= MAX_BYTES, "{bytes}");
    }

    #[test]
    fn files_name_no_resource_of_another_host() {
        for asset in ASSETS {
            // The namespace of SVG is a name, and is not loaded.
            let text = asset.text.replace("http://www.w3.org/2000/svg", "");
            for scheme in ["http:", "https:", "//fonts", "@import", "<script>", " style=\"", "onclick="] {
                assert!(!text.contains(scheme), "{} in {}", scheme, asset.path);
            }
        }
    }

    #[test]
    fn every_imported_file_exists() {
        for asset in ASSETS {
            for import in asset.text.lines().filter_map(|line| line.split_once(" from \"./")) {
                let path = import.1.trim_end_matches("\";");
                assert!(find(path).is_some(), "{path} of {}", asset.path);
            }
        }
    }
}
