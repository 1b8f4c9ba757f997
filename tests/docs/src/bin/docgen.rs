//! Prints a generated page of `docs/reference`: `docgen metrics > docs/reference/metrics.md`.

use std::process::ExitCode;

use docs::reference::PAGES;

fn main() -> ExitCode {
    let name = std::env::args().nth(1).unwrap_or_default();
    let Some(page) = PAGES.iter().find(|page| page.name == name) else {
        let names: Vec<&str> = PAGES.iter().map(|page| page.name).collect();
        eprintln!("usage: docgen {}", names.join(" | "));
        return ExitCode::FAILURE;
    };
    print!("{}", (page.render)());
    ExitCode::SUCCESS
}
