//! `completion`: scripts of clap_complete for `kubectl-rouse`, and the program that kubectl's own
//! completion runs for `kubectl rouse`.
//!
//! kubectl runs `kubectl_complete-rouse` with the words of the command line. It prints candidates,
//! one a line, and a last line `:4`, which disables the completion of file names.

use std::io::{self, Write};

use clap::{Command, CommandFactory};

use crate::args::{Cli, CompletionTarget};

/// The script.
const SCRIPT: &str = "#!/bin/sh\nexec kubectl-rouse __complete \"$@\"\n";

/// Writes a script.
///
/// # Errors
/// When the output cannot be written.
pub fn write_script(target: CompletionTarget, out: &mut dyn Write) -> io::Result<()> {
    let Some(shell) = target.shell() else { return out.write_all(SCRIPT.as_bytes()) };
    let mut command = Cli::command().bin_name("kubectl-rouse");
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "kubectl-rouse", &mut script);
    out.write_all(&script)
}

/// Writes the candidates for the last of these words.
///
/// # Errors
/// When the output cannot be written.
pub fn write_candidates(words: &[String], out: &mut dyn Write) -> io::Result<()> {
    let root = Cli::command();
    let (last, before) = words.split_last().map_or(("", words), |(last, before)| (last.as_str(), before));
    let command = before.iter().fold(&root, |command, word| command.find_subcommand(word).unwrap_or(command));
    for candidate in candidates(&root, command, last) {
        writeln!(out, "{candidate}")?;
    }
    out.write_all(b":4\n")
}

fn candidates(root: &Command, command: &Command, start: &str) -> Vec<String> {
    let subcommands =
        command.get_subcommands().filter(|it| !it.is_hide_set()).map(|it| it.get_name().to_owned());
    let flags = root.get_arguments().chain(command.get_arguments());
    let flags = flags.filter_map(|flag| Some(format!("--{}", flag.get_long()?)));
    let mut all: Vec<String> = if start.starts_with('-') { flags.collect() } else { subcommands.collect() };
    all.retain(|candidate| candidate.starts_with(start));
    all.sort();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete(words: &[&str]) -> String {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let mut out = Vec::new();
        write_candidates(&words, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn completes_subcommands_and_flags() {
        assert_eq!(complete(&["sta"]), "status\n:4\n");
        assert!(complete(&[]).contains("status\n"), "{}", complete(&[]));
        assert_eq!(complete(&["status", "--wa"]), "--watch\n:4\n");
        assert_eq!(complete(&["status", "--names"]), "--namespace\n:4\n");
        assert_eq!(complete(&["why", "web"]), ":4\n");
    }

    #[test]
    fn each_target_has_a_script() {
        for target in [CompletionTarget::Kubectl, CompletionTarget::Bash, CompletionTarget::Zsh] {
            let mut out = Vec::new();
            write_script(target, &mut out).unwrap();
            assert!(String::from_utf8(out).unwrap().contains("kubectl-rouse"), "{target:?}");
        }
    }
}
