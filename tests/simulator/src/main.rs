//! `simulator scenario FILE [--sweep]`: runs a scenario file and prints its results as JSON.
//! `simulator plot OUT FILE...`: draws the runs of up to three files as an SVG.

use std::process::ExitCode;
use std::time::Duration;

use simulator::plot::{MOST_RUNS, plot};
use simulator::scenario_file::{ScenarioFile, sweep};

const USAGE: &str = "usage: simulator scenario FILE [--sweep]
       simulator plot OUT FILE...   (at most three)";

type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(output) => {
            print!("{output}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// The text to print.
fn run(arguments: &[String]) -> Result<String, Failure> {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["scenario", path] | ["scenario", "--sweep", path] | ["scenario", path, "--sweep"]
            if !path.starts_with("--") =>
        {
            run_scenario(&read(path)?, arguments.len() == 3)
        }
        ["plot", out, files @ ..] if (1..=MOST_RUNS).contains(&files.len()) => {
            let files = files.iter().map(|path| read(path)).collect::<Result<Vec<_>, _>>()?;
            std::fs::write(out, plot(&files)?).map_err(|error| format!("{out}: {error}"))?;
            Ok(String::new())
        }
        _ => Err(USAGE.into()),
    }
}

fn run_scenario(file: &ScenarioFile, sweeps: bool) -> Result<String, Failure> {
    let outcome = if sweeps { sweep(file, Duration::ZERO)? } else { Some(file.run()?) };
    Ok(serde_json::to_string(&outcome)? + "\n")
}

fn read(path: &str) -> Result<ScenarioFile, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    Ok(ScenarioFile::parse(&text).map_err(|error| format!("{path}: {error}"))?)
}
