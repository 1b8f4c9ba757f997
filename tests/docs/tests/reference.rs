//! Compares the pages of `docs/reference` with the code.

use std::collections::BTreeSet;

use clap::{Arg, CommandFactory};
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

#[test]
fn flags_page_has_each_flag_that_help_shows_and_no_other() {
    let page = std::fs::read_to_string(root().join("docs/reference/flags.md")).unwrap();
    for (program, command) in [
        ("activator", activator::args::Args::command()),
        ("metrics-adapter", metrics_adapter::args::Args::command()),
        ("zero-scaler", zero_scaler::args::Args::command()),
    ] {
        let rows = [rows_of(&page, "All three"), rows_of(&page, program)].concat();
        let named: BTreeSet<_> = rows.iter().filter_map(|row| row.split('`').nth(1)).collect();
        let shown: Vec<_> = command.get_arguments().filter(|arg| !arg.is_hide_set()).collect();
        let flags: Vec<_> =
            shown.iter().map(|arg| format!("--{}", arg.get_id().as_str().replace('_', "-"))).collect();
        assert_eq!(named, flags.iter().map(String::as_str).collect(), "{program}");
        for (flag, arg) in flags.iter().zip(shown) {
            let row = rows.iter().find(|row| row.starts_with(&format!("| `{flag}`"))).unwrap();
            let missing: Vec<_> = cells(arg).into_iter().filter(|cell| !row.contains(cell)).collect();
            assert!(missing.is_empty(), "{missing:?} in {row}");
        }
    }
}

/// The rows of the table below this heading.
fn rows_of<'a>(page: &'a str, heading: &str) -> Vec<&'a str> {
    let lines = page.lines().skip_while(|line| *line != format!("## {heading}")).skip(1);
    lines.take_while(|line| !line.starts_with("## ")).filter(|line| line.starts_with("| `--")).collect()
}

/// What the row of a flag has: its variable, and its default unless words describe it.
fn cells(arg: &Arg) -> Vec<String> {
    let variable = arg.get_env().map(|name| format!("`{}`", name.display()));
    let default = arg.get_default_values().first().map(|value| value.display().to_string());
    let described = |value: &String| value == "false" || value.contains(',');
    let default = default.filter(|value| !described(value)).map(|value| format!("| {value} |"));
    variable.into_iter().chain(default).collect()
}
