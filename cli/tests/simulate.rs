//! The compiled `kubectl rouse simulate`: its output for the recorded traces, as a table and a
//! plot, and for invalid input.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use autoscaler::scaling::replay::TraceDecision;

/// The first line of a trace: target 70, windows of 60 s and 6 s, one pod.
const FIRST: &str = concat!(
    r#"{"t":0.0,"spec":{"metric":"concurrency","target":70.0,"totalTarget":100.0,"targetBurstCapacity":211.0,"#,
    r#""stableWindowSeconds":60,"panicWindowPercentage":10.0,"panicThresholdPercentage":200.0,"#,
    r#""maxScaleUpRate":1000.0,"maxScaleDownRate":2.0,"scaleDownDelaySeconds":0,"activationScale":1,"#,
    r#""reachable":true,"aggregation":"linear"},"ready":1}"#,
);
const DECIDE: &str = r#"{"t":1.0,"decide":true}"#;

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-rouse"));
    command.arg("simulate").args(args).env_remove("COLUMNS");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs it on this text. A thread writes the input, because the process may stop reading before the
/// end.
fn simulate(args: &[&str], input: impl Into<Vec<u8>>) -> Output {
    let mut child = command(args).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.into();
    let feeder = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().unwrap();
    feeder.join().unwrap();
    output
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

// === the recorded traces ===

/// The traces of this repository, or of the directory that `ROUSE_TRACES` names.
fn traces() -> Vec<PathBuf> {
    let directory =
        std::env::var_os("ROUSE_TRACES").map_or_else(|| PathBuf::from("../tests/traces"), PathBuf::from);
    let mut traces: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    traces.retain(|path| path.to_str().unwrap().ends_with(".trace.ndjson"));
    traces.sort();
    traces
}

fn answers(text: &str) -> Vec<TraceDecision> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}"))).collect()
}

/// Weighted averages may differ in the last digits between math libraries.
fn close(got: Option<f64>, expected: Option<f64>, weighted: bool) -> bool {
    let (Some(got), Some(expected)) = (got, expected) else { return got == expected };
    let difference = (got - expected).abs();
    got == expected || (weighted && (difference <= 1e-12 || difference <= 1e-9 * expected.abs()))
}

#[test]
fn replays_every_trace_to_the_recorded_decisions() {
    let traces = traces();
    assert!(traces.len() >= 24, "{} traces", traces.len());
    for path in traces {
        let name = path.to_str().unwrap();
        let output = command(&[name]).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        let weighted = fs::read_to_string(&path).unwrap().contains(r#""aggregation":"weighted""#);
        let expected = fs::read_to_string(name.replace(".trace.", ".expected.")).unwrap();
        let (got, expected) = (answers(stdout(&output)), answers(&expected));
        assert_eq!(got.len(), expected.len(), "{name}");
        for (got, expected) in got.iter().zip(&expected) {
            let exact = |answer: &TraceDecision| TraceDecision { stable: None, panic: None, ..*answer };
            let agree = exact(got) == exact(expected)
                && close(got.stable, expected.stable, weighted)
                && close(got.panic, expected.panic, weighted);
            assert!(agree, "{name}: {got:?} instead of {expected:?}");
        }
    }
}

#[test]
fn json_output_has_the_format_of_the_recordings() {
    let stat = r#"{"t":1.0,"stat":{"pod":"a","concurrency":0.30000000000000004,"proxiedConcurrency":0,"requestCount":1e0,"proxiedRequestCount":0}}"#;
    let output = simulate(&["-"], format!("{FIRST}\n{{\"t\":0.5,\"decide\":true}}\n{stat}\n{DECIDE}\n"));
    let expected = concat!(
        r#"{"t":0.5,"valid":false,"panicking":false}"#,
        "\n",
        r#"{"t":1.0,"valid":true,"desired":1,"excessBurstCapacity":-112,"panicking":false,"stable":0.3,"panic":0.3}"#,
        "\n",
    );
    assert_eq!((stdout(&output), stderr(&output)), (expected, ""));
}

// === streams ===

#[test]
fn writes_a_decision_while_the_trace_still_grows() {
    let Child { stdin, stdout, .. } = &mut command(&["-"]).spawn().unwrap();
    let (mut stdin, mut lines) = (stdin.take().unwrap(), BufReader::new(stdout.take().unwrap()).lines());
    writeln!(stdin, "{FIRST}").unwrap();
    for _ in 0..3 {
        writeln!(stdin, "{DECIDE}").unwrap();
        assert_eq!(lines.next().unwrap().unwrap(), r#"{"t":1.0,"valid":false,"panicking":false}"#);
    }
    drop(stdin);
    assert!(lines.next().is_none());
}

#[test]
fn closed_output_pipe_is_a_success() {
    for form in [&["-"][..], &["-", "--human"]] {
        let mut child = command(form).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // Varied, because repeated rows are folded.
        let feeder = std::thread::spawn(move || {
            let _ = writeln!(stdin, "{FIRST}");
            (0..200_000).all(|n| writeln!(stdin, "{{\"t\":1,\"ready\":{}}}\n{DECIDE}", n % 7).is_ok())
        });
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut String::new()).unwrap();
        drop(stdout);
        let mut errors = String::new();
        child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        assert_eq!((child.wait().unwrap().code(), errors.as_str()), (Some(0), ""), "{form:?}");
        assert!(!feeder.join().unwrap(), "it must stop reading");
    }
}

#[test]
fn accepts_blank_lines_crlf_and_a_missing_last_line_end() {
    let output = simulate(&["-"], format!("\n{FIRST}\r\n\r\n  \n{DECIDE}\r\n{DECIDE}"));
    assert_eq!((stdout(&output).lines().count(), stderr(&output)), (2, ""));
}

// === bad input ===

#[test]
fn reports_an_invalid_line_after_the_decisions_before_it() {
    for (line, error) in [
        ("{}", "missing field `t`, after {}"),
        ("nonsense", "the line is not a JSON object"),
        (r#"{"t":1.0,"decide":true"#, r#"EOF while parsing an object, after {"t":1.0,"decide":true"#),
        (
            r#"{"t":1.0,"scale":3}"#,
            r#"unknown field `scale`, expected one of `t`, `spec`, `ready`, `stat`, `decide`, after {"t":1.0,"scale""#,
        ),
        (r#"{"t":"1","decide":true}"#, r#"invalid type: string "1", expected f64, after {"t":"1""#),
        (r#"{"t":-1,"decide":true}"#, "t is -1.0, but must be seconds from 0 to 1e9"),
        (r#"{"t":0.5,"decide":true}"#, "t is 0.5, but must be at least 1.0, the time of the previous line"),
        (
            r#"{"t":1.0}"#,
            "the line has nothing, but must have exactly one of spec, stat, ready and decide besides t",
        ),
        (r#"{"t":1.0,"ready":-1}"#, "ready is -1.0, but must be whole pods from 0 to 2147483647"),
    ] {
        let output = simulate(&["-"], format!("{FIRST}\n{DECIDE}\n\n{line}\n{DECIDE}\n"));
        assert_eq!(output.status.code(), Some(1), "{line}");
        assert_eq!(stderr(&output), format!("standard input:4: {error}\n"));
        assert_eq!(stdout(&output).lines().count(), 1, "{line}: the decisions before it");
    }
}

#[test]
fn table_and_plot_have_the_decisions_before_an_invalid_line() {
    for form in ["--human", "--plot"] {
        let output = simulate(&["-", form], format!("{FIRST}\n{DECIDE}\n{{}}\n"));
        assert_eq!(output.status.code(), Some(1));
        assert!(stdout(&output).contains("1 decision in 0:00, 1 without data"), "{}", stdout(&output));
    }
}

#[test]
fn rejects_long_binary_and_deeply_nested_lines() {
    let long = [FIRST.as_bytes(), b"\n", &[b' '; 1 << 20]].concat();
    let error = "standard input:2: the line is longer than 65536 bytes\n";
    assert_eq!(stderr(&simulate(&["-"], long)), error);
    let binary = simulate(&["-"], [FIRST.as_bytes(), b"\n{\"\xff\x1b[31m\0\n"].concat());
    let error =
        "control character (\\u0000-\\u001F) found while parsing a string, after {\"\u{fffd}\u{fffd}\n";
    assert_eq!(stderr(&binary), format!("standard input:2: {error}"));
    let deep = simulate(&["-"], format!("{FIRST}\n{{\"t\":1,\"stat\":{{\"pod\":{}", "[".repeat(60_000)));
    let error = format!("EOF while parsing a list, after …{}\n", "[".repeat(40));
    assert_eq!(stderr(&deep), format!("standard input:2: {error}"));
}

#[test]
fn empty_trace_is_an_error_and_a_trace_without_decisions_is_not() {
    for nothing in ["", "\n\n"] {
        let output = simulate(&["-"], nothing);
        let error = "standard input: the trace is empty; its first line must have t, spec and ready\n";
        assert_eq!((stderr(&output), output.status.code()), (error, Some(1)));
    }
    for form in ["--human", "--plot"] {
        let output = simulate(&["-", form], FIRST);
        assert_eq!((stdout(&output), stderr(&output)), ("no decisions\n", ""));
    }
    let missing = command(&["no/such.ndjson"]).output().unwrap();
    assert_eq!(stderr(&missing), "no/such.ndjson: No such file or directory (os error 2)\n");
    assert_eq!(missing.status.code(), Some(1));
    assert_eq!(command(&[]).output().unwrap().status.code(), Some(2), "usage");
}

// === table and plot ===

/// A shop: a quiet start, a burst, idle pods, no stats, and a smaller target. One stat a second,
/// one decision every two seconds.
fn shop() -> String {
    let smaller =
        FIRST.replace(r#""t":0.0"#, r#""t":60"#).replace(":70.0", ":7.0").replace(r#","ready":1"#, "");
    let lines = (1..=100).flat_map(|t| {
        let load = match t {
            1..=9 => Some(35.0),
            10..=15 => Some(350.0),
            16..=19 => Some(3.5),
            20..=30 => Some(0.0),
            _ => None,
        };
        let change = match t {
            14 => Some(r#"{"t":14,"ready":5}"#.to_owned()),
            60 => Some(smaller.clone()),
            _ => None,
        };
        let decide = (t % 2 == 0).then(|| format!(r#"{{"t":{t},"decide":true}}"#));
        [load.map(|load| stat(t, load)), change, decide]
    });
    lines.flatten().fold(format!("{FIRST}\n"), |trace, line| trace + &line + "\n")
}

fn stat(t: u32, concurrency: f64) -> String {
    let rest = r#""proxiedConcurrency":0,"requestCount":0,"proxiedRequestCount":0"#;
    format!(r#"{{"t":{t},"stat":{{"pod":"a","concurrency":{concurrency},{rest}}}}}"#)
}

const TABLE: &str = "
     time     stable      panic  ready  desired  mode      burst  reason
     0:02      35.00      35.00      1        1  stable     -146  stable 35 of 70 → 1
           … 3 similar rows, until 0:08
     0:10      66.50      87.50      1        2  panic      -199  panic 87.5 of 70 → 2
     0:12     113.75     192.50      1        3  panic      -304  panic 192.5 of 70 → 3
     0:14     147.50     297.50      5        5  panic        -9  panic 297.5 of 70 → 5
     0:16     151.16     292.25      5        5  panic        -4  panic 292.25 of 70 → 5
     0:18     134.75     176.75      5        5  panic       112  held by panic, calm for 6 of 60 s
     0:20     121.45      60.67      5        5  panic       228  held by panic, calm for 8 of 60 s
     0:22     110.41       1.75      5        5  panic       287  held by panic, calm for 10 of 60 s
     0:24     101.21       0.58      5        5  panic       288  held by panic, calm for 12 of 60 s
     0:26      93.42          0      5        5  panic       289  held by panic, calm for 14 of 60 s
     0:28      86.75          0      5        5  panic       289  held by panic, calm for 16 of 60 s
     0:30      80.97          0      5        5  panic       289  held by panic, calm for 18 of 60 s
           … 14 similar rows, until 0:58
           spec: target 70 → 7
     1:00      80.97          0      5       12  panic       289  stable 80.97 of 7 → 12
     1:02      84.25          0      5       13  panic       289  stable 84.25 of 7 → 13
     1:04      88.04          0      5       13  panic       289  stable 88.04 of 7 → 13
     1:06      92.46          0      5       14  panic       289  stable 92.46 of 7 → 14
     1:08      97.68          0      5       14  panic       289  stable 97.68 of 7 → 14
     1:10      88.20          0      5       14  panic       289  held by panic, calm for 58 of 60 s
     1:12      59.11          0      5       14  panic       289  held by panic, calm for 60 of 60 s
     1:14      22.75          0      5        4  stable      289  stable 22.75 of 7 → 4
     1:16       0.75          0      5        2  stable      289  limited by max-scale-down-rate 2
     1:18       0.29          0      5        2  stable      289  limited by max-scale-down-rate 2
     1:20          0          0      5        2  stable      289  limited by max-scale-down-rate 2
           … 5 similar rows, until 1:30
     1:32          -          -      5        -  stable        -  no data
           … 4 similar rows, until 1:40

50 decisions in 1:38, 5 without data · in panic for 1:04 (65 %) · peak 14 pods at 1:06 · 8 changes of size
";

#[test]
fn table_shows_the_rule_of_each_decision() {
    let output = simulate(&["-", "--human"], shop());
    assert_eq!(stderr(&output), "");
    let text = format!("\n{}", stdout(&output));
    assert!(text == TABLE, "{text}");
}

const PLOT: &str = "
     load    █ stable average   ─ panic average
      300 ┤          ╭───╮
          │          │   │
          │         ╭╯   │
          │         │    ╰─╮
      150 ┤         │▇▇██▅▅│▂
          │       ╭─╯██████│██▆▆▄▄▃▃▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▂▂▃▃▄▅▅▃▃
          │       │▆███████╰─╮████████████████████████████████████████████▅▅
          │───────╯██████████╰──____________________________________________________________
        0 └─────────────────────────────────────────────────────────────────────────────────────────
    panic         ██████████████████████████████████████████████████████████
  no data                                                                                   ××××××××
     pods    █ ready   ─ desired
       15 ┤                                                          ╭──────╮
          │                                                    ╭─────╯      │
          │                                                    │            │
          │                                                    │            │
      7.5 ┤                                                    │            │
          │          ╭─────────────────────────────────────────╯▅▅▅▅▅▅▅▅▅▅▅▅╰─╮▅▅▅▅▅▅▅▅▅▅▅▅▅
          │       ╭──╯████████████████████████████████████████████████████████╰─────────────
          │───────╯▄▄███████████████████████████████████████████████████████████████████████
        0 └─────────────────────────────────────────────────────────────────────────────────────────
           0:02                  0:26                  0:50                  1:15               1:40

50 decisions in 1:38, 5 without data · in panic for 1:04 (65 %) · peak 14 pods at 1:06 · 8 changes of size
";

#[test]
fn plot_shows_load_pods_and_panic() {
    let output = simulate(&["-", "--plot"], shop());
    assert_eq!(stderr(&output), "");
    let text = format!("\n{}", stdout(&output));
    assert!(text == PLOT, "{text}");
}
