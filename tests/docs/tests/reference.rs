//! Compares the generated pages of `docs/reference` with the code.

use docs::page::root;
use docs::reference::PAGES;

#[test]
fn generated_pages_equal_the_code() {
    let mut faults = Vec::new();
    for page in PAGES {
        let path = root().join("docs/reference").join(page.name).with_extension("md");
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        if text != (page.render)() {
            faults.push(format!("{}: differs from the code; run make reference", path.display()));
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}
