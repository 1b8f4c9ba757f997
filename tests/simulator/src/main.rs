//! `simulator scenario FILE [--sweep]`: runs a scenario file and prints its results as JSON.

use std::process::ExitCode;
use std::time::Duration;

use simulator::scenario_file::{ScenarioFile, sweep};

const USAGE: &str = "usage: simulator scenario FILE [--sweep]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(json) => {
            println!("{json}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<String, Box<dyn std::error::Error>> {
    let (command, rest) = arguments.split_first().ok_or(USAGE)?;
    let (flags, files): (Vec<&String>, Vec<&String>) = rest.iter().partition(|word| word.starts_with("--"));
    let (sweeps, [path]) = (flags == ["--sweep"], files.as_slice()) else { return Err(USAGE.into()) };
    if command != "scenario" || !(flags.is_empty() || sweeps) {
        return Err(USAGE.into());
    }
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    let file = ScenarioFile::parse(&text).map_err(|error| format!("{path}: {error}"))?;
    let outcome = if sweeps { sweep(&file, Duration::ZERO)? } else { Some(file.run()?) };
    Ok(serde_json::to_string(&outcome)?)
}
